"""Models and tasks of studies that worker processes can import; and a study to be killed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.parallel.runners import processes, serial
from oodometer.studies import Study, run
from oodometer.studies.plan import StudyTask
from oodometer.studies.store import EvaluationOutcome, Store
from oodometer.studies.store.array_store import ArrayStore
from oodometer.studies.worker import run_task

# Variable with the path of a log that all processes append to.
LOG = "OODOMETER_TEST_LOG"


@dataclass(frozen=True)
class Ball:
    """Classify points as inside or outside a ball, with a sigmoid of the distance."""

    radius: float = 1.0
    steep: float = 20.0

    def __call__(self, points: Array) -> Array:
        inside = 1.0 / (1.0 + np.exp(self.steep * (np.linalg.norm(points, axis=1) - self.radius)))
        return np.stack([1.0 - inside, inside], axis=1)


class Counting(Ball):
    """Ball that counts the rows it classifies."""

    rows = 0

    def __call__(self, points: Array) -> Array:
        Counting.rows += len(points)
        return super().__call__(points)


def classes_only(points: Array) -> Array:
    return np.asarray(np.linalg.norm(points, axis=1) < 1.0, dtype=np.int64)


def three_classes(points: Array) -> Array:
    return np.full((len(points), 3), 1 / 3)


def broken(points: Array) -> Array:
    raise ValueError("out\nof order")


def broken_elsewhere(points: Array) -> Array:
    """Fail on points far from the pole."""
    if points[:, 0].mean() < 0.8:
        raise ValueError("too far south")
    return Ball()(points)


def model(name: str, path: Any, *trained_on: str, architecture: str = "ball") -> dict[str, Any]:
    given = {"name": name, "path": path, "architecture": architecture}
    return {**given, "trained_on": list(trained_on or ("0",))}


BALLS = [
    model("small", Ball(0.95), "0"),
    model("right", Ball(), "0"),
    model("vague", Ball(1.0, 3.0), "90"),
    model("both", Ball(1.02), "0", "90"),
]
SPEC: dict[str, Any] = {
    "name": "balls",
    "group": "hypersphere",
    "domains": ["0", "30", "90"],
    "models": BALLS,
    "rows": 60,
    "source_rows": 70,
    "estimators": ["ac", "doc", "atc-mc", "gde"],
    "temperature": "both",
    "invariance": ["gaussian", {"transform": "gaussian", "magnitude": 1, "draws": 2}],
    "measures": ["entropy-target", "source-error", "mixup"],
    "metrics": ["error", "nll"],
    "draws": 3,
}


def study(**changes: Any) -> Study:
    return Study.open({**SPEC, **changes})


def export_rows(folder: Path) -> bytes:
    """Return all rows of a store as the bytes of a Parquet file."""
    with Store.open(folder) as store:
        store.export(folder / "rows.parquet")
    return (folder / "rows.parquet").read_bytes()


def task_keys(task: StudyTask) -> list[str]:
    """Return the keys of the predictions or results that a task computes."""
    lines = []
    for job in task.jobs:
        if not job.evaluation.requests:
            lines.append("\t".join(("said", *job.unit.key_pair)))
        for wanted in job.evaluation.requests:
            lines += ["\t".join(key) for key in job.evaluation.result_keys(wanted)]
    return lines


def run_logged(task: StudyTask) -> list[EvaluationOutcome]:
    """Log the keys of a task, then run it slowly."""
    with Path(os.environ[LOG]).open("a") as file:
        file.write("".join(f"{line}\n" for line in task_keys(task)))
    time.sleep(0.05)
    return run_task(task)


def _killed(folder: str, workers: str) -> None:
    """Run a study with slow writes, so that a kill can hit a write."""
    put = ArrayStore.put

    def slow(shelf: ArrayStore, arrays: Sequence[Array]) -> list[str]:
        time.sleep(0.02)
        names = put(shelf, arrays)
        time.sleep(0.02)
        return names

    ArrayStore.put = slow  # type: ignore[method-assign, assignment]
    runner = processes(int(workers)) if int(workers) else serial
    run(study(), folder, runner=runner, work=run_logged)


if __name__ == "__main__":
    _killed(*sys.argv[1:])
