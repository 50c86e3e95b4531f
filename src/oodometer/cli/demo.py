"""The `oodometer demo` command, which compares estimates with the true accuracy on digits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli._html_report import check_report_path, write_report_page
from oodometer.cli._options import AsJson, HtmlPath, Quiet, Seed, Verbose
from oodometer.cli._runtime import (
    check_verbosity,
    console,
    print_json,
    print_note,
    progress_bar,
)
from oodometer.core.jsonable import to_jsonable


def demo(
    html: HtmlPath = None,
    save: Annotated[
        Path | None, typer.Option(help="Folder to write the predictions to, as Parquet files.")
    ] = None,
    seed: Seed = 0,
    verbose: Verbose = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the accuracy on digits under fifteen shifts, and compare it with the truth.

    Example:
      oodometer demo --html demo.html --save example
    """
    from oodometer import report
    from oodometer.report import terminal_demo
    from oodometer.studies import demo as digits

    check_verbosity(verbose, quiet)
    check_report_path(html)
    with progress_bar() as progress:
        progress(0, 1, "training")
        suite = digits.make_digits_suite(seed)
        rows = digits.compare_methods(suite, seed=seed, progress=progress)
    if as_json:
        print_json(
            [
                {
                    "name": row.name,
                    "truth": row.truth,
                    "headline": None if row.headline is None else row.headline.to_dict(),
                    "shift": to_jsonable(row.shift),
                    "status": row.status,
                    "estimates": [estimate.to_dict() for estimate in row.estimates.values()],
                    "falsely_identified": to_jsonable(row.falsely_identified),
                }
                for row in rows
            ]
        )
    elif quiet:
        terminal_demo.show_line(console(), rows)
    else:
        source_accuracy = float(suite.source.correct.mean())
        terminal_demo.show_headlines(console(), rows, source_accuracy, verbose=verbose)
    if save is not None:
        written = digits.save_suite(suite, save)
        print_note(f"{len(written)} files written to {save}")
    if html is not None:
        title = "Shifted digits: what the tool said, and what was true"
        write_report_page(report.comparison_page(rows, title=title), html)
