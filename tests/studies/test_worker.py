"""Execution of a task in a worker: failures, threads, and classes in another order."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oodometer import as_model
from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, MissingExtra
from oodometer.studies import run
from oodometer.studies.plan import plan_study, prediction_tasks
from oodometer.studies.store import Store
from oodometer.studies.worker import _run_together, run_task
from tests.support.study_tasks import Ball, model, study


def turned(points: Array) -> Array:
    return Ball()(points)[:, ::-1]


class Company:
    """Work that fails for all items if one of them is bad."""

    def __init__(self, bad: object = None, error: type[Exception] = ValueError) -> None:
        self.bad, self.error = bad, error
        self.calls: list[list[int]] = []
        self.noted_of: list[int] = []

    def work(self, items: Sequence[int]) -> None:
        self.calls.append(list(items))
        if self.bad in items:
            raise self.error("bad")

    @contextmanager
    def noted(self, item: int) -> Iterator[None]:
        try:
            yield
        except ValueError:
            self.noted_of.append(item)


def test_items_are_processed_together_or_one_by_one() -> None:
    good, bad = Company(), Company(2)
    for one in (good, bad):
        _run_together(one.work, [1, 2, 3], one.noted)
    assert (good.calls, good.noted_of) == ([[1, 2, 3]], [])
    assert (bad.calls, bad.noted_of) == ([[1, 2, 3], [1], [2], [3]], [2])


def test_missing_package_is_raised() -> None:
    lacking = Company(2, MissingExtra)
    with pytest.raises(MissingExtra):
        _run_together(lacking.work, [1, 2], lacking.noted)
    assert lacking.calls == [[1, 2]]


def test_pickled_task_gives_the_same_results(tmp_path: Path) -> None:
    task, *_ = prediction_tasks(plan_study(study()).evaluations, {}, tmp_path, 0)
    here, there = run_task(task), run_task(pickle.loads(pickle.dumps(task)))
    for one, other in zip(here, there, strict=True):
        assert one.predictions is not None
        assert other.predictions is not None
        assert np.array_equal(one.predictions.probs, other.predictions.probs)
        assert one.predictions.labels is None, "labels are the dataset's"


def test_classes_in_another_order_are_matched_by_name(tmp_path: Path) -> None:
    names = ["inside", "outside"]
    both = [
        model("plain", Ball()),
        model("turned", as_model(turned, class_names=names)),
        model("other", as_model(turned, class_names=["inside", "beside"])),
    ]
    few = study(models=both, measures=["source-error"])
    failed = run(few, tmp_path).failed
    assert {name.split()[0] for name in failed} == {"other"}
    assert all("is not a class of both the model and the data" in why for why in failed.values())
    with Store.open(tmp_path) as store:
        rows = store.to_table().to_pylist()
    found = {
        name: {
            (row["tested_on"], row["measure"]): (row["accuracy"], row["value"])
            for row in rows
            if row["model"] == name
        }
        for name in ("plain", "turned")
    }
    assert found["plain"].keys() == found["turned"].keys()
    for place, (accuracy, value) in found["plain"].items():
        same, other = found["turned"][place]
        assert accuracy == same
        assert value == pytest.approx(other, abs=1e-12), place


def test_differing_rows_are_rejected(tmp_path: Path) -> None:
    task, *_ = prediction_tasks(plan_study(study()).evaluations, {}, tmp_path, 0)
    with pytest.raises(InputError, match="Make the same files available to every worker"):
        run_task(replace(task, dataset_key="another"))
