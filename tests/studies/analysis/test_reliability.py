"""Reliability of true accuracies."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.errors import InputError, NotApplicable
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.reliability import truth_reliability


def measured(spread: float, rows: int, *, models: int = 4_000) -> EvaluationTable:
    """Return models whose true accuracies have a known spread, measured on some rows."""
    rng = np.random.default_rng(0)
    truth = np.clip(rng.normal(0.7, spread, models), 0, 1)
    return EvaluationTable.read({
        "model": [f"m{j}" for j in range(models)], "trained_on": ["a"] * models,
        "tested_on": ["b"] * models, "accuracy": rng.binomial(rows, truth) / rows,
        "n": [rows] * models,
    }, measures=())  # fmt: skip


@pytest.mark.parametrize(("spread", "rows"), [(0.05, 100), (0.1, 400), (0.02, 50)])
def test_reliability_is_the_share_of_variance_that_is_not_sampling_error(
    spread: float, rows: int
) -> None:
    expected = spread**2 / (spread**2 + 0.7 * 0.3 / rows)
    assert truth_reliability(measured(spread, rows)).median == pytest.approx(expected, abs=0.06)


def test_equal_models_have_no_reliability() -> None:
    assert abs(truth_reliability(measured(0.0, 100)).median) < 0.15


def test_rows_may_be_given() -> None:
    table = measured(0.05, 100)
    assert truth_reliability(table, rows=100).median == truth_reliability(table).median
    assert truth_reliability(table, rows=10_000).median > 0.98
    assert truth_reliability(table).rows == (100, 100)


def test_reliability_needs_rows_and_models() -> None:
    columns = {"model": [*"klm"], "trained_on": ["a"] * 3, "tested_on": ["b"] * 3,
               "accuracy": [0.5, 0.5, 0.5]}  # fmt: skip
    with pytest.raises(InputError, match="no column 'n'"):
        truth_reliability(EvaluationTable.read(columns, measures=()))
    with pytest.raises(NotApplicable, match="three models with different accuracies"):
        truth_reliability(EvaluationTable.read(columns, measures=()), rows=10)
