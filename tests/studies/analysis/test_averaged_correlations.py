"""Averaged and adjusted correlation matrices against loops over pairs and scipy."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from oodometer.core.errors import InputError
from oodometer.studies.analysis.averaged_correlations import (
    RESIDUAL_LABEL,
    adjusted_correlations,
    average_correlations,
    average_over_pairs,
    residuals,
)
from oodometer.studies.analysis.correlation_matrix import CorrelationKind
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import DOMAIN_ROLES
from tests.support.id_ood_rows import Row, naive_pairs, role_value, rows_of, table_of

METRICS = ("error", "nll", "ece")
Score = tuple[float, float, int, int, int]


def coefficient(x: list[float], y: list[float], kind: CorrelationKind) -> tuple[float, int] | None:
    both = [(a, b) for a, b in zip(x, y, strict=True) if not math.isnan(a + b)]
    sides = [[pair[side] for pair in both] for side in (0, 1)]
    if len(both) < 3 or any(len(set(side)) == 1 for side in sides):
        return None
    peer: Any = stats.spearmanr if kind == "spearman" else stats.pearsonr
    return float(peer(*sides).statistic), len(both)


def naive_score(
    pairs: list[tuple[str, tuple[float, int] | None]],
) -> Score:
    """Return the weighted mean over (task, coefficient and models) of pairs, as in the paper."""
    known = [(task, *found) for task, found in pairs if found is not None]
    if not known:
        return math.nan, math.nan, 0, len(pairs), 0
    weights = [1 / sum(1 for other, *_ in known if other == task) for task, *_ in known]
    values = [value for _, value, _ in known]
    mean = sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return mean, sd, len(known), len(pairs) - len(known), sum(models for *_, models in known)


Within = Callable[[list[Row], list[str], str], tuple[float, int] | None]


def naive(rows: list[Row], within: Within, keep: Callable[[Row], bool]) -> Score:
    chosen = []
    for training, target in naive_pairs(rows):
        mine = [row for row in rows if row["trained_on"] == training]
        row = next(row for row in mine if row["tested_on"] == target)
        if keep(row):
            models = sorted({row["model"] for row in mine})
            chosen.append((row["task"], within(rows, models, target)))
    return naive_score(chosen)


def columns(rows: list[Row], models: list[str], target: str, name: str) -> list[float]:
    role = next(role for role in reversed(DOMAIN_ROLES) if name.startswith(f"{role} "))
    role = "held-out OOD" if name.startswith("held") else role
    metric = name.removeprefix(f"{role} ")
    return [role_value(rows, model, metric, role, target) for model in models]


def scored(first: str, second: str, kind: CorrelationKind) -> Within:
    return lambda rows, models, target: coefficient(
        columns(rows, models, target, first), columns(rows, models, target, second), kind
    )


def beyond(name: str, kind: CorrelationKind) -> Within:
    def within(rows: list[Row], models: list[str], target: str) -> tuple[float, int] | None:
        x = np.array(columns(rows, models, target, "ID error"))
        y = np.array(columns(rows, models, target, "OOD error"))
        known = ~np.isnan(x + y)
        if known.sum() < 3:
            return None
        if len(set(x[known])) == 1:
            fitted = np.full(len(x), y[known].mean())
        else:
            line = stats.linregress(x[known], y[known])
            fitted = line.slope * x + line.intercept
        # Rounded, so that ties among residuals do not depend on the last bit.
        left = np.where(known, y - fitted, np.nan).round(12)
        return coefficient(columns(rows, models, target, name), left.tolist(), kind)

    return within


PAIRS_OF_NAMES = [
    ("ID error", "OOD error"),
    ("OOD error", "ID error"),
    ("ID corrupted nll", "OOD error"),
    ("held-out OOD ece", "OOD nll"),
    ("ID ece", "ID corrupted error"),
    ("OOD ece", "OOD ece"),
]


@pytest.mark.parametrize("kind", ["spearman", "pearson"])
@pytest.mark.parametrize(("seed", "gaps"), [(0, 0.0), (1, 0.15), (2, 0.6)])
def test_scores_match_naive_loop(kind: CorrelationKind, seed: int, gaps: float) -> None:
    rows = rows_of(seed, gaps=gaps)
    found = average_correlations(table_of(rows), kind=kind)
    groups: list[tuple[Any, Callable[[Row], bool]]] = [(found.overall, lambda row: True)]
    for task, matrix in found.tasks.items():
        groups.append((matrix, lambda row, task=task: row["task"] == task))  # type: ignore[misc]
    for shift, matrix in found.shifts.items():
        groups.append((matrix, lambda row, shift=shift: row["shift"] == shift))  # type: ignore[misc]
    assert len(groups) == 1 + 2 + 4
    for first, second in PAIRS_OF_NAMES:
        within = scored(first, second, kind)
        for matrix, keep in groups:
            cell = matrix.score(first, second)
            assert_cell(cell, naive(rows, within, keep))


def assert_cell(cell: dict[str, Any], expected: Score) -> None:
    mean, sd, answered, left_out, models = expected
    assert (cell["pairs"], cell["left_out"], cell["models"]) == (answered, left_out, models)
    assert cell["value"] == (None if math.isnan(mean) else pytest.approx(mean, abs=1e-10))
    assert cell["sd"] == (None if math.isnan(sd) else pytest.approx(sd, abs=1e-10))


@pytest.mark.parametrize("kind", ["spearman", "pearson"])
@pytest.mark.parametrize(("seed", "gaps"), [(3, 0.0), (4, 0.2)])
def test_adjusted_scores_match_naive_loop(kind: CorrelationKind, seed: int, gaps: float) -> None:
    rows = rows_of(seed, gaps=gaps)
    found = adjusted_correlations(table_of(rows), kind=kind)
    for name in ("ID error", "ID corrupted error", "OOD nll", "held-out OOD ece"):
        expected = naive(rows, beyond(name, kind), lambda row: True)
        assert_cell(found.overall.score(name, RESIDUAL_LABEL), expected)


@given(seed=st.integers(0, 1000))
@settings(max_examples=8)
def test_matrix_is_symmetric_with_ones_on_the_diagonal(seed: int) -> None:
    rows = rows_of(seed, gaps=0.1)
    matrix = average_correlations(table_of(rows)).overall
    np.testing.assert_allclose(matrix.values, matrix.values.T, atol=1e-12)
    known = np.diag(matrix.values)[np.diag(matrix.pairs) > 0]
    np.testing.assert_allclose(known, 1.0)
    assert (matrix.pairs + matrix.left_out == len(naive_pairs(rows))).all()
    shuffled = average_correlations(table_of(rows[::-1])).overall
    np.testing.assert_allclose(shuffled.values, matrix.values, atol=1e-12)


def test_spearman_is_invariant_under_monotone_transforms() -> None:
    # Within one domain: a mean of transformed values is not the transform of the mean.
    rows = rows_of(5)
    original = table_of(rows)
    transformed = table_of([{**row, "nll": math.exp(3 * row["nll"])} for row in rows])
    names = ("OOD nll", "OOD ece")
    assert average_correlations(original).overall.score(*names) == average_correlations(
        transformed
    ).overall.score(*names)
    pearson = [
        average_correlations(table, kind="pearson").overall.score(*names)
        for table in (original, transformed)
    ]
    assert pearson[0] != pearson[1]


def made_pairs(slopes: dict[str, tuple[float, ...]]) -> EvaluationTable:
    """Return one pair per slope: OOD error decreases or increases with ID error."""
    rows: list[Row] = []
    for task, members in slopes.items():
        for number, slope in enumerate(members):
            domain = f"{task}{number}"
            for m, x in enumerate((0.1, 0.2, 0.3, 0.4)):
                shared = {"model": f"{domain}-{m}", "trained_on": domain, "task": task}
                rows.append({**shared, "tested_on": domain, "accuracy": 1 - x})
                rows.append({**shared, "tested_on": f"{domain} new", "accuracy": 0.5 - slope * x})
    return EvaluationTable.read(
        {name: [row[name] for row in rows] for name in rows[0]}, measures=()
    )


def test_every_task_has_the_same_weight() -> None:
    found = average_correlations(made_pairs({"large": (1.0, 1.0, 1.0), "small": (-1.0,)}))
    assert found.overall.score("ID error", "OOD error")["value"] == pytest.approx(0.0)
    assert found.tasks["large"].score("ID error", "OOD error")["value"] == pytest.approx(1.0)
    assert found.tasks["small"].score("ID error", "OOD error")["value"] == pytest.approx(-1.0)
    assert found.shifts == {}


def test_pairs_without_coefficient_are_counted_not_zero() -> None:
    found = average_correlations(made_pairs({"large": (1.0, 0.0), "small": (1.0,), "flat": (0.0,)}))
    cell = found.overall.score("ID error", "OOD error")
    assert cell["value"] == pytest.approx(1.0)
    assert (cell["pairs"], cell["left_out"], cell["models"]) == (2, 2, 8)
    none = found.tasks["flat"].score("ID error", "OOD error")
    assert (none["value"], none["sd"], none["pairs"], none["left_out"]) == (None, None, 0, 1)


def test_perfect_fit_on_id_error_leaves_no_adjusted_score() -> None:
    found = adjusted_correlations(made_pairs({"large": (1.0, 0.5)})).overall
    cell = found.score("ID error", RESIDUAL_LABEL)
    assert (cell["value"], cell["pairs"], cell["left_out"]) == (None, 0, 2)


def test_metric_equal_to_residuals_has_adjusted_score_one() -> None:
    rng = np.random.default_rng(0)
    x, extra = rng.random(20) / 2, rng.random(20) / 10
    columns_of = {
        "model": [f"m{j}" for j in range(20)] * 2,
        "trained_on": ["a"] * 40,
        "tested_on": ["a"] * 20 + ["b"] * 20,
        "accuracy": [*(1 - x), *(0.8 - x - extra)],
        "hint": [*residuals(x, x + extra), *([None] * 20)],
    }
    found = adjusted_correlations(EvaluationTable.read(columns_of)).overall
    assert found.score("ID hint", RESIDUAL_LABEL)["value"] == pytest.approx(1.0)
    assert found.score("OOD hint", RESIDUAL_LABEL)["value"] is None
    linear = adjusted_correlations(EvaluationTable.read(columns_of), kind="pearson").overall
    assert linear.score("ID error", RESIDUAL_LABEL)["value"] == pytest.approx(0.0, abs=1e-9)


def test_residuals_for_constant_x_are_deviations_from_the_mean() -> None:
    left = residuals(np.full(4, 0.1), np.array([0.0, 1.0, 2.0, 5.0]))
    np.testing.assert_allclose(left, [-2.0, -1.0, 0.0, 3.0])
    assert np.isnan(residuals(np.array([0.1, 0.2, 0.3]), np.full(3, 0.7))).all()
    assert np.isnan(residuals(np.array([0.1, 0.2, np.nan]), np.array([0.1, 0.5, 0.7]))).all()


def test_average_without_coefficients_is_nan() -> None:
    none = np.array([np.nan, np.nan])
    found = [
        float(part) for part in average_over_pairs(none, np.array([5, 5]), np.array(["a", "b"]))
    ]
    np.testing.assert_equal(found, [math.nan, math.nan, 0, 2, 0])


def test_unknown_names_raise_and_result_is_json() -> None:
    table = table_of(rows_of(0, models=3))
    found = average_correlations(table, metrics=["ece"])
    assert found.overall.first[:4] == tuple(f"{role} error" for role in DOMAIN_ROLES)
    assert len(found.overall.rows()) == 64
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert json.loads(text)["overall"]["cells"] == found.overall.rows()
    with pytest.raises(
        InputError, match=r"No metric is called 'ID errors'. Did you mean 'ID error'"
    ):
        found.overall.score("ID errors", "OOD error")
    with pytest.raises(InputError, match="No metric is called 'nl'"):
        average_correlations(table, metrics=["nl"])
    with pytest.raises(InputError, match="No correlation is called 'tau'"):
        adjusted_correlations(table, kind="tau")  # type: ignore[arg-type]
