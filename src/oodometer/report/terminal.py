"""What the command line shows: tables and progress bars. Everything from a file is shown as text."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from oodometer.assessment.diagnostics import SHAPES
from oodometer.assessment.result import Assessment, points, span
from oodometer.core.format import of_few_rows
from oodometer.core.protocols import Progress as Report
from oodometer.neighborhood.results import Effort, Neighborhoods, Reading
from oodometer.report._terminal_layout import printable
from oodometer.report._terminal_layout import table as table

if TYPE_CHECKING:
    from oodometer.assessment.optional_analyses import More
    from oodometer.neighborhood.ranking import Ranking
    from oodometer.neighborhood.suitability import Suitability
    from oodometer.report.demo_page import Comparison

# On a narrower terminal progress is told in words alone.
NARROW = 60

LIGHTS = {"green": "green", "amber": "yellow", "red": "bold red"}


def light(name: str) -> Text:
    """A light as a shape, a colour and a word."""
    return Text(f"{SHAPES[name]} {name}", style=LIGHTS[name])


def show_assessment(console: Console, found: Assessment) -> None:
    """The verdict, every estimate, the lights and the segments."""
    best = found.headline.estimate
    console.print(
        Text(f"Accuracy on the target: {points(best.value)} %", style="bold"),
        light(found.headline.light),
    )
    console.print(Text(f"Interval by sampling alone: {span(best)}"))
    console.print(Text(f"Interval with shift: {found.shift_span}"))
    console.print(Text("\n".join((found.verdict, *found.notes))))
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
        asked = {s.estimate.method for s in found.segments if s.estimate}
        title = ", ".join(("Segments", *(f"by {name}" for name in sorted(asked))))
        console.print(table(title, ("segment", "rows", "accuracy %", "95 %"), parts))
        if few := of_few_rows([s.n for s in found.segments]):
            console.print(Text(few))


def show_more(console: Console, found: More) -> None:
    """Other metrics, the bound and the verdict, as far as they were asked for."""
    if found.metrics:
        console.print()
        title = f"Metrics to be expected if {found.metrics_assume}"
        console.print(table(title, *found.grid))
    for sentence in found.sentences:
        console.print()
        console.print(Text(sentence))


def show_comparison(console: Console, rows: Sequence[Comparison], source_accuracy: float) -> None:
    """True accuracy of every target beside what the methods make of it."""
    from oodometer.report.demo_page import ranked, records_of

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


def _with_interval(reading: Reading | None) -> tuple[str, str]:
    """A value and its interval, three digits; nothing where there is none."""
    if reading is None:
        return "", ""
    return f"{reading.value:.3f}", f"{reading.low:.3f}–{reading.high:.3f}"


def show_neighborhoods(console: Console, found: Neighborhoods, kind: str) -> None:
    """Every model's measures with their intervals, what was spent, and when not to believe it."""
    effort = found.effort
    console.print(
        Text(
            f"{found.data}: {effort.examples:,} of {found.n:,} examples ({kind}), "
            f"{found.transform} of magnitude {found.magnitude:g}, up to {found.draws} draws"
        )
    )
    cells = []
    for one in found:
        known = dict(one.readings())
        sure = (cell for name in ("ni", "pa") for cell in _with_interval(known.get(name)))
        plain = (
            number(known[name].value if name in known else None, ".3f") for name in ("ne", "ei")
        )
        rise = one.entropy_difference
        cells.append(
            (one.model, *sure, *plain, "unknown" if rise is None else number(rise, "+.3f"))
        )
    heads = ("model", "NI", "95 %", "PA", "95 %", "NE", "EI", "entropy rise")
    title = f"How stable decisions are under {found.transform} ({found.named('ni')} and its kin)"
    kept = [place for place in range(len(heads)) if any(row[place] for row in cells)]
    rows = [[row[place] for place in kept] for row in cells]
    console.print(table(title, [heads[place] for place in kept], rows))
    for one in found:
        for note in one.notes():
            console.print(Text(f"{SHAPES['amber']} {one.model}: {note}.", style=LIGHTS["amber"]))
    if found.skipped:
        left_out = f"{found.skipped:,} inputs that can't be read or are empty were left out."
        console.print(Text(f"{SHAPES['amber']} {left_out}", style=LIGHTS["amber"]))
    console.print(Text(_spent(effort)))


