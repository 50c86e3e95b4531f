"""Models trained together equal models trained alone."""

from __future__ import annotations

import pytest
import torch

from oodometer.core.array_types import Bools, Floats
from oodometer.core.stats import rng_for
from oodometer.studies.toys._perceptrons import (
    Perceptrons,
    PerceptronTraining,
    StackedWeights,
    initial_weights,
    train_perceptrons,
)

MODELS, D, HIDDEN, POINTS = 4, 5, 6, 60


def start() -> StackedWeights:
    return initial_weights(MODELS, D, HIDDEN, rng_for(0, "weights"))


def points() -> Floats:
    return rng_for(0, "points").normal(size=(POINTS, D))


def labels() -> Bools:
    return rng_for(0, "labels").random((MODELS, POINTS)) < 0.4


def alone(model: int, training: PerceptronTraining) -> torch.nn.Sequential:
    """Return one model as a torch network, trained alone."""
    hidden, out = torch.nn.Linear(D, HIDDEN), torch.nn.Linear(HIDDEN, 1)
    network = torch.nn.Sequential(hidden, torch.nn.ReLU(), out, torch.nn.Flatten(0))
    first = start()
    with torch.no_grad():
        hidden.weight.copy_(first["hidden"][model])
        hidden.bias.copy_(first["shift"][model])
        out.weight.copy_(first["out"][model][None])
        out.bias.copy_(first["bias"][model][None])
    x = torch.as_tensor(points(), dtype=torch.float32)
    y = torch.as_tensor(labels()[model], dtype=torch.float32)
    adam = torch.optim.Adam(network.parameters(), lr=training.rate)
    for _ in range(training.steps):
        adam.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(network(x), y).backward()  # type: ignore[no-untyped-call]
        adam.step()
    return network


@pytest.mark.parametrize(
    "training", [PerceptronTraining(steps=150), PerceptronTraining(steps=1, rate=0.5)]
)
def test_training_together_equals_training_alone(training: PerceptronTraining) -> None:
    together = train_perceptrons(start(), points(), labels(), training).logits(points())
    x = torch.as_tensor(points(), dtype=torch.float32)
    for model in range(MODELS):
        found = alone(model, training)(x).detach().numpy()
        assert together[model] == pytest.approx(found, abs=1e-4)


def test_training_fits_the_labels_and_keeps_the_initial_weights() -> None:
    first, kept = start(), start()
    fitted = train_perceptrons(first, points(), labels(), PerceptronTraining(steps=300, rate=0.05))
    share = ((fitted.logits(points()) > 0) == labels()).mean()
    untrained = ((Perceptrons(first).logits(points()) > 0) == labels()).mean()
    assert share > 0.8 > untrained
    assert all(torch.equal(first[name], kept[name]) for name in kept)


def test_progress_is_reported_at_every_step() -> None:
    reported: list[tuple[int, int]] = []
    train_perceptrons(
        start(),
        points(),
        labels(),
        PerceptronTraining(steps=3),
        lambda done, total, _: reported.append((done, total)),
    )
    assert reported == [(1, 3), (2, 3), (3, 3)]


def test_global_torch_generator_is_unchanged() -> None:
    state = torch.get_rng_state()
    train_perceptrons(start(), points(), labels(), PerceptronTraining(steps=2))
    assert torch.equal(state, torch.get_rng_state())
