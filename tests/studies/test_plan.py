"""Plan of a study and its tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oodometer.core.errors import InputError
from oodometer.studies import Study
from oodometer.studies.plan import StudyPlan, plan_study, prediction_tasks, value_tasks
from oodometer.studies.store import PredictionReference, ResultKey
from tests.support.study_tasks import Ball, model, study

REFERENCE = PredictionReference("a", "probs", 2, 1.0, None, "b", ("x", "y"))


@pytest.fixture(scope="module")
def plan() -> StudyPlan:
    return plan_study(study())


def references(
    plan: StudyPlan, *, but: tuple[str, ...] = ()
) -> dict[tuple[str, str], PredictionReference]:
    units = (unit for each in plan.evaluations for unit in each.required_predictions())
    return {unit.key_pair: REFERENCE for unit in units if unit.model.name not in but}


def test_every_model_is_evaluated_on_every_domain(plan: StudyPlan) -> None:
    found = {each.name for each in plan.evaluations}
    assert found == {
        f"{one} on {domain}"
        for one in ("small", "right", "vague", "both")
        for domain in ("0", "30", "90")
    }
    assert len(plan.evaluations) == 12


def test_sources_are_the_training_domains(plan: StudyPlan) -> None:
    for each in plan.evaluations:
        trained = each.unit.model.trained_on
        assert [unit.rows.domain.name for unit in each.sources] == list(trained)
        assert {unit.rows.part for unit in each.sources} == {"source"}
        own = each.unit.rows.name in trained
        assert bool(each.unit.rows.excluded) == own


def test_result_keys_cover_all_values(plan: StudyPlan) -> None:
    keys = plan.result_keys()
    assert len(keys) == 12 * (1 + 2 + 2 * 4 + 2 * 4 + 3)
    sourced = {key.measure for key in keys if key.source}
    assert sourced == {
        *(f"{name}{end}" for name in ("ac", "doc", "atc-mc", "gde") for end in ("", " (pre-T)")),
        "entropy-target", "source-error", "mixup",
    }  # fmt: skip
    assert {key.settings for key in keys if key.measure == "gde"} == {
        "gde{}, temperature fit, seed 0, second none"
    }


def test_stored_results_are_not_pending(plan: StudyPlan) -> None:
    keys = sorted(plan.result_keys())
    assert plan.pending(keys) == []
    gone = keys[5]
    (left,) = plan.pending(set(keys) - {gone})
    assert left.unit.key_pair == (gone.model, gone.dataset)
    (expected,) = left.requests
    assert gone.measure in expected.names
    assert len(plan.pending(set[ResultKey]())) == 12


def test_models_with_the_same_training_domains_share_tasks(plan: StudyPlan) -> None:
    tasks = value_tasks(plan.evaluations, references(plan), Path("s"), 0)
    assert sum(len(task.jobs) for task in tasks) == 12
    for task in tasks:
        assert {job.unit.dataset_key for job in task.jobs} == {task.dataset_key}
        assert all(job.unit.key_pair in job.references for job in task.jobs)
    sizes = {task.rows.name: 0 for task in tasks}
    for task in tasks:
        sizes[task.rows.name] = max(sizes[task.rows.name], len(task.jobs))
    # No model was trained on 30: all are tested on the same rows.
    assert sizes == {"0": 3, "30": 4, "90": 2}


def test_task_has_at_most_eight_models() -> None:
    many = study(models=[model(f"m{j:02}", Ball(1 + j / 99)) for j in range(19)], domains=["30"])
    plan = plan_study(many)
    tasks = value_tasks(plan.evaluations, references(plan), Path("s"), 0)
    assert [len(task.jobs) for task in tasks] == [8, 8, 3]
    asked = prediction_tasks(plan.evaluations, references(plan), Path("s"), 0)
    assert asked == []
    asked = prediction_tasks(plan.evaluations, {}, Path("s"), 0)
    # Predictions on the domain and on the source.
    assert sorted(len(task.jobs) for task in asked) == [3, 3, 8, 8, 8, 8]
    assert not any(job.evaluation.requests for task in asked for job in task.jobs)


def test_models_of_a_block_are_adjacent() -> None:
    many = study(models=[model(f"m{j:02}", Ball(1 + j / 99)) for j in range(16)])
    found = plan_study(many).evaluations
    names = [each.unit.model.name for each in found]
    first, second = ([f"m{j:02}" for j in some] for some in (range(8), range(8, 16)))
    assert names == [*first * 3, *second * 3]


def test_evaluations_without_predictions_are_deferred(plan: StudyPlan) -> None:
    tasks = value_tasks(plan.evaluations, references(plan, but=("right",)), Path("s"), 0)
    done = {job.unit.model.name for task in tasks for job in task.jobs}
    assert done == {"small", "vague", "both"}


def test_missing_second_model_defers_only_its_requests(plan: StudyPlan) -> None:
    each = plan.evaluations[0]
    other = next(one.unit.model for one in plan.evaluations if one.unit.model != each.unit.model)
    compared = replace(each, other_model=replace(each.unit, model=other))
    known = {unit.key_pair for unit in each.required_predictions()}
    expected = {name for one in compared.computable(known).requests for name in one.names}
    assert "gde" not in expected
    assert {"accuracy", "ac", "ni-gaussian"} < expected
    both = compared.computable({*known, (other.key, each.unit.dataset_key)})
    assert both == compared
    assert compared.settings_key(next(o for o in each.requests if o.needs_other_model)).endswith(
        other.key
    )
    assert compared.computable(set()).requests == ()


def test_missing_files_are_reported_before_the_run(tmp_path: Path) -> None:
    table: dict[str, Any] = {"group": "pacs", "models": [model("m", Ball(), "photo")]}
    with pytest.raises(InputError, match=r"there is no .pacs/pacs32\.npz"):
        plan_study(Study.open(table, data=tmp_path))
