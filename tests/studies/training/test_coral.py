"""Deep CORAL against a loop over pairs of domains, and its effect on rotated digits."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, NotApplicable
from oodometer.data.dataset import InMemoryDataset
from oodometer.studies.domains.corrupted_groups import get_group
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.synthetic import Rotated
from oodometer.studies.training._run import make_tasks, train_task
from oodometer.studies.training._train import TrainedModel, TrainingRun, batch_loss, train
from oodometer.studies.training.build import build_network, seeded_torch
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.coral import coral_loss, record_features
from oodometer.studies.training.data_loader import training_batches
from oodometer.studies.training.linear_probe import feature_extractor
from oodometer.studies.training.stacked import is_stackable, train_stacked
from oodometer.studies.training.training_data import draw_sample, load_training_set
from tests.support.encoder_folders import bert_folder
from tests.support.research_data import require_data
from tests.support.training_problems import group, recipe, texts, vectors

ANGLES = (0, 30, 60)


def naive_coral(parts: list[Array]) -> float:
    """Return the loss by loops over pairs of domains and over entries."""
    distances = []
    for first, second in combinations(parts, 2):
        d = first.shape[1]
        means = [part.mean(axis=0) for part in (first, second)]
        covariances = [
            np.sum([np.outer(row - mean, row - mean) for row in part], axis=0) / (len(part) - 1)
            for part, mean in zip((first, second), means, strict=True)
        ]
        mean_part = sum((means[0][i] - means[1][i]) ** 2 for i in range(d)) / d
        covariance_part = (
            sum(
                (covariances[0][i][j] - covariances[1][i][j]) ** 2
                for i in range(d)
                for j in range(d)
            )
            / d**2
        )
        distances.append(mean_part + covariance_part)
    return float(sum(distances) / len(distances))


@pytest.mark.parametrize(("domains", "rows", "d"), [(2, 2, 1), (3, 5, 4), (4, 3, 6)])
def test_loss_matches_the_loop_over_pairs(domains: int, rows: int, d: int) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(domains, rows, d)) * rng.uniform(1, 3, size=(domains, 1, d))
    found = coral_loss(torch.from_numpy(features)).item()
    assert found == pytest.approx(naive_coral(list(features)))


def test_loss_is_zero_for_equal_domains_only() -> None:
    rows = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    assert coral_loss(torch.stack([rows, rows.flip(0), rows])).item() == pytest.approx(0, abs=1e-6)
    assert coral_loss(torch.stack([rows, rows + 1])).item() == pytest.approx(1, abs=1e-6)


def three_vectors(*, sizes: tuple[int, ...] = (40, 25, 90)) -> DomainGroup:
    """Return a group of three domains of different size."""
    parts = [vectors(n, seed) for seed, n in enumerate(sizes)]
    two, three = (InMemoryDataset("shifted", inputs + 1, labels) for inputs, labels in parts[1:])
    return group(*parts[0], two=two, three=three)


def three(architecture: str = "mlp", **settings: Any) -> TrainingConfig:
    return replace(recipe(architecture, **settings), domains=("one", "two", "three"))


def test_training_loss_is_cross_entropy_plus_weighted_coral() -> None:
    one = replace(three(batch=12), coral=0.7)
    material = load_training_set(one, three_vectors())
    sample = draw_sample(material, one)
    with seeded_torch(0):
        module = build_network(one, material.shape)
    inputs, labels = next(training_batches(material, sample, one))
    found = batch_loss(TrainingRun(one, material, sample, module, "cpu"), inputs, labels)
    shown = torch.tensor(inputs, dtype=torch.float32)
    features = module[:-1](shown)
    parts = [features[at : at + 4].detach().numpy().astype(np.float64) for at in (0, 4, 8)]
    entropy = torch.nn.functional.cross_entropy(module(shown), torch.tensor(labels)).item()
    assert found.item() == pytest.approx(entropy + 0.7 * naive_coral(parts), rel=1e-5)


def test_recording_ends_with_the_context() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))
    with record_features(module) as features:
        module(torch.ones(1, 2))
    module(torch.ones(1, 2))
    assert [tuple(one.shape) for one in features] == [(1, 3)]


def rotated_digits(n: int = 150) -> DomainGroup:
    """Return three rotations of different digits of scikit-learn, 8 × 8 pixels."""
    digits = load_digits()
    images = np.minimum(digits.images * 16, 255).astype(np.uint8)
    parts = []
    for at, angle in enumerate(ANGLES):
        rows = slice(at * n, (at + 1) * n)
        dataset = InMemoryDataset(str(angle), images[rows], digits.target[rows])
        rotated = Rotated(angle).derive(dataset).take(slice(None))
        parts.append(InMemoryDataset(str(angle), rotated, digits.target[rows]))
    return group(
        parts[0].take(slice(None)), np.asarray(parts[0].labels), classes=10, two=parts[1], three=parts[2]
    )  # fmt: skip


def covariance_distance(trained: TrainedModel, where: DomainGroup) -> float:
    """Return the mean squared distance of the feature covariances of the training domains."""
    one = trained.recipe
    material = load_training_set(one, where)
    sample = draw_sample(material, one)
    module = build_network(one, material.shape)
    module.load_state_dict({name: torch.tensor(w) for name, w in trained.weights.items()})
    run = TrainingRun(one, material, sample, module, "cpu")
    extract = feature_extractor(module)
    covariances = [
        np.cov(extract(run.to_network_input(material.take(sample.rows[sample.domains == at]))).T)
        for at in range(len(one.domains))
    ]
    pairs = list(combinations(covariances, 2))
    return float(np.mean([((first - second) ** 2).mean() for first, second in pairs]))


def test_coral_lowers_the_covariance_distance_of_rotated_digits() -> None:
    where = rotated_digits()
    plain = three(
        "small-cnn", settings={"width": 16, "depth": 2}, epochs=15, batch=60, stop_at=None
    )
    models = [train(replace(plain, coral=weight), where) for weight in (0.0, 3.0)]
    without, with_coral = (covariance_distance(model, where) for model in models)
    assert with_coral < 0.5 * without
    # Both models learn the classes, so that the features are not merely constant.
    assert min(model.facts["accuracy"] for model in models) > 0.7


@pytest.mark.realdata
def test_coral_lowers_the_covariance_distance_of_rotated_mnist() -> None:
    where = get_group("rotated-mnist", root=require_data("digits/mnist.npz").parent.parent)
    plain = TrainingConfig(
        "rotated-mnist", ("0", "30", "60"), "small-cnn", {"width": 32, "depth": 3},
        epochs=10, batch=48, lr=3e-3, stop_at=None, few_shot=120,
    )  # fmt: skip
    models = [train(replace(plain, coral=weight), where) for weight in (0.0, 1.0)]
    without, with_coral = (covariance_distance(model, where) for model in models)
    assert with_coral < 0.1 * without
    assert min(model.facts["accuracy"] for model in models) > 0.5


def test_coral_models_are_trained_one_by_one() -> None:
    one = replace(three(settings={"width": 16}), coral=1.0)
    assert is_stackable(replace(one, coral=0.0))
    assert not is_stackable(one)
    with pytest.raises(NotApplicable, match="coral is not available for stacked models"):
        train_stacked([one], three_vectors())
    both = [one, replace(one, seed=1)]
    tasks = make_tasks(both, three_vectors())
    assert [len(task.recipes) for task in tasks] == [1, 1]
    (found,) = train_task(tasks[0])
    assert isinstance(found, TrainedModel)
    alone = train(one, three_vectors())
    assert all(np.array_equal(found.weights[name], alone.weights[name]) for name in alone.weights)


def test_domain_with_one_row_is_rejected() -> None:
    where = three_vectors(sizes=(40, 1, 90))
    with pytest.raises(InputError, match=r"at least two training rows .* 'two' of 'toy' has 1"):
        train(replace(three(), coral=1.0), where)


def test_coral_needs_trained_features(tmp_path: Any) -> None:
    with pytest.raises(InputError, match=r'coral = 1 has no effect with part = "head"'):
        train(replace(three(), coral=1.0, part="head"), three_vectors())
    words, labels = texts()
    where = group(words, labels, two=InMemoryDataset("two", words[::-1], labels[::-1]))
    settings = {"folder": str(bert_folder(tmp_path)), "length": 20, "head": "mlp", "hidden": 8}
    one = replace(recipe("encoder", settings=settings, part="head"), domains=("one", "two"))
    plain, aligned = (train(replace(one, coral=weight), where) for weight in (0.0, 5.0))
    assert not np.array_equal(plain.weights["head.0.weight"], aligned.weights["head.0.weight"])
