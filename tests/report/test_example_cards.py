"""Which examples are shown, and how much of each."""

from __future__ import annotations

import base64
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.inputs import infer_kind
from oodometer.report import example_cards
from oodometer.report.example_cards import (
    CONTEXT_CHARS,
    MAX_MEMBERS,
    MAX_TEXT_CHARS,
    N_EXAMPLES,
    abridge_pieces,
    build_card_groups,
    lowest_and_highest,
)
from oodometer.report.input_diff import DiffPiece, diff_words
from tests.support.invariance_runs import DATA, Hashed, images, judged

some_values = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=30)


@given(values=some_values, count=st.integers(1, 8), seed=st.integers(0, 5))
def test_ends_are_the_lowest_and_the_highest_of_a_slow_loop(
    values: list[float], count: int, seed: int
) -> None:
    order = np.random.default_rng(seed).permutation(len(values))
    lowest, highest = lowest_and_highest(np.array(values), order, count)
    left = list(order)
    low, high = [], []
    for _ in range(min(count, (len(values) + 1) // 2)):
        low.append(min(left, key=lambda i: values[i]))
        left.remove(low[-1])
    for _ in range(min(count, len(left))):
        high.append(max(left, key=lambda i: values[i]))
        left.remove(high[-1])
    assert lowest.tolist() == low
    assert highest.tolist() == high


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_every_kind_is_shown(data: Any) -> None:
    run = judged(data)
    found = build_card_groups(run.found[0], run.show, "ni")
    shown = [one for wall in found for one in wall.cards]
    assert sorted(one.example.position for one in shown) == [0, 1, 2, 3]
    for one in shown:
        pictures = infer_kind(one.example.inputs) == "images"
        assert len(one.members) == 3
        assert len(one.pictures) == (3 if pictures else 0)
        assert len(one.diff.rows) == 3
        assert one.n_hidden_members == 0


def test_the_least_are_less_invariant_than_the_most_and_none_is_both() -> None:
    run = judged(np.random.default_rng(1).normal(size=(80, 3)), draws=10)
    values = run.found[0].by_example("pa")
    least, most = build_card_groups(run.found[0], run.show, "pa")
    low = [one.example.position for one in least.cards]
    high = [one.example.position for one in most.cards]
    assert len(low) == len(high) == N_EXAMPLES
    assert not set(low) & set(high)
    assert sorted(values[low]) == sorted(values)[:N_EXAMPLES]
    assert sorted(values[high]) == sorted(values)[-N_EXAMPLES:]
    assert [one.example.value for one in least.cards] == values[low].tolist()
    assert most.n_tied == int((values == values[high[-1]]).sum())
    assert least.n_tied_shown == int((values[low] == values[low[-1]]).sum())


def test_where_all_are_equal_there_is_one_wall() -> None:
    run = judged(np.random.default_rng(1).normal(size=(30, 3)), Hashed("same", salt=2**64 - 1))
    (wall,) = build_card_groups(run.found[0], run.show, "ni")
    assert wall.title == "Equally invariant examples"
    assert len(wall.cards) == N_EXAMPLES
    assert wall.n_tied == 30


def test_equal_examples_are_chosen_by_content_and_not_by_place() -> None:
    data = np.random.default_rng(1).normal(size=(30, 3))
    same = Hashed("same", salt=2**64 - 1)
    chosen = []
    for rows in (data, data[::-1]):
        run = judged(rows, same)
        (wall,) = build_card_groups(run.found[0], run.show, "ni")
        chosen.append([rows[one.example.position].tolist() for one in wall.cards])
    assert chosen[0] == chosen[1]
    assert chosen[0] != data[:N_EXAMPLES].tolist()


def test_examples_of_the_same_content_are_shown_once() -> None:
    data = np.random.default_rng(1).normal(size=(8, 3))
    run = judged(np.concatenate([data, data, data]))
    shown = [one.example.position % 8 for wall in build_card_groups(run.found[0], run.show, "ni")
             for one in wall.cards]  # fmt: skip
    assert sorted(shown) == list(range(8))


def test_one_example_is_shown_once() -> None:
    run = judged(["one"])
    (wall,) = build_card_groups(run.found[0], run.show, "ni")
    assert [one.example.position for one in wall.cards] == [0]


def test_pictures_are_the_images_that_were_judged() -> None:
    data = images(2, 8, 8, 3)
    run = judged(data)
    for wall in build_card_groups(run.found[0], run.show, "ni"):
        for one in wall.cards:
            address, content = one.pictures[0].split(",")
            assert address == "data:image/png;base64"
            png = np.frombuffer(base64.b64decode(content), dtype=np.uint8)
            seen = cv2.imdecode(png, cv2.IMREAD_UNCHANGED)
            assert seen is not None
            assert np.array_equal(seen[..., ::-1], data[one.example.position])


def test_many_members_are_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example_cards, "MAX_MEMBERS", 2)
    run = judged(["one"])
    (wall,) = build_card_groups(run.found[0], run.show, "ni")
    assert len(wall.cards[0].members) == len(wall.cards[0].diff.rows) == 2
    assert wall.cards[0].n_hidden_members == 1
    assert wall.cards[0].example.size == 7
    assert MAX_MEMBERS == 11


words = st.lists(st.sampled_from(["a", "bb", "a-rather-long-word"]), max_size=200).map(" ".join)


@given(old=words, new=words)
def test_changes_survive_where_there_is_room(old: str, new: str) -> None:
    pieces = diff_words(old, new)
    cut = abridge_pieces(pieces)
    told = "".join(piece.text for piece in pieces if piece.change in ("new", "gone"))
    kept = "".join(piece.text for piece in cut if piece.change in ("new", "gone"))
    assert told.startswith(kept)
    if sum(len(piece.text) for piece in pieces) <= MAX_TEXT_CHARS:
        assert kept == told
    assert sum(len(piece.text) for piece in cut if piece.change != "aside") <= MAX_TEXT_CHARS
    for piece in cut:
        if len(cut) > 1 and not piece.change:
            assert len(piece.text) <= 2 * CONTEXT_CHARS


def test_a_long_text_is_cut_and_says_so() -> None:
    (text, rest) = abridge_pieces([DiffPiece("x" * (MAX_TEXT_CHARS + 1500))])
    assert len(text.text) == MAX_TEXT_CHARS
    assert rest == DiffPiece(" … and 1,500 more letters", "aside")


def test_a_short_text_stays_as_it_is() -> None:
    pieces = diff_words("a red dog", "a dog barks")
    assert abridge_pieces(pieces) == pieces
    assert abridge_pieces([]) == ()


def test_between_changes_both_sides_are_kept() -> None:
    kept = " ".join(["middle"] * 60)
    found = abridge_pieces(
        [DiffPiece("new", "new"), DiffPiece(f" start {kept} end"), DiffPiece(" gone", "gone")]
    )
    texts = [piece.text for piece in found]
    assert texts[0] == "new"
    assert texts[1].startswith(" start middle")
    assert texts[2] == " … "
    assert texts[3].endswith("middle end")
    assert not texts[3].startswith("iddle")
    assert texts[4] == " gone"
