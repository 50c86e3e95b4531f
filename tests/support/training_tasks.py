"""Stand-ins for training, as other processes can import them; and a pool that is to be killed."""

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

# Where what is trained is written down, by whichever process does.
LOG = "OODOMETER_TEST_LOG"
SPEC: dict[str, Any] = {
    "name": "little",
    "group": "hypersphere",
    "domains": ["0", "90"],
    "architecture": "mlp",
    "grid": {"epochs": [5, 6, 7, 8, 9], "batch": [8, 16], "settings": {"depth": [1, 2]}},
}


def model_of(recipe: TrainingConfig) -> TrainedModel:
    """Weights that hang on the recipe; converged if the batch is small."""
    weights = {"weight": np.full(1000, recipe.epochs), "one": np.array(recipe.lr)}
    facts = {"seconds": 2.0}
    shape = InputShape("vectors", 2, (16,))
    return TrainedModel(recipe, shape, ("outside", "inside"), weights, recipe.batch == 8, facts)


def quick(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    return [model_of(recipe) for recipe in task.recipes]


def logged(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    """Writes down the beginning, and takes a while."""
    for recipe in task.recipes:
        with Path(os.environ[LOG]).open("a") as file:
            file.write(f"{recipe.id}\n")
        time.sleep(0.1)
    return quick(task)


def fatal(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    """Some are killed in the middle of it, with the whole process; the second time all is well."""
    for recipe in task.recipes:
        before = Path(os.environ[LOG]).read_text()
        with Path(os.environ[LOG]).open("a") as file:
            file.write(f"{recipe.id}\n")
        if recipe.epochs == 7 and recipe.batch == 8 and recipe.id not in before:
            os.kill(os.getpid(), signal.SIGKILL)
    return quick(task)


def half_bad(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    return [
        FailedTraining(one, "ValueError: no\x1b[2J luck", "a trace")
        if one.batch == 8
        else model_of(one)
        for one in task.recipes
    ]


def raising(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    raise ValueError("all of\nit")


def check_whole(pool: Path, spec: PoolSpec) -> None:
    """Every model of the spec and no other, each readable, its recipe to the byte."""
    found = checkpoint.finished_models(pool)
    assert set(found) == {recipe.id for recipe in spec.recipes()}
    for recipe in spec.recipes():
        folder = found[recipe.id]
        assert (folder / checkpoint.RECIPE_FILE).read_bytes() == recipe.to_json().encode()
        assert checkpoint.load_facts(folder)["converged"] in (True, False)
        assert checkpoint._load_weights(folder)
    assert not list(pool.glob("*.partial"))


def _killed(pool: str, workers: str) -> None:
    """A pool whose disk is slow, so that a kill hits the writing too."""
    real = os.fsync

    def slow(file: int) -> None:
        time.sleep(0.005)
        real(file)

    checkpoint.os.fsync = slow  # type: ignore[attr-defined]
    runner = processes(int(workers)) if int(workers) else serial
    run(PoolSpec.open(SPEC), pool, runner=runner, work=logged)


if __name__ == "__main__":
    _killed(*sys.argv[1:])
