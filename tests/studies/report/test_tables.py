"""The order of measures and the tables of statistics: as judged, the best marked fairly."""

from __future__ import annotations

import math
from typing import Any

import pytest

from oodometer.core.format import format_number
from oodometer.studies.analysis._compare_measures import (
    STATISTIC_LABELS,
    MeasureComparison,
    compare_measures,
)
from oodometer.studies.report.tables import (
    STATISTIC_COLUMNS,
    best_measures,
    defined_summaries,
    most_informative_measures,
    rank_measures,
    sort_statistic,
    study_table,
    study_tables,
)
from tests.support.study_tables import made, table_of


@pytest.fixture(scope="module")
def judged() -> MeasureComparison:
    return compare_measures(table_of(made(kinds=("cnn", "vit"))))


def few_groups() -> MeasureComparison:
    """A measure that is perfect, but has an answer in one group of four alone."""
    columns = made(noise={"near": 0.02, "lucky": 0.0})
    for j, (trained, tested) in enumerate(
        zip(columns["trained_on"], columns["tested_on"], strict=True)
    ):
        if (trained, tested) != ("photo", "sketch"):
            columns["lucky"][j] = math.nan
    return compare_measures(table_of(columns))


def test_measures_are_in_the_order_of_macro_tau(judged: MeasureComparison) -> None:
    taus = [judged.summary(name, "macro_tau").mean or 0.0 for name in rank_measures(judged)]
    assert taus == sorted(taus, reverse=True)
    assert rank_measures(judged) == ["near", "far", "wrong"]


def test_the_most_telling_may_be_upside_down(judged: MeasureComparison) -> None:
    assert most_informative_measures(judged, 2) == ["near", "wrong"]


def test_every_cell_is_what_was_judged(judged: MeasureComparison) -> None:
    table = study_table(judged, rank_measures(judged), "vit")
    assert table.heads == tuple(
        STATISTIC_LABELS[name]
        for name in STATISTIC_COLUMNS
        if defined_summaries(judged, name, "vit") and name != "arch_tau"
    )
    by_label = {label: name for name, label in STATISTIC_LABELS.items()}
    for measure, cells in table.rows:
        for head, cell in zip(table.heads, cells, strict=True):
            one = judged.summary(measure, by_label[head], "vit")
            digits = 2 if head == "MAE" else 3
            assert cell.mean == format_number(one.mean, digits)
            assert cell.sd == ("" if one.sd is None else f"± {format_number(one.sd, digits)}")
    assert table.groups == tuple(
        max(judged.summary(name, by_label[head], "vit").groups for name in judged.table.measures)
        for head in table.heads
    )


def test_the_best_is_the_largest_or_of_errors_the_least(judged: MeasureComparison) -> None:
    assert best_measures(judged, "macro_tau") == ["near"]
    means = {name: judged.summary(name, "mae").mean for name in judged.table.measures}
    assert best_measures(judged, "mae") == [min(means, key=lambda name: means[name] or 0.0)]
    (table, *_) = study_tables(judged)
    marked = [[cell.best for cell in cells] for _, cells in table.rows]
    assert all(sum(column) == 1 for column in zip(*marked, strict=True))


def test_who_answers_in_few_groups_is_not_the_best() -> None:
    judged = few_groups()
    assert judged.summary("lucky", "macro_tau").mean == 1.0
    assert rank_measures(judged)[0] == "lucky"
    assert best_measures(judged, "macro_tau") == []
    row = dict(study_table(judged, rank_measures(judged)).rows)["lucky"]
    assert row[0].groups == "of 1"
    assert not row[0].best


def test_equal_measures_have_no_best() -> None:
    columns = made(noise={"near": 0.02})
    columns["again"] = list(columns["near"])
    judged = compare_measures(table_of(columns))
    assert best_measures(judged, "macro_tau") == []


def test_tables_by_architecture_are_of_those_with_the_most_evaluations() -> None:
    kinds = [f"k{j}" for j in range(8)]
    columns = made(kinds=kinds, models=3)
    kept = [j for j, kind in enumerate(columns["architecture"]) if kind != "k2" or j % 2]
    tables = study_tables(
        compare_measures(table_of({k: [v[j] for j in kept] for k, v in columns.items()}))
    )
    assert [one.name for one in tables] == ["All architectures", "k0", "k1", "k3", "k4", "k5", "k6"]


def test_without_an_answer_there_is_no_order_and_no_table() -> None:
    columns: dict[str, list[Any]] = {
        "model": ["m"], "trained_on": ["a"], "tested_on": ["b"], "accuracy": [0.5], "ni": [1.0],
    }  # fmt: skip
    judged = compare_measures(table_of(columns))
    assert sort_statistic(judged) is None
    assert rank_measures(judged) == ["ni"]
    assert study_tables(judged) == ()


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.12345, "0.123"), (-0.0001, "0.000"), (99.96, "100.0"), (-1234.5, "−1,234"), (None, "–")],
)
def test_numbers_have_as_many_digits_as_one_reads(value: float | None, shown: str) -> None:
    assert format_number(value) == shown
