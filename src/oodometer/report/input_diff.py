"""Mark how transformed copies differ from an input: in words of texts and values of columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

import numpy as np

from oodometer.core.inputs import Inputs, infer_kind
from oodometer.report.histograms import truncate_name

# Texts are compared up to this number of words: nobody reads more, and comparing more is slow.
MAX_WORDS = 1000
MAX_COLUMNS = 30
# Matches a word with the white space before it. White space at the end of a text is a word too.
_WORD_PATTERN = re.compile(r"\s*\S+|\s+$")

PieceChange = Literal["", "new", "gone", "aside"]


@dataclass(frozen=True)
class DiffPiece:
    """Part of an input.

    `change` is "new" or "gone" for text that was added or deleted, "aside" for a remark that is
    not part of the input, and empty for unchanged text.
    """

    text: str
    change: PieceChange = ""

    @property
    def leading_space(self) -> str:
        """Return the leading white space, which is shown without a mark."""
        return self.text[: len(self.text) - len(self.text.lstrip())]

    @property
    def stripped_text(self) -> str:
        return self.text.lstrip()


@dataclass(frozen=True)
class DiffTable:
    """Inputs as a table of text with one row per input, the original first.

    Each cell is a sequence of unchanged and changed pieces.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[tuple[DiffPiece, ...], ...], ...]
    cell_kind: Literal["words", "values"] = "words"
    n_hidden_columns: int = 0


def diff_against_first(inputs: Inputs) -> DiffTable:
    """Return inputs as text and mark the differences from the first input.

    The table is empty for images.
    """
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
    """Return the pieces of the new text and, in their places, the words that were deleted.

    >>> [(piece.text, piece.change) for piece in diff_words("a red dog", "a dog barks")]
    [('a', ''), (' red', 'gone'), (' dog', ''), (' barks', 'new')]
    """
    before, after = _WORD_PATTERN.findall(old), _WORD_PATTERN.findall(new)
    pieces = _diff_word_lists(before[:MAX_WORDS], after[:MAX_WORDS])
    n_omitted = len(after) - MAX_WORDS
    if n_omitted > 0:
        pieces.append(DiffPiece(f" … and {n_omitted:,} more words", "aside"))
    if not new:
        pieces.append(DiffPiece("(empty)", "aside"))
    return tuple(pieces)


def _diff_word_lists(before: list[str], after: list[str]) -> list[DiffPiece]:
    """Return runs of words that are unchanged, gone or new; ignore differences in white space."""
    old = [word.strip() for word in before]
    new = [word.strip() for word in after]
    pieces = []
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for operation, i, i_end, j, j_end in matcher.get_opcodes():
        if operation == "equal":
            pieces.append(DiffPiece("".join(after[j:j_end])))
        else:
            pieces.append(DiffPiece("".join(before[i:i_end]), "gone"))
            pieces.append(DiffPiece("".join(after[j:j_end]), "new"))
    return [piece for piece in pieces if piece.text]


def _text_table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> DiffTable:
    cells = (
        tuple(diff_words(old, new) for old, new in zip(rows[0], row, strict=True)) for row in rows
    )
    return DiffTable(heads, tuple(cells))


def _value_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> DiffTable:
    """Return a table of values; if there are too many columns, select changed ones first."""
    # Values are compared by their repr: NaN then equals NaN, and 1 differs from 1.0 and True.
    texts = np.array([[repr(value) for value in row] for row in rows], dtype=object)
    changed = texts != texts[0]
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
    """Format a value for a cell.

    >>> _format_value(0.123456789), _format_value(None), _format_value("red")
    ('0.123457', 'missing', 'red')
    """
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else truncate_name(str(value))


def _element_names(shape: tuple[int, ...]) -> list[str]:
    """Return the index of each element of an array with this shape, as text.

    >>> _element_names((2, 2))
    ['0,0', '0,1', '1,0', '1,1']
    """
    return [",".join(map(str, index)) for index in np.ndindex(*shape)]
