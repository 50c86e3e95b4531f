"""Stacked training against training one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from oodometer.core.errors import InputError, NotApplicable
from oodometer.studies.training._train import TrainedModel, train
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.stacked import stack_key, train_stacked
from tests.support.training_problems import group, images, recipe, vectors

TOY, IMAGE_TOY = group(*vectors(100)), group(*images())


def recipes(count: int = 4, **shared: Any) -> list[TrainingConfig]:
    """Return configurations that differ in seed, learning rate, decay and noise."""
    return [
        recipe(seed=at, lr=0.01 * (at + 1), weight_decay=0.01 * at, label_noise=0.1 * at, **shared)
        for at in range(count)
    ]


def max_difference(one: TrainedModel, other: TrainedModel) -> float:
    assert one.weights.keys() == other.weights.keys()
    return max(float(np.abs(one.weights[name] - other.weights[name]).max()) for name in one.weights)


CASES: dict[str, dict[str, Any]] = {
    "adam": {"stop_at": None},
    "sgd, cosine": {"stop_at": None, "optimizer": "sgd", "schedule": "cosine"},
    "few-shot, warm-up": {"few_shot": 20, "schedule": "inverse-square-root"},
    "adamw, step": {
        "stop_at": None,
        "optimizer": "adamw",
        "schedule": "step",
        "lr_decay": 0.1,
        "lr_decay_epochs": 1,
    },
    "sgd, exponential": {
        "stop_at": None,
        "optimizer": "sgd",
        "schedule": "exponential",
        "lr_decay": 0.9,
    },
    "cosine after warm-up": {"stop_at": None, "schedule": "cosine", "warmup_epochs": 1},
    "head alone": {"part": "head", "settings": {"depth": 2}},
    "a lone last row": {"batch": 33},
}


@pytest.mark.parametrize("name", CASES)
def test_stack_matches_training_one_by_one(name: str) -> None:
    given = recipes(**CASES[name])
    for one, found in zip(given, train_stacked(given, TOY), strict=True):
        alone = train(one, TOY)
        assert found.recipe == one
        assert max_difference(found, alone) < 1e-5
        assert found.converged == alone.converged
        shared = ("epochs", "rows", "labels_changed", "accuracy")
        assert [found.facts[fact] for fact in shared] == [alone.facts[fact] for fact in shared]
        assert found.facts["loss"] == pytest.approx(alone.facts["loss"], abs=1e-5)
        assert found.facts["stacked"] == 4
        assert (found.shape, found.classes, found.files) == (alone.shape, alone.classes, {})


def test_stack_of_image_models_matches() -> None:
    given = recipes(2, architecture="small-cnn", settings={"width": 16, "depth": 2}, stop_at=None)
    for one, found in zip(given, train_stacked(given, IMAGE_TOY), strict=True):
        assert max_difference(found, train(one, IMAGE_TOY)) < 1e-5


def test_each_model_stops_when_it_has_converged() -> None:
    given = [
        recipe(seed=at, lr=rate, epochs=40, stop_at=0.25)
        for at, rate in enumerate((0.03, 0.01, 1e-5))
    ]
    found = train_stacked(given, TOY)
    alone = [train(one, TOY) for one in given]
    epochs = [one.facts["epochs"] for one in found]
    assert epochs == [one.facts["epochs"] for one in alone]
    assert epochs[0] < epochs[1] < epochs[2] == 40
    assert [one.converged for one in found] == [True, True, False]
    assert max(map(max_difference, found, alone)) < 1e-4


def test_model_does_not_depend_on_others_in_the_stack() -> None:
    given = recipes(5, epochs=5)
    whole = train_stacked(given, TOY)
    some = train_stacked([given[3], given[1]], TOY)
    assert max_difference(whole[3], some[0]) == max_difference(whole[1], some[1]) == 0


def test_diverging_model_does_not_affect_others() -> None:
    given = [recipe(optimizer="sgd", lr=rate, epochs=6) for rate in (0.1, 1e30, 0.2)]
    found = train_stacked(given, TOY)
    assert [one.facts.get("diverged", 0) for one in found] == [0, 1, 0]
    assert not found[1].converged
    assert "loss" not in found[1].facts
    for at in (0, 2):
        assert max_difference(found[at], train(given[at], TOY)) < 1e-5


def test_torch_state_is_restored() -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    train_stacked(recipes(2), TOY)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("shared", "reason"),
    [
        ({"settings": {"dropout": 0.1}}, "mlp has dropout"),
        (
            {"architecture": "small-cnn", "settings": {"batch_norm": True}},
            "small-cnn has batch norm",
        ),
        (
            {"architecture": "small-cnn", "augment": "augmix"},
            "augmix is not available for stacked models",
        ),
        ({"steps": 5}, "steps is not available for stacked models"),
    ],
)
def test_some_settings_cannot_be_stacked(shared: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        train_stacked(recipes(2, **shared), IMAGE_TOY)


def test_configurations_of_different_shape_are_rejected() -> None:
    one = recipe()
    assert stack_key(one) == stack_key(
        replace(one, seed=3, lr=1.0, weight_decay=0.5, label_noise=0.2)
    )
    assert stack_key(one) != stack_key(replace(one, batch=8))
    with pytest.raises(
        InputError, match=f"{one.id} and .* cannot be stacked: they differ in more than seed, lr"
    ):
        train_stacked([one, replace(one, batch=8)], TOY)
    with pytest.raises(InputError, match="at least one training configuration; got none"):
        train_stacked([], TOY)


@pytest.mark.parametrize("stop_at", [None, 1.0])
def test_weights_are_bit_identical_in_any_stack(stop_at: float | None) -> None:
    # Odd numbers of rows, features and classes would misalign the models in memory.
    rng = np.random.default_rng(0)
    toy = group(rng.normal(size=(101, 10)), rng.integers(0, 3, 101), classes=3)
    given = recipes(9, batch=7, epochs=6, optimizer="sgd", stop_at=stop_at)
    found = train_stacked(given, toy)
    assert stop_at is None or len({one.facts["epochs"] for one in found}) > 1
    turned = train_stacked(given[::-1], toy)[::-1]
    apart = [one for start in range(9) for one in train_stacked(given[start : start + 1], toy)]
    for others in (turned, apart):
        assert max(map(max_difference, found, others)) == 0.0
        assert [one.facts["loss"] for one in found] == [one.facts["loss"] for one in others]


def test_unaligned_weights_cannot_be_stacked() -> None:
    given = recipes(2, settings={"width": 33, "depth": 2})
    with pytest.raises(NotApplicable, match="mlp has a layer of 330 weights, not a multiple of 16"):
        train_stacked(given, TOY)
