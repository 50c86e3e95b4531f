"""Table of ID metrics as predictors of OOD error."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.errors import NotApplicable
from oodometer.studies.analysis.averaged_correlations import (
    RESIDUAL_LABEL,
    adjusted_correlations,
    average_correlations,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_predictors import predictor_table
from oodometer.studies.analysis.model_bootstrap import bootstrap_statistics


def evaluations(models: int = 30) -> EvaluationTable:
    """Return models of two tasks on an ID domain, its corruption, and two OOD domains each."""
    random = np.random.default_rng(0)
    rows = []
    for task, domains in (("one", "abc"), ("two", "xy")):
        for number in range(models):
            skill = random.uniform(0.2, 0.8)
            for name in (*domains, f"{domains[0]}/fog-3"):
                accuracy = float(np.clip(skill + random.normal(0, 0.1), 0, 1))
                rows.append(
                    {"model": f"{task} {number}", "trained_on": domains[0], "tested_on": name,
                     "accuracy": accuracy, "nll": random.normal() - skill, "task": task}
                )  # fmt: skip
    return EvaluationTable.read({key: [row[key] for row in rows] for key in rows[0]})


def test_bootstrap_of_predictors_equals_the_averaged_correlations() -> None:
    table = evaluations()
    predictors = predictor_table(table)
    drawn = bootstrap_statistics(predictors, ["pair_rho", "adjusted_rho"], replicates=1000)
    averaged, adjusted = average_correlations(table), adjusted_correlations(table)
    for name in ("ID error", "ID corrupted error", "ID nll", "held-out OOD error"):
        expected = averaged.overall.score(name, "OOD error")["value"]
        assert drawn["pair_rho"].value(name) == pytest.approx(expected, abs=1e-9)
    expected = adjusted.overall.score("ID corrupted error", RESIDUAL_LABEL)["value"]
    assert drawn["adjusted_rho"].value("ID corrupted error") == pytest.approx(expected, abs=1e-9)


def test_rows_are_those_out_of_distribution() -> None:
    table = evaluations(4)
    predictors = predictor_table(table, metrics=())
    names = [predictors.domains[code] for code in predictors.tested_on]
    assert sorted(set(names)) == ["b", "c", "y"]
    assert len(predictors) == 4 * 3
    assert set(predictors.columns["task"]) == {"one", "two"}
    assert set(predictors.measures) == {"ID error", "ID corrupted error", "held-out OOD error"}
    # A task with one OOD domain has no held-out OOD domain.
    held_out = predictors.measures["held-out OOD error"]
    assert np.isnan(held_out).tolist() == [name == "y" for name in names]


def test_models_without_the_target_are_left_out() -> None:
    table = evaluations(4)
    missing = (table.model == 0) & (table.tested_on == table.domains.index("b"))
    assert len(predictor_table(table.select_rows(~missing))) == 4 * 3 - 1


def test_table_without_ood_domains_has_no_pairs() -> None:
    table = evaluations(4)
    with pytest.raises(NotApplicable, match="no pair"):
        predictor_table(table.select_rows(table.in_distribution))
