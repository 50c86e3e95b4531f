"""What was changed is marked, and nothing else is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from oodometer.report.input_diff import MOST_COLUMNS, MOST_WORDS, Piece, changed_words, written

texts = st.lists(st.sampled_from(["a", "b", "c,", " ", "\n", " a "])).map(" ".join)


@given(old=texts, new=texts)
def test_without_the_marks_both_texts_are_there(old: str, new: str) -> None:
    pieces = changed_words(old, new)
    after = "".join(piece.text for piece in pieces if piece.change in ("", "new"))
    before = " ".join(piece.text for piece in pieces if piece.change in ("", "gone"))
    assert after == new
    assert before.split() == old.split()
    assert all(piece.blanks + piece.words == piece.text for piece in pieces)


@given(text=texts.filter(bool))
def test_a_text_that_stays_has_no_marks(text: str) -> None:
    assert changed_words(text, text) == (Piece(text),)


def test_other_blanks_make_no_other_word() -> None:
    assert changed_words("a b", "a\nb") == (Piece("a\nb"),)


def test_words_that_come_often_are_compared_too() -> None:
    words = np.random.default_rng(0).choice(["a", "b", "c", "d"], size=400).tolist()
    words[100] = "old"
    pieces = changed_words(" ".join(words), " ".join([*words[:100], "new", *words[101:]]))
    assert [piece.text for piece in pieces if piece.change] == [" old", " new"]


def test_an_empty_text_says_so() -> None:
    assert changed_words("a", "") == (Piece("a", "gone"), Piece("(empty)", "aside"))


def test_a_long_text_is_cut_and_says_how_much_is_left() -> None:
    words = ["word"] * (MOST_WORDS + 1500)
    kept, rest = changed_words(" ".join(words), " ".join(words))
    assert kept.text.split() == words[:MOST_WORDS]
    assert rest == Piece(" … and 1,500 more words", "aside")


def test_each_side_of_a_pair_is_compared_with_its_own() -> None:
    sheet = written([("a b", "c"), ("a", "c d")])
    assert sheet.heads == ("first text", "second text")
    assert sheet.rows[1] == (
        (Piece("a"), Piece(" b", "gone")),
        (Piece("c"), Piece(" d", "new")),
    )


def test_values_that_differ_are_marked_and_nan_does_not() -> None:
    sheet = written(np.array([[1.0, np.nan, 3.0], [1.0, np.nan, 3.5]]))
    assert sheet.heads == ("0", "1", "2")
    assert sheet.rows[1] == ((Piece("1"),), (Piece("nan"),), (Piece("3.5", "new"),))
    assert (sheet.form, sheet.left_out) == ("values", 0)


def test_columns_that_change_come_first_and_the_rest_is_counted() -> None:
    rows = np.zeros((3, 100))
    rows[1, 99] = rows[2, 50] = 1.0
    sheet = written(rows)
    assert sheet.heads == (*map(str, range(MOST_COLUMNS - 2)), "50", "99")
    assert sheet.left_out == 100 - MOST_COLUMNS
    assert [cell[0].text for cell in sheet.rows[1] if cell[0].change] == ["1"]


def test_vectors_of_any_shape_name_their_numbers_by_place() -> None:
    assert written(np.zeros((1, 2, 2))).heads == ("0,0", "0,1", "1,0", "1,1")


def test_a_table_has_its_columns_and_says_what_is_missing() -> None:
    table = pa.table({"color": ["red", None, "x" * 100], "size": [1, 1, 2]})
    sheet = written(table)
    assert sheet.heads == ("color", "size")
    assert sheet.rows[1] == ((Piece("missing", "new"),), (Piece("1"),))
    assert len(sheet.rows[2][0][0].text) == 60


def test_images_are_not_written_out() -> None:
    sheet = written(np.zeros((3, 4, 4), dtype=np.uint8))
    assert (sheet.heads, sheet.rows) == ((), ((), (), ()))
