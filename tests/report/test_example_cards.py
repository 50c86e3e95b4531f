"""Cards of examples: selection, order and shortening."""

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
from tests.support.invariance_runs import DATA, Hashed, images, run_invariance

some_values = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=30)


@given(values=some_values, count=st.integers(1, 8), seed=st.integers(0, 5))
def test_lowest_and_highest_match_a_naive_loop(values: list[float], count: int, seed: int) -> None:
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
def test_every_kind_of_input_has_cards(data: Any) -> None:
    run = run_invariance(data)
    groups = build_card_groups(run.found[0], run.show, "ni")
    cards = [card for group in groups for card in group.cards]
    assert sorted(card.example.position for card in cards) == [0, 1, 2, 3]
    for card in cards:
        is_image = infer_kind(card.example.inputs) == "images"
        assert len(card.members) == 3
        assert len(card.pictures) == (3 if is_image else 0)
        assert len(card.diff.rows) == 3
        assert card.n_hidden_members == 0


def test_least_and_most_invariant_examples_are_disjoint() -> None:
    run = run_invariance(np.random.default_rng(1).normal(size=(80, 3)), draws=10)
    values = run.found[0].by_example("pa")
    least, most = build_card_groups(run.found[0], run.show, "pa")
    low = [card.example.position for card in least.cards]
    high = [card.example.position for card in most.cards]
    assert len(low) == len(high) == N_EXAMPLES
    assert not set(low) & set(high)
    assert sorted(values[low]) == sorted(values)[:N_EXAMPLES]
    assert sorted(values[high]) == sorted(values)[-N_EXAMPLES:]
    assert [card.example.value for card in least.cards] == values[low].tolist()
    assert most.n_tied == int((values == values[high[-1]]).sum())
    assert least.n_tied_shown == int((values[low] == values[low[-1]]).sum())


def test_equal_values_give_one_group() -> None:
    run = run_invariance(
        np.random.default_rng(1).normal(size=(30, 3)), Hashed("same", salt=2**64 - 1)
    )
    (group,) = build_card_groups(run.found[0], run.show, "ni")
    assert group.title == "Equally invariant examples"
    assert len(group.cards) == N_EXAMPLES
    assert group.n_tied == 30


def test_ties_are_broken_by_content_not_by_position() -> None:
    data = np.random.default_rng(1).normal(size=(30, 3))
    same = Hashed("same", salt=2**64 - 1)
    chosen = []
    for rows in (data, data[::-1]):
        run = run_invariance(rows, same)
        (group,) = build_card_groups(run.found[0], run.show, "ni")
        chosen.append([rows[card.example.position].tolist() for card in group.cards])
    assert chosen[0] == chosen[1]
    assert chosen[0] != data[:N_EXAMPLES].tolist()


def test_examples_with_equal_content_are_shown_once() -> None:
    data = np.random.default_rng(1).normal(size=(8, 3))
    run = run_invariance(np.concatenate([data, data, data]))
    groups = build_card_groups(run.found[0], run.show, "ni")
    rows = [card.example.position % 8 for group in groups for card in group.cards]
    assert sorted(rows) == list(range(8))


def test_single_example_is_shown_once() -> None:
    run = run_invariance(["one"])
    (group,) = build_card_groups(run.found[0], run.show, "ni")
    assert [card.example.position for card in group.cards] == [0]


def test_pictures_are_the_classified_images() -> None:
    data = images(2, 8, 8, 3)
    run = run_invariance(data)
    for group in build_card_groups(run.found[0], run.show, "ni"):
        for card in group.cards:
            address, content = card.pictures[0].split(",")
            assert address == "data:image/png;base64"
            png = np.frombuffer(base64.b64decode(content), dtype=np.uint8)
            seen = cv2.imdecode(png, cv2.IMREAD_UNCHANGED)
            assert seen is not None
            assert np.array_equal(seen[..., ::-1], data[card.example.position])


def test_hidden_members_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example_cards, "MAX_MEMBERS", 2)
    run = run_invariance(["one"])
    (group,) = build_card_groups(run.found[0], run.show, "ni")
    assert len(group.cards[0].members) == len(group.cards[0].diff.rows) == 2
    assert group.cards[0].n_hidden_members == 1
    assert group.cards[0].example.size == 7
    assert MAX_MEMBERS == 11


words = st.lists(st.sampled_from(["a", "bb", "a-rather-long-word"]), max_size=200).map(" ".join)


@given(old=words, new=words)
def test_shortened_texts_keep_changes_within_the_limit(old: str, new: str) -> None:
    pieces = diff_words(old, new)
    cut = abridge_pieces(pieces)
    changes = "".join(piece.text for piece in pieces if piece.change in ("new", "gone"))
    kept = "".join(piece.text for piece in cut if piece.change in ("new", "gone"))
    assert changes.startswith(kept)
    if sum(len(piece.text) for piece in pieces) <= MAX_TEXT_CHARS:
        assert kept == changes
    assert sum(len(piece.text) for piece in cut if piece.change != "aside") <= MAX_TEXT_CHARS
    for piece in cut:
        if len(cut) > 1 and not piece.change:
            assert len(piece.text) <= 2 * CONTEXT_CHARS


def test_long_text_is_cut_with_a_remark() -> None:
    (text, rest) = abridge_pieces([DiffPiece("x" * (MAX_TEXT_CHARS + 1500))])
    assert len(text.text) == MAX_TEXT_CHARS
    assert rest == DiffPiece(" … and 1,500 more characters", "aside")


def test_short_text_is_unchanged() -> None:
    pieces = diff_words("a red dog", "a dog barks")
    assert abridge_pieces(pieces) == pieces
    assert abridge_pieces([]) == ()


def test_context_of_both_changes_is_kept() -> None:
    kept = " ".join(["middle"] * 60)
    result = abridge_pieces(
        [DiffPiece("new", "new"), DiffPiece(f" start {kept} end"), DiffPiece(" gone", "gone")]
    )
    texts = [piece.text for piece in result]
    assert texts[0] == "new"
    assert texts[1].startswith(" start middle")
    assert texts[2] == " … "
    assert texts[3].endswith("middle end")
    assert not texts[3].startswith("iddle")
    assert texts[4] == " gone"
