"""What the command line shows: tables and progress bars. Everything from a file is shown as text."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from oodometer.assess import Progress as Report
from oodometer.assessment import Assessment, points, span
from oodometer.diagnostics import SHAPES

if TYPE_CHECKING:
    from oodometer.report.comparison import Comparison
    from oodometer.toys import SpuriousToy, ToyRow

LIGHTS = {"green": "green", "amber": "yellow", "red": "bold red"}


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """A table whose cells are never read as markup; columns of numbers are set to the right."""
    made = Table(title=Text(title), title_justify="left", title_style="bold", box=None)
    for place, name in enumerate(columns):
        cells = [str(row[place]) for row in rows]
        numeric = any(cells) and all(cell[:1].isdigit() for cell in cells if cell)
        made.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return made


def light(name: str) -> Text:
    """A light as a shape, a colour and a word."""
    return Text(f"{SHAPES[name]} {name}", style=LIGHTS[name])


def show_assessment(console: Console, found: Assessment) -> None:
    """The verdict, every estimate, the lights and the segments."""
    best = found.headline.estimate
    console.print(
        Text(f"Accuracy on the target: {points(best.value)} %", style="bold"),
        Text(f"({span(best)})"),
        light(found.headline.light),
    )
    console.print(Text(found.verdict))
    rows = [
        (e.method, points(e.value), span(e), "; ".join((f"if {e.assumes}", *e.notes)))
        for e in found.estimates
    ]
    rows += [(name, "", "", f"no answer: {why}") for name, why in found.refused.items()]
    console.print()
    console.print(table("Estimates", ("method", "accuracy %", "95 % interval", "holds"), rows))
    console.print()
    lights = [(light(d.light), d.name, d.shown, d.meaning) for d in found.diagnostics]
    console.print(table("When not to believe it", ("light", "sign", "value", "meaning"), lights))
    if found.segments:
        parts = [
            (s.value, str(s.n), points(s.estimate.value), span(s.estimate))
            if s.estimate
            else (s.value, str(s.n), "", f"no answer: {s.reason}")
            for s in found.segments
        ]
        console.print()
        console.print(table("Segments", ("segment", "rows", "accuracy %", "95 %"), parts))


def show_comparison(console: Console, rows: Sequence[Comparison], source_accuracy: float) -> None:
    """True accuracy of every target beside what the methods make of it."""
    from oodometer.report.comparison import ranked, records_of

    records = records_of(rows)
    best = ranked(records)[0]
    cells: list[tuple[str | Text, ...]] = []
    for row in rows:
        misses = [record.under(row) for record in records]
        values = (points(miss.found.value) if miss else "" for miss in misses)
        cells.append((row.name, Text(points(row.truth), style="bold"), *values))
    last = (Text(points(r.mae), style="bold green" if r == best else "") for r in records)
    cells.append((Text("mean abs. error", style="italic"), "", *last))
    title = f"Accuracy in %: truth and estimates (on the source: {points(source_accuracy)})"
    heads = ("target", "truth", *(record.method for record in records))
    console.print(table(title, heads, cells))


def show_toy(console: Console, toy: SpuriousToy, rows: Sequence[ToyRow], n: int) -> None:
    """True accuracy and estimates for every degree of agreement."""
    methods = list(rows[0].estimates)
    cells = [
        (f"{r.agreement:.1f}", points(r.truth), *(points(r.estimates[m]) for m in methods))
        for r in rows
    ]
    worst = [max(abs(r.estimates[m] - r.truth) for r in rows) for m in methods]
    cells.append(("worst", "", *(points(gap) for gap in worst)))
    title = f"Accuracy in % as the spurious feature agrees with the label (source: {toy.p_sp})"
    console.print(table(title, ("agrees", "truth", *methods), cells))
    console.print(
        Text(f"Theorem 3 allows ATC-MC an error of {points(toy.bound(n))} points at n = {n:,}.")
    )


@contextmanager
def progress_bar(console: Console, *, after: float = 1.0) -> Iterator[Report]:
    """A callback that draws a bar on the error stream once work has taken a second.

    Nothing is drawn where the error stream is no terminal.
    """
    began = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    task = bar.add_task("", total=None)

    def report(done: int, total: int, what: str) -> None:
        if time.monotonic() - began >= after:
            bar.start()
        bar.update(task, completed=done, total=total, description=what)

    try:
        yield report
    finally:
        bar.stop()
