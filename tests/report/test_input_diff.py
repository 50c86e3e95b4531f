"""Differences between inputs: changes are marked, and nothing else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from oodometer.report.input_diff import (
    MAX_COLUMNS,
    MAX_WORDS,
    DiffPiece,
    diff_against_first,
    diff_words,
)

texts = st.lists(st.sampled_from(["a", "b", "c,", " ", "\n", " a "])).map(" ".join)


@given(old=texts, new=texts)
def test_pieces_reproduce_both_texts(old: str, new: str) -> None:
    pieces = diff_words(old, new)
    after = "".join(piece.text for piece in pieces if piece.change in ("", "new"))
    before = " ".join(piece.text for piece in pieces if piece.change in ("", "gone"))
    assert after == new
    assert before.split() == old.split()
    assert all(piece.leading_space + piece.stripped_text == piece.text for piece in pieces)


@given(text=texts.filter(bool))
def test_unchanged_text_has_no_marks(text: str) -> None:
    assert diff_words(text, text) == (DiffPiece(text),)


def test_white_space_changes_are_ignored() -> None:
    assert diff_words("a b", "a\nb") == (DiffPiece("a\nb"),)


def test_frequent_words_are_compared() -> None:
    words = np.random.default_rng(0).choice(["a", "b", "c", "d"], size=400).tolist()
    words[100] = "old"
    pieces = diff_words(" ".join(words), " ".join([*words[:100], "new", *words[101:]]))
    assert [piece.text for piece in pieces if piece.change] == [" old", " new"]


def test_empty_text_is_labelled() -> None:
    assert diff_words("a", "") == (DiffPiece("a", "gone"), DiffPiece("(empty)", "aside"))


def test_long_text_is_cut_with_the_number_of_omitted_words() -> None:
    words = ["word"] * (MAX_WORDS + 1500)
    kept, rest = diff_words(" ".join(words), " ".join(words))
    assert kept.text.split() == words[:MAX_WORDS]
    assert rest == DiffPiece(" … and 1,500 more words", "aside")


def test_sides_of_a_pair_are_compared_separately() -> None:
    sheet = diff_against_first([("a b", "c"), ("a", "c d")])
    assert sheet.heads == ("first text", "second text")
    assert sheet.rows[1] == (
        (DiffPiece("a"), DiffPiece(" b", "gone")),
        (DiffPiece("c"), DiffPiece(" d", "new")),
    )


def test_changed_values_are_marked_and_nan_equals_nan() -> None:
    sheet = diff_against_first(np.array([[1.0, np.nan, 3.0], [1.0, np.nan, 3.5]]))
    assert sheet.heads == ("0", "1", "2")
    assert sheet.rows[1] == ((DiffPiece("1"),), (DiffPiece("nan"),), (DiffPiece("3.5", "new"),))
    assert (sheet.cell_kind, sheet.n_hidden_columns) == ("values", 0)


def test_changed_columns_are_preferred_and_hidden_ones_counted() -> None:
    rows = np.zeros((3, 100))
    rows[1, 99] = rows[2, 50] = 1.0
    sheet = diff_against_first(rows)
    assert sheet.heads == (*map(str, range(MAX_COLUMNS - 2)), "50", "99")
    assert sheet.n_hidden_columns == 100 - MAX_COLUMNS
    assert [cell[0].text for cell in sheet.rows[1] if cell[0].change] == ["1"]


def test_elements_of_vectors_are_named_by_index() -> None:
    assert diff_against_first(np.zeros((1, 2, 2))).heads == ("0,0", "0,1", "1,0", "1,1")


def test_table_cells_show_missing_values() -> None:
    table = pa.table({"color": ["red", None, "x" * 100], "size": [1, 1, 2]})
    sheet = diff_against_first(table)
    assert sheet.heads == ("color", "size")
    assert sheet.rows[1] == ((DiffPiece("missing", "new"),), (DiffPiece("1"),))
    assert len(sheet.rows[2][0][0].text) == 60


def test_images_have_no_text_cells() -> None:
    sheet = diff_against_first(np.zeros((3, 4, 4), dtype=np.uint8))
    assert (sheet.heads, sheet.rows) == ((), ((), (), ()))
