"""Regret of model selection by a measure, and win probabilities."""

from __future__ import annotations

import json
import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.analysis.model_selection import (
    AT_RANDOM,
    BY_SOURCE,
    evaluate_selection,
    win_probabilities,
)
from oodometer.studies.analysis.rank_correlation import MeasureSign
from tests.support.evaluation_rows import (
    Row,
    complete_rows,
    out_of_domain_rows,
    random_rows,
    rank_correlation,
    to_table,
)


def naive(rows: list[Row], by: str, domain: str, sense: int = 1) -> float | None:
    """Return best minus selected accuracy with ties averaged, by a loop over models."""
    there = [row for row in out_of_domain_rows(rows) if row["tested_on"] == domain]
    own = {row["model"]: row["accuracy"] for row in rows if row["tested_on"] == row["trained_on"]}
    best: float = max(row["accuracy"] for row in there)
    if by == AT_RANDOM:
        return best - float(statistics.mean(row["accuracy"] for row in there))
    scored = [(own.get(r["model"], math.nan) if by == BY_SOURCE else sense * r[by], r["accuracy"])
              for r in there]  # fmt: skip
    scored = [pair for pair in scored if not math.isnan(pair[0])]
    if len(scored) < 2:
        return None
    top = max(score for score, _ in scored)
    return best - float(statistics.mean(right for score, right in scored if score == top))


@given(st.integers(0, 10_000), st.sampled_from([None, 3, 1]), st.sampled_from([0.0, 0.4, 0.95]))
@settings(max_examples=30, deadline=None)
def test_regrets_match_naive_loop(seed: int, levels: int | None, gaps: float) -> None:
    rows = random_rows(seed, models=3, domains="abc", levels=levels, gaps=gaps)
    found = evaluate_selection(
        to_table(rows), signs={"z": MeasureSign(1, 0.5, 9), "y": MeasureSign(-1, -0.5, 9)}
    )
    assert list(found) == ["x", "y", "z", AT_RANDOM, BY_SOURCE]
    for by, one in found.items():
        expected = [naive(rows, by, domain, -1 if by == "z" else 1) for domain in "abc"]
        assert [choice.domain for choice in one.choices] == ["a", "b", "c"]
        assert [choice.regret for choice in one.choices] == [
            None if value is None else pytest.approx(value, abs=1e-12) for value in expected
        ]
        values = [value for value in expected if value is not None]
        assert one.regret.groups == len(values)
        if values:
            assert one.regret.mean == pytest.approx(statistics.mean(values), abs=1e-12)
        assert sum(one.regret.left_out.values()) == 3 - len(values)


def test_choices_include_rank_correlations() -> None:
    rows = random_rows(1, models=5, gaps=0.2)
    found = evaluate_selection(to_table(rows), measures=["x"], signs={"x": MeasureSign(1, 0.5, 9)})
    assert list(found) == ["x", AT_RANDOM, BY_SOURCE]
    for choice in found["x"].choices:
        some = [
            row
            for row in complete_rows(out_of_domain_rows(rows), "x")
            if row["tested_on"] == choice.domain
        ]
        rho = rank_correlation([-row["x"] for row in some], [row["accuracy"] for row in some])
        assert choice.rho == pytest.approx(rho, abs=1e-12)
        assert choice.n == len(some)
    assert found[AT_RANDOM].rho.left_out == {"all models tie": 4}


def test_perfect_measure_has_zero_and_its_opposite_maximal_regret() -> None:
    rows = [dict(row, x=row["accuracy"] ** 3) for row in random_rows(2, models=5)]
    found = evaluate_selection(to_table(rows))["x"]
    assert found.regret.mean == 0.0
    assert found.rho.mean == pytest.approx(1.0)
    worst = evaluate_selection(to_table(rows), signs={"x": MeasureSign(1, 1.0, 9)})["x"]
    for choice in worst.choices:
        accuracies = [
            r["accuracy"] for r in out_of_domain_rows(rows) if r["tested_on"] == choice.domain
        ]
        assert choice.regret == pytest.approx(max(accuracies) - min(accuracies))


def test_tied_models_are_named_unless_all_tie() -> None:
    rows = random_rows(3, models=2, domains="ab")
    for row in rows:
        row["x"] = 1.0 if row["model"] in ("a0", "b1") else 0.0
        row["y"] = 0.5
    found = evaluate_selection(to_table(rows))
    assert [choice.models for choice in found["x"].choices] == [("b1",), ("a0",)]
    assert [choice.models for choice in found["y"].choices] == [(), ()]
    for y, random in zip(found["y"].choices, found[AT_RANDOM].choices, strict=True):
        assert y.regret == random.regret
        assert random.models == ()


