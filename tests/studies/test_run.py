"""Runs of a study: resuming, failures and interruptions."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from oodometer.assessment import FittedEstimators
from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, MissingExtra, UnknownName
from oodometer.neighborhood import invariance
from oodometer.parallel.runners import processes, serial
from oodometer.studies import Study, StudyRunResult, run, status
from oodometer.studies.plan import StudyTask, plan_study
from oodometer.studies.splits import DomainRows, sample_rows
from oodometer.studies.store import EvaluationOutcome, Store
from oodometer.studies.store.array_store import ArrayStore
from oodometer.studies.training import checkpoint
from oodometer.studies.worker import run_task
from tests.support import study_tasks, tiny_pool
from tests.support.study_tasks import Ball, Counting, export_rows, model, study

COUNTED = [model("counted", Counting())]


def nudge(point: Array, rng: np.random.Generator) -> Array:
    return point + rng.normal(scale=0.1, size=point.shape)


def raising(task: StudyTask) -> list[EvaluationOutcome]:
    raise ValueError("all of\nit")


def columns(folder: Path, *names: str) -> list[tuple[Any, ...]]:
    with Store.open(folder) as store:
        rows = store.to_table().to_pylist()
    return [tuple(row[name] for name in names) for row in rows]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("done")
    assert run(study(), folder).remaining == 0
    return folder


# Nothing twice ----------------------------------------------------------------------------------


def test_study_is_computed_once(done: Path) -> None:
    again = run(study(), done, work=raising)
    assert (again.total, again.before, again.done, again.remaining) == (12, 12, 0, 0)
    assert len(columns(done, "value")) == 12 * (2 + 8 + 8 + 3)


def test_limit_defers_the_rest_to_the_next_run(done: Path, tmp_path: Path) -> None:
    first = run(study(), tmp_path, limit=5)
    assert (first.before, first.done, first.remaining) == (0, 5, 7)
    with Store.open(tmp_path) as store:
        known = store.result_keys()
    second = run(study(), tmp_path, limit=100)
    assert (second.before, second.done, second.remaining) == (5, 7, 0)
    with Store.open(tmp_path) as store:
        assert known < store.result_keys()
    assert export_rows(tmp_path) == export_rows(done)


def test_stored_results_need_no_inference(tmp_path: Path) -> None:
    few: dict[str, Any] = {"models": COUNTED, "invariance": [], "measures": [], "metrics": []}
    Counting.rows = 0
    run(study(**few, estimators=["ac"]), tmp_path)
    # Three test domains and one source.
    assert Counting.rows == 3 * 60 + 70
    wider = study(
        **{**few, "metrics": "all", "measures": ["entropy-source", "source-error"]},
        estimators="all", temperature="both",
    )  # fmt: skip
    ran = run(wider, tmp_path)
    assert (ran.before, ran.done) == (0, 3)
    assert {"atc-mc (pre-T)", "f1", "source-error"} < {m for (m,) in columns(tmp_path, "measure")}
    assert Counting.rows == 3 * 60 + 70
    run(study(**{**few, "invariance": ["gaussian"]}, estimators=["ac"]), tmp_path)
    shown = Counting.rows - (3 * 60 + 70)
    # The rows themselves and three draws of each.
    assert shown == 3 * 60 * 4
    run(study(**{**few, "invariance": ["gaussian"]}, estimators=["ac"]), tmp_path)
    assert Counting.rows - (3 * 60 + 70) == shown


def test_extended_spec_computes_only_what_is_new(done: Path, tmp_path: Path) -> None:
    narrow = study(
        domains=["0"], models=study_tasks.BALLS[:2], invariance=["gaussian"], metrics=["nll"]
    )
    run(narrow, tmp_path)
    seen: list[str] = []

    def noting(task: StudyTask) -> list[EvaluationOutcome]:
        seen.extend(study_tasks.task_keys(task))
        return run_task(task)

    with Store.open(tmp_path) as store:
        known = {"\t".join(key) for key in store.result_keys()}
        stored_predictions = {"\t".join(("said", *pair)) for pair in store.prediction_references()}
    ran = run(study(), tmp_path, work=noting)
    assert (ran.before, ran.done) == (0, 12)
    assert not set(seen) & (known | stored_predictions)
    assert export_rows(tmp_path) == export_rows(done)


def test_changed_settings_are_computed_again(tmp_path: Path) -> None:
    few = {"models": study_tasks.BALLS[:1], "estimators": "none", "measures": [], "metrics": []}
    ten, twenty = (study(**few, invariance=["gaussian"], draws=draws) for draws in (2, 4))
    run(ten, tmp_path)
    before = columns(tmp_path, "tested_on", "measure", "value")
    ran = run(twenty, tmp_path)
    assert (ran.before, ran.done) == (0, 3)
    assert columns(tmp_path, "tested_on", "measure", "value") != before
    with Store.open(tmp_path) as store:
        rows = store.to_table(plan_study(ten).result_keys()).to_pylist()
    assert [(row["tested_on"], row["measure"], row["value"]) for row in rows] == before


def test_smoothness_is_computed_from_the_same_draws_without_the_identity(tmp_path: Path) -> None:
    """Gaussian noise has no strength, so MS and NI differ only by the row itself."""
    few = {"models": study_tasks.BALLS[:1], "estimators": "none", "measures": [], "metrics": []}
    noise = {"transform": "gaussian", "magnitude": 1.0, "draws": 4}
    both = [noise, {**noise, "transform": "MS-Gaussian"}]
    assert run(study(**few, domains=["0"], invariance=both), tmp_path).remaining == 0
    values = dict(columns(tmp_path, "measure", "value"))
    end = "-gaussian draws=4 magnitude=1"
    without = "-gaussian draws=4 identity=false magnitude=1"
    assert values[f"ei{without}"] == values[f"ei{end}"]
    assert values[f"ms{end}"] != values[f"ni{end}"]
    assert values[f"mse{end}"] != values[f"ne{end}"]
    # The 60 rows have neighborhoods of 4 members without the row itself, and of 5 with it.
    for name, members in (("ms", 4), ("ni", 5)):
        votes = values[f"{name}{end}"] * 60 * members
        assert votes == pytest.approx(round(votes), abs=1e-6)


def test_subsample_of_rows_limits_invariance_only(tmp_path: Path) -> None:
    """The neighborhoods of the sampled rows are those of a study with only these rows."""
    few = {"models": COUNTED, "domains": ["30"], "estimators": "none", "measures": []}
    few["invariance"] = [nudge]
    Counting.rows = 0
    run(study(**few, invariance_rows=20), tmp_path / "sampled")
    assert Counting.rows == 60 + 20 * (3 + 1)
    run(study(**few), tmp_path / "all")
    run(study(**few, rows=20), tmp_path / "few")
    sampled, whole, alone = (
        dict(columns(tmp_path / name, "measure", "value")) for name in ("sampled", "all", "few")
    )
    assert sampled["nll"] == whole["nll"] != alone["nll"]
    assert sampled["ni-nudge"] == alone["ni-nudge"] != whole["ni-nudge"]


def test_transform_of_a_subsample_learns_from_all_rows_of_the_domain(tmp_path: Path) -> None:
    few = {"models": COUNTED, "domains": ["30"], "estimators": "none", "measures": []}
    spec = study(**few, invariance=["gaussian"], invariance_rows=20)
    run(spec, tmp_path)
    whole = DomainRows(spec.domains["30"], "test", "30").whole_domain()
    rows = whole.rows(sample_rows(whole.keys, 20, spec.seed))
    alone, learned = (
        invariance({"counted": Counting()}, rows, transform="gaussian", draws=3, seed=spec.seed,
                   transform_data=data)["counted"].mean_with_interval("ni").value
        for data in (rows, whole)
    )  # fmt: skip
    assert dict(columns(tmp_path, "measure", "value"))["ni-gaussian"] == learned != alone


def test_invariance_is_computed_on_the_named_domains_only(tmp_path: Path) -> None:
    few = {"models": COUNTED, "estimators": "none", "measures": [], "metrics": ["error"]}
    run(study(**few, invariance=["gaussian"], invariance_domains=["30"]), tmp_path)
    rows = columns(tmp_path, "tested_on", "measure")
    assert {domain for domain, measure in rows if measure == "ni-gaussian"} == {"30"}
    assert {domain for domain, measure in rows if measure == "error"} == {"0", "30", "90"}


def test_sample_of_rows_limits_measures_only(tmp_path: Path) -> None:
    """The measures of the sampled rows are those of a study with only these rows."""
    few = {"models": COUNTED, "domains": ["30"], "invariance": [], "estimators": ["ac"]}
    for name, keys in {"sampled": {"measure_rows": 20}, "all": {}, "few": {"rows": 20}}.items():
        run(study(**few, **keys), tmp_path / name)
    sampled, whole, alone = (
        dict(columns(tmp_path / name, "measure", "value")) for name in ("sampled", "all", "few")
    )
    for measure in ("nll", "ac"):
        assert sampled[measure] == whole[measure] != alone[measure]
    for measure in ("entropy-target", "mixup"):
        assert sampled[measure] == alone[measure] != whole[measure]


def test_measures_are_computed_on_unseen_domains_only(tmp_path: Path) -> None:
    few = {"invariance": [], "estimators": "none", "metrics": ["error"]}
    run(study(**few, measure_domains="unseen"), tmp_path)
    rows = columns(tmp_path, "model", "tested_on", "measure")
    measured = {row[:2] for row in rows if row[2] == "source-error"}
    assert measured == {
        ("small", "30"), ("small", "90"), ("right", "30"), ("right", "90"),
        ("vague", "0"), ("vague", "30"), ("both", "30"),
    }  # fmt: skip
    assert len({row[:2] for row in rows if row[2] == "error"}) == 12


def test_unknown_domain_for_invariance_is_rejected() -> None:
    with pytest.raises(UnknownName, match="north"):
        study(invariance_domains=["north"])


def test_estimates_without_intervals_have_the_same_values(done: Path, tmp_path: Path) -> None:
    assert run(study(intervals=False), tmp_path).remaining == 0
    bare, full = (
        {
            row[:3]: row[3:]
            for row in columns(folder, "model", "tested_on", "measure", "value", "low")
        }
        for folder in (tmp_path, done)
    )
    names = ("ac", "doc", "atc-mc", "ac (pre-T)")
    assert any(full[key][1] is not None for key in full if key[2] in names)
    for key, (value, low) in bare.items():
        assert value == full[key][0], key
        assert key[2] not in names or low is None


def test_source_is_learned_once_per_model(tmp_path: Path) -> None:
    few = {"models": COUNTED, "invariance": [], "measures": [], "temperature": "fit"}
    with mock.patch(
        "oodometer.studies.compute.FittedEstimators.fit", wraps=FittedEstimators.fit
    ) as fit:
        run(study(**few), tmp_path)
    assert fit.call_count == 1


def test_only_temperature_scaling_calibrates_scores(tmp_path: Path) -> None:
    few = {"models": COUNTED, "invariance": [], "measures": [], "temperature": "both"}
    with mock.patch(
        "oodometer.studies.compute.FittedEstimators.fit", wraps=FittedEstimators.fit
    ) as fit:
        run(study(**few), tmp_path)
    options = [(call.kwargs["temperature"], call.kwargs["calibration"]) for call in fit.mock_calls]
    assert sorted(options, key=str) == [("fit", "temperature"), (None, "temperature")]


def test_two_studies_can_share_a_store(tmp_path: Path, done: Path) -> None:
    run(study(models=study_tasks.BALLS[2:]), tmp_path)
    run(study(models=study_tasks.BALLS[:2]), tmp_path)
    assert export_rows(tmp_path) == export_rows(done)


# The same by anyone -----------------------------------------------------------------------------


def test_workers_give_the_same_results_as_one_process(done: Path, tmp_path: Path) -> None:
    ran = run(study(), tmp_path, runner=processes(2))
    assert (ran.done, ran.failed) == (12, {})
    assert export_rows(tmp_path) == export_rows(done)


def test_values_do_not_depend_on_order_or_other_models(done: Path, tmp_path: Path) -> None:
    def backwards(work: Any, tasks: Any, /) -> Any:
        yield from serial(work, list(tasks)[::-1])

    turned = study(models=study_tasks.BALLS[::-1], domains=["90", "30", "0"])
    run(turned, tmp_path, runner=backwards)
    assert export_rows(tmp_path) == export_rows(done)
    # One model per task, where there were several.
    for one in study_tasks.BALLS:
        run(study(models=[one]), tmp_path / "alone")
    assert export_rows(tmp_path / "alone") == export_rows(done)


def test_values_do_not_depend_on_the_batch_size(done: Path, tmp_path: Path) -> None:
    with (
        mock.patch("oodometer.studies.worker.DEFAULT_BATCH_ROWS", 7),
        mock.patch("oodometer.neighborhood.sampling.MAX_BATCH_ROWS", 50),
    ):
        run(study(), tmp_path)
    assert export_rows(tmp_path) == export_rows(done)


def test_pool_with_a_broken_model(tmp_path: Path) -> None:
    spec = tiny_pool.train_pool(tmp_path / "pool")
    given = {"pools": [{"spec": spec, "folder": tmp_path / "pool"}], "domains": ["0", "30"]}
    few = {"rows": 50, "source_rows": 50, "estimators": ["doc", "gde"], "measures": ["jacobian"]}
    opened = Study.open({**given, **few, "invariance": ["gaussian"], "draws": 2})
    broken = opened.available_models().models[0]
    weights = tmp_path / "pool" / broken.name / checkpoint.WEIGHTS_FILE
    content = weights.read_bytes()
    weights.write_bytes(content[:50])
    ran = run(opened, tmp_path / "study")
    assert (ran.total, ran.left_out, ran.untrained) == (8, 4, 0)
    # The model itself, and gde of the model whose second model it is.
    twin = opened.available_models().other_models()[broken.key]
    assert set(ran.failed) == {f"{one.name} on {d}" for one in (broken, twin) for d in ("0", "30")}
    assert "weights.safetensors of the model" in ran.failed[f"{broken.name} on 0"]
    assert (ran.done, ran.remaining) == (4, 4)
    found = columns(tmp_path / "study", "model", "measure")
    assert {measure for name, measure in found if name == twin.name} == {
        "doc", "jacobian", "ni-gaussian", "ne-gaussian", "ei-gaussian", "pa-gaussian",
    }  # fmt: skip
    assert broken.name not in {name for name, _ in found}
    assert status(opened, tmp_path / "study").total("failed") == 4
    weights.write_bytes(content)
    again = run(opened, tmp_path / "study")
    assert (again.before, again.done, again.failed, again.remaining) == (4, 4, {}, 0)
    assert status(opened, tmp_path / "study").total("done") == 8
    run(opened, tmp_path / "whole")
    assert export_rows(tmp_path / "study") == export_rows(tmp_path / "whole")


# What fails -------------------------------------------------------------------------------------


def test_broken_model_does_not_affect_others(done: Path, tmp_path: Path) -> None:
    bad = [model(name, f"tests.support.study_tasks:{name}") for name in ("broken", "three_classes")]
    bad += [
        model("gone", "tests.studies.nothing:there"),
        model("half", study_tasks.broken_elsewhere),
    ]
    every = study(models=[*study_tasks.BALLS, *bad])
    ran = run(every, tmp_path)
    assert (ran.total, ran.done) == (24, 14)
    reasons = {
        name: ran.failed.get(f"{name} on 90", "")
        for name in ("broken", "three_classes", "gone", "half")
    }
    # The message of the user's function is quoted in one line.
    assert "out of order" in reasons["broken"]
    assert "has 3 classes, and '90' has 2" in reasons["three_classes"]
    assert "There is no module 'tests.studies.nothing'" in reasons["gone"]
    assert "too far south" in reasons["half"]
    assert {name for name in ran.failed if name.startswith("half")} == {"half on 90"}
    assert all("\n" not in reason for reason in ran.failed.values())
    with Store.open(tmp_path) as store:
        assert "Traceback" in store._database.execute("SELECT trace FROM failures").fetchone()[0]
    again = run(every, tmp_path)
    assert (again.before, again.done, len(again.failed)) == (14, 0, 10)
    run(study(), done)
    good = [row for row in columns(tmp_path, "model", "tested_on", "measure", "value")
            if row[0] not in ("broken", "three_classes", "gone", "half")]  # fmt: skip
    assert good == columns(done, "model", "tested_on", "measure", "value")


def test_failed_value_is_tried_again_and_others_are_stored(tmp_path: Path) -> None:
    few = study(models=study_tasks.BALLS[:2])
    with mock.patch("oodometer.measures.mixup.Mixup.measure", side_effect=ZeroDivisionError("no")):
        ran = run(few, tmp_path)
    assert set(ran.failed.values()) == {"ZeroDivisionError: no"}
    assert (ran.done, len(ran.failed), ran.remaining) == (0, 6, 6)
    measures = {measure for (measure,) in columns(tmp_path, "measure")}
    assert {"ac", "ni-gaussian", "nll", "source-error"} < measures
    assert "mixup" not in measures
    assert status(few, tmp_path).total("failed") == 6
    again = run(few, tmp_path)
    assert (again.done, again.failed, again.remaining) == (6, {}, 0)
    with Store.open(tmp_path) as store:
        assert store.failures() == {}


def test_failing_estimator_does_not_affect_others(tmp_path: Path) -> None:
    lone = study(models=study_tasks.BALLS[:1], domains=["30"])
    place = "oodometer.estimators.difference_of_confidences.DifferenceOfConfidences.learn"
    with mock.patch(place, side_effect=ZeroDivisionError("no")):
        assert len(run(lone, tmp_path).failed) == 1
    found = {measure for (measure,) in columns(tmp_path, "measure")}
    assert {"ac", "atc-mc", "atc-mc (pre-T)"} < found
    assert not {"doc", "doc (pre-T)"} & found


def test_task_that_raises_is_a_failure_with_a_one_line_reason(tmp_path: Path) -> None:
    ran = run(study(), tmp_path, work=raising)
    assert (ran.done, len(ran.failed)) == (0, 12)
    assert set(ran.failed.values()) == {"ValueError: all of it"}
    assert run(study(), tmp_path).done == 12


def test_missing_package_ends_the_run(tmp_path: Path) -> None:
    def without(task: StudyTask) -> list[EvaluationOutcome]:
        raise MissingExtra("It needs torch.")

    with pytest.raises(MissingExtra, match="needs torch"):
        run(study(), tmp_path, work=without)
    with (
        mock.patch(
            "oodometer.studies.study_models.as_model", side_effect=MissingExtra("It needs onnx.")
        ),
        pytest.raises(MissingExtra, match="needs onnx"),
    ):
        run(study(), tmp_path)


def test_models_that_cannot_be_pickled_are_named_before_the_run(tmp_path: Path) -> None:
    local = study(models=[model("mine", lambda points: Ball()(points))])
    with pytest.raises(InputError, match=r"The model 'mine' cannot be sent to workers \("):
        run(local, tmp_path, runner=processes(1))
    assert run(local, tmp_path).failed == {}


def test_rows_that_differ_on_the_worker_are_reported(tmp_path: Path) -> None:
    def elsewhere(task: StudyTask) -> list[EvaluationOutcome]:
        return run_task(replace(task, dataset_key="another"))

    ran = run(study(), tmp_path, work=elsewhere)
    assert all(
        "differ from those of the process that runs the study" in w for w in ran.failed.values()
    )


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_below_one_is_rejected(limit: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"limit must be at least 1; got {limit}"):
        run(study(), tmp_path, limit=limit)


# Interruptions ----------------------------------------------------------------------------------


def test_run_continues_after_a_full_disk(done: Path, tmp_path: Path) -> None:
    written, real = [0], os.fsync

    def full(file: int) -> None:
        written[0] += 1
        if written[0] > 12:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    with (
        mock.patch("oodometer.studies.store.array_store.os.fsync", full),
        pytest.raises(InputError, match=r"No space left on device\. Free disk space"),
    ):
        run(study(), tmp_path)
    with Store.open(tmp_path) as store:
        stored = set(store.prediction_references())
    assert stored
    assert not list((tmp_path / "arrays").glob("*.partial"))
    ran = run(study(), tmp_path)
    assert (ran.done, ran.remaining) == (12, 0)
    assert export_rows(tmp_path) == export_rows(done)


def test_interrupt_while_writing_does_not_lose_the_task(tmp_path: Path) -> None:
    calls, real = [0], ArrayStore.put

    def impatient(shelf: ArrayStore, arrays: Any) -> list[str]:
        calls[0] += 1
        if calls[0] == 2:  # the first task
            raise KeyboardInterrupt
        return real(shelf, arrays)

    with mock.patch.object(ArrayStore, "put", impatient), pytest.raises(KeyboardInterrupt):
        run(study(), tmp_path)
    with Store.open(tmp_path) as store:
        assert store.prediction_references()
    assert run(study(), tmp_path).remaining == 0


def test_runner_is_closed_when_writing_fails(tmp_path: Path) -> None:
    closed = []

    def runner(work: Any, given: Any, /) -> Any:
        try:
            yield from serial(work, given)
        finally:
            closed.append(True)

    with (
        mock.patch.object(Store, "add_outcomes", side_effect=InputError("full")),
        pytest.raises(InputError, match="full"),
    ):
        run(study(), tmp_path, runner=runner)
    assert closed == [True]


def test_second_writer_is_rejected_with_the_name_of_the_first(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write"), pytest.raises(InputError) as caught:
        run(study(), tmp_path)
    assert f"is being written by process {os.getpid()} on " in str(caught.value)


# Reports -----------------------------------------------------------------------------------


def test_progress_reports_counts_and_remaining_time(tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    run(study(), tmp_path, limit=3)
    run(study(), tmp_path, progress=lambda *report: seen.append(report))
    assert seen[0][2].startswith("3 of 12 evaluations, predictions: 0 of ")
    assert seen[-1] == (9, 9, "12 of 12 evaluations")
    assert any(words.endswith(" left") for _, _, words in seen)
    assert all(0 <= worked <= jobs for worked, jobs, _ in seen)


def test_summary_is_one_sentence_per_fact() -> None:
    ran = StudyRunResult(5, 1, 1, {"b on 0": "no"}, 2, 3, 100.0)
    assert ran.summary() == (
        "1 evaluations computed in 2 min, 1 failed; 2 of 5 are stored, 3 remain. 2 models did not "
        "converge and are skipped. 3 models are not trained yet; `oodometer pool run SPEC` trains them."
    )
    assert json.loads(json.dumps(ran.to_dict()))["left"] == 3
