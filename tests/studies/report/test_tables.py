"""Ranking of measures and tables of statistics."""

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
from tests.support.study_tables import evaluation_columns, table_of


@pytest.fixture(scope="module")
def comparison() -> MeasureComparison:
    return compare_measures(table_of(evaluation_columns(kinds=("cnn", "vit"))))


def few_groups() -> MeasureComparison:
    """Compare a perfect measure with values in only one of four groups."""
    columns = evaluation_columns(noise={"near": 0.02, "sparse": 0.0})
    for j, (trained, tested) in enumerate(
        zip(columns["trained_on"], columns["tested_on"], strict=True)
    ):
        if (trained, tested) != ("photo", "sketch"):
            columns["sparse"][j] = math.nan
    return compare_measures(table_of(columns))


def test_measures_are_sorted_by_macro_tau(comparison: MeasureComparison) -> None:
    taus = [comparison.summary(name, "macro_tau").mean or 0.0 for name in rank_measures(comparison)]
    assert taus == sorted(taus, reverse=True)
    assert rank_measures(comparison) == ["near", "far", "wrong"]


def test_most_informative_measures_include_negative_ones(comparison: MeasureComparison) -> None:
    assert most_informative_measures(comparison, 2) == ["near", "wrong"]


def test_cells_show_the_summaries(comparison: MeasureComparison) -> None:
    table = study_table(comparison, rank_measures(comparison), "vit")
    assert table.heads == tuple(
        STATISTIC_LABELS[name]
        for name in STATISTIC_COLUMNS
        if defined_summaries(comparison, name, "vit") and name != "arch_tau"
    )
    by_label = {label: name for name, label in STATISTIC_LABELS.items()}
    for measure, cells in table.rows:
        for head, cell in zip(table.heads, cells, strict=True):
            summary = comparison.summary(measure, by_label[head], "vit")
            digits = 2 if head == "MAE" else 3
            assert cell.mean == format_number(summary.mean, digits)
            sd = "" if summary.sd is None else f"± {format_number(summary.sd, digits)}"
            assert cell.sd == sd
    assert table.groups == tuple(
        max(
            comparison.summary(name, by_label[head], "vit").groups
            for name in comparison.table.measures
        )
        for head in table.heads
    )


def test_best_is_highest_or_lowest_error(comparison: MeasureComparison) -> None:
    assert best_measures(comparison, "macro_tau") == ["near"]
    means = {name: comparison.summary(name, "mae").mean for name in comparison.table.measures}
    assert best_measures(comparison, "mae") == [min(means, key=lambda name: means[name] or 0.0)]
    (table, *_) = study_tables(comparison)
    marked = [[cell.best for cell in cells] for _, cells in table.rows]
    assert all(sum(column) == 1 for column in zip(*marked, strict=True))


def test_measure_with_few_groups_is_not_the_best() -> None:
    comparison = few_groups()
    assert comparison.summary("sparse", "macro_tau").mean == 1.0
    assert rank_measures(comparison)[0] == "sparse"
    assert best_measures(comparison, "macro_tau") == []
    row = dict(study_table(comparison, rank_measures(comparison)).rows)["sparse"]
    assert row[0].groups == "of 1"
    assert not row[0].best


def test_equal_measures_have_no_best() -> None:
    columns = evaluation_columns(noise={"near": 0.02})
    columns["again"] = list(columns["near"])
    comparison = compare_measures(table_of(columns))
    assert best_measures(comparison, "macro_tau") == []


def test_tables_per_architecture_have_the_most_evaluations() -> None:
    kinds = [f"k{j}" for j in range(8)]
    columns = evaluation_columns(kinds=kinds, models=3)
    kept = [j for j, kind in enumerate(columns["architecture"]) if kind != "k2" or j % 2]
    tables = study_tables(
        compare_measures(table_of({k: [v[j] for j in kept] for k, v in columns.items()}))
    )
    assert [one.name for one in tables] == ["All architectures", "k0", "k1", "k3", "k4", "k5", "k6"]


def test_without_values_there_is_no_order_and_no_table() -> None:
    columns: dict[str, list[Any]] = {
        "model": ["m"], "trained_on": ["a"], "tested_on": ["b"], "accuracy": [0.5], "ni": [1.0],
    }  # fmt: skip
    comparison = compare_measures(table_of(columns))
    assert sort_statistic(comparison) is None
    assert rank_measures(comparison) == ["ni"]
    assert study_tables(comparison) == ()


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.12345, "0.123"), (-0.0001, "0.000"), (99.96, "100.0"), (-1234.5, "−1,234"), (None, "–")],
)
def test_numbers_are_rounded_for_reading(value: float | None, shown: str) -> None:
    assert format_number(value) == shown
