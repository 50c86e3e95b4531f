"""The `oodometer toy` commands: small worlds in which the truth is known."""

from __future__ import annotations

from typing import Annotated

import typer

from oodometer.cli._options import (
    AsJson,
    HtmlPath,
    Seed,
    check_report_path,
    console,
    error_console,
    print_json,
    print_note,
)
from oodometer.report import terminal


def spurious(
    p_sp: Annotated[
        float, typer.Option(help="How often the feature agrees on the source.")
    ] = 0.995,
    w_inv: Annotated[float, typer.Option(help="Weight of the invariant feature.")] = 4.0,
    w_sp: Annotated[float, typer.Option(help="Weight of the spurious feature.")] = 2.0,
    c: Annotated[
        float | None, typer.Option(help="Support of the target's invariant feature (source: 1).")
    ] = None,
    n: Annotated[int, typer.Option(min=100, help="Rows of source and of each target.")] = 100_000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """A feature that misleads: where ATC is right and the others are not (Garg et al. 2022, §6).

    Example: oodometer toy spurious --c 0.5
    """
    from oodometer.studies.toys import SpuriousToy, spurious_rows

    toy = SpuriousToy(p_sp=p_sp, w_inv=w_inv, w_sp=w_sp)
    with terminal.progress_bar(error_console()) as progress:
        rows = []
        for row in spurious_rows(toy, n=n, c=c, seed=seed):
            rows.append(row)
            progress(len(rows), 11, f"agreement {row.agreement:.1f}")
    if as_json:
        plain = [
            {"agreement": r.agreement, "truth": r.truth, "estimates": r.estimates} for r in rows
        ]
        print_json({"bound": toy.atc_error_bound(n), "rows": plain})
        return
    from oodometer.studies.report.toy_tables import show_spurious_toy

    show_spurious_toy(console(), toy, rows, n)


def hypersphere(
    models: Annotated[int, typer.Option(min=2, help="How many to train.")] = 200,
    distances: Annotated[int, typer.Option(min=2, help="From 0 to π along the sphere.")] = 40,
    centres: Annotated[int, typer.Option(min=1, help="Datasets at each distance.")] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Of training.")] = 2000,
    html: HtmlPath = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """How far from home NI and ATC still rank models (Ng et al. 2023, §5.1).

    Example: oodometer toy hypersphere --html sphere.html
    """
    from oodometer.studies.toys import HypersphereToy, hypersphere_rows

    check_report_path(html)
    toy = HypersphereToy(models=models, distances=distances, centres=centres, steps=steps)
    rows = []
    with terminal.progress_bar(error_console()) as progress:
        for row in hypersphere_rows(toy, seed=seed, progress=progress):
            rows.append(row)
            progress(len(rows), distances, f"{row.distance:.2f} rad")
    if as_json:
        print_json([vars(row) for row in rows])
    else:
        from oodometer.studies.report.toy_tables import show_hypersphere_toy

        show_hypersphere_toy(console(), toy, rows)
    if html is not None:
        from oodometer import report
        from oodometer.studies.report import sphere_page

        title = "How far from home do NI and ATC still rank models?"
        report.write_page(sphere_page(rows, title=title), html)
        print_note(f"Report written to {html}")
