"""The `oodometer toy` commands, which run synthetic problems with known accuracy."""

from __future__ import annotations

from typing import Annotated

import typer

from oodometer.cli._html_report import check_report_path, write_report_page
from oodometer.cli._options import AsJson, HtmlPath, Quiet, Seed
from oodometer.cli._runtime import console, print_json, progress_bar
from oodometer.core.jsonable import to_jsonable

app = typer.Typer(
    help="Run synthetic problems whose true accuracy is known.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SpuriousAgreement = Annotated[
    float,
    typer.Option(
        help="Probability that the spurious feature agrees with the label in the source, which is "
        "the training data of the toy skews."
    ),
]
N_ROWS_HELP = "Number of rows of the source and of each target."


@app.command()
def spurious(
    p_sp: SpuriousAgreement = 0.995,
    w_inv: Annotated[float, typer.Option(help="Weight of the invariant feature.")] = 4.0,
    w_sp: Annotated[float, typer.Option(help="Weight of the spurious feature.")] = 2.0,
    c: Annotated[
        float | None,
        typer.Option(help="Support of the invariant feature on the target; it is 1 on the source."),
    ] = None,
    n: Annotated[int, typer.Option(min=100, help=N_ROWS_HELP)] = 360_000,
    html: HtmlPath = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare estimators under a shift of a spurious feature (Garg et al. 2022, §6).

    Theorem 3 of the paper bounds the error of ATC-MC if the source has enough rows. At the default
    settings it has; the output says so.

    Example:
      oodometer toy spurious --c 0.5 --html spurious.html
    """
    from oodometer.studies.toys import SpuriousToy, spurious_rows

    check_report_path(html)
    toy = SpuriousToy(p_sp=p_sp, w_inv=w_inv, w_sp=w_sp)
    rows = []
    with progress_bar() as progress:
        for row in spurious_rows(toy, n=n, c=c, seed=seed):
            rows.append(row)
            progress(len(rows), 11, f"agreement {row.agreement:.1f}")
    if as_json:
        print_json(
            {
                "bound": toy.atc_error_bound(n),
                "min_rows": toy.min_rows(),
                "theorem_applies": n >= toy.min_rows(),
                "rows": to_jsonable(rows),
            }
        )
    else:
        from oodometer.studies.report.toy_tables import show_spurious_toy

        show_spurious_toy(console(), toy, rows, n)
    if html is not None:
        from oodometer.studies.report import spurious_page

        title = "Estimates under a shift of a spurious feature"
        write_report_page(spurious_page(toy, rows, n=n, title=title), html)


@app.command()
def covariate_or_label(
    alpha: Annotated[
        float, typer.Option(help="Share of the first class on the source, between 0 and 1.")
    ] = 0.3,
    boundary: Annotated[
        float | None,
        typer.Option(help="Boundary of the classifier. [default: the best on the source]"),
    ] = None,
    n: Annotated[int, typer.Option(min=100, help=N_ROWS_HELP)] = 50_000,
    html: HtmlPath = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show that the same data have two accuracies, under covariate shift and under label shift.

    This is Example 1 of Garg et al. (2022): an estimator sees the same labelled source and the same
    unlabelled target in both cases, so it can be right in at most one of them.

    Example:
      oodometer toy covariate-or-label --html worlds.html
    """
    from oodometer.studies.toys import CovariateOrLabelToy, covariate_or_label_rows
    from oodometer.studies.toys.covariate_or_label import DEFAULT_BETAS

    check_report_path(html)
    toy = CovariateOrLabelToy(alpha=alpha, boundary=boundary)
    rows = []
    with progress_bar() as progress:
        for row in covariate_or_label_rows(toy, n=n, seed=seed):
            rows.append(row)
            progress(len(rows), len(DEFAULT_BETAS), f"β {row.beta:g}")
    if as_json:
        print_json(to_jsonable(rows))
    else:
        from oodometer.studies.report.toy_tables import show_covariate_or_label_toy

        show_covariate_or_label_toy(console(), toy, rows)
    if html is not None:
        from oodometer.studies.report import covariate_or_label_page

        title = "Covariate shift or label shift: one dataset, two accuracies"
        write_report_page(covariate_or_label_page(toy, rows, title=title), html)


@app.command()
def skews(
    p_sp: SpuriousAgreement = 0.9,
    epochs: Annotated[
        int, typer.Option(min=1, help="Largest number of epochs of gradient descent.")
    ] = 10_000,
    max_rows: Annotated[
        int, typer.Option(min=10, help="Largest number of training rows.")
    ] = 100_000,
    repeats: Annotated[int, typer.Option(min=1, help="Number of training sets per size.")] = 20,
    html: HtmlPath = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show why a classifier uses a spurious feature: geometric and statistical skew.

    The experiment is from Nagarajan et al. (2020), on the data of Garg et al. (2022, App. D).

    Example:
      oodometer toy skews --html skews.html
    """
    from oodometer.studies.toys import SkewsToy, skew_rows

    check_report_path(html)
    defaults = SkewsToy()
    toy = SkewsToy(
        p_sp=p_sp,
        sizes=tuple(size for size in defaults.sizes if size <= max_rows),
        epochs=(*(count for count in defaults.epochs if count < epochs), epochs),
        repeats=repeats,
    )
    with progress_bar() as progress:
        rows = list(skew_rows(toy, seed=seed, progress=progress))
    if as_json:
        print_json(to_jsonable(rows))
    else:
        from oodometer.studies.report.toy_tables import show_skews_toy

        show_skews_toy(console(), toy, rows)
    if html is not None:
        from oodometer.studies.report import skews_page

        title = "Why classifiers use a spurious feature: geometric and statistical skew"
        write_report_page(skews_page(toy, rows, title=title), html)


@app.command()
def hypersphere(
    models: Annotated[int, typer.Option(min=2, help="Number of models to train.")] = 200,
    distances: Annotated[
        int, typer.Option(min=2, help="Number of distances, from 0 to π along the sphere.")
    ] = 40,
    centres: Annotated[int, typer.Option(min=1, help="Number of datasets per distance.")] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Number of training steps per model.")] = 2000,
    html: HtmlPath = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show up to which distance from the training data NI and ATC rank models correctly.

    The experiment is from Ng et al. (2023).

    Example:
      oodometer toy hypersphere --html sphere.html
    """
    from oodometer.studies.toys import HypersphereToy, hypersphere_rows

    check_report_path(html)
    toy = HypersphereToy(models=models, distances=distances, centres=centres, steps=steps)
    rows = []
    with progress_bar() as progress:
        for row in hypersphere_rows(toy, seed=seed, progress=progress):
            rows.append(row)
            progress(len(rows), distances, f"{row.distance:.2f} rad")
    if as_json:
        print_json([vars(row) for row in rows])
    else:
        from oodometer.studies.report.toy_tables import show_hypersphere_toy

        show_hypersphere_toy(console(), toy, rows)
    if html is not None:
        from oodometer.studies.report import sphere_page

        title = "Up to which distance do NI and ATC rank models?"
        write_report_page(sphere_page(rows, title=title), html)
