"""Regret of model selection against a naive loop over domains."""

from __future__ import annotations

import math

import pytest

from oodometer.core.errors import NotApplicable
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.report.regret import build_regret_section
from tests.support.study_tables import evaluation_columns, table_of


def loop_regret(table: EvaluationTable, measure: str, sense: int) -> float:
    """Return the mean regret over domains, in percentage points."""
    regrets = []
    for domain in range(len(table.domains)):
        rows = [
            r
            for r in range(len(table))
            if table.tested_on[r] == domain and not table.in_distribution[r]
        ]
        first = max(rows, key=lambda r: sense * table.measures[measure][r])
        regrets.append(max(table.accuracy[r] for r in rows) - table.accuracy[first])
    return float(100 * sum(regrets) / len(regrets))


def test_regrets_match_naive_loop() -> None:
    table = table_of(evaluation_columns())
    found = build_regret_section(compare_measures(table))
    drawn = {row["name"]: row["value"] for row in found.figure.spec["datasets"]["spans"]}
    assert set(drawn) == {"near", "far", "− wrong", "at random", "by source accuracy"}
    for name, sense in (("near", 1), ("far", 1), ("wrong", -1)):
        shown = name if sense > 0 else f"− {name}"
        assert drawn[shown] == pytest.approx(loop_regret(table, name, sense), abs=0.0051)
    assert list(drawn.values()) == sorted(drawn.values())
    assert found.figure.table is not None
    assert [row[0] for row in found.figure.table.rows] == list(drawn)
    rules = {row["text"]: row["at"] for row in found.figure.spec["datasets"]["rules"]}
    assert rules == {name: drawn[name] for name in ("at random", "by source accuracy")}


def test_summary_has_best_measure_and_baselines() -> None:
    found = build_regret_section(
        compare_measures(table_of(evaluation_columns(noise={"wrong": -0.0001, "far": 5.0})))
    )
    assert found.summary.startswith("Selecting the model with the lowest wrong loses 0.0 points")
    assert "mean over 3 test domains; selecting otherwise loses " in found.summary
    assert " at random" in found.summary


def test_measure_with_few_domains_is_not_the_best() -> None:
    columns = evaluation_columns(noise={"near": 0.2, "sparse": 0.0})
    columns["sparse"] = [
        value if tested == "art" else math.nan
        for value, tested in zip(columns["sparse"], columns["tested_on"], strict=True)
    ]
    assert "highest near" in build_regret_section(compare_measures(table_of(columns))).summary


def test_measures_without_values_are_not_applicable() -> None:
    columns = evaluation_columns(noise={"ni": 0.1})
    columns["ni"] = [math.nan] * len(columns["ni"])
    with pytest.raises(
        NotApplicable, match="no measure has values for two models on the same domain"
    ):
        build_regret_section(compare_measures(table_of(columns)))
