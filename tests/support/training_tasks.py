"""Stand-ins for training that worker processes can import; and a pool to be killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.parallel.runners import processes, serial
from oodometer.studies.training import checkpoint
from oodometer.studies.training._run import FailedTraining, TrainingTask, run
from oodometer.studies.training._train import TrainedModel
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec

# Variable with the path of a log that all processes append to.
LOG = "OODOMETER_TEST_LOG"
SPEC: dict[str, Any] = {
    "name": "little",
    "group": "hypersphere",
    "domains": ["0", "90"],
    "architecture": "mlp",
    "grid": {"epochs": [5, 6, 7, 8, 9], "batch": [8, 16], "settings": {"depth": [1, 2]}},
}


def fake_model(recipe: TrainingConfig) -> TrainedModel:
    """Return a model whose weights depend on the recipe; converged if the batch is small."""
    weights = {"weight": np.full(1000, recipe.epochs), "one": np.array(recipe.lr)}
    facts = {"seconds": 2.0}
    shape = InputShape("vectors", 2, (16,))
    return TrainedModel(recipe, shape, ("outside", "inside"), weights, recipe.batch == 8, facts)


def quick(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    return [fake_model(recipe) for recipe in task.recipes]


def logged(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    """Log the recipes of a task, then train slowly."""
    for recipe in task.recipes:
        with Path(os.environ[LOG]).open("a") as file:
            file.write(f"{recipe.id}\n")
        time.sleep(0.1)
    return quick(task)


def kill_worker_once(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    """Kill the worker on one recipe the first time; succeed the second time."""
    for recipe in task.recipes:
        before = Path(os.environ[LOG]).read_text()
        with Path(os.environ[LOG]).open("a") as file:
            file.write(f"{recipe.id}\n")
        if recipe.epochs == 7 and recipe.batch == 8 and recipe.id not in before:
            os.kill(os.getpid(), signal.SIGKILL)
    return quick(task)


def fail_half(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    return [
        FailedTraining(one, "ValueError: no\x1b[2J luck", "a trace")
        if one.batch == 8
        else fake_model(one)
        for one in task.recipes
    ]


def raising(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    raise ValueError("all of\nit")


def assert_pool_complete(pool: Path, spec: PoolSpec) -> None:
    """Assert that the pool has exactly the models of the spec, readable, with exact recipes."""
    found = checkpoint.finished_models(pool)
    assert set(found) == {recipe.id for recipe in spec.recipes()}
    for recipe in spec.recipes():
        folder = found[recipe.id]
        assert (folder / checkpoint.RECIPE_FILE).read_bytes() == recipe.to_json().encode()
        assert checkpoint.load_facts(folder)["converged"] in (True, False)
        assert checkpoint._load_weights(folder)
    assert not list(pool.glob("*.partial"))


def _killed(pool: str, workers: str) -> None:
    """Train a pool with slow writes, so that a kill can hit a write."""
    real = os.fsync

    def slow(file: int) -> None:
        time.sleep(0.005)
        real(file)

    checkpoint.os.fsync = slow  # type: ignore[attr-defined]
    runner = processes(int(workers)) if int(workers) else serial
    run(PoolSpec.open(SPEC), pool, runner=runner, work=logged)


if __name__ == "__main__":
    _killed(*sys.argv[1:])
