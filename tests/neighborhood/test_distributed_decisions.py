"""Neighborhood invariance in workers: identical to the result in one process."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.data import as_dataset
from oodometer.models import TorchModel
from oodometer.neighborhood._invariance import invariance
from oodometer.parallel import runners
from oodometer.parallel.runners import Runner, distributed, processes, serial
from oodometer.testing import toy_inputs
from tests.neighborhood.test_invariance import Linear, Noise, vectors
from tests.support.distributed_work import Bright, Columns, Mortal, Words, everything, mailed
from tests.support.stub_models import ByContent

MODELS: dict[InputKind, list[Any]] = {
    "images": [Bright(), Bright("wild", 0.7)],
    "text": [Words(), ByContent()],
    "table": [Columns(), ByContent(hard=True)],
}
TRANSFORMS = {"images": "randaugment", "text": "random_replace", "table": "marginal_swap"}
OPTIONS: dict[str, dict[str, Any]] = {
    "all": {},
    "no identity": {"identity": False},
    "budget": {"max_inputs": 150},
    "precision": {"precision": 0.12},
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks small, so that there are many."""
    monkeypatch.setattr(runners, "MAX_TASK_ROWS", 40)


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("kind", MODELS)
def test_result_does_not_depend_on_partition_or_completion_order(
    kind: InputKind, case: str
) -> None:
    data = toy_inputs(kind, n=40)
    options = {"draws": 4, "seed": 3, "batch_size": 7, **OPTIONS[case]}
    expected = everything(invariance(MODELS[kind], data, transform=TRANSFORMS[kind], **options))
    for runner in (serial, mailed(1)):
        result = invariance(
            MODELS[kind], data, transform=TRANSFORMS[kind], runner=runner, **options
        )
        assert everything(result) == expected


@settings(max_examples=10)
@given(
    seed=st.integers(0, 99),
    batch=st.integers(1, 40),
    draws=st.integers(2, 6),
    n=st.integers(2, 250),
)
def test_stopping_point_does_not_depend_on_worker_speed(
    seed: int, batch: int, draws: int, n: int
) -> None:
    options: dict[str, Any] = {"draws": draws, "seed": seed, "batch_size": batch, "precision": 0.1}
    expected = invariance(Linear(), vectors(n), transform=Noise(3.0), **options)
    result = invariance(Linear(), vectors(n), transform=Noise(3.0), runner=mailed(seed), **options)
    assert everything(result) == everything(expected)


def test_workers_resume_an_earlier_run() -> None:
    data, models = vectors(230), [ByContent(), ByContent(hard=True)]
    first = invariance(models, data, transform=Noise(), draws=4, max_inputs=200, runner=mailed(0))
    whole = invariance(models, data, transform=Noise(), draws=6, resume=first, runner=mailed(1))
    local = invariance(models, data, transform=Noise(), draws=6, resume=first)
    assert everything(whole) == everything(local)
    assert whole.sampling_cost.drawn == 230 * 7
    again = invariance(models, data, transform=Noise(), draws=6, resume=whole, runner=mailed(2))
    assert everything(again) == everything(whole)


def test_workers_report_the_same_progress() -> None:
    def reports(runner: Runner | None) -> list[tuple[int, int, str]]:
        calls: list[tuple[int, int, str]] = []
        invariance(
            ByContent(),
            vectors(30),
            transform=Noise(),
            draws=3,
            batch_size=9,
            runner=runner,
            progress=lambda *call: calls.append(call),
        )
        return calls

    local = reports(None)
    assert reports(mailed(0)) == local
    assert local[-1] == (120, 120, "classifying")


def network() -> Any:
    """Return a network with convolutions and a batch norm, which inference fuses."""
    import torch
    from torch import nn

    with torch.random.fork_rng():
        torch.manual_seed(0)
        parts = nn.Conv2d(3, 4, 5, stride=3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
        return nn.Sequential(*parts, nn.Linear(4 * 7 * 7, 3)).eval()


def test_torch_network_gives_identical_results_in_workers() -> None:
    options: dict[str, Any] = {"draws": 3, "batch_size": 16}
    results = [
        invariance(TorchModel(network()), toy_inputs("images", n=40), runner=runner, **options)
        for runner in (None, serial, mailed(0))
    ]
    assert everything(results[0]) == everything(results[1]) == everything(results[2])


def all_three(runner: Runner | None) -> list[Any]:
    """Return the results of complete runs on images, texts and tables."""
    return [
        everything(
            invariance(
                MODELS[kind],
                toy_inputs(kind, n=40),
                transform=TRANSFORMS[kind],
                draws=3,
                batch_size=16,
                runner=runner,
            )
        )
        for kind in MODELS
    ]


def test_processes_and_cluster_give_identical_results(two_workers: str) -> None:
    expected = all_three(serial)
    assert all_three(processes(2)) == expected
    assert all_three(distributed(two_workers)) == expected


@pytest.mark.parametrize("where", ["processes", "cluster"])
def test_killed_worker_does_not_change_the_result(
    where: str, two_workers: str, tmp_path: Path
) -> None:
    runner = processes(2) if where == "processes" else distributed(two_workers)
    data, trace = toy_inputs("images", n=40), tmp_path / "died"
    options: dict[str, Any] = {"draws": 3, "batch_size": 16}
    expected = invariance(
        Mortal("one", 0.7, trace), data, transform="translate", runner=serial, **options
    )
    assert not trace.exists()
    result = invariance(
        Mortal("one", 0.7, trace), data, transform="translate", runner=runner, **options
    )
    assert trace.exists()
    assert everything(result) == everything(expected)


def test_objects_that_cannot_be_pickled_are_named() -> None:
    data = as_dataset(vectors(20))
    with pytest.raises(
        InputError, match=r"The model 'mine' cannot be sent to workers \(.*\)\. Pass a function"
    ):
        invariance({"mine": lambda x: [0] * len(x)}, data, transform=Noise(), runner=processes(2))
    assert (
        invariance({"mine": lambda x: [0] * len(x)}, data, transform=Noise(), runner=serial).n == 20
    )
    with pytest.raises(InputError, match="The transform 'noise' cannot be sent to workers"):
        invariance(ByContent(), data, transform=LocalNoise(), runner=processes(2))


class LocalNoise(Noise):
    """Noise that cannot be pickled."""

    def __getstate__(self) -> Any:
        raise TypeError("an open file")


def test_inconsistent_outputs_in_workers_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"The model 'inconsistent' returned probabilities of 2 classes for "
    ):
        invariance(Inconsistent(), vectors(60), transform=Noise(), batch_size=10, runner=mailed(0))


class Inconsistent(ByContent):
    """Model with two classes, and three for some batches."""

    def __init__(self) -> None:
        super().__init__("inconsistent")

    def classify(self, inputs: Any) -> Any:
        self.k = 2 + int(inputs[0, 0] > 1)
        return super().classify(inputs)


def test_workers_open_files_and_models_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "points.npy", vectors(50))
    (tmp_path / "apart_scorers.py").write_text(
        "def side(x):\n    return (x[:, 0] > 0).astype(int)\n"
    )
    with contextlib.chdir(tmp_path):
        local, remote = (
            invariance(
                "apart_scorers:side", "points.npy", transform="gaussian", draws=2, runner=runner
            )
            for runner in (serial, processes(1))
        )
    assert everything(local) == everything(remote)
