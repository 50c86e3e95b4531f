"""What the command line shows: tables and progress bars. Everything from a file is shown as text."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.progress import (
    BarColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from oodometer.assessment.diagnostics import STATUS_SHAPES
from oodometer.assessment.result import Assessment, format_interval, format_percent
from oodometer.core.format import few_rows_warning
from oodometer.core.protocols import ProgressCallback as Report
from oodometer.neighborhood.results import InvarianceResult, MeanWithInterval, SamplingCost

if TYPE_CHECKING:
    from oodometer.assessment.optional_analyses import AdditionalResults
    from oodometer.neighborhood.ranking import Ranking
    from oodometer.neighborhood.suitability import TransformSuitability
    from oodometer.report.demo_page import Comparison

# Number of spaces between columns.
COLUMN_GAP = 2


@dataclass(frozen=True, eq=False)
class TerminalColumn:
    """Heading and cells of a column; numbers and words stay whole from `min_width` on."""

    head: Text
    cells: tuple[Text, ...]
    numeric: bool

    @property
    def natural_width(self) -> int:
        """Return the width at which nothing is wrapped."""
        return max(cell.cell_len for cell in (self.head, *self.cells))

    def min_width(self, available_width: int) -> int:
        """Return the width that breaks no number, and no word up to a third of the terminal."""
        unbreakable = [cell.cell_len for cell in self.cells if self.numeric or cell.no_wrap]
        words = [word for cell in (self.head, *self.cells) for word in cell.plain.split()]
        longest_word = min(max(map(cell_len, words), default=1), max(available_width // 3, 8))
        return min(max(longest_word, *unbreakable, 1), available_width)

    def readable_width(self, available_width: int) -> int:
        """Return the width for comfortable reading: one line, or a third of the terminal."""
        return max(self.min_width(available_width), min(self.natural_width, available_width // 3))


@dataclass(frozen=True, eq=False)
class TerminalTable:
    """Table that is laid out when the width of the console is known."""

    title: str
    columns: tuple[TerminalColumn, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines; columns that do not fit follow below, after the first column again."""
        if self.title:
            for line in Text(self.title, style="bold").wrap(console, options.max_width):
                line.rstrip()
                yield line
        for number, part in enumerate(_split_columns(self.columns, options.max_width)):
            if number:
                yield Text()
            grid = _rich_table(part, options.max_width)
            for segments in console.render_lines(grid, options, pad=False):
                line = Text(no_wrap=True, overflow="ignore")
                for segment in segments:
                    line.append(segment.text, segment.style)
                line.rstrip()
                yield line


def _total_width(widths: Iterable[int]) -> int:
    return sum(width + COLUMN_GAP for width in widths) - COLUMN_GAP


def _split_columns(
    columns: Sequence[TerminalColumn], available_width: int
) -> list[list[TerminalColumn]]:
    """Split into groups that fit side by side; the first column, which names rows, is in each."""
    if _total_width(column.min_width(available_width) for column in columns) <= available_width:
        return [list(columns)]
    first, *others = columns
    groups: list[list[TerminalColumn]] = []
    for column in others:
        widths = [
            member.readable_width(available_width) for member in (*(groups or [[]])[-1], column)
        ]
        if not groups or _total_width(widths) > available_width:
            groups.append([first])
        groups[-1].append(column)
    return groups


def _column_widths(columns: Sequence[TerminalColumn], available_width: int) -> list[int]:
    """Return widths that keep short cells on one line and share the rest among long texts.

    >>> short, long = (TerminalColumn(Text(""), (Text(words),), False) for words in ("a b", "a b c d e f"))
    >>> _column_widths([short, long], 12)
    [3, 7]
    """
    natural_widths = [column.natural_width for column in columns]
    widths = [column.min_width(available_width) for column in columns]
    for _ in range(available_width - _total_width(widths)):
        wrapped = [i for i, width in enumerate(widths) if width < natural_widths[i]]
        short = [i for i in wrapped if natural_widths[i] <= available_width // 3]
        if not wrapped:
            break
        tallest = max(short or wrapped, key=lambda i: natural_widths[i] / widths[i])
        widths[tallest] += 1
    return widths


def _rich_table(columns: Sequence[TerminalColumn], available_width: int) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, COLUMN_GAP, 0, 0))
    for column, width in zip(columns, _column_widths(columns, available_width), strict=True):
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        grid.add_column(column.head, justify=justify, overflow="fold", width=width)
    for row in zip(*(column.cells for column in columns), strict=True):
        grid.add_row(*row)
    return grid


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]
) -> TerminalTable:
    """A table whose cells are never read as markup; columns of numbers are set to the right."""
    made = []
    for place, head in enumerate(columns):
        cells = tuple(_to_text(row[place]) for row in rows)
        filled = [cell.plain for cell in cells if cell.plain]
        numeric = bool(filled) and all(map(_is_number, filled))
        made.append(TerminalColumn(Text(head, style="bold"), cells, numeric))
    return TerminalTable(title, tuple(made))


def _to_text(value: str | Text) -> Text:
    """What a name of a file or a class holds can neither steer the terminal nor break a line."""
    if isinstance(value, str):
        return Text(printable(value))
    cell = value.copy()
    cell.plain = printable(cell.plain)
    return cell


def printable(text: str) -> str:
    r"""The text with spaces for what breaks a line, and a sign for what can't be shown.

    >>> printable("a\nb\x1b[31m")
    'a b�[31m'
    """
    plain = re.sub(r"\s", " ", text)
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in plain)


def _is_number(cell: str) -> bool:
    """Whether it reads as a number or an interval; a name may begin with a digit.

    >>> [_is_number(cell) for cell in ("-0.2", "0.91–0.94", "92 %", "1.8e+07", "127.0.0.1/good")]
    [True, True, True, True, False]
    """
    letters = [letter for letter in re.sub(r"\de[+-]\d", "", cell) if letter.isalpha()]
    return cell.lstrip("+-")[:1].isdigit() and not letters


# On a narrower terminal progress is told in words alone.
MIN_BAR_COLUMNS = 60

STATUS_STYLES = {"ok": "green", "warning": "yellow", "critical": "bold red"}


def status_text(name: str) -> Text:
    """Return a status as a shape, a colour and a word."""
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
    diagnostics = [
        (status_text(d.status), d.name, d.formatted_value, d.meaning)
        for d in assessment.diagnostics
    ]
    headings = ("status", "diagnostic", "value", "meaning")
    console.print(table("Diagnostics", headings, diagnostics))
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
                Text(
                    f"{STATUS_SHAPES['warning']} {one.model}: {note}.",
                    style=STATUS_STYLES["warning"],
                )
            )
    if neighborhoods.skipped:
        left_out = (
            f"{neighborhoods.skipped:,} inputs that can't be read or are empty were left out."
        )
        console.print(
            Text(f"{STATUS_SHAPES['warning']} {left_out}", style=STATUS_STYLES["warning"])
        )
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
                Text(
                    f"{STATUS_SHAPES['warning']} {one.model}: {note}.",
                    style=STATUS_STYLES["warning"],
                )
            )


def show_transforms(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Every transform and what it assumes."""
    cells = [(r["name"], ", ".join(r["kinds"]), f"{r['magnitude']:g}", r["assumes"]) for r in rows]
    heads = ("transform", "of", "magnitude", "the class is kept if")
    console.print(table("Transforms", heads, cells))


def show_suggestions(console: Console, suggestions: Sequence[TransformSuitability]) -> None:
    """Transforms, fit ones first."""
    marks = {True: status_text("ok"), False: status_text("critical"), None: status_text("warning")}
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
