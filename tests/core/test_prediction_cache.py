"""Predictions.cached: values are computed once per key and freed with the predictions."""

from __future__ import annotations

import gc
import pickle

from oodometer.core import predictions as module
from oodometer.core.predictions import Predictions
from oodometer.estimators import get
from oodometer.testing import toy_predictions


def test_value_is_computed_once_per_key_and_predictions() -> None:
    first, second = toy_predictions(20), toy_predictions(20)
    made: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return name

    assert [first.cached("a", lambda: make("x")) for _ in range(3)] == ["x"] * 3
    assert first.cached("b", lambda: make("y")) == "y"
    assert second.cached("a", lambda: make("z")) == "z"
    assert made == ["x", "y", "z"]


def test_values_are_freed_with_the_predictions() -> None:
    gc.collect()
    before = len(module._CACHE)
    rows = toy_predictions(20)
    rows.cached("a", lambda: 1)
    assert len(module._CACHE) == before + 1
    del rows
    gc.collect()
    assert len(module._CACHE) == before


def test_shared_cache_does_not_change_estimates() -> None:
    """Run cott after cot, leap after mlls and pape after iw, on shared and on new predictions."""

    def fresh() -> tuple[Predictions, Predictions]:
        return toy_predictions(300, seed=1), toy_predictions(200, seed=2).without_labels()

    source, target = fresh()
    for name in ("cot", "cott", "mlls", "leap", "iw", "pape"):
        together = get(name).estimate(source, target)
        alone = get(name).estimate(*fresh())
        assert together.value == alone.value, name
        assert together.facts == alone.facts, name


def test_cached_values_are_not_part_of_pickle_and_repr() -> None:
    rows = toy_predictions(20)
    before, shown = len(pickle.dumps(rows)), repr(rows)
    rows.cached("large", lambda: bytes(10_000))
    assert len(pickle.dumps(rows)) == before
    assert repr(rows) == shown
    assert (
        pickle.loads(pickle.dumps(rows)).cached("large", lambda: "computed again")
        == "computed again"
    )
