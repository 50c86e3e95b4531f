"""Scatters, gaps and task difficulty against loops and the bootstrap."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_scatter import (
    accuracy_gap,
    id_ood_scatters,
    task_difficulties,
)
from oodometer.studies.analysis.scatter_patterns import binomial_variance, robust_spread
from tests.support.id_ood_rows import naive_pairs, role_value, rows_of, table_of


def test_scatters_match_naive_loop() -> None:
    rows = rows_of(0, models=12, gaps=0.1)
    table = table_of(rows)
    found = id_ood_scatters(table)
    assert [(one.training, one.target) for one in found] == naive_pairs(rows)
    for one in found:
        mine = sorted({row["model"] for row in rows if row["trained_on"] == one.training})
        points = [
            (model, *(1 - role_value(rows, model, "error", role, one.target) for role in ("ID", "OOD")))
            for model in mine
        ]  # fmt: skip
        known = [point for point in points if not math.isnan(point[1] + point[2])]
        assert one.models == tuple(model for model, *_ in known)
        np.testing.assert_allclose(one.id_accuracy, [x for _, x, _ in known])
        np.testing.assert_allclose(one.ood_accuracy, [y for *_, y in known])
        assert one.left_out == len(mine) - len(known)
        assert one.pattern.models == len(known)
    assert sum(one.left_out for one in found) > 0


def test_gap_of_a_pair_is_computed_from_means() -> None:
    one = id_ood_scatters(table_of(rows_of(1, models=12)))[0]
    x, y = (
        sum(one.id_accuracy) / len(one.id_accuracy),
        sum(one.ood_accuracy) / len(one.ood_accuracy),
    )
    assert one.gap.id == pytest.approx(x)
    assert one.gap.ood == pytest.approx(y)
    assert one.gap.value == pytest.approx((x - y) / x)
    assert one.gap.id_se == pytest.approx(
        np.std(one.id_accuracy, ddof=1) / math.sqrt(len(one.id_accuracy))
    )


def test_standard_error_of_gap_matches_bootstrap() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.7, 0.95, 200)
    y = np.clip(0.6 * x + rng.normal(0, 0.05, 200), 0, 1)
    drawn = rng.integers(200, size=(4000, 200))
    again = 1 - y[drawn].mean(axis=1) / x[drawn].mean(axis=1)
    assert accuracy_gap(x, y).value_se == pytest.approx(again.std(), rel=0.06)


def test_undefined_gaps_are_none() -> None:
    nothing = accuracy_gap(np.array([]), np.array([]))
    assert set(nothing.to_dict().values()) == {None}
    single = accuracy_gap(np.array([0.8]), np.array([0.4]))
    assert (single.value, single.value_se, single.id_se) == (0.5, None, None)
    zero = accuracy_gap(np.array([0.0, 0.0]), np.array([0.4, 0.2]))
    assert (zero.id, zero.value, zero.value_se) == (0.0, None, None)


def table(rows: list[tuple[str, str, str, float, float]], **columns: Any) -> EvaluationTable:
    """Return a table of rows (model, task, target, ID, OOD), trained on the ID domain of a task."""
    found: dict[str, list[Any]] = {"model": [], "trained_on": [], "tested_on": [], "task": [],
                                   "accuracy": []}  # fmt: skip
    for model, task, target, x, y in rows:
        for test, value in ((f"{task} id", x), (target, y)):
            if (model, test) in zip(found["model"], found["tested_on"], strict=True):
                continue
            cells = (model, f"{task} id", test, task, value)
            for name, cell in zip(found, cells, strict=True):
                found[name].append(cell)
    return EvaluationTable.read({**found, **columns}, measures=())


HARD_AND_EASY = [
    ("m", "easy", "e", 0.8, 0.8),
    ("m2", "easy", "e", 0.8, 0.6),
    ("k", "hard", "h1", 0.9, 0.3),
    ("k", "hard", "h2", 0.9, 0.6),
    ("l", "middle", "x", 1.0, 0.7),
]


def test_difficulty_is_the_gap_of_mean_accuracies() -> None:
    found = {one.task: one for one in task_difficulties(id_ood_scatters(table(HARD_AND_EASY)))}
    easy, hard, middle = found["easy"], found["hard"], found["middle"]
    assert easy.gap.value == pytest.approx((0.8 - 0.7) / 0.8)
    assert hard.gap.value == pytest.approx((0.9 - 0.45) / 0.9)
    assert (easy.pairs, hard.pairs) == (1, 2)
    assert easy.sd is None
    assert hard.sd == pytest.approx(np.std([2 / 3, 1 / 3], ddof=1))
    assert hard.gap.ood_se == pytest.approx(np.std([0.3, 0.6], ddof=1) / math.sqrt(2))
    assert (easy.place, hard.place) == (0.0, 1.0)
    assert middle.place == pytest.approx((0.3 - 0.125) / (0.5 - 0.125))


def test_pairs_have_the_same_weight_whatever_their_size() -> None:
    many = [(f"m{j}", "t", "x", 0.8, 0.4) for j in range(9)]
    found = task_difficulties(id_ood_scatters(table([*many, ("other", "t", "y", 0.8, 0.8)])))[0]
    assert found.gap.value == pytest.approx(1 - 0.6 / 0.8)
    assert found.place is None


def test_pairs_without_both_accuracies_are_counted() -> None:
    rows = [*HARD_AND_EASY, ("z", "none", "n", math.nan, 0.5), ("k", "hard", "h3", 0.9, math.nan)]
    found = {one.task: one for one in task_difficulties(id_ood_scatters(table(rows)))}
    assert (found["none"].pairs, found["none"].left_out) == (0, 1)
    assert (found["none"].gap.value, found["none"].place) == (None, None)
    assert (found["hard"].pairs, found["hard"].left_out) == (2, 1)
    assert found["hard"].place == 1.0
    plain = [one.to_dict() for one in found.values()]
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_test_set_size_separates_sampling_variance_from_spread() -> None:
    rng = np.random.default_rng(0)
    rows = [
        (f"m{j}", "t", "x", float(rng.binomial(100, 0.9) / 100), float(rng.uniform(0.35, 0.55)))
        for j in range(60)
    ]
    without, with_rows = (
        id_ood_scatters(table(rows))[0],
        id_ood_scatters(table(rows, n=[100] * 120))[0],
    )
    assert (without.pattern.name, with_rows.pattern.name) == ("cloud", "vertical")
    x = np.array([row[3] for row in rows])
    assert with_rows.pattern.id_spread == pytest.approx(robust_spread(x, binomial_variance(x, 100)))
    # Known for the ID rows only.
    some = id_ood_scatters(table(rows, n=[100, None] * 60))[0].pattern
    assert some.id_spread == with_rows.pattern.id_spread
    assert some.ood_spread == without.pattern.ood_spread


def test_mean_of_two_id_sets_has_smaller_sampling_variance() -> None:
    rng = np.random.default_rng(1)
    columns: dict[str, list[Any]] = {name: [] for name in ("model", "trained_on", "tested_on",
                                                           "accuracy", "n")}  # fmt: skip
    for m in range(40):
        for test in ("a", "b", "c"):
            cells = (f"m{m}", "a + b", test, float(rng.uniform(0.3, 0.9)), 30)
            for name, cell in zip(columns, cells, strict=True):
                columns[name].append(cell)
    one = id_ood_scatters(EvaluationTable.read(columns, measures=()))[0]
    accuracy = np.array(columns["accuracy"]).reshape(40, 3)[:, :2]
    variance = (accuracy * (1 - accuracy) / 30).sum(axis=1) / 4
    order = np.argsort([f"m{m}" for m in range(40)])
    np.testing.assert_allclose(one.id_accuracy, accuracy.mean(axis=1)[order])
    expected = robust_spread(accuracy.mean(axis=1)[order], variance[order])
    assert one.pattern.id_spread == pytest.approx(expected)


def test_scatters_are_json_and_invalid_n_raises() -> None:
    found = [one.to_dict() for one in id_ood_scatters(table(HARD_AND_EASY))]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found[0]["pattern"]["reason"] == "2 models, fewer than 9"
    rows = HARD_AND_EASY[:1]
    with pytest.raises(
        InputError, match="The column 'n' must hold numbers of test rows: could not"
    ):
        id_ood_scatters(table(rows, n=["ten", "5"]))
    with pytest.raises(InputError, match="The column 'n' must hold numbers above 0; row 1 is 0"):
        id_ood_scatters(table(rows, n=[5, 0]))
