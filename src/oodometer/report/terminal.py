"""Print tables, assessments and progress bars in the terminal.

Text from files is never interpreted as markup, and its control characters are replaced.
"""

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
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from oodometer.assessment.result import format_percent
from oodometer.core.protocols import ProgressCallback
from oodometer.core.results import STATUS_SHAPES
from oodometer.neighborhood.results import InvarianceResult, MeanWithInterval, SamplingCost

if TYPE_CHECKING:
    from oodometer.neighborhood.ranking import RankedModel, Ranking
    from oodometer.neighborhood.suitability import TransformSuitability

# Number of spaces between columns.
COLUMN_GAP = 2
# Narrower terminals show progress without a bar.
MIN_BAR_COLUMNS = 60
STATUS_STYLES = {"ok": "green", "warning": "yellow", "critical": "bold red"}


def printable(text: str) -> str:
    r"""Replace line breaks by spaces and control characters by U+FFFD.

    >>> printable("a\nb\x1b[31m")
    'a b�[31m'
    """
    one_line = re.sub(r"\s", " ", text)
    return "".join(char if char.isprintable() else "\ufffd" for char in one_line)


def text_line(text: str, style: str = "") -> Text:
    """Return a line of text without markup and without control characters."""
    return Text(printable(text), style=style)


