"""What choosing by a measure costs: by a loop over domains, and in a sentence."""

from __future__ import annotations

import math

import pytest

from oodometer.core.errors import NotApplicable
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.report.regret import build_regret_section
from tests.support.study_tables import made, table_of


def loop_regret(table: EvaluationTable, measure: str, sense: int) -> float:
    """The mean over domains, in points, of how far the first by the measure is below the best."""
    lost = []
    for domain in range(len(table.domains)):
        rows = [
            r
            for r in range(len(table))
            if table.tested_on[r] == domain and not table.in_distribution[r]
        ]
        first = max(rows, key=lambda r: sense * table.measures[measure][r])
        lost.append(max(table.accuracy[r] for r in rows) - table.accuracy[first])
    return float(100 * sum(lost) / len(lost))


def test_regrets_are_those_of_a_loop() -> None:
    table = table_of(made())
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


def test_the_sentence_has_the_best_beside_chance() -> None:
    found = build_regret_section(
        compare_measures(table_of(made(noise={"wrong": -0.0001, "far": 5.0})))
    )
    assert found.summary.startswith("Choosing the model of lowest wrong costs 0.0 points against")
    assert "mean over 3 test domains; choosing otherwise, " in found.summary
    assert " at random" in found.summary


def test_who_chooses_on_few_domains_is_not_the_best() -> None:
    columns = made(noise={"near": 0.2, "lucky": 0.0})
    columns["lucky"] = [
        value if tested == "art" else math.nan
        for value, tested in zip(columns["lucky"], columns["tested_on"], strict=True)
    ]
    assert "highest near" in build_regret_section(compare_measures(table_of(columns))).summary


def test_measures_without_an_answer_choose_nothing() -> None:
    columns = made(noise={"ni": 0.1})
    columns["ni"] = [math.nan] * len(columns["ni"])
    with pytest.raises(NotApplicable, match="on no domain has a measure an answer for two models"):
        build_regret_section(compare_measures(table_of(columns)))
