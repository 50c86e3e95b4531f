"""The `oodometer toy` commands, which run synthetic problems with known accuracy."""

from __future__ import annotations

from typing import Annotated

import typer

from oodometer.cli._html_report import check_report_path, write_report_page
from oodometer.cli._options import AsJson, HtmlPath, Quiet, Seed
from oodometer.cli._runtime import console, print_json, progress_bar

app = typer.Typer(
    help="Run synthetic problems whose true accuracy is known.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def spurious(
    p_sp: Annotated[
        float,
        typer.Option(
            help="Probability on the source that the spurious feature agrees with the label."
        ),
    ] = 0.995,
    w_inv: Annotated[float, typer.Option(help="Weight of the invariant feature.")] = 4.0,
    w_sp: Annotated[float, typer.Option(help="Weight of the spurious feature.")] = 2.0,
    c: Annotated[
        float | None,
        typer.Option(help="Support of the invariant feature on the target; it is 1 on the source."),
    ] = None,
    n: Annotated[
        int, typer.Option(min=100, help="Number of rows of the source and of each target.")
    ] = 100_000,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare estimators under a shift of a spurious feature (Garg et al. 2022, §6).

    Example:
      oodometer toy spurious --c 0.5
    """
    from oodometer.studies.toys import SpuriousToy, spurious_rows

    toy = SpuriousToy(p_sp=p_sp, w_inv=w_inv, w_sp=w_sp)
    rows = []
    with progress_bar() as progress:
        for row in spurious_rows(toy, n=n, c=c, seed=seed):
            rows.append(row)
            progress(len(rows), 11, f"agreement {row.agreement:.1f}")
    if as_json:
        values = [
            {"agreement": row.agreement, "truth": row.truth, "estimates": row.estimates}
            for row in rows
        ]
        print_json({"bound": toy.atc_error_bound(n), "rows": values})
        return
    from oodometer.studies.report.toy_tables import show_spurious_toy

    show_spurious_toy(console(), toy, rows, n)


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
