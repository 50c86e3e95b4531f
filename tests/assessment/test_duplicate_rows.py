"""Notes on copies of rows within and across source and target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oodometer
from oodometer.assessment.duplicate_rows import MAX_ROWS, duplicate_notes
from oodometer.core.predictions import Predictions


def probs(n: int, seed: int, k: int = 3) -> Any:
    return np.random.default_rng(seed).dirichlet(np.ones(k), n)


def notes(source: Any, target: Any) -> str:
    return " ".join(duplicate_notes(Predictions.from_probs(source), Predictions.from_probs(target)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_within_and_across_are_counted(dtype: Any) -> None:
    a, b = probs(400, 0).astype(dtype), probs(300, 1).astype(dtype)
    assert notes(a, b) == ""
    assert "50 % of the source rows have exactly" in notes(np.concatenate([a, a]), b)
    assert "25 % of the target rows have exactly the scores of another target row" in notes(
        a, np.concatenate([b, b[:100]])
    )
    assert "25 % of the target rows have exactly the scores of a source row" in notes(
        a, np.concatenate([b, a[:100]])
    )


def test_samples_of_many_rows_keep_copies_together() -> None:
    n = 3 * MAX_ROWS
    a, b = probs(n, 0), probs(n, 1)
    mixed = np.concatenate([b[: n // 2], a[: n // 2]])
    assert "50 % of the target rows" in notes(a, mixed)


def test_rounded_saturated_and_few_scores_are_not_compared() -> None:
    assert notes(probs(400, 0, 2).round(2), probs(400, 1, 2).round(2)) == ""
    assert notes(np.repeat(probs(9, 0), 50, axis=0), np.repeat(probs(9, 0), 50, axis=0)) == ""
    sure = np.repeat([[1.0, 0.0, 0.0]], 300, axis=0)
    mixed = [np.concatenate([sure, probs(100, seed)]) for seed in (0, 1)]
    assert notes(*mixed) == ""
    assert notes(probs(20, 0), probs(20, 0)) == ""


def test_assessment_has_the_notes() -> None:
    rng = np.random.default_rng(0)
    source = Predictions.from_probs(probs(200, 0), labels=rng.integers(0, 3, 200))
    target = Predictions.from_probs(np.concatenate([probs(100, 1), probs(200, 0)[:100]]))
    result = oodometer.estimate(source, target, methods="ac", replicates=20)
    assert any("scores of a source row" in note for note in result.notes)
    same = oodometer.estimate(source, source, methods="ac", replicates=20)
    assert any("say" in note and "same rows" in note for note in same.notes)
    assert not any("scores of a source row" in note for note in same.notes)
