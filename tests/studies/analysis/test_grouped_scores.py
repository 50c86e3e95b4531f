"""Groups of rows and summaries over groups."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.array_types import Floats
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.grouped_scores import (
    CONSTANT_ACCURACY,
    HAS_VALUE,
    TOO_FEW_VALUES,
    GroupedScores,
    RowGroups,
)
from tests.support.evaluation_tables import random_columns
from tests.support.seeds import failing_seeds


def scores_of(values: Floats, reasons: list[int], rules: tuple[str, ...] = ()) -> GroupedScores:
    keys = {"tested_on": np.arange(len(values))}
    made = RowGroups(np.arange(len(values)), np.arange(len(values)), keys)
    n = np.full((1, len(values)), 9)
    return GroupedScores("id_tau", ("ni",), made, n, values[None], np.array([reasons]), rules)


def check_against_loop(seed: int, by: tuple[str, ...]) -> None:
    table = EvaluationTable.read(random_columns(seed))
    where = ~table.in_distribution
    found = RowGroups.from_columns(table, by, where)
    expected: dict[tuple[int, ...], list[int]] = {}
    for row in np.flatnonzero(where):
        expected.setdefault(tuple(getattr(table, name)[row] for name in by), []).append(int(row))
    keys = list(zip(*(found.keys[name].tolist() for name in by), strict=True))
    assert keys == sorted(expected)
    assert [rows.tolist() for rows in found] == [expected[key] for key in keys]
    assert [found.rows[found.group == g].tolist() for g in range(len(found))] == [
        expected[key] for key in keys
    ]


@pytest.mark.parametrize("by", [("tested_on",), ("architecture", "trained_on", "tested_on")])
def test_groups_match_naive_loop(by: tuple[str, ...]) -> None:
    assert failing_seeds(lambda seed: check_against_loop(seed, by), range(20)) == {}


def test_no_rows_give_no_groups() -> None:
    table = EvaluationTable.read(random_columns(0))
    found = RowGroups.from_columns(table, ("tested_on",), np.zeros(len(table), dtype=np.bool_))
    assert (len(found), list(found)) == (0, [])


@pytest.mark.parametrize(
    ("of_paper", "mean", "sd"),
    [
        # NI-RandAug and NI-Translate in Table 25; then in Tables 2b and 28b.
        ([0.797, 0.746, 0.869, 0.759], 0.793, 0.048),
        ([0.782, 0.833, 0.699, 0.329], 0.661, 0.197),
        # NI-SSMBA of RoBERTa in Table 26; then in Tables 2c and 28c.
        ([0.735, 0.874, 0.868, 0.693, 0.780, 0.871, 0.884, 0.851, 0.851, 0.884], 0.829, 0.065),
    ],
)
def test_means_and_deviations_match_the_paper(
    of_paper: list[float], mean: float, sd: float
) -> None:
    found = scores_of(np.array(of_paper), [HAS_VALUE] * len(of_paper))
    summary = found.summary(0, np.ones(len(of_paper), dtype=np.bool_))
    assert summary.mean == pytest.approx(mean, abs=6e-4)
    assert summary.sd == pytest.approx(sd, abs=6e-4)


def test_groups_without_value_are_counted_by_reason() -> None:
    values = np.array([0.5, np.nan, np.nan, np.nan, 0.7])
    found = scores_of(
        values, [HAS_VALUE, TOO_FEW_VALUES, CONSTANT_ACCURACY, TOO_FEW_VALUES, HAS_VALUE]
    )
    every = np.ones(5, dtype=np.bool_)
    summary = found.summary(0, every)
    assert summary.mean == pytest.approx(0.6)
    assert summary.groups == 2
    assert summary.left_out == {"all accuracies equal": 1, "fewer than two values": 2}
    one = found.summary(0, np.array([True, True, False, False, False]))
    assert (one.mean, one.sd, one.groups) == (0.5, None, 1)
    none = found.summary(0, np.array([False, True, False, False, False]))
    assert (none.mean, none.sd, none.groups) == (None, None, 0)


def test_several_rules_are_listed_with_counts() -> None:
    found = scores_of(np.ones(3), [HAS_VALUE] * 3, ("a", "b", "b"))
    assert found.summary(0, np.array([True, True, True])).rule == "b (2), a (1)"
    assert found.summary(0, np.array([False, True, True])).rule == "b"
    assert found.summary(0, np.array([False, False, False])).rule == ""
