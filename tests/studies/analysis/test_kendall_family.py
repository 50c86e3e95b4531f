"""Kendall statistics against naive loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.grouped_scores import GroupedScores
from oodometer.studies.analysis.kendall_family import kendall_scores
from tests.support.evaluation_tables import assert_same, loop_taus, random_columns, values_by_key
from tests.support.seeds import failing_seeds


def found_in(table: EvaluationTable) -> Any:
    return values_by_key(row for scores in kendall_scores(table) for row in scores.rows(table))


def named(table: EvaluationTable) -> dict[str, GroupedScores]:
    return {scores.statistic: scores for scores in kendall_scores(table)}


def check_against_loops(seed: int) -> None:
    table = EvaluationTable.read(random_columns(seed))
    assert_same(found_in(table), loop_taus(table))


def test_statistics_match_naive_loops() -> None:
    assert failing_seeds(check_against_loops, range(60)) == {}


def test_random_tables_cover_all_reasons() -> None:
    """Check that the random tables of the test above have every case."""
    tables = [EvaluationTable.read(random_columns(seed)) for seed in range(60)]
    reasons = {row["reason"] for t in tables for s in kendall_scores(t) for row in s.rows(t)}
    assert reasons == {
        None, "fewer than two values", "all accuracies equal", "all values of the measure equal"
    }  # fmt: skip
    assert {len(table.architectures) for table in tables} == {1, 2, 3}
    assert any(len(training) > 1 for table in tables for training in table.trainings)
    assert any(np.isnan(table.accuracy).any() for table in tables)


def test_small_example_matches_values_computed_by_hand() -> None:
    """Two models of two architectures, trained on a, tested on a, b and c."""
    table = EvaluationTable.read(
        {
            "model": ["m"] * 3 + ["n"] * 3,
            "architecture": ["x"] * 3 + ["y"] * 3,
            "trained_on": ["a"] * 6,
            "tested_on": ["a", "b", "c"] * 2,
            "accuracy": [0.9, 0.5, 0.6, 0.8, 0.7, 0.4],
            "ni": [9.0, 5.0, 6.0, 8.0, 4.0, 7.0],
        }
    )
    found = named(table)
    assert [len(found[name].groups) for name in ("id_tau", "macro_tau", "micro_tau")] == [2, 4, 4]
    assert np.isnan(found["macro_tau"].values).all()  # one model of each architecture
    np.testing.assert_array_equal(found["arch_tau"].values, [[-1.0, -1.0]])
    np.testing.assert_array_equal(found["cross_domain_tau"].values, [[1.0, -1.0]])


@pytest.mark.parametrize("seed", range(5))
def test_monotone_transforms_keep_or_flip_tau(seed: int) -> None:
    columns = random_columns(seed)
    plain = kendall_scores(EvaluationTable.read(columns))
    rising = {**columns, "near": np.exp(np.array(columns["near"])) + 5}
    falling = {**columns, "near": -(np.array(columns["near"]) ** 3)}
    for changed, sign in ((rising, 1), (falling, -1)):
        for before, after in zip(plain, kendall_scores(EvaluationTable.read(changed)), strict=True):
            place = before.measures.index("near")
            np.testing.assert_array_equal(after.values[place], sign * before.values[place])
            np.testing.assert_array_equal(after.reasons, before.reasons)


@pytest.mark.parametrize("seed", range(5))
def test_row_order_does_not_matter(seed: int) -> None:
    columns = random_columns(seed)
    order = np.random.default_rng(seed).permutation(len(columns["model"]))
    shuffled = {name: [cells[j] for j in order] for name, cells in columns.items()}
    assert found_in(EvaluationTable.read(shuffled)) == found_in(EvaluationTable.read(columns))


def test_realistic_pool_matches_scipy() -> None:
    rng = np.random.default_rng(1)
    n, tests = 300, 4
    accuracy = rng.binomial(500, rng.beta(8, 3, size=n * tests)) / 500
    table = EvaluationTable.read(
        {
            "model": np.repeat(np.arange(n), tests),
            "trained_on": np.repeat([f"d{j % tests}" for j in range(n)], tests),
            "tested_on": [f"d{j}" for j in range(tests)] * n,
            "accuracy": accuracy,
            "ni": accuracy + rng.normal(0, 0.1, size=n * tests),
        }
    )
    micro = named(table)["micro_tau"]
    for rows, value in zip(micro.groups, micro.values[0], strict=True):
        assert len(rows) == 225
        expected = kendalltau(table.measures["ni"][rows], table.accuracy[rows]).statistic
        assert value == pytest.approx(expected, abs=1e-12)