def _spent(effort: Effort) -> str:
    spent = (
        f"{effort.drawn:,} inputs were drawn; each model classified {effort.classified:,} of them, "
        "identical ones once."
    )
    if effort.wanted is None:
        return spent
    met = "was reached" if effort.reached else "was NOT reached: it takes more examples"
    return f"{spent} The precision of ± {effort.wanted:g} {met}."


def show_ranking(console: Console, found: Ranking) -> None:
    """Models, best first."""
    cells = [
        (str(place), one.model, f"{one.value:.3f}", f"{one.low:.3f}–{one.high:.3f}",
         "" if one.beats_next is None else f"{100 * one.beats_next:.0f} %",
         "" if one.accuracy is None else points(min(max(one.accuracy, 0.0), 1.0)))
        for place, one in enumerate(found, start=1)
    ]  # fmt: skip
    title = f"{found.data}: {found.n:,} examples, their labels not used, by {found.measure}"
    heads = ("", "model", found.measure, "95 %", "beats the next", "accuracy % by the line")
    wide = len(heads) if any(one.accuracy is not None for one in found) else len(heads) - 1
    console.print(table(title, heads[:wide], [row[:wide] for row in cells]))
    for one in found:
        for note in one.notes:
            console.print(Text(f"{SHAPES['amber']} {one.model}: {note}.", style=LIGHTS["amber"]))


def show_transforms(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Every transform and what it assumes."""
    cells = [(r["name"], ", ".join(r["kinds"]), f"{r['magnitude']:g}", r["assumes"]) for r in rows]
    heads = ("transform", "of", "magnitude", "the class is kept if")
    console.print(table("Transforms", heads, cells))


def show_suggestions(console: Console, found: Sequence[Suitability]) -> None:
    """Transforms, fit ones first."""
    marks = {True: light("green"), False: light("red"), None: light("amber")}
    cells = [
        (marks[one.fit], one.transform, number(one.entropy_difference, "+.3f"),
         number(one.ni, ".3f"), number(one.auroc, ".2f"), one.reason)
        for one in found
    ]  # fmt: skip
    heads = ("fit", "transform", "entropy rise", "NI", "AUROC", "why")
    if all(one.auroc is None for one in found):
        heads, cells = (*heads[:4], "why"), [(*row[:4], row[5]) for row in cells]  # type: ignore[assignment, misc]
    console.print(table("Which transforms are suitable?", heads, cells))


def number(value: float | None, form: str) -> str:
    """A number in that form, 0 never with a minus before it."""
    return "" if value is None else format(value, form.replace(".", "z."))


class TimeLeft(TimeRemainingColumn):
    """The time left by how quick the work was of late, unless its own words tell it."""

    def render(self, task: Task) -> Text:
        """As text; nothing while it is unknown."""
        known = task.time_remaining is not None and not task.description.endswith(" left")
        return super().render(task).append(" left") if known else Text()


@contextmanager
def progress_bar(console: Console, *, after: float = 1.0) -> Iterator[Report]:
    """A callback that draws a bar on the error stream once work has taken a second.

    Nothing is drawn where the error stream is no terminal.
    """
    words = TextColumn("{task.description}", markup=False, table_column=Column())
    drawn = (BarColumn(console.width // 4), TimeElapsedColumn()) if console.width >= NARROW else ()
    silent = sys.stderr is None or not sys.stderr.isatty()
    bar = Progress(words, *drawn, TimeLeft(), console=console, transient=True, disable=silent)
    task = bar.add_task("getting ready", total=None)
    # By the clock, for the first step of the work may take a minute.
    start = Timer(after, bar.start)
    start.daemon = True
    start.start()

    def report(done: int, total: int, what: str) -> None:
        bar.update(task, completed=done, total=total, description=printable(what))

    try:
        yield report
    finally:
        start.cancel()
        start.join()
        bar.stop()
