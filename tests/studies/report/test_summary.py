"""Sentences of a study page match the numbers."""

from __future__ import annotations

import math
from typing import Any

from oodometer.core.format import format_number
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.report.summary import computation_remarks, study_description, verdict
from tests.support.study_tables import evaluation_columns, table_of


def test_description_counts_evaluations_and_missing_values() -> None:
    columns = evaluation_columns(kinds=("cnn", "vit"))
    columns["accuracy"][:2] = [math.nan, math.nan]
    columns["far"][5] = math.nan
    columns["converged"] = [True] * (len(columns["far"]) - 3) + [False] * 3
    assert study_description(compare_measures(table_of(columns))) == (
        "3 measures compared over 141 evaluations of 47 models (2 architectures, 2 training sets) "
        "on 3 domains. 2 evaluations without an accuracy. Missing values: 1 of 423, 1 of them for "
        "far. 3 rows left out: not converged."
    )


def test_verdict_names_the_best_and_the_next_measure() -> None:
    comparison = compare_measures(table_of(evaluation_columns()))
    near, far = (comparison.summary(name, "macro_tau") for name in ("near", "far"))
    error = comparison.summary("near", "mae")
    assert verdict(comparison) == (
        f"By Macro τ, near is best: {format_number(near.mean, 2)} ± {format_number(near.sd, 2)} "
        f"(mean ± sd over 4 groups); the next, far, has {format_number(far.mean, 2)} and is worse "
        f"in 4 of 4 groups. A line fitted on near predicts accuracy best: MAE "
        f"{format_number(error.mean, 2)} ± {format_number(error.sd, 2)} points (mean ± sd over 4 "
        "groups)."
    )


def test_similar_measures_are_undecided() -> None:
    comparison = compare_measures(
        table_of(evaluation_columns(noise={"one": 0.05, "other": 0.05}, models=6))
    )
    assert "groups (undecided: below 2 standard errors)." in verdict(comparison)


def test_measure_better_with_opposite_sign_is_mentioned() -> None:
    text = verdict(
        compare_measures(table_of(evaluation_columns(noise={"near": 0.3, "wrong": -0.02})))
    )
    assert "By Macro τ, near is best" in text
    assert "With the opposite sign, wrong ranks models better: −0." in text


def test_equal_measures_are_called_equal() -> None:
    columns = evaluation_columns(noise={"near": 0.02})
    columns["again"] = list(columns["near"])
    assert verdict(compare_measures(table_of(columns))).startswith(
        "By Macro τ, 2 measures are equal: 0."
    )


def test_single_group_has_no_deviation() -> None:
    columns: dict[str, list[Any]] = {"model": ["m", "n"], "trained_on": ["a", "a"], "tested_on": ["b", "b"],
               "accuracy": [0.5, 0.6], "ni": [2.0, 1.0]}  # fmt: skip
    assert verdict(compare_measures(table_of(columns))) == "By Macro τ, ni has −1.00 in one group."


def test_remarks_name_rules_and_reasons() -> None:
    columns = evaluation_columns()
    columns["far"] = [1.0] * len(columns["far"])
    text = computation_remarks(compare_measures(table_of(columns)))
    assert "Arch τ is the same as Micro τ: one architecture per test domain." in text
    (reason,) = [line for line in text if "all values of the measure equal" in line]
    assert "Macro τ 4," in reason
    (rule,) = [line for line in text if line.startswith("R2 and MAE")]
    assert "other training domains (2)" in rule
