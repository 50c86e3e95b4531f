"""Scatter plots of a study: selection of groups and points, and the fitted line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.report.scatter import (
    MAX_PANELS,
    MAX_POINTS,
    build_scatter_section,
    fit_line_ends,
    select_largest_groups,
    thin_rows,
)
from tests.support.study_tables import evaluation_columns, table_of


@given(st.lists(st.integers(0, 6), max_size=40), st.integers(1, 8), st.integers(1, 4))
def test_largest_groups_are_selected(sizes: list[int], most: int, fewest: int) -> None:
    array = np.array(sizes, dtype=np.int64)
    selected = select_largest_groups(array, most, fewest).tolist()
    eligible = [j for j, size in enumerate(sizes) if size >= fewest]
    assert selected == sorted(set(selected))
    assert len(selected) == min(most, len(eligible))
    rest = [sizes[j] for j in eligible if j not in selected]
    assert not rest or max(rest) <= min(sizes[j] for j in selected)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=50), st.integers(2, 20))
def test_thinning_keeps_both_ends(values: list[float], most: int) -> None:
    array = np.array(values)
    kept = thin_rows(np.arange(len(values)), array, most)
    assert len(kept) == len(set(kept.tolist())) == min(most, len(values))
    assert (np.diff(array[kept]) >= 0).all()
    assert (array[kept[0]], array[kept[-1]]) == (array.min(), array.max())


def test_line_matches_numpy_polyfit() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=30), rng.normal(size=30)
    slope, intercept = np.polyfit(x, y, 1)
    for end in fit_line_ends(x, y):
        assert end["y"] == pytest.approx(slope * end["x"] + intercept, rel=1e-3)
    assert fit_line_ends(np.ones(3), np.arange(3.0)) == []


def test_panel_shows_models_tau_and_numbers() -> None:
    table = table_of(evaluation_columns(kinds=("cnn", "vit")))
    drawn = build_scatter_section(compare_measures(table))
    assert [one.measure for one in drawn.measures] == ["near", "far"]
    assert [figure.title for figure in drawn.measures[0].figures][:2] == [
        "cnn: photo → art", "cnn: photo → sketch",
    ]  # fmt: skip
    rows = [
        r for r in range(len(table))
        if table.domains[table.tested_on[r]] == "art"
        and table.models[table.model[r]].startswith("cnn-photo")
    ]  # fmt: skip
    figure = drawn.measures[0].figures[0]
    x, y = table.measures["near"][rows], table.accuracy[rows]
    assert figure.caption == f"τ {format_number(kendalltau(x, y).statistic, 2)}; 12 models."
    points = figure.spec["datasets"]["points"]
    assert sorted(point["x"] for point in points) == pytest.approx(sorted(x), rel=1e-4)
    assert sorted(point["y"] for point in points) == pytest.approx(sorted(100 * y), rel=1e-4)
    name, numbers = drawn.groups[0]
    assert name == "cnn: photo → art"
    assert [row[0] for row in numbers.rows] == [point["name"] for point in points]


def test_many_groups_and_models_are_truncated_with_a_remark() -> None:
    domains = [f"d{j:02}" for j in range(10)]
    table = table_of(evaluation_columns(models=MAX_POINTS + 20, domains=domains, noise={"ni": 0.1}))
    drawn = build_scatter_section(compare_measures(table))
    assert len(drawn.measures[0].figures) == len(drawn.groups) == MAX_PANELS
    assert drawn.remark == " 8 of 18 groups are shown, those with the most models."
    assert drawn.measures[0].figures[0].caption.endswith("80 models, 60 of them drawn.")
    assert len(drawn.groups[0][1].rows) == MAX_POINTS
    figure = drawn.measures[0].figures[0]
    trained, tested = figure.title.split(" → ")
    rows = (table.tested_on == table.domains.index(tested)) & (
        table.trained_on == table.trainings.index((trained,))
    )
    slope, intercept = np.polyfit(table.measures["ni"][rows], 100 * table.accuracy[rows], 1)
    for end in figure.spec["datasets"]["line"]:
        assert end["y"] == pytest.approx(slope * end["x"] + intercept, rel=1e-3)


def test_architectures_with_one_model_are_pooled() -> None:
    kinds = [f"k{j}" for j in range(6)]
    drawn = build_scatter_section(
        compare_measures(table_of(evaluation_columns(models=1, kinds=kinds)))
    )
    assert drawn.statistic == "Arch τ"
    assert [name for name, _ in drawn.groups] == ["art", "photo", "sketch"]


def test_measure_without_values_in_a_group_has_no_panel() -> None:
    columns = evaluation_columns(noise={"near": 0.02, "far": 0.3})
    columns["far"] = [
        np.nan if tested == "art" else value
        for tested, value in zip(columns["tested_on"], columns["far"], strict=True)
    ]
    drawn = build_scatter_section(compare_measures(table_of(columns)))
    assert [len(one.figures) for one in drawn.measures] == [4, 2]
    assert {row[3] for name, table in drawn.groups if "art" in name for row in table.rows} == {
        "missing"
    }


def test_groups_of_two_models_are_not_applicable() -> None:
    with pytest.raises(NotApplicable, match="no measure has values for 3 models on one domain"):
        build_scatter_section(
            compare_measures(table_of(evaluation_columns(models=2, domains=("a", "b"))))
        )
