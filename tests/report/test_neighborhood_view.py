"""Neighborhoods for display: the same inputs as in the run, with the recorded decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from oodometer.core import inputs as batches
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.neighborhood.sampling import NeighborhoodSampler
from oodometer.report.neighborhood_view import build_example, check_same_run, class_name
from tests.support.invariance_runs import DATA, Hashed, Nudge, run_invariance


def draw_member(show: NeighborhoodSampler, position: int, number: int) -> Inputs:
    """Draw one member of one neighborhood by the transform itself."""
    row = show.dataset.take(np.array([position]))
    if number == 0:
        return row
    keys = batches.hash_rows(show.dataset.take(slice(None)))[[position]]
    return show.transform.apply(row, RowStreams(show.seed, keys, np.array([number])))


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_members_match_a_naive_loop(data: Any) -> None:
    models = Hashed("first"), Hashed("second", salt=7)
    run = run_invariance(data, *models)
    for position in range(4):
        expected: dict[bytes, list[Any]] = {}
        for number in range(7):
            inputs = draw_member(run.show, position, number)
            classes = [int(model.classify(inputs).classes[0]) for model in models]
            name = f"draw {number}" if number else "original"
            expected.setdefault(next(batches.iter_row_bytes(inputs)), [name, 0, classes])[1] += 1
        example = build_example(run.found.results, run.show, position, [0.5, 1.0])
        assert example.position == position
        assert example.value == 0.75
        assert example.size == 7
        assert list(batches.iter_row_bytes(example.inputs)) == list(expected)
        shown: list[list[Any]] = [
            [m.name, m.n_copies, [d.class_index for d in m.decisions]] for m in example.members
        ]
        assert shown == list(expected.values())
        original = shown[0][2]
        assert [[d.is_changed for d in m.decisions] for m in example.members] == [
            [index != first for index, first in zip(row[2], original, strict=True)] for row in shown
        ]


def test_decisions_are_recorded_ones_not_new_predictions() -> None:
    class Changing(Hashed):
        calls: ClassVar[list[int]] = [0]

        def classify(self, inputs: Any) -> Predictions:
            self.calls[0] += 1
            return Hashed("", salt=self.calls[0]).classify(inputs)

    run = run_invariance(
        np.random.default_rng(0).normal(size=(40, 2)), Changing("changing"), batch_size=11
    )
    calls = Changing.calls[0]
    row = int(np.argmin(run.found[0].by_example("ni")))
    example = build_example(run.found.results, run.show, row, [0.0])
    assert Changing.calls[0] == calls
    counted = run.found[0].counts.classes[row]
    first = [0, 1, 2]
    assert [m.decisions[0].class_index for m in example.members] == counted[first].tolist()


def test_votes_count_every_member() -> None:
    run = run_invariance(np.arange(6.0).reshape(3, 2), draws=9)
    example = build_example(run.found.results, run.show, 1, [0.0])
    classes = run.found[0].counts.classes[1]
    names = ("cat", "dog & co", "größe")
    assert dict(example.votes) == {
        names[c]: int((classes == c).sum()) for c in set(classes.tolist())
    }
    counts = [count for _, count in example.votes]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == example.size == 10


@pytest.mark.parametrize(
    ("labels", "truth"),
    [([0, 2], "größe"), (["x", "y"], "y"), ([True, False], "False"), ([0, 7], "7")],
)
def test_example_shows_its_label(labels: list[Any], truth: str) -> None:
    run = run_invariance(as_dataset(np.eye(2), labels=labels))
    assert build_example(run.found.results, run.show, 1, [0.0]).true_label == truth
    assert (
        build_example(run.found.results, run_invariance(np.eye(2)).show, 1, [0.0]).true_label == ""
    )


def test_class_without_name_is_shown_by_number() -> None:
    assert class_name(("a",), 1) == "1"


def test_mismatch_with_the_run_is_one_line() -> None:
    run = run_invariance(np.eye(2))
    check_same_run(run.found, run.show)
    with pytest.raises(
        InputError, match=r"^The result has magnitude 2\.0, the sampler has 1"
    ) as one:
        check_same_run(run.found, replace(run.show, transform=Nudge(1.0)))
    assert "\n" not in str(one.value)
