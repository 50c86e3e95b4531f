"""Heat map of correlations among measures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from oodometer.core.errors import NotApplicable
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.report.correlations import TRUE_ACCURACY, build_correlation_section
from tests.support.study_tables import evaluation_columns, table_of


def test_cells_are_spearman_correlations_over_ood_evaluations() -> None:
    table = table_of(evaluation_columns())
    found = build_correlation_section(compare_measures(table))
    outside = ~table.in_distribution
    columns = {TRUE_ACCURACY: table.accuracy, "near": table.measures["near"], "far": table.measures["far"],
               "− wrong": -table.measures["wrong"]}  # fmt: skip
    cells = found.figure.spec["datasets"]["cells"]
    assert len(cells) == 16
    names = {cell["y"].split(" · ")[0]: cell["y"].split(" · ")[1] for cell in cells}
    for cell in cells:
        first, second = names[cell["y"].split(" · ")[0]], names[cell["x"]]
        rho = spearmanr(columns[first][outside], columns[second][outside]).statistic
        assert cell["value"] == pytest.approx(rho, abs=0.0051)
        assert cell["strength"] == abs(cell["value"])
    assert found.figure.table is not None
    shown = [[cell.replace("−", "-") for cell in row[1:]] for row in found.figure.table.rows]
    flat = [cell["value"] for cell in cells]
    assert np.array(shown, dtype=float).ravel().tolist() == pytest.approx(flat)


def test_groups_are_contiguous_and_have_boxes() -> None:
    columns = evaluation_columns(noise={"near": 0.01, "noise": 30.0, "wrong": -0.01})
    found = build_correlation_section(compare_measures(table_of(columns)))
    groups = [{name.split(" · ")[1] for name in group} for group in found.groups]
    assert groups == [{TRUE_ACCURACY, "near", "− wrong"}]
    assert [name.split(" · ")[1].removeprefix("− ") for name in found.ungrouped] == ["noise"]
    (box,) = found.figure.spec["datasets"]["boxes"]
    numbers = [name.split(" · ")[0] for name in found.groups[0]]
    assert (box["x"], box["x2"]) == (numbers[0], numbers[-1])
    assert box["y"].startswith(f"{numbers[0]} · ")


def test_measures_left_out_are_named() -> None:
    columns = evaluation_columns()
    columns["far"] = [1.0] * len(columns["far"])
    (remark,) = build_correlation_section(compare_measures(table_of(columns))).remarks
    assert remark.startswith("far is left out: ")


def test_single_measure_is_not_applicable() -> None:
    with pytest.raises(NotApplicable, match="only one measure"):
        build_correlation_section(compare_measures(table_of(evaluation_columns(noise={"ni": 0.1}))))
