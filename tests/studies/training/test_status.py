"""Status of a pool against the content of its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from oodometer.studies.training import checkpoint
from oodometer.studies.training._run import FailedTraining, TrainingTask, run
from oodometer.studies.training._status import PoolStatusRow, status
from oodometer.studies.training._train import TrainedModel
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec
from tests.support import training_tasks

SPEC = PoolSpec.open(training_tasks.SPEC)


def test_status_counts_by_domain_and_architecture(tmp_path: Path) -> None:
    def some(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
        (one,) = task.recipes
        return [
            FailedTraining(one, "no")
            if one.settings["depth"] == 2
            else training_tasks.fake_model(one)
        ]

    nothing = status(SPEC, tmp_path / "none")
    assert (nothing.total("pending"), nothing.seconds_left) == (40, None)
    assert not (tmp_path / "none").exists()
    run(SPEC, tmp_path, work=some, limit=30)
    found = status(SPEC, tmp_path)
    assert found.rows == naive_rows(tmp_path, SPEC.recipes())
    assert [found.total(name) for name in ("done", "converged", "failed", "pending")] == [
        sum(getattr(row, name) for row in naive_rows(tmp_path, SPEC.recipes()))
        for name in ("done", "converged", "failed", "pending")
    ]
    assert found.total("done") + found.total("failed") == 30
    assert found.seconds_left == pytest.approx(2.0 * (40 - found.total("done")))
    assert set(found.failed) == set(checkpoint.read_reasons(tmp_path))
    assert json.loads(json.dumps(found.to_dict()))["pending"] == 10


def naive_rows(pool: Path, recipes: Sequence[TrainingConfig]) -> tuple[PoolStatusRow, ...]:
    """Count the models of each domain by a plain loop."""
    rows = []
    for domains in (("0",), ("90",)):
        own = [recipe for recipe in recipes if recipe.domains == domains]
        done = [one for one in own if (pool / one.id / "result.json").exists()]
        converged = [one for one in done if one.batch == 8]
        failed = [one for one in own if (pool / ".failed" / f"{one.id}.json").exists()]
        pending = len(own) - len(done) - len(failed)
        rows.append(PoolStatusRow(domains, "mlp", len(done), len(converged), len(failed), pending))
    return tuple(rows)
