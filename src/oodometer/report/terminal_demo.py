"""Print the demo in the terminal: what the tool said and what was true, or all methods."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from oodometer.assessment.result import format_percent
from oodometer.report.demo_page import (
    Comparison,
    falsely_identified_cells,
    headline_cells,
    headline_rows,
    headline_sentences,
    method_records,
    rank_records,
)
from oodometer.report.terminal import status_text, table, text_line


def show_line(console: Console, rows: Sequence[Comparison]) -> None:
    """Print the average, the truth and the number of hits as one line."""
    sentence, *_ = headline_sentences(headline_rows(rows))
    console.print(text_line(sentence), soft_wrap=True)


def show_headlines(
    console: Console, rows: Sequence[Comparison], source_accuracy: float, *, verbose: bool
) -> None:
    """Print the headline beside the truth for each shift; with `verbose`, also all methods."""
    headlines = headline_rows(rows)
    console.print(text_line(" ".join(headline_sentences(headlines))))
    console.print()
    cells = [(*headline_cells(row), status_text(row.status)) for row in headlines]
    headings = ("shift", "tool said %", "typical range", "truth %", "in the range", "status")
    title = f"Accuracy without labels (on the source: {format_percent(source_accuracy)} %)"
    console.print(table(title, headings, cells))
    console.print()
    if verbose:
        _show_methods(console, rows, source_accuracy)
    else:
        console.print(text_line("All methods: --verbose; charts: --html FILE"))


def _show_methods(console: Console, rows: Sequence[Comparison], source_accuracy: float) -> None:
    """Print the true accuracy of each target beside the estimates of all methods."""
    records = method_records(rows)
    best = rank_records(records)[0]
    cells: list[tuple[str | Text, ...]] = []
    for row in rows:
        deviations = [record.deviation_under(row) for record in records]
        values = [
            format_percent(deviation.estimate.value) if deviation else ""
            for deviation in deviations
        ]
        cells.append((row.name, Text(format_percent(row.truth), style="bold"), *values))
    errors = [
        Text(format_percent(record.mae), style="bold green" if record == best else "")
        for record in records
    ]
    cells.append((Text("mean abs. error", style="italic"), "", *errors))
    title = f"True and estimated accuracy in % (on the source: {format_percent(source_accuracy)})"
    headings = ("target", "truth", *(record.method for record in records))
    console.print(table(title, headings, cells))
    if identified := falsely_identified_cells(rows):
        console.print()
        title = "Falsely identified predictions of atc-mc, in % of the rows"
        headings = ("target", "falsely correct", "falsely incorrect", "difference")
        console.print(table(title, headings, identified))
