"""What a transform did to an input, in marked pieces: words of texts, values of columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

import numpy as np

from oodometer.core.inputs import Inputs, kind_of
from oodometer.report.histograms import shortened

# More of a text is not read, and comparing it would take long.
MOST_WORDS = 1000
MOST_COLUMNS = 30
# A word with the blanks before it; blanks that end a text are a word of their own.
_WORD = re.compile(r"\s*\S+|\s+$")

Change = Literal["", "new", "gone", "aside"]


@dataclass(frozen=True)
class Piece:
    """A part of an input that was kept, is new, or is gone; or a remark of ours aside."""

    text: str
    change: Change = ""

    @property
    def blanks(self) -> str:
        """The blanks that it begins with, which no mark should cover."""
        return self.text[: len(self.text) - len(self.text.lstrip())]

    @property
    def words(self) -> str:
        """All but those."""
        return self.text.lstrip()


@dataclass(frozen=True)
class Sheet:
    """Inputs written out: a row of cells an input, the original first, each cell in pieces."""

    heads: tuple[str, ...]
    rows: tuple[tuple[tuple[Piece, ...], ...], ...]
    form: Literal["words", "values"] = "words"
    left_out: int = 0


def written(inputs: Inputs) -> Sheet:
    """Inputs as text, what differs from the first of them marked; images are not written out."""
    kind = kind_of(inputs)
    if kind == "images":
        return Sheet((), ((),) * len(inputs))
    if kind == "text":
        return _texts(("text",), [(text,) for text in inputs])
    if kind == "pairs":
        return _texts(("first text", "second text"), inputs)
    if kind == "vectors":
        return _values(_places(inputs.shape[1:]), inputs.reshape(len(inputs), -1).tolist())
    columns = [column.to_pylist() for column in inputs.columns]
    return _values(inputs.column_names, list(zip(*columns, strict=True)))


def changed_words(old: str, new: str) -> tuple[Piece, ...]:
    """The new text in pieces, with the old one's words that are gone between them.

    >>> [(piece.text, piece.change) for piece in changed_words("a red dog", "a dog barks")]
    [('a', ''), (' red', 'gone'), (' dog', ''), (' barks', 'new')]
    """
    before, after = _WORD.findall(old), _WORD.findall(new)
    found = _compared(before[:MOST_WORDS], after[:MOST_WORDS])
    rest = len(after) - MOST_WORDS
    if rest > 0:
        found.append(Piece(f" … and {rest:,} more words", "aside"))
    if not new:
        found.append(Piece("(empty)", "aside"))
    return tuple(found)


def _compared(before: list[str], after: list[str]) -> list[Piece]:
    """Runs of words that are kept, gone or new; blanks alone make no word another."""
    old, new = [word.strip() for word in before], [word.strip() for word in after]
    pieces = []
    for what, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            pieces.append(Piece("".join(after[j:j_end])))
            continue
        pieces.append(Piece("".join(before[i:i_end]), "gone"))
        pieces.append(Piece("".join(after[j:j_end]), "new"))
    return [piece for piece in pieces if piece.text]


def _texts(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Sheet:
    cells = (
        tuple(changed_words(old, new) for old, new in zip(rows[0], row, strict=True))
        for row in rows
    )
    return Sheet(heads, tuple(cells))


def _values(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Sheet:
    """Columns that change somewhere come before others when not all can be shown."""
    # By repr, so that NaN is the same as NaN, and 1 is not the same as 1.0 or True.
    known = np.array([[repr(value) for value in row] for row in rows], dtype=object)
    changed = known != known[0]
    shown = np.sort(np.argsort(~changed.any(axis=0), kind="stable")[:MOST_COLUMNS])
    cells = (
        tuple((Piece(_value(row[j]), "new" if marks[j] else ""),) for j in shown)
        for row, marks in zip(rows, changed, strict=True)
    )
    heads = tuple(names[j] for j in shown)
    return Sheet(heads, tuple(cells), form="values", left_out=len(names) - len(shown))


def _value(value: Any) -> str:
    """A value that fits a cell.

    >>> _value(0.123456789), _value(None), _value("red")
    ('0.123457', 'missing', 'red')
    """
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else shortened(str(value))


def _places(shape: tuple[int, ...]) -> list[str]:
    """The name of every number of a vector: where it stands.

    >>> _places((2, 2))
    ['0,0', '0,1', '1,0', '1,1']
    """
    return [",".join(map(str, place)) for place in np.ndindex(*shape)]
