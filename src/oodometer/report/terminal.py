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

from oodometer.assessment.diagnostics import STATUS_SHAPES
from oodometer.assessment.result import Assessment, format_interval, format_percent
from oodometer.core.format import few_rows_warning
from oodometer.core.protocols import ProgressCallback as Report
from oodometer.neighborhood.results import InvarianceResult, MeanWithInterval, SamplingCost
from oodometer.report._terminal_layout import printable
from oodometer.report._terminal_layout import table as table

if TYPE_CHECKING:
    from oodometer.assessment.optional_analyses import AdditionalResults
    from oodometer.neighborhood.ranking import Ranking
    from oodometer.neighborhood.suitability import TransformSuitability
    from oodometer.report.demo_page import Comparison

# On a narrower terminal progress is told in words alone.
MIN_BAR_COLUMNS = 60

STATUS_STYLES = {"green": "green", "amber": "yellow", "red": "bold red"}


def status_text(name: str) -> Text:
    """A light as a shape, a colour and a word."""
    return Text(f"{STATUS_SHAPES[name]} {name}", style=STATUS_STYLES[name])


def show_assessment(console: Console, assessment: Assessment) -> None:
    """The verdict, every estimate, the lights and the segments."""
    best = assessment.headline.estimate
    console.print(
        Text(f"Accuracy on the target: {format_percent(best.value)} %", style="bold"),
        status_text(assessment.headline.status),
    )
    console.print(Text(f"Interval by sampling alone: {format_interval(best)}"))
    console.print(Text(f"Interval with shift: {assessment.typical_range_text}"))
    console.print(Text("\n".join((assessment.verdict, *assessment.notes))))
    rows = [
        (
            e.method,
            format_percent(e.value),
            format_interval(e),
            "; ".join((f"if {e.assumes}", *e.notes)),
        )
        for e in assessment.estimates
    ]
    rows += [(name, "", "", f"not applicable: {why}") for name, why in assessment.skipped.items()]
    console.print()
    console.print(table("Estimates", ("method", "accuracy %", "95 % interval", "holds"), rows))
    console.print()
    lights = [
        (status_text(d.status), d.name, d.formatted_value, d.meaning)
        for d in assessment.diagnostics
    ]
    console.print(table("When not to believe it", ("light", "sign", "value", "meaning"), lights))
    if assessment.segments:
        parts = [
            (s.value, str(s.n), format_percent(s.estimate.value), format_interval(s.estimate))
            if s.estimate
            else (s.value, str(s.n), "", f"not applicable: {s.reason}")
            for s in assessment.segments
        ]
        console.print()
        asked = {s.estimate.method for s in assessment.segments if s.estimate}
        title = ", ".join(("Segments", *(f"by {name}" for name in sorted(asked))))
        console.print(table(title, ("segment", "rows", "accuracy %", "95 %"), parts))
        if few := few_rows_warning([s.n for s in assessment.segments]):
            console.print(Text(few))


def show_additional(console: Console, results: AdditionalResults) -> None:
    """Other metrics, the bound and the verdict, as far as they were asked for."""
    if results.metrics:
        console.print()
        title = f"Metrics to be expected if {results.metrics_assume}"
        console.print(table(title, *results.metric_table))
    for sentence in results.sentences:
        console.print()
        console.print(Text(sentence))


def show_comparison(console: Console, rows: Sequence[Comparison], source_accuracy: float) -> None:
    """True accuracy of every target beside what the methods make of it."""
    from oodometer.report.demo_page import method_records, rank_records

    records = method_records(rows)
    best = rank_records(records)[0]
    cells: list[tuple[str | Text, ...]] = []
    for row in rows:
        misses = [record.deviation_under(row) for record in records]
        values = (format_percent(miss.estimate.value) if miss else "" for miss in misses)
        cells.append((row.name, Text(format_percent(row.truth), style="bold"), *values))
    last = (Text(format_percent(r.mae), style="bold green" if r == best else "") for r in records)
    cells.append((Text("mean abs. error", style="italic"), "", *last))
    title = f"Accuracy in %: truth and estimates (on the source: {format_percent(source_accuracy)})"
    heads = ("target", "truth", *(record.method for record in records))
    console.print(table(title, heads, cells))


def _format_reading(reading: MeanWithInterval | None) -> tuple[str, str]:
    """A value and its interval, three digits; nothing where there is none."""
    if reading is None:
        return "", ""
    return f"{reading.value:.3f}", f"{reading.low:.3f}–{reading.high:.3f}"


