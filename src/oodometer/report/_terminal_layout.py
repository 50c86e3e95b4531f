"""Tables that fit the terminal: words and numbers stay whole, and too many columns go on below."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

# Between columns.
COLUMN_GAP = 2


@dataclass(frozen=True, eq=False)
class TerminalColumn:
    """A heading and what stands below it; its parts of a line are `min_width` to `natural_width` wide."""

    head: Text
    cells: tuple[Text, ...]
    numeric: bool

    @property
    def natural_width(self) -> int:
        """The width at which nothing is wrapped."""
        return max(cell.cell_len for cell in (self.head, *self.cells))

    def min_width(self, available_width: int) -> int:
        """The width at which no number is broken, and no word but one that is very long."""
        whole = [cell for cell in self.cells if self.numeric or cell.no_wrap]
        words = [word for cell in (self.head, *self.cells) for word in cell.plain.split()]
        longest = max(map(cell_len, words), default=1)
        kept = max((cell.cell_len for cell in whole), default=1)
        return min(max(min(longest, max(available_width // 3, 8)), kept), available_width)


@dataclass(frozen=True, eq=False)
class TerminalTable:
    """A table that is laid out when the width of the console is known."""

    title: str
    columns: tuple[TerminalColumn, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """The title, then all columns side by side, or as many at a time as there is room for."""
        if self.title:
            for line in Text(self.title, style="bold").wrap(console, options.max_width):
                line.rstrip()
                yield line
        for number, part in enumerate(_split_columns(self.columns, options.max_width)):
            if number:
                yield Text()
            yield from _render_lines(console, part, options.max_width)


def _split_columns(
    columns: Sequence[TerminalColumn], available_width: int
) -> list[list[TerminalColumn]]:
    """Columns that stand side by side; the first, which names the rows, stands in every part."""
    if (
        sum(column.min_width(available_width) + COLUMN_GAP for column in columns) - COLUMN_GAP
        <= available_width
    ):
        return [list(columns)]
    first, *others = columns
    # A column of text that is as narrow as its longest word is tiring to read.
    wide = [
        max(one.min_width(available_width), min(one.natural_width, available_width // 3))
        + COLUMN_GAP
        for one in columns
    ]
    parts: list[list[TerminalColumn]] = []
    taken = available_width + 1
    for one, width in zip(others, wide[1:], strict=True):
        if taken + width - COLUMN_GAP > available_width:
            parts.append([first])
            taken = wide[0]
        parts[-1].append(one)
        taken += width
    return parts


def _column_widths(columns: Sequence[TerminalColumn], available_width: int) -> list[int]:
    """As wide as there is room: what is short in one line, then what would be the tallest.

    >>> short, long = (TerminalColumn(Text(""), (Text(words),), False) for words in ("a b", "a b c d e f"))
    >>> _column_widths([short, long], 12)
    [3, 7]
    """
    widths = [column.min_width(available_width) for column in columns]
    free = available_width - COLUMN_GAP * (len(columns) - 1) - sum(widths)
    while free < 0:  # a number as wide as the room
        widths[widths.index(max(widths))] -= 1
        free += 1
    for _ in range(free):
        growing = [place for place, one in enumerate(columns) if widths[place] < one.natural_width]
        if not growing:
            break
        short = [place for place in growing if columns[place].natural_width <= available_width // 3]
        widths[
            max(short or growing, key=lambda place: columns[place].natural_width / widths[place])
        ] += 1
    return widths


def _render_lines(
    console: Console, columns: Sequence[TerminalColumn], available_width: int
) -> Iterator[Text]:
    """The headings and the rows, with nothing after the last sign of a line."""
    widths = _column_widths(columns, available_width)
    rows = zip(*((column.head, *column.cells) for column in columns), strict=True)
    for row in rows:
        wrapped = [
            cell.wrap(console, width, overflow="fold")
            for cell, width in zip(row, widths, strict=True)
        ]
        for number in range(max(map(len, wrapped))):
            line = Text(no_wrap=True, overflow="ignore")
            for column, lines, width in zip(columns, wrapped, widths, strict=True):
                piece = lines[number] if number < len(lines) else Text()
                piece.rstrip()
                piece.align("right" if column.numeric else "left", width)
                line.append_text(piece).append(" " * COLUMN_GAP)
            line.rstrip()
            yield line


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