@dataclass(frozen=True, eq=False)
class TerminalColumn:
    """Heading and cells of a column, with the widths that it needs."""

    head: Text
    cells: tuple[Text, ...]
    numeric: bool

    @property
    def natural_width(self) -> int:
        """Return the width at which no cell is wrapped."""
        return max(cell.cell_len for cell in (self.head, *self.cells))

    def min_width(self, available_width: int) -> int:
        """Return the smallest width that breaks no number and no word.

        Words longer than a third of the terminal may be broken.
        """
        unbreakable = [cell.cell_len for cell in self.cells if self.numeric or cell.no_wrap]
        words = [word for cell in (self.head, *self.cells) for word in cell.plain.split()]
        longest_word = min(max(map(cell_len, words), default=1), max(available_width // 3, 8))
        return min(max(longest_word, *unbreakable, 1), available_width)

    def readable_width(self, available_width: int) -> int:
        """Return the natural width, limited to a third of the terminal if `min_width` allows it."""
        return max(self.min_width(available_width), min(self.natural_width, available_width // 3))


@dataclass(frozen=True, eq=False)
class TerminalTable:
    """Table that is laid out when the width of the console is known."""

    title: str
    columns: tuple[TerminalColumn, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines of the table.

        Columns that do not fit follow in another table below, which repeats the first column.
        """
        if self.title:
            for line in text_line(self.title, "bold").wrap(console, options.max_width):
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
    """Split columns into groups that fit the terminal; each group starts with the first column."""
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
    """Return widths that keep short cells on one line; columns of long texts share the rest.

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
    """Return a table that prints cells without interpreting markup and right-aligns numbers."""
    terminal_columns = []
    for index, heading in enumerate(columns):
        cells = tuple(_to_text(row[index]) for row in rows)
        texts = [cell.plain for cell in cells if cell.plain]
        numeric = bool(texts) and all(map(_is_number, texts))
        terminal_columns.append(TerminalColumn(text_line(heading, "bold"), cells, numeric))
    return TerminalTable(title, tuple(terminal_columns))


def drop_empty_columns(
    columns: Sequence[str], rows: Sequence[Sequence[str | Text]]
) -> tuple[list[str], list[list[str | Text]]]:
    """Omit columns whose cells are all empty.

    >>> drop_empty_columns(("name", "notes"), [("a", ""), ("b", "")])
    (['name'], [['a'], ['b']])
    """
    kept = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    return [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]


def _to_text(value: str | Text) -> Text:
    if isinstance(value, str):
        return text_line(value)
    cell = value.copy()
    cell.plain = printable(cell.plain)
    return cell


def _is_number(cell: str) -> bool:
    """Return whether a cell is a number or an interval, and not a name that starts with a digit.

    >>> [_is_number(cell) for cell in ("-0.2", "0.91–0.94", "92 %", "1.8e+07", "127.0.0.1/good")]
    [True, True, True, True, False]
    """
    letters = [char for char in re.sub(r"\de[+-]\d", "", cell) if char.isalpha()]
    return cell.lstrip("+-")[:1].isdigit() and not letters


def format_number(value: float | None, format_spec: str) -> str:
    """Format a number, without a minus sign before zero; return an empty text for None."""
    return "" if value is None else format(value, format_spec.replace(".", "z."))


def status_text(status: str) -> Text:
    """Return a status as a colored symbol, followed by its name."""
    return Text(f"{STATUS_SHAPES[status]} {status}", style=STATUS_STYLES[status], no_wrap=True)


def _warning(text: str) -> Text:
    return text_line(f"{STATUS_SHAPES['warning']} {text}", STATUS_STYLES["warning"])


def show_neighborhoods(console: Console, neighborhoods: InvarianceResult, kind: str) -> None:
    """Print the measures of each model with intervals, warnings, and the number of inputs."""
    cost = neighborhoods.sampling_cost
    console.print(
        text_line(
            f"{neighborhoods.data}: {cost.examples:,} of {neighborhoods.n:,} examples ({kind}), "
            f"{neighborhoods.transform} with magnitude {neighborhoods.magnitude:g}"
            f"{' (fixed strength)' if neighborhoods.strength == 'fixed' else ''}, up to "
            f"{neighborhoods.draws} draws{'' if neighborhoods.identity else ' without the identity'}"
        )
    )
    rows = []
    for result in neighborhoods:
        means = dict(result.all_measures())
        increase = result.entropy_difference
        rows.append(
            (
                result.model,
                *_format_mean(means.get("ni")),
                *_format_mean(means.get("pa")),
                _format_mean(means.get("ne"))[0],
                _format_mean(means.get("ei"))[0],
                "unknown" if increase is None else format_number(increase, "+.3f"),
            )
        )
    ni, ne = neighborhoods.measure_prefix("ni"), neighborhoods.measure_prefix("ne")
    headings = ("model", ni, "95 %", "PA", "95 %", ne, "EI", "entropy increase")
    title = f"Neighborhood invariance ({neighborhoods.measure_label('ni')})"
    console.print(table(title, *drop_empty_columns(headings, rows)))
    for result in neighborhoods:
        for warning in result.warnings():
            console.print(_warning(f"{result.model}: {warning}."))
    if neighborhoods.skipped:
        console.print(
            _warning(f"{neighborhoods.skipped:,} inputs that are unreadable or empty were skipped.")
        )
    console.print(Text(_cost_text(cost)))


def _format_mean(mean: MeanWithInterval | None) -> tuple[str, str]:
    """Format a value and its interval with three digits; return empty texts for None."""
    if mean is None:
        return "", ""
    return f"{mean.value:z.3f}", f"{mean.low:.3f}–{mean.high:.3f}"


def _cost_text(cost: SamplingCost) -> str:
    text = (
        f"{cost.drawn:,} inputs were drawn; each model classified {cost.classified:,} of them, "
        "classifying equal inputs once."
    )
    if cost.requested_half_width is None:
        return text
    reached = "was reached" if cost.precision_reached else "was NOT reached; it needs more examples"
    return f"{text} The precision of ± {cost.requested_half_width:g} {reached}."


def show_ranking(console: Console, ranking: Ranking) -> None:
    """Print the ranked models, best first, and the notes on them."""
    # Imported here, because commands that rank nothing do not need it.
    from oodometer.report.leaderboard import (
        leaderboard_from_ranking,
        leaderboard_summary,
        order_explanation,
    )

    ordered = leaderboard_from_ranking(ranking, {})
    if len(ordered) > 1:
        console.print(text_line(leaderboard_summary(ordered, ranking.measure)))
    title = f"{ranking.data}: {ranking.n:,} unlabelled examples, ranked by {ranking.measure}"
    higher = "higher than the next, % of resamples"
    headings = ["", "model", ranking.measure, "95 %", higher, *ranking.columns]
    if any(entry.accuracy is not None for entry in ranking):
        headings.append("predicted accuracy %")
    rows = [(str(place), *_ranking_cells(entry)) for place, entry in enumerate(ranking, start=1)]
    console.print(table(title, headings, rows))
    console.print(text_line(order_explanation(ranking.measure, ranking.columns)))
    for entry in ranking:
        _show_cautions(console, entry)
    for note in ranking.notes:
        console.print(_warning(f"{note[0].upper()}{note[1:]}."))


def _ranking_cells(entry: RankedModel) -> list[str]:
    higher = accuracy = ""
    if entry.higher_in_resamples is not None:
        higher = f"{100 * entry.higher_in_resamples:.0f}"
    if entry.accuracy is not None:
        accuracy = format_percent(min(max(entry.accuracy, 0.0), 1.0))
    interval = f"{entry.low:.3f}–{entry.high:.3f}"
    scores = [f"{value:.3f}" for value in entry.scores.values()]
    return [entry.model, f"{entry.value:.3f}", interval, higher, *scores, accuracy]


def _show_cautions(console: Console, entry: RankedModel) -> None:
    """Print the diagnostics of a model that are not ok, and the notes on the model."""
    for check in entry.diagnostics:
        if check.status != "ok":
            start = f"{STATUS_SHAPES[check.status]} {check.status}: {entry.model}: "
            text = f"{start}{check.meaning}; {check.advice}."
            console.print(text_line(text, STATUS_STYLES[check.status]))
    for note in entry.notes:
        console.print(_warning(f"{entry.model}: {note}."))


def show_transforms(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print transforms with the kinds of data that they apply to and their assumptions."""
    cells = [
        (row["name"], ", ".join(row["kinds"]), f"{row['magnitude']:g}", row["assumes"])
        for row in rows
    ]
    headings = ("transform", "applies to", "magnitude", "preserves the class if")
    console.print(table("Transforms", headings, cells))


def show_suggestions(console: Console, suggestions: Sequence[TransformSuitability]) -> None:
    """Print whether each transform is suitable, and why."""
    statuses = {True: "ok", False: "critical", None: "warning"}
    has_auroc = any(suggestion.auroc is not None for suggestion in suggestions)
    rows: list[list[str | Text]] = []
    for suggestion in suggestions:
        auroc = [format_number(suggestion.auroc, ".2f")] if has_auroc else []
        rows.append(
            [
                status_text(statuses[suggestion.fit]),
                suggestion.transform,
                format_number(suggestion.entropy_difference, "+.3f"),
                format_number(suggestion.ni, ".3f"),
                *auroc,
                suggestion.reason,
            ]
        )
    headings = ["status", "transform", "entropy increase", "NI", *["AUROC"] * has_auroc, "reason"]
    console.print(table("Suitability of transforms", headings, rows))


class TimeLeftColumn(TimeRemainingColumn):
    """Column with the remaining time; empty if it is unknown or part of the description."""

    def render(self, task: Task) -> Text:
        """Return the remaining time as text."""
        if task.time_remaining is None or task.description.endswith(" left"):
            return Text()
        return super().render(task).append(" left")


@contextmanager
def progress_bar(console: Console, *, delay_seconds: float = 1.0) -> Iterator[ProgressCallback]:
    """Provide a callback that reports progress; a bar appears on stderr after a delay.

    Nothing is drawn if stderr is not a terminal.
    """
    description = TextColumn("{task.description}", markup=False, table_column=Column())
    bar: tuple[ProgressColumn, ...] = ()
    if console.width >= MIN_BAR_COLUMNS:
        bar = (BarColumn(console.width // 4), TimeElapsedColumn())
    progress = Progress(
        description,
        *bar,
        TimeLeftColumn(),
        console=console,
        transient=True,
        disable=sys.stderr is None or not sys.stderr.isatty(),
    )
    task = progress.add_task("preparing", total=None)
    # A timer starts the bar, because the first report of progress may come after a minute.
    timer = Timer(delay_seconds, progress.start)
    timer.daemon = True
    timer.start()

    def report(done: int, total: int, text: str) -> None:
        progress.update(task, completed=done, total=total, description=printable(text))

    try:
        yield report
    finally:
        timer.cancel()
        timer.join()
        progress.stop()
