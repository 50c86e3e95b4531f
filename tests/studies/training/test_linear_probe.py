"""Training the head alone against a plain loop over the whole network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from oodometer.studies.training._train import TrainingRun, train
from oodometer.studies.training.build import build_network, seeded_torch
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.linear_probe import build_head, extract_features, feature_extractor
from oodometer.studies.training.sampling import batches
from oodometer.studies.training.training_data import draw_sample, load_training_set
from tests.support.training_problems import TINY_TEXT, group, images, recipe, texts

IMAGES, TEXTS = group(*images()), group(*texts())
CNN = recipe("small-cnn", settings={"width": 4, "batch_norm": True}, part="head", stop_at=None)
CASES = {
    "images": (CNN, IMAGES),
    "texts": (recipe("text-cnn", settings=TINY_TEXT, part="head", stop_at=None), TEXTS),
}


def naive_loop(one: TrainingConfig, where: Any) -> dict[str, Any]:
    """Train with the whole network in evaluation mode at every step; there is no dropout."""
    material = load_training_set(one, where)
    sample = draw_sample(material, one)
    with seeded_torch(one.seed):
        module = build_network(one, material.shape)
    lesson = TrainingRun(one, material, sample, module.eval(), "cpu")
    learning = [weight for weight in module.parameters() if weight.requires_grad]
    beta, eps = ((0.9, 0.98), 1e-6) if where is TEXTS else ((0.9, 0.999), 1e-8)
    adam = torch.optim.Adam(learning, lr=one.lr, betas=beta, eps=eps)
    for epoch in range(1, one.epochs + 1):
        for index in batches(len(sample.rows), batch_size=one.batch, seed=one.seed, epoch=epoch):
            shown = lesson.to_network_input(material.take(sample.rows[index]))
            loss: Any = torch.nn.functional.cross_entropy(
                module(shown), torch.tensor(sample.labels[index])
            )
            adam.zero_grad()
            loss.backward()
            adam.step()
    return {name: value.numpy() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("name", CASES)
def test_head_training_matches_the_plain_loop(name: str) -> None:
    one, where = CASES[name]
    found, expected = (
        train(replace(one, few_shot=10), where),
        naive_loop(replace(one, few_shot=10), where),
    )
    assert found.weights.keys() == expected.keys()
    for part, weight in expected.items():
        assert np.allclose(found.weights[part], weight, atol=1e-5), part


def test_augmented_images_pass_through_the_body_each_time() -> None:
    plain, changed = (train(replace(CNN, augment=kind), IMAGES) for kind in ("none", "augmix"))
    moved = [
        name
        for name, one in plain.weights.items()
        if not np.array_equal(one, changed.weights[name])
    ]
    assert len(moved) == 2
    again = train(replace(CNN, augment="augmix"), IMAGES)
    assert all(np.array_equal(again.weights[name], changed.weights[name]) for name in moved)


def test_dropout_applies_before_the_head_only() -> None:
    settings = {**CNN.settings, "dropout": 0.5}
    dropped, plain = (train(replace(CNN, settings=one), IMAGES) for one in (settings, CNN.settings))
    moved = [
        name
        for name, one in plain.weights.items()
        if not np.array_equal(one, dropped.weights[name])
    ]
    assert len(moved) == 2


def test_features_are_the_inputs_of_the_head() -> None:
    material = load_training_set(CNN, IMAGES)
    with seeded_torch(0):
        module = build_network(CNN, material.shape)
    lesson = TrainingRun(CNN, material, draw_sample(material, CNN), module, "cpu")
    found, sample = extract_features(
        material,
        lesson.sample,
        lambda rows: feature_extractor(module)(lesson.to_network_input(rows)),
    )
    logits = build_head(module, 0.0)(torch.tensor(found.inputs))
    whole = module.eval()(lesson.to_network_input(material.take(lesson.sample.rows)))
    assert torch.allclose(logits, whole, atol=1e-6)
    assert np.array_equal(sample.rows, np.arange(len(lesson.sample.rows)))
    assert (found.shape.kind, found.shape.size) == ("vectors", (found.inputs.shape[1],))
