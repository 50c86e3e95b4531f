"""Jensen–Shannon loss of AugMix against its definition, and training with it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from oodometer.core.array_types import Array
from oodometer.studies.training._train import TrainingRun, batch_loss, train
from oodometer.studies.training.augment import AugMix
from oodometer.studies.training.build import build_network, seeded_torch
from oodometer.studies.training.data_loader import as_tensor, training_batches
from oodometer.studies.training.jensen_shannon import jensen_shannon_loss
from oodometer.studies.training.sampling import batches, row_streams
from oodometer.studies.training.training_data import draw_sample, load_training_set
from tests.support.training_problems import group, images, recipe

IMAGES = group(*images())
CNN = recipe("small-cnn", settings={"width": 4}, augment="augmix-jsd", stop_at=None)


def naive_jensen_shannon(logits: Array) -> float:
    """Return the mean divergence by loops over rows, views and classes."""
    views, rows, classes = logits.shape
    total = 0.0
    for row in range(rows):
        probs = [
            [math.exp(z) / sum(map(math.exp, logits[view, row])) for z in logits[view, row]]
            for view in range(views)
        ]
        mean = [sum(p[k] for p in probs) / views for k in range(classes)]
        for p in probs:
            total += sum(p[k] * math.log(p[k] / mean[k]) for k in range(classes)) / views
    return float(total / rows)


def test_loss_matches_the_loops() -> None:
    logits = np.random.default_rng(0).normal(size=(3, 5, 4)) * 3
    found = jensen_shannon_loss(torch.from_numpy(logits)).item()
    assert found == pytest.approx(naive_jensen_shannon(logits))


def test_loss_is_finite_for_extreme_logits_and_zero_for_equal_ones() -> None:
    logits = torch.tensor([[[1e4, 0.0]], [[0.0, 1e4]], [[0.0, 1e4]]], requires_grad=True)
    loss = jensen_shannon_loss(logits)
    # p = (1, 0), (0, 1), (0, 1): (log 3 + 2 log 1.5) / 3.
    assert loss.item() == pytest.approx((math.log(3) + 2 * math.log(1.5)) / 3, abs=1e-6)
    loss.backward()
    assert torch.isfinite(logits.grad).all()  # type: ignore[arg-type]
    assert jensen_shannon_loss(torch.randn(1, 4, 3).repeat(3, 1, 1)).item() == pytest.approx(0.0, abs=1e-6)  # fmt: skip


def test_batches_hold_the_images_and_two_augmented_copies() -> None:
    one = replace(CNN, batch=40, epochs=1, seed=3)
    inputs, labels = images()
    material = load_training_set(one, IMAGES)
    ((found, found_labels),) = training_batches(material, draw_sample(material, one), one)
    (index,) = batches(40, batch_size=40, seed=3, epoch=1)
    clean, first, second = np.split(found, 3)
    assert np.array_equal(found_labels, labels[index])
    assert np.array_equal(clean, inputs[index])
    for at, view in enumerate((first, second), start=1):
        draws = row_streams(3, material.keys[index], f"view {at}")
        assert np.array_equal(view, AugMix().apply(clean, draws))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("weight", [12.0, 2.0])
def test_training_loss_is_clean_cross_entropy_plus_weighted_divergence(weight: float) -> None:
    one = replace(CNN, jsd=weight)
    assert CNN.jsd == 12
    material = load_training_set(one, IMAGES)
    sample = draw_sample(material, one)
    with seeded_torch(0):
        module = build_network(one, material.shape)
    inputs, labels = next(training_batches(material, sample, one))
    found = batch_loss(TrainingRun(one, material, sample, module, "cpu"), inputs, labels)
    logits = [module(as_tensor(part, "images", "cpu")) for part in np.split(inputs, 3)]
    entropy = torch.nn.functional.cross_entropy(logits[0], torch.tensor(labels)).item()
    divergence = naive_jensen_shannon(torch.stack(logits).detach().double().numpy())
    assert found.item() == pytest.approx(entropy + weight * divergence, rel=1e-4)


def test_weight_makes_predictions_of_views_more_alike() -> None:
    divergences = []
    for weight in (0.0, 12.0):
        one = replace(CNN, jsd=weight, epochs=15)
        trained = train(one, IMAGES)
        material = load_training_set(one, IMAGES)
        module = build_network(one, material.shape)
        module.load_state_dict({name: torch.tensor(w) for name, w in trained.weights.items()})
        inputs, _ = next(training_batches(material, draw_sample(material, one), one))
        logits = module(as_tensor(inputs, "images", "cpu")).unflatten(0, (3, -1))
        divergences.append(jensen_shannon_loss(logits).item())
    assert divergences[1] < 0.5 * divergences[0]


@pytest.mark.parametrize("settings", [{"part": "head"}, {"settings": {"width": 4, "batch_norm": True}}])  # fmt: skip
def test_head_and_batch_norm_can_be_trained_with_it(settings: dict[str, object]) -> None:
    found = train(replace(CNN, **settings), IMAGES)  # type: ignore[arg-type]
    assert found.converged
    assert math.isfinite(found.facts["loss"])