def show_neighborhoods(console: Console, neighborhoods: InvarianceResult, kind: str) -> None:
    """Every model's measures with their intervals, what was spent, and when not to believe it."""
    effort = neighborhoods.sampling_cost
    console.print(
        Text(
            f"{neighborhoods.data}: {effort.examples:,} of {neighborhoods.n:,} examples ({kind}), "
            f"{neighborhoods.transform} of magnitude {neighborhoods.magnitude:g}, up to {neighborhoods.draws} draws"
        )
    )
    cells = []
    for one in neighborhoods:
        known = dict(one.all_measures())
        sure = (cell for name in ("ni", "pa") for cell in _format_reading(known.get(name)))
        plain = (
            format_number(known[name].value if name in known else None, ".3f")
            for name in ("ne", "ei")
        )
        rise = one.entropy_difference
        cells.append(
            (one.model, *sure, *plain, "unknown" if rise is None else format_number(rise, "+.3f"))
        )
    heads = ("model", "NI", "95 %", "PA", "95 %", "NE", "EI", "entropy rise")
    title = f"How stable decisions are under {neighborhoods.transform} ({neighborhoods.measure_label('ni')} and its kin)"
    kept = [place for place in range(len(heads)) if any(row[place] for row in cells)]
    rows = [[row[place] for place in kept] for row in cells]
    console.print(table(title, [heads[place] for place in kept], rows))
    for one in neighborhoods:
        for note in one.warnings():
            console.print(
                Text(f"{STATUS_SHAPES['amber']} {one.model}: {note}.", style=STATUS_STYLES["amber"])
            )
    if neighborhoods.skipped:
        left_out = (
            f"{neighborhoods.skipped:,} inputs that can't be read or are empty were left out."
        )
        console.print(Text(f"{STATUS_SHAPES['amber']} {left_out}", style=STATUS_STYLES["amber"]))
    console.print(Text(_effort_text(effort)))


def _effort_text(effort: SamplingCost) -> str:
    spent = (
        f"{effort.drawn:,} inputs were drawn; each model classified {effort.classified:,} of them, "
        "identical ones once."
    )
    if effort.requested_half_width is None:
        return spent
    met = "was reached" if effort.precision_reached else "was NOT reached: it takes more examples"
    return f"{spent} The precision of ± {effort.requested_half_width:g} {met}."


def show_ranking(console: Console, ranking: Ranking) -> None:
    """Models, best first."""
    cells = [
        (str(place), one.model, f"{one.value:.3f}", f"{one.low:.3f}–{one.high:.3f}",
         "" if one.beats_next is None else f"{100 * one.beats_next:.0f} %",
         "" if one.accuracy is None else format_percent(min(max(one.accuracy, 0.0), 1.0)))
        for place, one in enumerate(ranking, start=1)
    ]  # fmt: skip
    title = f"{ranking.data}: {ranking.n:,} examples, their labels not used, by {ranking.measure}"
    heads = ("", "model", ranking.measure, "95 %", "beats the next", "accuracy % by the line")
    wide = len(heads) if any(one.accuracy is not None for one in ranking) else len(heads) - 1
    console.print(table(title, heads[:wide], [row[:wide] for row in cells]))
    for one in ranking:
        for note in one.notes:
            console.print(
                Text(f"{STATUS_SHAPES['amber']} {one.model}: {note}.", style=STATUS_STYLES["amber"])
            )


def show_transforms(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Every transform and what it assumes."""
    cells = [(r["name"], ", ".join(r["kinds"]), f"{r['magnitude']:g}", r["assumes"]) for r in rows]
    heads = ("transform", "of", "magnitude", "the class is kept if")
    console.print(table("Transforms", heads, cells))


def show_suggestions(console: Console, suggestions: Sequence[TransformSuitability]) -> None:
    """Transforms, fit ones first."""
    marks = {True: status_text("green"), False: status_text("red"), None: status_text("amber")}
    cells = [
        (marks[one.fit], one.transform, format_number(one.entropy_difference, "+.3f"),
         format_number(one.ni, ".3f"), format_number(one.auroc, ".2f"), one.reason)
        for one in suggestions
    ]  # fmt: skip
    heads = ("fit", "transform", "entropy rise", "NI", "AUROC", "why")
    if all(one.auroc is None for one in suggestions):
        heads, cells = (*heads[:4], "why"), [(*row[:4], row[5]) for row in cells]  # type: ignore[assignment, misc]
    console.print(table("Which transforms are suitable?", heads, cells))


def format_number(value: float | None, format_spec: str) -> str:
    """A number in that form, 0 never with a minus before it."""
    return "" if value is None else format(value, format_spec.replace(".", "z."))


class TimeLeftColumn(TimeRemainingColumn):
    """The time left by how quick the work was of late, unless its own words tell it."""

    def render(self, task: Task) -> Text:
        """As text; nothing while it is unknown."""
        known = task.time_remaining is not None and not task.description.endswith(" left")
        return super().render(task).append(" left") if known else Text()


@contextmanager
def progress_bar(console: Console, *, delay_seconds: float = 1.0) -> Iterator[Report]:
    """A callback that draws a bar on the error stream once work has taken a second.

    Nothing is drawn where the error stream is no terminal.
    """
    words = TextColumn("{task.description}", markup=False, table_column=Column())
    drawn = (
        (BarColumn(console.width // 4), TimeElapsedColumn())
        if console.width >= MIN_BAR_COLUMNS
        else ()
    )
    silent = sys.stderr is None or not sys.stderr.isatty()
    bar = Progress(words, *drawn, TimeLeftColumn(), console=console, transient=True, disable=silent)
    task = bar.add_task("getting ready", total=None)
    # By the clock, for the first step of the work may take a minute.
    start = Timer(delay_seconds, bar.start)
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
