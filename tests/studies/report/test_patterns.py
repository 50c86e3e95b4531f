"""ID against OOD accuracy on the page of a study."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import NotApplicable
from oodometer.studies.analysis.id_ood_scatter import id_ood_scatters
from oodometer.studies.report.patterns import PAIR_TABLE_HEADS, build_pattern_section
from tests.support.study_tables import evaluation_columns, table_of


def test_table_lists_every_pair_with_pattern_and_gap() -> None:
    table = table_of(evaluation_columns())
    found, expected = build_pattern_section(table), id_ood_scatters(table)
    assert [row[0] for row in found.pairs.rows] == [f"{s.training} → {s.target}" for s in expected]
    for row, scatter in zip(found.pairs.rows, expected, strict=True):
        cells = dict(zip(PAIR_TABLE_HEADS, row, strict=True))
        gap = scatter.gap
        assert gap.value is not None
        assert gap.value_se is not None
        text = f"{100 * gap.value:.1f} ± {100 * gap.value_se:.1f}".replace("-", "−")
        assert cells["normalized gap, %"] == text
        assert cells["pattern"] == (scatter.pattern.name or "none")
    assert found.counts == (
        ("functional relationship: models with higher ID accuracy have higher OOD accuracy", 4),
    )


def test_points_are_models_on_shared_axes() -> None:
    table = table_of(evaluation_columns())
    found, expected = build_pattern_section(table), id_ood_scatters(table)
    figure, one = found.figures[0], expected[0]
    points = {
        point["name"]: (point["x"], point["y"]) for point in figure.spec["datasets"]["points"]
    }
    assert set(points) == set(one.models)
    for j, model in enumerate(one.models):
        assert points[model] == pytest.approx(
            (100 * one.id_accuracy[j], 100 * one.ood_accuracy[j]), rel=1e-4
        )
    assert figure.caption == f"Functional: {one.pattern.reason}."
    lines = [figure.spec["datasets"]["line"] for figure in found.figures]
    assert all(line == lines[0] for line in lines)
    assert all(end["x"] == end["y"] for end in lines[0])


def test_several_tasks_are_compared() -> None:
    columns = evaluation_columns()
    columns["task"] = ["words" if name == "art" else "views" for name in columns["tested_on"]]
    found = build_pattern_section(table_of(columns))
    assert found.tasks is not None
    assert [row[0] for row in found.tasks.rows] == ["views", "words"]
    assert {row[-1] for row in found.tasks.rows} == {"0.00", "1.00"}
    assert build_pattern_section(table_of(evaluation_columns())).tasks is None


def test_many_pairs_are_truncated_with_a_remark() -> None:
    rng = np.random.default_rng(0)
    domains = [f"d{j:03}" for j in range(320)]
    columns: dict[str, list[Any]] = {
        "model": [m for m in "abc" for _ in domains], "trained_on": ["d000"] * 960,
        "tested_on": domains * 3, "accuracy": rng.random(960).tolist(), "ni": [0.0] * 960,
    }  # fmt: skip
    found = build_pattern_section(table_of(columns))
    assert len(found.figures) == 8
    assert len(found.pairs.rows) == 300
    assert found.remarks == (
        "8 of 319 pairs are drawn, those with the most models.", "The table lists 300 of them.",
    )  # fmt: skip


def test_table_without_id_accuracies_is_not_applicable() -> None:
    columns = evaluation_columns()
    rows = [j for j, name in enumerate(columns["tested_on"]) if name == "art"]
    with pytest.raises(NotApplicable, match="no model has an accuracy both on a domain"):
        build_pattern_section(
            table_of({key: [cells[j] for j in rows] for key, cells in columns.items()})
        )
