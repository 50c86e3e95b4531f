"""Runs of a pool: resuming, failures and interruptions."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from oodometer.core.errors import InputError, MissingExtra
from oodometer.parallel.runners import processes, serial
from oodometer.studies.training import _run, checkpoint
from oodometer.studies.training._run import (
    FailedTraining,
    PoolRunResult,
    TrainingTask,
    make_tasks,
    run,
    train_task,
)
from oodometer.studies.training._train import TrainedModel
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec
from tests.support import training_tasks

ROOT = Path(__file__).parent.parent.parent.parent
SPEC = PoolSpec.open(training_tasks.SPEC)
IDS = [recipe.id for recipe in SPEC.recipes()]


# Stand-ins for training -------------------------------------------------------------------------


def test_pool_is_trained_once(tmp_path: Path) -> None:
    ran = run(SPEC, tmp_path, work=training_tasks.quick)
    assert (ran.total, ran.before, ran.remaining, ran.failed) == (40, 0, 0, {})
    assert set(ran.trained) == set(IDS)
    assert ran.converged == 20
    training_tasks.assert_pool_complete(tmp_path, SPEC)
    again = run(SPEC, tmp_path, work=training_tasks.raising)
    assert (again.before, again.trained, again.failed) == (40, (), {})


def test_limit_defers_the_rest_and_keeps_finished_models(tmp_path: Path) -> None:
    first = run(SPEC, tmp_path, work=training_tasks.quick, limit=7)
    before = {
        name: path.stat().st_mtime_ns for name, path in checkpoint.finished_models(tmp_path).items()
    }
    assert (len(first.trained), first.remaining, len(before)) == (7, 33, 7)
    second = run(SPEC, tmp_path, work=training_tasks.quick, limit=100)
    assert (second.before, len(second.trained)) == (7, 33)
    assert not set(first.trained) & set(second.trained)
    assert all((tmp_path / name).stat().st_mtime_ns == stamp for name, stamp in before.items())


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_below_one_is_rejected(limit: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"limit must be at least 1; got {limit}"):
        run(SPEC, tmp_path, limit=limit)


def test_group_with_other_classes_is_rejected(tmp_path: Path) -> None:
    run(SPEC, tmp_path, work=training_tasks.quick, limit=1)
    other = replace(SPEC, group=replace(SPEC.group, classes=("far", "near")))
    with pytest.raises(
        InputError, match="the classes outside, inside, and the group 'hypersphere'"
    ):
        run(other, tmp_path, work=training_tasks.quick)


def test_specs_can_share_a_folder(tmp_path: Path) -> None:
    smaller = PoolSpec.open({**training_tasks.SPEC, "domains": ["0"]})
    run(smaller, tmp_path, work=training_tasks.quick)
    ran = run(SPEC, tmp_path, work=training_tasks.quick)
    assert (ran.before, len(ran.trained)) == (20, 20)


def test_failures_are_stored_and_tried_again(tmp_path: Path) -> None:
    ran = run(SPEC, tmp_path, work=training_tasks.fail_half)
    assert (len(ran.trained), len(ran.failed), ran.remaining) == (20, 20, 20)
    assert set(ran.failed.values()) == {"ValueError: no\x1b[2J luck"}
    name = next(iter(ran.failed))
    content = json.loads((tmp_path / ".failed" / f"{name}.json").read_text())
    assert (TrainingConfig.from_dict(content["recipe"]).id, content["trace"]) == (name, "a trace")
    # The shell pattern pool/* matches the models only.
    assert {Path(path).name for path in glob(str(tmp_path / "*"))} == set(ran.trained)
    again = run(SPEC, tmp_path, work=training_tasks.quick)
    assert (again.before, len(again.trained), again.failed) == (20, 20, {})
    assert checkpoint.read_reasons(tmp_path) == {}
    training_tasks.assert_pool_complete(tmp_path, SPEC)


def test_task_that_raises_is_a_failure_with_a_one_line_reason(tmp_path: Path) -> None:
    ran = run(SPEC, tmp_path, work=training_tasks.raising)
    assert ran.failed == dict.fromkeys(IDS, "ValueError: all of it")
    assert checkpoint.read_reasons(tmp_path) == ran.failed


def test_unreadable_failure_file_counts_as_a_failure(tmp_path: Path) -> None:
    run(SPEC, tmp_path, work=training_tasks.fail_half, limit=2)
    for path in (tmp_path / ".failed").iterdir():
        path.write_text("{")
    assert set(checkpoint.read_reasons(tmp_path).values()) == {
        "unknown: the file with the reason cannot be read"
    }


def test_missing_package_ends_the_run(tmp_path: Path) -> None:
    def without(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
        raise MissingExtra("Training needs torch.")

    with pytest.raises(MissingExtra, match="needs torch"):
        run(SPEC, tmp_path, work=without)
    assert not checkpoint.read_reasons(tmp_path)


def test_progress_reports_counts_and_remaining_time(tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    run(SPEC, tmp_path, work=training_tasks.quick, limit=4)
    run(SPEC, tmp_path, work=training_tasks.fail_half, progress=lambda *report: seen.append(report))
    assert seen[0] == (0, 36, "4 of 40 models")
    assert [done for done, _, _ in seen] == list(range(37))
    assert seen[-1] == (36, 36, "24 of 40 models, 16 failed")
    assert seen[-2][2].endswith(" s left")


def test_missing_files_are_reported_before_the_run(tmp_path: Path) -> None:
    spec = PoolSpec.open("dg-pacs", data=tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"there is no .PACS/cartoon. in .*nowhere"):
        run(spec, tmp_path / "pool")
    assert not (tmp_path / "pool").exists()


def test_only_training_domains_must_exist(tmp_path: Path) -> None:
    group = {"groups": {"rows": {"kind": "vectors", "classes": ["a", "b"], "domains": {
        "here": {"reader": "npz", "path": "here.npz"}, "gone": {"reader": "npz", "path": "gone.npz"},
    }}}}  # fmt: skip
    np.savez(tmp_path / "here.npz", x=np.zeros((20, 2)), y=np.arange(20) % 2)
    table = {"group": group, "architecture": "mlp", "domains": ["here"]}
    ran = run(PoolSpec.open(table, data=tmp_path), tmp_path / "pool", work=training_tasks.quick)
    assert len(ran.trained) == 1


def test_summary_is_one_sentence() -> None:
    ran = PoolRunResult(5, 1, ("a",), 1, {"b": "no"}, 100.0)
    assert ran.summary() == (
        "1 model trained in 2 min, 1 of them converged, 1 failed; 2 of 5 are stored, 3 remain."
    )
    assert json.loads(json.dumps(ran.to_dict()))["left"] == 3
    assert PoolRunResult(2, 1).summary().endswith("1 of 2 are stored, 1 remains.")


# Interruptions ----------------------------------------------------------------------------------


def test_run_continues_after_a_full_disk(tmp_path: Path) -> None:
    written, real = [0], os.fsync

    def full(file: int) -> None:
        written[0] += 1
        if written[0] > 30:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    with (
        mock.patch("oodometer.studies.training.checkpoint.os.fsync", full),
        pytest.raises(InputError, match=r"No space left on device\. Free space") as caught,
    ):
        run(SPEC, tmp_path, work=training_tasks.quick)
    assert "finished models are kept" in str(caught.value)
    finished = checkpoint.finished_models(tmp_path)
    assert 0 < len(finished) < 40
    assert not list(tmp_path.glob("*.partial"))
    ran = run(SPEC, tmp_path, work=training_tasks.quick)
    assert (ran.before, ran.remaining) == (len(finished), 0)
    training_tasks.assert_pool_complete(tmp_path, SPEC)


def test_full_disk_while_writing_a_failure_is_reported(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        mock.patch("oodometer.data.atomic.os.replace", side_effect=full),
        pytest.raises(InputError, match=r"No space left on device\. Free space"),
    ):
        run(SPEC, tmp_path, work=training_tasks.raising)
    assert list((tmp_path / ".failed").iterdir()) == []


def test_interrupt_while_saving_does_not_lose_the_model(tmp_path: Path) -> None:
    calls, real = [0], os.fsync

    def impatient(file: int) -> None:
        calls[0] += 1
        if calls[0] == 8:  # the second model is half written
            raise KeyboardInterrupt
        real(file)

    with (
        mock.patch("oodometer.studies.training.checkpoint.os.fsync", impatient),
        pytest.raises(KeyboardInterrupt),
    ):
        run(SPEC, tmp_path, work=training_tasks.quick)
    assert len(checkpoint.finished_models(tmp_path)) == 2


def test_runner_is_closed_when_writing_fails(tmp_path: Path) -> None:
    closed = []

    def runner(work: Any, given: Any, /) -> Any:
        try:
            yield from serial(work, given)
        finally:
            closed.append(True)

    with (
        mock.patch("oodometer.studies.training.checkpoint.save", side_effect=InputError("full")),
        pytest.raises(InputError, match="full"),
    ):
        run(SPEC, tmp_path, runner=runner, work=training_tasks.quick)
    assert closed == [True]


# Real training ----------------------------------------------------------------------------------

TOY: dict[str, Any] = {
    "group": "hypersphere",
    "domains": ["0"],
    "architecture": "mlp",
    "fixed": {"epochs": 3, "batch": 250, "stop_at": "none"},
    "grid": {"lr": [0.01, 0.1], "settings": {"width": [4, 6]}},
}


def weights_in(pool: Path) -> dict[str, dict[str, Any]]:
    return {
        name: checkpoint._load_weights(path)
        for name, path in checkpoint.finished_models(pool).items()
    }


def test_workers_train_the_same_weights_as_one_process(tmp_path: Path) -> None:
    spec = PoolSpec.open(TOY)
    one = run(spec, tmp_path / "one")
    many = run(spec, tmp_path / "many", runner=processes(1))
    assert (one.failed, many.failed) == ({}, {})
    training_tasks.assert_pool_complete(tmp_path / "one", spec)
    training_tasks.assert_pool_complete(tmp_path / "many", spec)
    first, second = weights_in(tmp_path / "one"), weights_in(tmp_path / "many")
    assert first.keys() == second.keys()
    for name, weights in first.items():
        assert all(np.array_equal(weights[key], second[name][key]) for key in weights)


def test_models_of_a_pool_classify(tmp_path: Path) -> None:
    spec = PoolSpec.open({**TOY, "fixed": {**TOY["fixed"], "epochs": 40}})
    run(spec, tmp_path, limit=1)
    ((name, folder),) = checkpoint.finished_models(tmp_path).items()
    model = checkpoint.load_model(folder)
    data = spec.group.domain("0", "test")
    found = model.classify(data.take(slice(None)))
    assert model.name == name
    assert data.labels is not None
    assert (found.classes == data.labels).mean() > 0.7


def test_failing_stack_is_trained_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(recipe: TrainingConfig, group: Any) -> TrainedModel:
        if recipe.seed == 1:
            raise ValueError("not this one")
        return training_tasks.fake_model(recipe)

    monkeypatch.setattr(_run, "train_stacked", mock.Mock(side_effect=RuntimeError))
    monkeypatch.setattr(_run, "train", bad)
    recipes = tuple(replace(SPEC.recipes()[0], seed=seed) for seed in range(3))
    found = train_task(TrainingTask(recipes, SPEC.group))
    assert [type(one) for one in found] == [TrainedModel, FailedTraining, TrainedModel]
    assert [one.recipe for one in found] == list(recipes)
    failed = found[1]
    assert isinstance(failed, FailedTraining)
    assert failed.reason == "ValueError: not this one"
    assert "in bad" in failed.trace


def test_stack_of_one_gives_the_weights_of_a_larger_stack() -> None:
    recipes = tuple(replace(SPEC.recipes()[0], seed=seed) for seed in range(3))
    together = train_task(TrainingTask(recipes, SPEC.group))
    for one, found in zip(recipes, together, strict=True):
        (alone,) = train_task(TrainingTask((one,), SPEC.group))
        assert isinstance(alone, TrainedModel)
        assert isinstance(found, TrainedModel)
        assert alone.facts["stacked"] == 1
        assert all(
            np.array_equal(alone.weights[name], found.weights[name]) for name in alone.weights
        )


def test_only_mlps_of_one_shape_are_stacked() -> None:
    first = SPEC.recipes()[0]
    alike = [replace(first, seed=seed) for seed in range(120)]
    other = [replace(first, batch=99), *(replace(one, architecture="nin") for one in alike[:2])]
    found = make_tasks([*alike, *other], SPEC.group)
    assert [len(task.recipes) for task in found] == [50, 50, 20, 1, 1, 1]
    assert [one for task in found for one in task.recipes] == [*alike, *other]
    # Models that are trained one by one are also saved one by one.
    changes: list[dict[str, Any]] = [
        {"settings": {"dropout": 0.1}},
        {"settings": {"width": 20}},
        {"augment": "augmix"},
    ]
    for change in changes:
        assert len(make_tasks([replace(one, **change) for one in alike], SPEC.group)) == 120
