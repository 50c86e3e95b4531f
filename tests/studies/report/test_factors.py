"""Factor analysis on the page of a study."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oodometer.core.errors import NotApplicable
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.analysis.factors import Rotation, table_factor_analysis
from oodometer.studies.report.factors import (
    MAX_MEASURES,
    build_factor_section,
    informative_columns,
)
from tests.support.fine_tuning_rows import fine_tuning_rows, to_table
from tests.support.study_tables import evaluation_columns, table_of


@pytest.mark.parametrize("rotation", ["equamax", "quartimax"])
def test_charts_show_the_values_of_the_analysis(rotation: Rotation) -> None:
    noise = {"near": 0.02, "half": 0.2, "wrong": -0.1, "x": 5.0, "y": 1.0}
    table = table_of(evaluation_columns(models=20, noise=noise))
    expected = table_factor_analysis(table)
    # Otherwise the test could not tell the rotations apart.
    assert not np.allclose(
        expected.rotations["equamax"], expected.rotations["quartimax"], atol=0.02
    )
    scree, loadings = build_factor_section(compare_measures(table), rotation=rotation).figures
    drawn = [row["eigenvalue"] for row in scree.spec["datasets"]["factors"]]
    assert drawn == pytest.approx(expected.eigenvalues.tolist(), abs=1e-3)
    assert loadings.title == f"Loadings after {rotation}"
    rotated = expected.rotations[rotation]
    cells = loadings.spec["datasets"]["cells"]
    assert len(cells) == rotated.size
    for cell in cells:
        value = rotated[expected.names.index(cell["y"]), int(cell["x"]) - 1]
        assert cell["value"] == pytest.approx(value, abs=0.0051)
    assert loadings.table is not None
    assert loadings.table.rows[-1][0] == "explained, %"


def test_constant_and_sparse_columns_are_left_out() -> None:
    columns = evaluation_columns(models=20)
    columns["flat"] = [1.0] * len(columns["model"])
    columns["rare"] = [math.nan if j % 2 else float(j) for j in range(len(columns["model"]))]
    table = table_of(columns)
    values, names = informative_columns(table, tuple(table.measures))
    assert [name for name in names if "flat" in name or "rare" in name] == []
    assert {"ID error", "OOD error", "OOD near"} <= set(names)
    assert np.isfinite(values).all()


def test_too_few_measures_or_models_are_not_applicable() -> None:
    with pytest.raises(
        NotApplicable, match="factor analysis needs at least 3 measures; the table has 2"
    ):
        build_factor_section(
            compare_measures(table_of(evaluation_columns(noise={"a": 0.1, "b": 0.2})))
        )
    with pytest.raises(
        NotApplicable, match="6 models with all values are fewer than the 8 columns"
    ):
        build_factor_section(compare_measures(table_of(evaluation_columns(models=3))))


def test_sixteen_metrics_of_networks_trained_on_full_data() -> None:
    table = to_table(fine_tuning_rows())
    section = build_factor_section(compare_measures(table))
    expected = table_factor_analysis(table)
    loadings = section.figures[1]
    assert loadings.title == "Loadings after equamax"
    assert {cell["y"] for cell in loadings.spec["datasets"]["cells"]} == set(expected.names)
    assert len(expected.names) == 16
    assert section.remark == (
        f"Computed from {expected.n_rows} models and 16 columns: the error and nll, ece, "
        "demographic_disparity, adversarial_error_0.001, adversarial_error_0.02. "
        f"{expected.few_shot_models} models trained on a few rows per class are left out."
    )


def test_most_informative_of_many_measures_are_used() -> None:
    noise = {f"m{j:02}": 0.01 * (j + 1) for j in range(MAX_MEASURES + 4)}
    found = build_factor_section(
        compare_measures(table_of(evaluation_columns(models=30, noise=noise)))
    )
    assert found.remark == (
        "Computed from 60 models and 34 columns of the 16 most informative measures."
    )
