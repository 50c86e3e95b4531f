"""R2, r2_pearson and MAE against naive loops and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, r2_score

from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.grouped_scores import GroupedScores
from oodometer.studies.analysis.linear_fit import FIT_RULES, line_fit_scores
from tests.support.evaluation_tables import assert_same, loop_lines, random_columns, values_by_key
from tests.support.seeds import failing_seeds


def found_in(table: EvaluationTable, direct: tuple[str, ...] = ()) -> Any:
    return values_by_key(
        row for scores in line_fit_scores(table, methods=direct) for row in scores.rows(table)
    )


def named(table: EvaluationTable, direct: tuple[str, ...] = ()) -> dict[str, GroupedScores]:
    return {scores.statistic: scores for scores in line_fit_scores(table, methods=direct)}


def check_against_loops(seed: int) -> None:
    table = EvaluationTable.read(random_columns(seed))
    direct = ("doc", "near")
    assert_same(found_in(table, direct), loop_lines(table, direct))


def test_groups_match_naive_loop() -> None:
    assert failing_seeds(check_against_loops, range(80)) == {}


def test_random_tables_cover_all_rules_and_reasons() -> None:
    """Check that the random tables of the test above have every rule and reason."""
    rules, reasons = set(), set()
    for seed in range(80):
        table = EvaluationTable.read(random_columns(seed))
        for scores in line_fit_scores(table):
            rules |= set(scores.rules)
            reasons |= {row["reason"] for row in scores.rows(table)}
    assert rules == set(FIT_RULES)
    assert reasons == {
        None, "no values", "fewer than two values", "all accuracies equal",
        "all values of the measure equal", "fewer than two models to fit the line to",
        "all values equal where the line is fitted",
    }  # fmt: skip


def pool(kinds: int, trainings: int, seed: int = 0, each: int = 12) -> dict[str, Any]:
    """Return models of several architectures and training domains, tested on three domains."""
    rng = np.random.default_rng(seed)
    n = kinds * trainings * each * 3
    accuracy = rng.random(n)
    model = np.arange(n) // 3
    return {
        "model": model,
        "architecture": [f"k{m % kinds}" for m in model],
        "trained_on": [f"d{m // kinds % trainings}" for m in model],
        "tested_on": [f"d{j % 3}" for j in range(n)],
        "accuracy": accuracy,
        "ni": 3 * accuracy + rng.normal(0, 0.5, size=n),
        "doc": accuracy + rng.normal(0, 0.1, size=n),
    }


def parts(table: EvaluationTable, scores: GroupedScores, group: int) -> tuple[Any, ...]:
    """Return the rows of a group and the rows that its rule fits the line to."""
    kind, training, tested = (
        scores.groups.keys[name][group] for name in ("architecture", "trained_on", "tested_on")
    )
    there = (table.tested_on == tested) & ~table.in_distribution
    mine = there & (table.architecture == kind) & (table.trained_on == training)
    others = {
        "other training domains": (table.architecture == kind) & (table.trained_on != training),
        "other architectures": table.architecture != kind,
    }
    return mine, there & others[scores.rules[group]]


@pytest.mark.parametrize(
    ("kinds", "trainings", "rule"),
    [(2, 3, FIT_RULES[0]), (1, 3, FIT_RULES[0]), (3, 1, FIT_RULES[1])],
)
def test_values_match_scikit_learn(kinds: int, trainings: int, rule: str) -> None:
    table = EvaluationTable.read(pool(kinds, trainings))
    found = named(table)
    assert set(found["r2"].rules) == {rule}
    for group in range(len(found["r2"].groups)):
        mine, others = parts(table, found["r2"], group)
        x, y = table.measures["ni"][:, None], table.accuracy
        predicted = LinearRegression().fit(x[others], y[others]).predict(x[mine])
        assert found["r2"].values[0, group] == pytest.approx(r2_score(y[mine], predicted))
        mae = 100 * mean_absolute_error(y[mine], predicted)
        assert found["mae"].values[0, group] == pytest.approx(mae)
        squared = np.corrcoef(predicted, y[mine])[0, 1] ** 2
        assert found["r2_pearson"].values[0, group] == pytest.approx(squared)


def test_single_training_domain_and_architecture_use_leave_one_out() -> None:
    table = EvaluationTable.read(pool(1, 1))
    found = named(table)
    assert set(found["r2"].rules) == {"leave one model out"}
    for group, rows in enumerate(found["r2"].groups):
        x, y = table.measures["ni"][rows][:, None], table.accuracy[rows]
        predicted = []
        for j in range(len(rows)):
            others = np.arange(len(rows)) != j
            predicted += LinearRegression().fit(x[others], y[others]).predict(x[j : j + 1]).tolist()
        assert found["r2"].values[0, group] == pytest.approx(r2_score(y, predicted))


def test_direct_estimates_are_also_scored_raw() -> None:
    table = EvaluationTable.read(pool(1, 3))
    found = named(table, ("doc",))
    assert (found["raw_r2"].measures, found["r2"].measures) == (("doc",), ("ni", "doc"))
    for group, rows in enumerate(found["raw_r2"].groups):
        estimated, true = table.measures["doc"][rows], table.accuracy[rows]
        assert found["raw_r2"].values[0, group] == pytest.approx(r2_score(true, estimated))
        mae = 100 * mean_absolute_error(true, estimated)
        assert found["raw_mae"].values[0, group] == pytest.approx(mae)
    assert "raw_r2" not in named(table)


@pytest.mark.parametrize(("kinds", "trainings"), [(2, 3), (2, 1), (1, 1)])
@pytest.mark.parametrize(("factor", "shift"), [(-4.0, 7.0), (1e-9, 0.0), (1e12, 1e12)])
def test_affine_transforms_of_a_measure_do_not_matter(
    kinds: int, trainings: int, factor: float, shift: float
) -> None:
    columns = pool(kinds, trainings)
    changed = {**columns, "ni": factor * columns["ni"] + shift}
    for before, after in zip(
        line_fit_scores(EvaluationTable.read(columns)),
        line_fit_scores(EvaluationTable.read(changed)),
        strict=True,
    ):
        np.testing.assert_allclose(after.values[0], before.values[0], rtol=1e-6)


def test_extreme_magnitudes_do_not_overflow() -> None:
    columns = pool(2, 3)
    plain = named(EvaluationTable.read(columns))["r2"].values[0]
    for factor in (1e-200, 1e200):
        found = named(EvaluationTable.read({**columns, "ni": factor * columns["ni"]}))["r2"].values[
            0
        ]
        np.testing.assert_allclose(found, plain, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_row_order_does_not_matter(seed: int) -> None:
    columns = random_columns(seed)
    order = np.random.default_rng(seed).permutation(len(columns["model"]))
    shuffled = {name: [cells[j] for j in order] for name, cells in columns.items()}
    assert_same(found_in(EvaluationTable.read(shuffled)), found_in(EvaluationTable.read(columns)))


def test_models_trained_on_the_test_domain_are_never_fitted() -> None:
    """Models trained on d0 or d1: tested on d0, those of d1 can only be fitted to each other."""
    table = EvaluationTable.read(pool(1, 2))
    found = named(table)["r2"]
    rules = {
        (table.training(i), table.domains[o]): rule
        for i, o, rule in zip(
            found.groups.keys["trained_on"],
            found.groups.keys["tested_on"],
            found.rules,
            strict=True,
        )
    }
    assert rules == {
        ("d1", "d0"): "leave one model out",
        ("d0", "d1"): "leave one model out",
        ("d0", "d2"): "other training domains",
        ("d1", "d2"): "other training domains",
    }


def test_single_different_value_has_no_leave_one_out_line() -> None:
    columns = {**pool(1, 1, each=5), "ni": [1.0] * 12 + [2.0] * 3}
    found = named(EvaluationTable.read(columns))
    assert found["r2"].reasons.tolist()[0] == found["mae"].reasons.tolist()[0] == [6, 6]
    assert found["r2_pearson"].reasons.tolist()[0] == [0, 0]
