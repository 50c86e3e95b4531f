"""The sentences of a study say what the numbers say, and how sure they are."""

from __future__ import annotations

import math
from typing import Any

from oodometer.core.format import format_number
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.report.summary import computation_remarks, study_description, verdict
from tests.support.study_tables import made, table_of


def test_what_was_judged_is_counted() -> None:
    columns = made(kinds=("cnn", "vit"))
    columns["accuracy"][:2] = [math.nan, math.nan]
    columns["far"][5] = math.nan
    columns["converged"] = [True] * (len(columns["far"]) - 3) + [False] * 3
    assert study_description(compare_measures(table_of(columns))) == (
        "3 measures judged by 141 evaluations of 47 models (2 architectures, 2 training sets) on 3 "
        "domains. 2 evaluations without an accuracy. 1 of 423 values have no answer, 1 of them of "
        "far. 3 rows left out: not converged."
    )


def test_the_best_is_named_with_its_spread_and_the_next() -> None:
    judged = compare_measures(table_of(made()))
    near, far = (judged.summary(name, "macro_tau") for name in ("near", "far"))
    error = judged.summary("near", "mae")
    assert verdict(judged) == (
        f"By Macro τ, near comes out best: {format_number(near.mean, 2)} ± {format_number(near.sd, 2)} (mean and "
        f"sd over 4 groups); the next, far, has {format_number(far.mean, 2)} and is behind in 4 of 4 "
        f"groups. A line from near comes nearest to accuracy: off by {format_number(error.mean, 2)} ± "
        f"{format_number(error.sd, 2)} points (mean and sd over 4 groups)."
    )


def test_twins_are_too_close_to_call() -> None:
    judged = compare_measures(table_of(made(noise={"one": 0.05, "other": 0.05}, models=6)))
    assert "groups: too close to call." in verdict(judged)


def test_a_measure_that_is_better_upside_down_is_told() -> None:
    told = verdict(compare_measures(table_of(made(noise={"near": 0.3, "wrong": -0.02}))))
    assert "By Macro τ, near comes out best" in told
    assert "Upside down, wrong orders models better: −0." in told


def test_equal_measures_are_told_to_be() -> None:
    columns = made(noise={"near": 0.02})
    columns["again"] = list(columns["near"])
    assert verdict(compare_measures(table_of(columns))).startswith(
        "By Macro τ 2 measures are equal: 0."
    )


def test_one_measure_in_one_group_has_no_spread() -> None:
    columns: dict[str, list[Any]] = {"model": ["m", "n"], "trained_on": ["a", "a"], "tested_on": ["b", "b"],
               "accuracy": [0.5, 0.6], "ni": [2.0, 1.0]}  # fmt: skip
    assert verdict(compare_measures(table_of(columns))) == "By Macro τ, ni has −1.00 in one group."


def test_rules_and_reasons_are_told() -> None:
    columns = made()
    columns["far"] = [1.0] * len(columns["far"])
    told = computation_remarks(compare_measures(table_of(columns)))
    assert "Arch τ is the same as Micro τ: one architecture per test domain." in told
    (reason,) = [line for line in told if "all values of the measure equal" in line]
    assert "Macro τ 4 ×" in reason
    (rule,) = [line for line in told if line.startswith("R2 and MAE")]
    assert "other training domains (2)" in rule
