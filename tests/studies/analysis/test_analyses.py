"""Named analyses: their tables show the values of the functions behind them."""

from __future__ import annotations

import json

import pytest

from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.studies.analysis import (
    ANALYSES,
    AnalysisResult,
    EvaluationTable,
    augmentation_effects,
    average_correlations,
    best_configurations,
    correlate_with_error,
    correlations_by_difficulty,
    estimation_errors,
    fit_joint_regressions,
    run_analysis,
    signal_to_noise,
    table_factor_analysis,
    training_strategy_gaps,
)
from oodometer.studies.analysis.comparison_with_truth import compare_with_truth
from tests.support.evaluation_rows import random_rows, to_table


def evaluations() -> EvaluationTable:
    """Return three measures and an estimator with three seeds of two recipes, in two tasks."""
    rows = random_rows(0, models=6, measures=("x", "y", "doc"), gaps=0.05)
    source_errors = {row["model"]: row["accuracy"] / 2 for row in rows}
    return to_table(
        [
            {
                **row,
                "task": "s" if row["trained_on"] in "ab" else "t",
                "shift": "near" if row["tested_on"] in "ab" else "far",
                "seed": int(row["model"][1]) // 2,
                "recipe.part": ("whole", "head")[int(row["model"][1]) % 2],
                "recipe.augment": ("none", "augmix")[int(row["model"][1]) % 2],
                "source-error": source_errors[row["model"]],
            }
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
    assert rows["ID error"][0] == f"{factors.rotations['equamax'][0, 0]:.2f}"
    assert list(rows)[-1] == "share of variance"
    varimax = run_analysis(TABLE, "factors", rotation="varimax")
    assert cells(varimax)["ID error"][0] == f"{factors.rotations['varimax'][0, 0]:.2f}"
    assert varimax.notes[0].startswith(f"Loadings after varimax, {factors.n_rows} models")
    assert (varimax.values["rotation"], len(varimax.values["loadings"])) == ("varimax", 4)
    joint = correlate_with_error(TABLE)["x"].joint
    assert cells(run_analysis(TABLE, "rank"))["x"][-2:] == (f"{joint.value:.3f}", str(joint.n))
    truth = compare_with_truth(TABLE, "doc")
    assert cells(run_analysis(TABLE, "truth"))["doc"][0] == f"{truth.mae:.2f}"
    errors = run_analysis(TABLE, "errors")
    assert len(errors.table.rows) == len(estimation_errors(TABLE).cells)
    assert errors.notes == ("MAE is in points: mean ± standard deviation over seeds.",)


def test_tables_by_task_and_shift_show_their_matrices() -> None:
    correlations = average_correlations(TABLE)
    for name, matrices in (("tasks", correlations.tasks), ("shifts", correlations.shifts)):
        result = run_analysis(TABLE, name)
        assert result.table.header == ("variable", *matrices)
        assert list(result.values) == list(matrices)
        score = list(matrices.values())[1].score("ID x", "OOD error")
        assert cells(result)["ID x"][1] == f"{score['value']:.3f} ± {score['sd']:.3f}"
        assert "OOD error" not in cells(result)


def shown(value: float | None, se: float | None) -> str:
    """Return a fraction and its standard error in percent."""
    return f"{100 * (value or 0):.1f} ± {100 * (se or 0):.1f}"


def test_tables_of_training_settings_show_their_functions() -> None:
    gap = training_strategy_gaps(TABLE)[0]
    assert run_analysis(TABLE, "strategies").table.rows[0] == (
        "s", "full", "ID", shown(gap.whole, gap.whole_se),
        shown(gap.head, gap.head_se),
        shown(gap.gap, gap.gap_se), "2", "0",
    )  # fmt: skip
    plain, mixed = augmentation_effects(TABLE)[:2]
    augmentation = run_analysis(TABLE, "augmentation").table
    assert augmentation.header == ("task", "training rows", "data", "none", "augmix", "datasets")
    assert augmentation.rows[0][3:] == (
        shown(plain.accuracy, plain.se),
        shown(mixed.accuracy, mixed.se),
        "2",
    )
    best = best_configurations(TABLE)[0]
    assert run_analysis(TABLE, "models").table.rows[0][3:5] == (
        f"{best.id_error:.3f} ± {best.id_error_se:.3f}",
        f"{best.ood_error:.3f} ± {best.ood_error_se:.3f}",
    )
    trend = correlations_by_difficulty(TABLE)[0]
    difficulty = run_analysis(TABLE, "difficulty").table
    first, last = trend.points
    assert difficulty.header == (
        "metric", f"{first.task} (0.00)", f"{last.task} (1.00)", "slope", "intercept",
    )  # fmt: skip
    assert difficulty.rows[0] == (
        "ID error", f"{first.correlation:.3f}", f"{last.correlation:.3f}", "–", "–",
    )  # fmt: skip


def test_missing_tasks_shifts_and_rotations_raise() -> None:
    plain = to_table(random_rows(0))
    with pytest.raises(NotApplicable, match="no task is known"):
        run_analysis(plain, "tasks")
    with pytest.raises(NotApplicable, match="no type of shift is known"):
        run_analysis(plain, "shifts")
    with pytest.raises(UnknownName, match="Did you mean 'varimax'"):
        run_analysis(plain, "factors", rotation="varimx")  # type: ignore[arg-type]


def test_inapplicable_and_unknown_analyses_raise() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'joint'"):
        run_analysis(TABLE, "joined")
    with pytest.raises(NotApplicable, match="at least two environments"):
        run_analysis(to_table(random_rows(0, domains="ab")[:4]), "joint")
    with pytest.raises(InputError, match="needs replicates"):
        run_analysis(to_table(random_rows(0)), "noise")
