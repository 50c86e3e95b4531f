"""What was changed is marked, and nothing else is."""

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
def test_without_the_marks_both_texts_are_there(old: str, new: str) -> None:
    pieces = diff_words(old, new)
    after = "".join(piece.text for piece in pieces if piece.change in ("", "new"))
    before = " ".join(piece.text for piece in pieces if piece.change in ("", "gone"))
    assert after == new
    assert before.split() == old.split()
    assert all(piece.leading_space + piece.stripped_text == piece.text for piece in pieces)


@given(text=texts.filter(bool))
def test_a_text_that_stays_has_no_marks(text: str) -> None:
    assert diff_words(text, text) == (DiffPiece(text),)


def test_other_blanks_make_no_other_word() -> None:
    assert diff_words("a b", "a\nb") == (DiffPiece("a\nb"),)


def test_words_that_come_often_are_compared_too() -> None:
    words = np.random.default_rng(0).choice(["a", "b", "c", "d"], size=400).tolist()
    words[100] = "old"
    pieces = diff_words(" ".join(words), " ".join([*words[:100], "new", *words[101:]]))
    assert [piece.text for piece in pieces if piece.change] == [" old", " new"]


def test_an_empty_text_says_so() -> None:
    assert diff_words("a", "") == (DiffPiece("a", "gone"), DiffPiece("(empty)", "aside"))


def test_a_long_text_is_cut_and_says_how_much_is_left() -> None:
    words = ["word"] * (MAX_WORDS + 1500)
    kept, rest = diff_words(" ".join(words), " ".join(words))
    assert kept.text.split() == words[:MAX_WORDS]
    assert rest == DiffPiece(" … and 1,500 more words", "aside")


def test_each_side_of_a_pair_is_compared_with_its_own() -> None:
    sheet = diff_against_first([("a b", "c"), ("a", "c d")])
    assert sheet.heads == ("first text", "second text")
    assert sheet.rows[1] == (
        (DiffPiece("a"), DiffPiece(" b", "gone")),
        (DiffPiece("c"), DiffPiece(" d", "new")),
    )


def test_values_that_differ_are_marked_and_nan_does_not() -> None:
    sheet = diff_against_first(np.array([[1.0, np.nan, 3.0], [1.0, np.nan, 3.5]]))
    assert sheet.heads == ("0", "1", "2")
    assert sheet.rows[1] == ((DiffPiece("1"),), (DiffPiece("nan"),), (DiffPiece("3.5", "new"),))
    assert (sheet.cell_kind, sheet.n_hidden_columns) == ("values", 0)


def test_columns_that_change_come_first_and_the_rest_is_counted() -> None:
    rows = np.zeros((3, 100))
    rows[1, 99] = rows[2, 50] = 1.0
    sheet = diff_against_first(rows)
    assert sheet.heads == (*map(str, range(MAX_COLUMNS - 2)), "50", "99")
    assert sheet.n_hidden_columns == 100 - MAX_COLUMNS
    assert [cell[0].text for cell in sheet.rows[1] if cell[0].change] == ["1"]


def test_vectors_of_any_shape_name_their_numbers_by_place() -> None:
    assert diff_against_first(np.zeros((1, 2, 2))).heads == ("0,0", "0,1", "1,0", "1,1")


def test_a_table_has_its_columns_and_says_what_is_missing() -> None:
    table = pa.table({"color": ["red", None, "x" * 100], "size": [1, 1, 2]})
    sheet = diff_against_first(table)
    assert sheet.heads == ("color", "size")
    assert sheet.rows[1] == ((DiffPiece("missing", "new"),), (DiffPiece("1"),))
    assert len(sheet.rows[2][0][0].text) == 60


def test_images_are_not_written_out() -> None:
    sheet = diff_against_first(np.zeros((3, 4, 4), dtype=np.uint8))
    assert (sheet.heads, sheet.rows) == ((), ((), (), ()))