def test_missing_value_of_the_best_model_costs_regret() -> None:
    rows = random_rows(4, models=3, domains="ab")
    for row in rows:
        row["x"] = row["accuracy"]
    best = max((row for row in out_of_domain_rows(rows) if row["tested_on"] == "b"),
               key=lambda row: row["accuracy"])  # fmt: skip
    best["x"] = math.nan
    second = sorted(row["accuracy"] for row in out_of_domain_rows(rows) if row["tested_on"] == "b")[
        -2
    ]
    choice = evaluate_selection(to_table(rows))["x"].choices[1]
    assert choice.regret == pytest.approx(best["accuracy"] - second)
    assert choice.n == 2


def test_without_id_rows_there_is_no_source_accuracy() -> None:
    found = evaluate_selection(to_table(out_of_domain_rows(random_rows(5))))[BY_SOURCE]
    assert found.regret.left_out == {"fewer than two models have a value": 4}
    assert found.regret.mean is None
    assert all(choice.regret is None for choice in found.choices)


def test_source_accuracy_is_the_mean_over_training_domains() -> None:
    rows = [dict(row, trained_on="a + b") for row in random_rows(6, models=3)]
    best = max((row for row in rows if row["tested_on"] == "a"), key=lambda row: row["accuracy"])
    rows = [row for row in rows if (row["model"], row["tested_on"]) != (best["model"], "b")]
    found = evaluate_selection(to_table(rows))[BY_SOURCE]
    means = {
        model: statistics.mean(row["accuracy"] for row in rows
                               if row["model"] == model and row["tested_on"] in "ab")
        for model in {row["model"] for row in rows}
    }  # fmt: skip
    assert max(means, key=means.__getitem__) == best["model"]
    assert [choice.models for choice in found.choices] == [(best["model"],)] * 2


def test_unknown_names_raise() -> None:
    with pytest.raises(UnknownName, match="No measure is called 'w'"):
        evaluate_selection(to_table(random_rows(0)), measures=["w"])
    with pytest.raises(UnknownName, match="No measure is called 'v'"):
        evaluate_selection(to_table(random_rows(0)), signs={"v": MeasureSign(1, 0.5, 9)})


def test_result_is_json() -> None:
    found = evaluate_selection(to_table(random_rows(7, gaps=0.3)))["x"]
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["regret"] == found.regret.to_dict()
    assert plain["choices"][0]["models"] == list(found.choices[0].models)


# Win probabilities ------------------------------------------------------------------------------


def test_win_probabilities_match_naive_bootstrap() -> None:
    rng = np.random.default_rng(0)
    right = {"m": rng.random(50) < 0.7, "n": rng.random(50) < 0.6, "o": rng.random(50) < 0.6}
    found = win_probabilities(right, replicates=4000)
    m, n = right["m"].astype(float), right["n"].astype(float)
    drawn = [rng.integers(0, 50, 50) for _ in range(4000)]
    wins = [np.sign(m[rows].mean() - n[rows].mean()) / 2 + 0.5 for rows in drawn]
    assert found.values[0, 1] == pytest.approx(np.mean(wins), abs=0.03)
    assert (found.models, found.n, found.replicates) == (("m", "n", "o"), 50, 4000)


@given(st.integers(0, 1000), st.integers(2, 4), st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_opposite_win_probabilities_add_up_to_one(seed: int, models: int, n: int) -> None:
    values = np.random.default_rng(seed).integers(0, 3, (models, n)) / 2
    named = {f"m{j}": row for j, row in enumerate(values)}
    found = win_probabilities(named, seed=seed, replicates=50).values
    assert found + found.T == pytest.approx(np.ones((models, models)))
    assert (np.diag(found) == 0.5).all()
    assert win_probabilities(named, seed=seed, replicates=50).values.tolist() == found.tolist()


def test_bootstrap_is_paired_and_depends_on_the_seed() -> None:
    """A model that is slightly better on every example wins in every replicate."""
    values = np.random.default_rng(1).normal(0, 100, 80)
    assert win_probabilities({"m": values + 0.001, "n": values}).values[0, 1] == 1.0
    close = {"m": values, "n": values[::-1] + 1.0}
    assert len({win_probabilities(close, seed=seed).values[0, 1] for seed in range(5)}) > 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"m": [1, 0]},
            r"At least two models with one value per example are needed; got m: \(2,\)",
        ),
        ({}, "one value per example are needed; got none"),
        ({"m": [1, 0], "n": [1]}, r"got m: \(2,\), n: \(1,\). Pass the same examples"),
        ({"m": [[1]], "n": [[1]]}, "one value per example"),
        ({"m": [1, 0], "n": [1, math.nan]}, "'n' has NaN or infinite values. Leave"),
        ({"m": [], "n": []}, "There are no examples"),
    ],
)
def test_incomparable_values_raise(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        win_probabilities(values)


def test_zero_replicates_raise() -> None:
    with pytest.raises(InputError, match=r"replicates must be at least 1; got 0"):
        win_probabilities({"m": [1, 0], "n": [0, 1]}, replicates=0)
    plain = win_probabilities({"m": [1, 0], "n": [0, 1]}).to_dict()
    assert json.loads(json.dumps(plain)) == plain
