"""Text tables: cells, marks and formats."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import UnknownName
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.text_tables import MISSING_CELL, TextTable, comparison_table


def table(**measures: Any) -> EvaluationTable:
    rng = np.random.default_rng(0)
    n = 24
    accuracy = rng.random(n).round(3)
    all_measures = {"good": accuracy, "poor": rng.random(n), **measures}
    return EvaluationTable.read({
        "model": [f"m{j // 3}" for j in range(n)],
        "architecture": ["cnn" if j < 12 else "mlp" for j in range(n)],
        "trained_on": [("a", "b")[j // 3 % 2] for j in range(n)],
        "tested_on": ["abc"[j % 3] for j in range(n)],
        "accuracy": accuracy, **all_measures,
    })  # fmt: skip


COMPARISON = compare_measures(table(empty=[None] * 24, atc=np.linspace(0, 1, 24)))


def test_cells_are_means_and_the_best_is_marked() -> None:
    made = comparison_table(COMPARISON)
    assert made.header[0] == "measure"
    assert [row[0] for row in made.rows] == ["good", "poor", "empty", "atc"]
    column = made.header.index("Macro τ")
    means = [COMPARISON.summary(name, "macro_tau").mean for name in ("good", "poor", "atc")]
    assert [made.rows[j][column] for j in (0, 1, 3)] == [f"{mean:.3f}" for mean in means]
    assert made.rows[2][column] == MISSING_CELL
    assert (0, column) in made.best_cells
    assert not any((row, column) in made.best_cells for row in (1, 2, 3))
    error = made.header.index("MAE")
    lowest = min(
        range(4), key=lambda row: COMPARISON.summary(made.rows[row][0], "mae").mean or np.inf
    )
    assert [row for row in range(4) if (row, error) in made.best_cells] == [lowest]
    assert lowest != 2


def test_deviations_and_single_architectures_can_be_shown() -> None:
    summary = COMPARISON.summary("poor", "macro_tau", "cnn")
    made = comparison_table(COMPARISON, architecture="cnn", show_sd=True)
    column = made.header.index("Macro τ")
    assert made.rows[1][column] == f"{summary.mean:.3f} ± {summary.sd:.3f}"
    assert "Arch τ" not in made.header


def test_equal_measures_are_not_marked() -> None:
    different = compare_measures(table())
    same = comparison_table(compare_measures(EvaluationTable.read({
        "model": ["m", "n", "o"], "trained_on": ["a"] * 3, "tested_on": ["b"] * 3,
        "accuracy": [0.1, 0.2, 0.3], "x": [1, 2, 3], "y": [2, 4, 6],
    })))  # fmt: skip
    assert not any(column == same.header.index("Macro τ") for _, column in same.best_cells)
    assert comparison_table(different).best_cells


ODD = TextTable(
    ("a|b", "τ & 50%"), (("x_1\\y", "0.5 ± 0.1"), (MISSING_CELL, "")), frozenset({(0, 1)})
)


def test_latex_escapes_special_characters() -> None:
    lines = ODD.to_text("latex").splitlines()
    assert lines[0] == r"\begin{tabular}{lr}"
    assert lines[2] == r"a|b & $\tau$ \& 50\% \\"
    assert lines[4] == r"x\_1\textbackslash{}y & \textbf{0.5 $\pm$ 0.1} \\"
    assert lines[-1] == r"\end{tabular}"


def test_markdown_lines_are_aligned() -> None:
    lines = ODD.to_text("markdown").splitlines()
    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1
    assert lines[0].startswith(r"| a\|b ")
    assert "**0.5 ± 0.1**" in lines[2]


def test_csv_round_trips_without_marks() -> None:
    rows = list(csv.reader(io.StringIO(ODD.to_text("csv"))))
    assert rows == [["a|b", "τ & 50%"], ["x_1\\y", "0.5 ± 0.1"], ["", ""]]


def test_unknown_format_raises() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'markdown'"):
        ODD.to_text("markdwon")
