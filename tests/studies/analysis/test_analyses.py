"""Named analyses: their tables show the values of the functions behind them."""

from __future__ import annotations

import json

import pytest

from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.studies.analysis import (
    ANALYSES,
    AnalysisResult,
    EvaluationTable,
    average_correlations,
    correlate_with_error,
    estimation_errors,
    fit_joint_regressions,
    run_analysis,
    signal_to_noise,
    table_factor_analysis,
)
from oodometer.studies.analysis.comparison_with_truth import compare_with_truth
from tests.support.evaluation_rows import random_rows, to_table


def evaluations() -> EvaluationTable:
    """Return three measures and an estimator with three seeds of two recipes."""
    rows = random_rows(0, models=6, measures=("x", "y", "doc"), gaps=0.05)
    return to_table(
        [
            {**row, "seed": int(row["model"][1]) // 2, "recipe.width": int(row["model"][1]) % 2}
            for row in rows
        ]
    )


TABLE = evaluations()


def cells(result: AnalysisResult) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in result.table.rows}


def test_every_analysis_gives_a_table_notes_and_json() -> None:
    for name in ANALYSES:
        result = run_analysis(TABLE, name)
        assert result.title
        assert result.notes
        assert {len(row) for row in result.table.rows} == {len(result.table.header)}, name
        json.dumps(result.values, allow_nan=False)


def test_joint_table_shows_means_over_environments() -> None:
    regressions = fit_joint_regressions(TABLE).regressions
    rows = cells(run_analysis(TABLE, "joint"))
    assert list(rows) == ["best measure", "best two measures", "all measures"]
    mae = regressions["all"].mean("mae")
    assert rows["all measures"][2] == f"{mae.mean:.2f} ± {mae.sd:.2f}"
    assert rows["best measure"][3] == "–"


def test_averaged_table_leaves_out_undefined_variables() -> None:
    rows = cells(run_analysis(TABLE, "averaged"))
    score = average_correlations(TABLE).overall.score("ID x", "OOD error")
    assert rows["ID x"] == (
        f"{score['value']:.3f} ± {score['sd']:.3f}",
        str(score["pairs"]),
        str(score["left_out"]),
        str(score["models"]),
    )
    assert "OOD error" not in rows
    assert "ID corrupted x" not in rows
    assert "ID corrupted x" in run_analysis(TABLE, "averaged").notes[1]
    assert "OOD error" in cells(run_analysis(TABLE, "adjusted"))


def test_other_tables_show_the_values_of_their_functions() -> None:
    ratio = signal_to_noise(TABLE)["y"]
    assert cells(run_analysis(TABLE, "noise"))["y"][0] == f"{ratio.mean:.2f} ± {ratio.sd:.2f}"
    factors = table_factor_analysis(TABLE)
    rows = cells(run_analysis(TABLE, "factors"))
    assert rows["ID error"][0] == f"{factors.rotations['varimax'][0, 0]:.2f}"
    assert list(rows)[-1] == "share of variance"
    joint = correlate_with_error(TABLE)["x"].joint
    assert cells(run_analysis(TABLE, "rank"))["x"][-2:] == (f"{joint.value:.3f}", str(joint.n))
    truth = compare_with_truth(TABLE, "doc")
    assert cells(run_analysis(TABLE, "truth"))["doc"][0] == f"{truth.mae:.2f}"
    errors = run_analysis(TABLE, "errors")
    assert len(errors.table.rows) == len(estimation_errors(TABLE).cells)
    assert errors.notes == ("MAE is in points: mean ± standard deviation over seeds.",)


def test_inapplicable_and_unknown_analyses_raise() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'joint'"):
        run_analysis(TABLE, "joined")
    with pytest.raises(NotApplicable, match="at least two environments"):
        run_analysis(to_table(random_rows(0, domains="ab")[:4]), "joint")
    with pytest.raises(InputError, match="needs replicates"):
        run_analysis(to_table(random_rows(0)), "noise")
