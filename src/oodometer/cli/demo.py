"""The `oodometer demo` command."""

from __future__ import annotations

from pathlib import Path
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


def demo(
    html: HtmlPath = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the outputs as Parquet files into this folder.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Estimate accuracy on digits shifted in a dozen ways, beside the truth.

    Example: oodometer demo --html demo.html --save example
    """
    from oodometer import report
    from oodometer.studies import demo as digits

    check_report_path(html)
    with terminal.progress_bar(error_console()) as progress:
        progress(0, 1, "training")
        suite = digits.make_digits_suite(seed)
        rows = digits.compare_methods(suite, seed=seed, progress=progress)
    if as_json:
        plain = [
            {
                "name": r.name,
                "truth": r.truth,
                "estimates": [e.to_dict() for e in r.estimates.values()],
            }
            for r in rows
        ]
        print_json(plain)
    else:
        terminal.show_comparison(console(), rows, float(suite.source.correct.mean()))
    if save is not None:
        written = digits.save_suite(suite, save)
        print_note(f"{len(written)} files written to {save}")
    if html is not None:
        title = "Digits, shifted: estimated against true accuracy"
        report.write_page(report.comparison_page(rows, title=title), html)
        print_note(f"Report written to {html}")
