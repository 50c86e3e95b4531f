"""Scatters of a study: the largest groups, thinned fairly, with the line of all their models."""

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
from tests.support.study_tables import made, table_of


@given(st.lists(st.integers(0, 6), max_size=40), st.integers(1, 8), st.integers(1, 4))
def test_the_largest_groups_are_taken(sizes: list[int], most: int, fewest: int) -> None:
    array = np.array(sizes, dtype=np.int64)
    taken = select_largest_groups(array, most, fewest).tolist()
    there = [j for j, size in enumerate(sizes) if size >= fewest]
    assert taken == sorted(set(taken))
    assert len(taken) == min(most, len(there))
    left = [sizes[j] for j in there if j not in taken]
    assert not left or max(left) <= min(sizes[j] for j in taken)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=50), st.integers(2, 20))
def test_points_are_thinned_from_end_to_end(values: list[float], most: int) -> None:
    array = np.array(values)
    kept = thin_rows(np.arange(len(values)), array, most)
    assert len(kept) == len(set(kept.tolist())) == min(most, len(values))
    assert (np.diff(array[kept]) >= 0).all()
    assert (array[kept[0]], array[kept[-1]]) == (array.min(), array.max())


def test_the_line_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=30), rng.normal(size=30)
    slope, intercept = np.polyfit(x, y, 1)
    for end in fit_line_ends(x, y):
        assert end["y"] == pytest.approx(slope * end["x"] + intercept, rel=1e-3)
    assert fit_line_ends(np.ones(3), np.arange(3.0)) == []


def test_a_panel_has_its_models_their_tau_and_their_numbers() -> None:
    table = table_of(made(kinds=("cnn", "vit")))
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


def test_of_many_groups_and_models_some_are_drawn_and_that_is_said() -> None:
    domains = [f"d{j:02}" for j in range(10)]
    table = table_of(made(models=MAX_POINTS + 20, domains=domains, noise={"ni": 0.1}))
    drawn = build_scatter_section(compare_measures(table))
    assert len(drawn.measures[0].figures) == len(drawn.groups) == MAX_PANELS
    assert drawn.remark == " Of 18 such groups 8 are shown, those with the most models."
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


def test_architectures_of_one_model_each_are_drawn_together() -> None:
    kinds = [f"k{j}" for j in range(6)]
    drawn = build_scatter_section(compare_measures(table_of(made(models=1, kinds=kinds))))
    assert drawn.statistic == "Arch τ"
    assert [name for name, _ in drawn.groups] == ["art", "photo", "sketch"]


def test_a_measure_without_answers_in_a_group_has_no_panel_there() -> None:
    columns = made(noise={"near": 0.02, "far": 0.3})
    columns["far"] = [
        np.nan if tested == "art" else value
        for tested, value in zip(columns["tested_on"], columns["far"], strict=True)
    ]
    drawn = build_scatter_section(compare_measures(table_of(columns)))
    assert [len(one.figures) for one in drawn.measures] == [4, 2]
    assert {row[3] for name, table in drawn.groups if "art" in name for row in table.rows} == {
        "no answer"
    }


def test_pairs_of_models_are_too_few() -> None:
    with pytest.raises(NotApplicable, match="no measure has answers for 3 models on one domain"):
        build_scatter_section(compare_measures(table_of(made(models=2, domains=("a", "b")))))
