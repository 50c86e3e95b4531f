"""Joint regressions, leaving each environment out in turn."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, r2_score

from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.studies.analysis.joint_regression import (
    ALL_MEASURES,
    BEST_ONE,
    BEST_TWO,
    RegressionTrial,
    fit_joint_regressions,
)
from tests.support.evaluation_rows import (
    Row,
    complete_rows,
    out_of_domain_rows,
    random_rows,
    rank_correlation,
    to_table,
)

NAMES = ("x", "y", "z")


def informed(seed: int, noise: float = 0.05) -> list[Row]:
    """Return rows whose error depends on x and y together, and not on z."""
    rows = random_rows(seed, models=5)
    rng = np.random.default_rng(seed)
    for row in rows:
        error = 0.5 * row["x"] + 0.4 * row["y"] + noise * rng.random()
        row["accuracy"] = 1 - error
    return rows


def naive(rows: list[Row], names: Sequence[str], domain: str) -> dict[str, float | None]:
    """Return the scores for one environment left out, by scikit-learn."""

    def side(out: bool) -> tuple[list[list[float]], list[float]]:
        some = [row for row in rows if (row["tested_on"] == domain) == out]
        return [[row[name] for name in names] for row in some], [1 - r["accuracy"] for r in some]

    (x, y), (new, errors) = side(False), side(True)
    predicted = LinearRegression().fit(x, y).predict(new).tolist()
    return {
        "r2": r2_score(errors, predicted),
        "spearman": rank_correlation(predicted, errors),
        "mae": 100 * mean_absolute_error(errors, predicted),
    }


def best_alone(rows: list[Row], domain: str) -> str:
    """Return the measure with the best line on the other environments."""
    some = [row for row in rows if row["tested_on"] != domain]

    def score(name: str) -> float:
        x, y = [[row[name]] for row in some], [1 - row["accuracy"] for row in some]
        return float(LinearRegression().fit(x, y).score(x, y))

    return max(NAMES, key=score)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1]))
@settings(max_examples=15, deadline=None)
def test_scores_match_scikit_learn(seed: int, gaps: float) -> None:
    rows = random_rows(seed, models=4, gaps=gaps)
    some = complete_rows(out_of_domain_rows(rows), *NAMES)
    found = fit_joint_regressions(to_table(rows))
    assert (found.n_evaluations, found.n_incomplete) == (
        len(some),
        len(out_of_domain_rows(rows)) - len(some),
    )
    for taken in (BEST_ONE, ALL_MEASURES):
        for trial in found.regressions[taken].environments:
            assert trial.environment is not None
            names = [best_alone(some, trial.environment)] if taken == BEST_ONE else NAMES
            assert list(trial.weights) == list(names)
            figures = naive(some, names, trial.environment)
            assert figures == pytest.approx(
                {"r2": trial.r2, "spearman": trial.spearman, "mae": trial.mae}, abs=1e-8
            )
            assert trial.n == sum(row["tested_on"] == trial.environment for row in some)
            assert trial.n + trial.fitted == len(some)


def test_pooled_trial_is_fitted_and_tested_on_all() -> None:
    rows = out_of_domain_rows(informed(0))
    trial = fit_joint_regressions(to_table(rows)).regressions[ALL_MEASURES].pooled
    x, y = [[row[name] for name in NAMES] for row in rows], [1 - row["accuracy"] for row in rows]
    predicted = LinearRegression().fit(x, y).predict(x)
    assert trial.environment is None
    assert trial.r2 == pytest.approx(r2_score(y, predicted))
    assert trial.spearman == pytest.approx(rank_correlation(predicted.tolist(), y))
    assert (trial.n, trial.fitted) == (len(rows), len(rows))


def test_two_complementary_measures_gain_over_one() -> None:
    found = fit_joint_regressions(to_table(informed(1)))
    for trial in found.regressions[BEST_TWO].environments:
        assert set(trial.weights) == {"x", "y"}
    for figure in ("r2", "spearman", "mae"):
        two, one = (found.regressions[taken] for taken in (BEST_TWO, BEST_ONE))
        gains = [
            (getattr(a, figure) - getattr(b, figure)) * (-1 if figure == "mae" else 1)
            for a, b in zip(two.environments, one.environments, strict=True)
        ]
        spread = found.gain(figure, subset=BEST_TWO)
        assert spread.mean == pytest.approx(statistics.mean(gains))
        assert spread.sd == pytest.approx(statistics.stdev(gains))
        assert min(gains) > 0


def test_left_out_environment_does_not_leak_into_the_fit() -> None:
    """Changing its errors changes neither the selected measures nor their weights."""
    rows = informed(2)
    rng = random.Random(0)
    changed = [dict(row, accuracy=rng.random()) if row["tested_on"] == "b" else row for row in rows]

    def of_b(some: list[Row], taken: str) -> RegressionTrial:
        trials = fit_joint_regressions(to_table(some)).regressions[taken].environments
        return next(trial for trial in trials if trial.environment == "b")

    for taken in (BEST_ONE, BEST_TWO, ALL_MEASURES):
        assert of_b(rows, taken).weights == of_b(changed, taken).weights
        assert of_b(rows, taken).mae != of_b(changed, taken).mae


def test_standardization_is_fitted_without_the_left_out_environment() -> None:
    """A measure shifted in the environment left out shifts the predicted errors there."""
    rows = informed(3, noise=0.0)
    moved = [dict(row, x=row["x"] + 10) if row["tested_on"] == "c" else row for row in rows]
    trials = {
        t.environment: t
        for t in fit_joint_regressions(to_table(moved)).regressions[ALL_MEASURES].environments
    }
    assert trials["c"].mae == pytest.approx(500, rel=1e-6)
    assert trials["c"].spearman == pytest.approx(1.0)


def test_collinear_measures_are_noted_and_do_not_change_predictions() -> None:
    rows = [dict(row, z=row["x"] + row["y"]) for row in informed(4)]
    found = fit_joint_regressions(to_table(rows)).regressions[ALL_MEASURES]
    pair = fit_joint_regressions(to_table(rows), measures=["x", "y"]).regressions[ALL_MEASURES]
    for trial, other in zip(found.environments, pair.environments, strict=True):
        assert trial.notes == (
            "3 measures have rank 2: the weights are the smallest of all equal fits",
        )
        assert trial.mae == pytest.approx(other.mae)
        assert other.notes == ()


def test_undefined_scores_are_counted() -> None:
    rows = [dict(row, accuracy=0.5) if row["tested_on"] == "a" else row for row in informed(5)]
    found = fit_joint_regressions(to_table(rows))
    assert found.regressions[ALL_MEASURES].mean("r2").left_out == {"no r2 in the environment": 1}
    assert found.regressions[ALL_MEASURES].mean("mae").groups == 4
    assert found.gain("spearman").left_out == {"no spearman of one of the two": 1}
    flat = fit_joint_regressions(to_table([dict(row, accuracy=0.25) for row in rows]))
    assert flat.regressions[ALL_MEASURES].mean("spearman").mean is None
    assert flat.regressions[ALL_MEASURES].mean("mae").mean == pytest.approx(0.0)


def test_sparse_measure_is_left_out_by_name() -> None:
    rows = informed(6)
    for j, row in enumerate(out_of_domain_rows(rows)):
        row["z"] = math.nan if j % 3 else row["z"]
    found = fit_joint_regressions(to_table(rows))
    assert found.measures == ("x", "y")
    assert found.left_out == {"z": "it has values for 20 of 60 evaluations"}
    assert (found.n_evaluations, found.n_incomplete) == (60, 0)
    assert set(found.regressions) == {BEST_ONE, ALL_MEASURES}
    with pytest.raises(UnknownName, match="No regression is called 'two'"):
        found.gain("r2", subset=BEST_TWO)


def test_only_the_requested_regressions_are_fitted() -> None:
    table = to_table(informed(6))
    whole = fit_joint_regressions(table)
    single = fit_joint_regressions(table, subsets=[BEST_ONE])
    assert single.regressions == {BEST_ONE: whole.regressions[BEST_ONE]}
    with pytest.raises(UnknownName, match="No regression is called 'three'"):
        fit_joint_regressions(table, subsets=["three"])


def test_row_order_and_units_do_not_matter() -> None:
    rows = informed(7)
    changed = [dict(row, x=5 - 1000 * row["x"]) for row in random.Random(0).sample(rows, len(rows))]
    before, after = fit_joint_regressions(to_table(rows)), fit_joint_regressions(to_table(changed))
    for taken in (BEST_ONE, BEST_TWO, ALL_MEASURES):
        assert after.regressions[taken].mean("r2").mean == pytest.approx(
            before.regressions[taken].mean("r2").mean
        )


def test_result_is_json_with_flat_rows() -> None:
    found = fit_joint_regressions(to_table(informed(8)))
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [one["taken"] for one in plain["regressions"]] == [BEST_ONE, BEST_TWO, ALL_MEASURES]
    assert set(plain["gains"]) == {BEST_TWO, ALL_MEASURES}
    assert plain["regressions"][2]["mae"] == found.regressions[ALL_MEASURES].mean("mae").to_dict()
    rows = found.rows()
    assert len(rows) == 15
    assert (rows[0]["taken"], rows[0]["environment"], rows[-1]["environment"]) == (
        BEST_ONE,
        None,
        "d",
    )


def test_too_few_environments_or_values_raise() -> None:
    one = [row for row in informed(9) if row["tested_on"] == "a"]
    with pytest.raises(
        NotApplicable, match="at least two environments; evaluations with all 3 measures are in 1"
    ):
        fit_joint_regressions(to_table(one))
    none = [dict(row, x=math.nan) for row in informed(9)]
    with pytest.raises(NotApplicable, match="no measure has values for 50% of the evaluations"):
        fit_joint_regressions(to_table(none), measures=["x"])
    with pytest.raises(InputError, match="measure"):
        fit_joint_regressions(to_table(none), measures=["w"])
