"""Correlations against task difficulty, compared with loops over plain rows."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.errors import NotApplicable, UnknownName
from oodometer.studies.analysis import correlations_by_difficulty
from tests.support.evaluation_rows import rank_correlation
from tests.support.fine_tuning_rows import (
    GROUPS,
    Row,
    fine_tuning_rows,
    is_id,
    is_ood,
    mean,
    to_table,
)


def naive_gap(rows: list[Row]) -> float:
    """Return (ID − OOD) / ID of accuracies averaged over models, then over pairs."""
    pairs = sorted({(row["trained_on"], row["tested_on"]) for row in rows if is_ood(row)})
    inside, outside = [], []
    for trained, tested in pairs:
        own = [row for row in rows if row["trained_on"] == trained]
        inside.append(mean([row["accuracy"] for row in own if is_id(row)]))
        outside.append(mean([row["accuracy"] for row in own if row["tested_on"] == tested]))
    return (mean(inside) - mean(outside)) / mean(inside)


def naive_correlation(rows: list[Row], metric: str, corrupted: bool) -> float:
    """Return the mean over pairs of ρ between an ID metric and OOD error, by loops."""
    pairs = sorted({(row["trained_on"], row["tested_on"]) for row in rows if is_ood(row)})
    coefficients = []
    for trained, tested in pairs:
        own = [row for row in rows if row["trained_on"] == trained]
        x, y = [], []
        for model in sorted({row["model"] for row in own}):
            mine = [row for row in own if row["model"] == model]
            chosen = [row for row in mine if ("/" in row["tested_on"] if corrupted else is_id(row))]
            values = [1 - row["accuracy"] if metric == "error" else row[metric] for row in chosen]
            x.append(round(mean(values), 11))
            y.append(next(1 - row["accuracy"] for row in mine if row["tested_on"] == tested))
        coefficient = rank_correlation(x, y)
        assert coefficient is not None
        coefficients.append(coefficient)
    return mean(coefficients)


@pytest.mark.parametrize("seed", [0, 1])
def test_points_and_line_match_loops(seed: int) -> None:
    rows = fine_tuning_rows(seed)
    by_task = {task: [row for row in rows if row["group"] == task] for task in GROUPS}
    gaps = {task: naive_gap(own) for task, own in by_task.items()}
    low, high = min(gaps.values()), max(gaps.values())
    trends = {
        trend.metric: trend
        for trend in correlations_by_difficulty(to_table(rows), metrics=["nll", "ece"])
    }
    assert set(trends) == {
        f"{role} {metric}" for role in ("ID", "ID corrupted") for metric in ("error", "nll", "ece")
    }
    for name, trend in trends.items():
        role, _, metric = name.rpartition(" ")
        assert [point.task for point in trend.points] == sorted(gaps, key=lambda task: gaps[task])
        for point in trend.points:
            assert point.difficulty == pytest.approx((gaps[point.task] - low) / (high - low))
            expected = naive_correlation(by_task[point.task], metric, role == "ID corrupted")
            assert point.correlation == pytest.approx(expected)
        assert trend.line is not None
        slope, intercept = np.polyfit(
            [point.difficulty for point in trend.points],
            [point.correlation for point in trend.points],
            1,
        )
        assert (trend.line.slope, trend.line.intercept) == pytest.approx((slope, intercept))


def test_two_tasks_have_points_but_no_line() -> None:
    rows = fine_tuning_rows(groups=["pacs", "fmow"])
    trend = correlations_by_difficulty(to_table(rows))[0]
    assert [(point.task, point.difficulty, point.pairs) for point in trend.points] == [
        ("fmow", 0.0, 1),
        ("pacs", 1.0, 6),
    ]
    assert trend.line is None


def test_one_task_is_not_applicable() -> None:
    table = to_table(fine_tuning_rows(groups=["pacs"]))
    with pytest.raises(NotApplicable, match=r"at least two tasks .* the table has 1"):
        correlations_by_difficulty(table)
    with pytest.raises(UnknownName):
        correlations_by_difficulty(to_table(fine_tuning_rows()), metrics=["nil"])
