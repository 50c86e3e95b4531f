"""What a transform did to an input, in marked pieces: words of texts, values of columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

import numpy as np

from oodometer.core.inputs import Inputs, infer_kind
from oodometer.report.histograms import truncate_name

# More of a text is not read, and comparing it would take long.
MAX_WORDS = 1000
MAX_COLUMNS = 30
# A word with the blanks before it; blanks that end a text are a word of their own.
_WORD_PATTERN = re.compile(r"\s*\S+|\s+$")

PieceChange = Literal["", "new", "gone", "aside"]


@dataclass(frozen=True)
class DiffPiece:
    """A part of an input that was kept, is new, or is gone; or a remark of ours aside."""

    text: str
    change: PieceChange = ""

    @property
    def leading_space(self) -> str:
        """The blanks that it begins with, which no mark should cover."""
        return self.text[: len(self.text) - len(self.text.lstrip())]

    @property
    def stripped_text(self) -> str:
        """All but those."""
        return self.text.lstrip()


@dataclass(frozen=True)
class DiffTable:
    """Inputs written out: a row of cells an input, the original first, each cell in pieces."""

    heads: tuple[str, ...]
    rows: tuple[tuple[tuple[DiffPiece, ...], ...], ...]
    cell_kind: Literal["words", "values"] = "words"
    n_hidden_columns: int = 0


def diff_against_first(inputs: Inputs) -> DiffTable:
    """Inputs as text, what differs from the first of them marked; images are not written out."""
    kind = infer_kind(inputs)
    if kind == "images":
        return DiffTable((), ((),) * len(inputs))
    if kind == "text":
        return _text_table(("text",), [(text,) for text in inputs])
    if kind == "pairs":
        return _text_table(("first text", "second text"), inputs)
    if kind == "vectors":
        return _value_table(
            _element_names(inputs.shape[1:]), inputs.reshape(len(inputs), -1).tolist()
        )
    columns = [column.to_pylist() for column in inputs.columns]
    return _value_table(inputs.column_names, list(zip(*columns, strict=True)))


def diff_words(old: str, new: str) -> tuple[DiffPiece, ...]:
    """The new text in pieces, with the old one's words that are gone between them.

    >>> [(piece.text, piece.change) for piece in diff_words("a red dog", "a dog barks")]
    [('a', ''), (' red', 'gone'), (' dog', ''), (' barks', 'new')]
    """
    before, after = _WORD_PATTERN.findall(old), _WORD_PATTERN.findall(new)
    found = _diff_word_lists(before[:MAX_WORDS], after[:MAX_WORDS])
    rest = len(after) - MAX_WORDS
    if rest > 0:
        found.append(DiffPiece(f" … and {rest:,} more words", "aside"))
    if not new:
        found.append(DiffPiece("(empty)", "aside"))
    return tuple(found)


def _diff_word_lists(before: list[str], after: list[str]) -> list[DiffPiece]:
    """Runs of words that are kept, gone or new; blanks alone make no word another."""
    old, new = [word.strip() for word in before], [word.strip() for word in after]
    pieces = []
    for what, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            pieces.append(DiffPiece("".join(after[j:j_end])))
            continue
        pieces.append(DiffPiece("".join(before[i:i_end]), "gone"))
        pieces.append(DiffPiece("".join(after[j:j_end]), "new"))
    return [piece for piece in pieces if piece.text]


def _text_table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> DiffTable:
    cells = (
        tuple(diff_words(old, new) for old, new in zip(rows[0], row, strict=True)) for row in rows
    )
    return DiffTable(heads, tuple(cells))


def _value_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> DiffTable:
    """Columns that change somewhere come before others when not all can be shown."""
    # By repr, so that NaN is the same as NaN, and 1 is not the same as 1.0 or True.
    known = np.array([[repr(value) for value in row] for row in rows], dtype=object)
    changed = known != known[0]
    shown = np.sort(np.argsort(~changed.any(axis=0), kind="stable")[:MAX_COLUMNS])
    cells = (
        tuple((DiffPiece(_format_value(row[j]), "new" if marks[j] else ""),) for j in shown)
        for row, marks in zip(rows, changed, strict=True)
    )
    heads = tuple(names[j] for j in shown)
    return DiffTable(
        heads, tuple(cells), cell_kind="values", n_hidden_columns=len(names) - len(shown)
    )


def _format_value(value: Any) -> str:
    """A value that fits a cell.

    >>> _format_value(0.123456789), _format_value(None), _format_value("red")
    ('0.123457', 'missing', 'red')
    """
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else truncate_name(str(value))


def _element_names(shape: tuple[int, ...]) -> list[str]:
    """The name of every number of a vector: where it stands.

    >>> _element_names((2, 2))
    ['0,0', '0,1', '1,0', '1,1']
    """
    return [",".join(map(str, place)) for place in np.ndindex(*shape)]
