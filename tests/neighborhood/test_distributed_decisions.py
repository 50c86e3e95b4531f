"""Neighborhoods by many workers: the same to the bit as one after another, whatever happens."""

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
WISHES: dict[str, dict[str, Any]] = {
    "all": {},
    "no identity": {"identity": False},
    "budget": {"max_inputs": 150},
    "precision": {"precision": 0.12},
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there are many of them."""
    monkeypatch.setattr(runners, "MAX_TASK_ROWS", 40)


@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("kind", MODELS)
def test_any_partition_in_any_order_gives_the_same(kind: InputKind, wish: str) -> None:
    data = toy_inputs(kind, n=40)
    given_ = {"draws": 4, "seed": 3, "batch_size": 7, **WISHES[wish]}
    expected = everything(invariance(MODELS[kind], data, transform=TRANSFORMS[kind], **given_))
    for runner in (serial, mailed(1)):
        found = invariance(MODELS[kind], data, transform=TRANSFORMS[kind], runner=runner, **given_)
        assert everything(found) == expected


@settings(max_examples=10)
@given(
    seed=st.integers(0, 99),
    batch=st.integers(1, 40),
    draws=st.integers(2, 6),
    n=st.integers(2, 250),
)
def test_where_it_stops_hangs_on_nobodys_speed(seed: int, batch: int, draws: int, n: int) -> None:
    wish: dict[str, Any] = {"draws": draws, "seed": seed, "batch_size": batch, "precision": 0.1}
    expected = invariance(Linear(), vectors(n), transform=Noise(3.0), **wish)
    found = invariance(Linear(), vectors(n), transform=Noise(3.0), runner=mailed(seed), **wish)
    assert everything(found) == everything(expected)


def test_an_earlier_run_is_gone_on_with() -> None:
    data, models = vectors(230), [ByContent(), ByContent(hard=True)]
    first = invariance(models, data, transform=Noise(), draws=4, max_inputs=200, runner=mailed(0))
    whole = invariance(models, data, transform=Noise(), draws=6, resume=first, runner=mailed(1))
    there = invariance(models, data, transform=Noise(), draws=6, resume=first)
    assert everything(whole) == everything(there)
    assert whole.sampling_cost.drawn == 230 * 7
    nothing = invariance(models, data, transform=Noise(), draws=6, resume=whole, runner=mailed(2))
    assert everything(nothing) == everything(whole)


def test_progress_counts_inputs_as_before() -> None:
    told: list[list[tuple[int, int, str]]] = [[], []]
    for runner, seen in zip((None, mailed(0)), told, strict=True):
        invariance(ByContent(), vectors(30), transform=Noise(), draws=3, batch_size=9, runner=runner,
                   progress=lambda *news: seen.append(news))  # fmt: skip  # noqa: B023
    assert told[0] == told[1]
    assert told[0][-1] == (120, 120, "classifying")


def network() -> Any:
    """Convolutions and a batch norm, which are fused where a model is asked."""
    import torch
    from torch import nn

    with torch.random.fork_rng():
        torch.manual_seed(0)
        parts = nn.Conv2d(3, 4, 5, stride=3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
        return nn.Sequential(*parts, nn.Linear(4 * 7 * 7, 3)).eval()


def test_a_network_says_the_same_to_the_bit() -> None:
    given_: dict[str, Any] = {"draws": 3, "batch_size": 16}
    found = [
        invariance(TorchModel(network()), toy_inputs("images", n=40), runner=runner, **given_)
        for runner in (None, serial, mailed(0))
    ]
    assert everything(found[0]) == everything(found[1]) == everything(found[2])


def all_three(runner: Runner | None) -> list[Any]:
    """A whole run for images, texts and tables."""
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


def test_processes_and_a_cluster_give_the_same(two_workers: str) -> None:
    expected = all_three(serial)
    assert all_three(processes(2)) == expected
    assert all_three(distributed(two_workers)) == expected


@pytest.mark.parametrize("where", ["processes", "cluster"])
def test_the_death_of_a_worker_changes_nothing(
    where: str, two_workers: str, tmp_path: Path
) -> None:
    runner = processes(2) if where == "processes" else distributed(two_workers)
    data, trace = toy_inputs("images", n=40), tmp_path / "died"
    given_: dict[str, Any] = {"draws": 3, "batch_size": 16}
    expected = invariance(
        Mortal("one", 0.7, trace), data, transform="translate", runner=serial, **given_
    )
    assert not trace.exists()
    found = invariance(
        Mortal("one", 0.7, trace), data, transform="translate", runner=runner, **given_
    )
    assert trace.exists()
    assert everything(found) == everything(expected)


def test_who_can_not_be_sent_is_named() -> None:
    data = as_dataset(vectors(20))
    with pytest.raises(
        InputError, match=r"The model 'mine' can't be sent to workers \(.*\)\. Give a"
    ):
        invariance({"mine": lambda x: [0] * len(x)}, data, transform=Noise(), runner=processes(2))
    assert (
        invariance({"mine": lambda x: [0] * len(x)}, data, transform=Noise(), runner=serial).n == 20
    )
    shout = LocalNoise()
    with pytest.raises(InputError, match="The transform 'noise' can't be sent to workers"):
        invariance(ByContent(), data, transform=shout, runner=processes(2))


class LocalNoise(Noise):
    """Noise that holds on to what belongs to this process."""

    def __getstate__(self) -> Any:
        raise TypeError("an open file")


def test_what_a_model_says_against_the_rules_is_refused_as_before(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"The model 'fickle' returned probabilities of 2 classes for "
    ):
        invariance(Fickle(), vectors(60), transform=Noise(), batch_size=10, runner=mailed(0))


class Fickle(ByContent):
    """Two classes, and three for some batches."""

    def __init__(self) -> None:
        super().__init__("fickle")

    def classify(self, inputs: Any) -> Any:
        self.k = 2 + int(inputs[0, 0] > 1)
        return super().classify(inputs)


def test_files_and_models_by_name_are_opened_by_the_workers(tmp_path: Path) -> None:
    np.save(tmp_path / "points.npy", vectors(50))
    (tmp_path / "apart_scorers.py").write_text(
        "def side(x):\n    return (x[:, 0] > 0).astype(int)\n"
    )
    with contextlib.chdir(tmp_path):
        found = [
            invariance(
                "apart_scorers:side", "points.npy", transform="gaussian", draws=2, runner=runner
            )
            for runner in (serial, processes(1))
        ]
    assert everything(found[0]) == everything(found[1])
