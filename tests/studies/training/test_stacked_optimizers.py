"""Stacked optimizers against torch.optim, one model at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from oodometer.core.inputs import InputKind
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.stacked_optimizers import make_stacked_optimizer
from tests.support.training_problems import recipe

SHAPES = {"weight": (3, 4, 2), "bias": (3, 4), "scale": (3,)}
RECIPES = {
    "adam": [recipe(lr=10.0**-at, weight_decay=0.3 * at) for at in (1, 2, 3)],
    "sgd": [
        recipe(optimizer="sgd", momentum=0.7, lr=10.0**-at, weight_decay=0.1) for at in (1, 2, 3)
    ],
    "no decay": [recipe(lr=0.01 * at) for at in (1, 2, 3)],
    "adamw": [recipe(optimizer="adamw", lr=10.0**-at, weight_decay=0.3 * at) for at in (1, 2, 3)],
}


def torch_steps(one: TrainingConfig, weights: list[Any], kind: InputKind) -> Any:
    shared: dict[str, Any] = {"lr": one.lr, "weight_decay": one.weight_decay}
    if one.optimizer == "sgd":
        return torch.optim.SGD(weights, momentum=one.momentum, **shared)
    if one.optimizer == "adamw":
        return torch.optim.AdamW(weights, **shared)
    text: dict[str, Any] = {"betas": (0.9, 0.98), "eps": 1e-6} if kind == "text" else {}
    return torch.optim.Adam(weights, **shared, **text)


@pytest.mark.parametrize("kind", ["vectors", "text"])
@pytest.mark.parametrize("name", RECIPES)
def test_steps_match_torch(name: str, kind: InputKind) -> None:
    recipes, drawn = RECIPES[name], torch.Generator().manual_seed(0)
    stacked = {part: torch.randn(shape, generator=drawn) for part, shape in SHAPES.items()}
    alone = [{part: value[at].clone() for part, value in stacked.items()} for at in range(3)]
    ours = make_stacked_optimizer(recipes, kind, stacked)
    theirs = [
        torch_steps(one, list(weights.values()), kind)
        for one, weights in zip(recipes, alone, strict=True)
    ]
    for share in (1.0, 0.5, 0.25, 0.25):
        gradients = {part: torch.randn(shape, generator=drawn) for part, shape in SHAPES.items()}
        ours.step(stacked, gradients, share)
        for at, (one, optimizer) in enumerate(zip(recipes, theirs, strict=True)):
            optimizer.param_groups[0]["lr"] = one.lr * share
            for part, weight in alone[at].items():
                weight.grad = gradients[part][at]
            optimizer.step()
    for part, value in stacked.items():
        assert torch.allclose(value, torch.stack([one[part] for one in alone]), atol=1e-6)


@pytest.mark.parametrize("name", ["adam", "sgd", "adamw"])
def test_subset_continues_unchanged(name: str) -> None:
    recipes, drawn, at = RECIPES[name], torch.Generator().manual_seed(1), torch.tensor([0, 2])
    whole = {part: torch.randn(shape, generator=drawn) for part, shape in SHAPES.items()}
    optimizer = make_stacked_optimizer(recipes, "vectors", whole)
    steps = [{p: torch.randn(s, generator=drawn) for p, s in SHAPES.items()} for _ in range(3)]
    optimizer.step(whole, steps[0], 1.0)
    fewer, some = optimizer.subset(at), {part: value[at] for part, value in whole.items()}
    for gradients in steps[1:]:
        optimizer.step(whole, gradients, 1.0)
        fewer.step(some, {part: value[at] for part, value in gradients.items()}, 1.0)
    assert all(torch.equal(whole[part][at], some[part]) for part in SHAPES)
