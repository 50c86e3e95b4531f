"""Classifier heads: scikit-learn fits, and gradient steps against automatic differentiation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from oodometer.core.array_types import Floats, Ints
from oodometer.core.stats import rng_for
from oodometer.measures import _domain_classifiers
from oodometer.measures._domain_classifiers import HeadName, SoftmaxHead, fit_head, hidden_sizes
from tests.support.feature_subjects import normal

HEADS: tuple[HeadName, ...] = ("linear", "larger")


class Autograd:
    """The same head in float64, with gradients and Adam of torch."""

    def __init__(self, expected: SoftmaxHead) -> None:
        parts = [*expected.weights, *expected.biases]
        self.parts = [torch.tensor(p, dtype=torch.float64, requires_grad=True) for p in parts]
        self.adam = torch.optim.Adam(self.parts, lr=expected.learning_rate)

    def logits(self, features: Floats) -> torch.Tensor:
        made, layers = torch.tensor(features, dtype=torch.float64), len(self.parts) // 2
        for i in range(layers):
            made = made @ self.parts[i] + self.parts[layers + i]
            made = made if i == layers - 1 else torch.relu(made)
        return made

    def step(self, features: Floats, labels: Ints) -> float:
        loss = torch.nn.functional.cross_entropy(self.logits(features), torch.tensor(labels))
        self.adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.adam.step()
        return float(loss.detach())


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("k", [2, 5])
def test_steps_match_automatic_differentiation(head: HeadName, k: int) -> None:
    features = normal(40, 6, seed=0).astype(np.float32)
    labels = np.random.default_rng(1).integers(0, k, 40)
    ours = SoftmaxHead(head, 6, k, rng_for(0, "start"))
    theirs = Autograd(ours)
    before = [part.copy() for part in ours.weights]
    losses = [(ours.step(features, labels), theirs.step(features, labels)) for _ in range(60)]
    our_losses, their_losses = np.transpose(losses)
    np.testing.assert_allclose(our_losses, their_losses, rtol=1e-4)
    assert our_losses[-1] < our_losses[0] - 0.05
    for part, expected in zip([*ours.weights, *ours.biases], theirs.parts, strict=True):
        np.testing.assert_allclose(part, expected.detach().numpy(), atol=1e-3)
    assert all((part != was).any() for part, was in zip(ours.weights, before, strict=True))
    expected_classes = theirs.logits(features).argmax(dim=1).numpy()
    np.testing.assert_array_equal(ours.classes(features), expected_classes)


def test_step_returns_the_loss_before_it() -> None:
    """Equal logits: log k. A label logit far below another: the distance."""
    head = SoftmaxHead("linear", 1, 3, rng_for(0))
    head.weights[0][:], head.biases[0][:] = 0.0, 0.0
    features, labels = np.zeros((2, 1), dtype=np.float32), np.array([0, 2])
    assert head.step(features, labels) == pytest.approx(math.log(3))
    head.biases[0][:] = [0.0, 5000.0, 0.0]
    assert head.step(features, labels) == pytest.approx(5000.0)


def test_features_are_not_modified() -> None:
    features = normal(9, 4, seed=0).astype(np.float32)
    before = features.copy()
    head = SoftmaxHead("larger", 4, 2, rng_for(0))
    head.classes(features)
    head.step(features, np.zeros(9, dtype=np.int64))
    np.testing.assert_array_equal(features, before)


@pytest.mark.parametrize("head", HEADS)
def test_initial_weights_are_within_their_bound(head: HeadName) -> None:
    made = SoftmaxHead(head, 400, 3, rng_for(0, 1))
    for weights, biases in zip(made.weights, made.biases, strict=True):
        bound = 1 / math.sqrt(len(weights))
        assert 0.9 * bound < np.abs(weights).max() <= bound
        assert 0 < np.abs(biases).max() <= bound
        assert weights.dtype == biases.dtype == np.float32
    again, other = (SoftmaxHead(head, 400, 3, rng_for(0, part)) for part in (1, 2))
    np.testing.assert_array_equal(made.weights[0], again.weights[0])
    assert (made.weights[0] != other.weights[0]).any()


def test_larger_head_has_the_widths_of_the_paper() -> None:
    assert hidden_sizes("larger", 2048) == (1024, 512, 512)
    assert hidden_sizes("larger", 40) == (20, 16, 16)
    assert hidden_sizes("larger", 1) == (16, 16, 16)
    assert hidden_sizes("linear", 2048) == ()
    layers = SoftmaxHead("larger", 64, 3, rng_for(0)).weights
    assert [part.shape for part in layers] == [(64, 32), (32, 16), (16, 16), (16, 3)]
    features, labels = normal(12, 64, seed=0), np.arange(12) % 2
    model = fit_head("larger", features, labels, seed=0).model
    assert [part.shape for part in model.coefs_] == [(64, 32), (32, 16), (16, 16), (16, 1)]


@pytest.mark.parametrize("head", HEADS)
def test_truncated_fit_is_flagged_without_a_warning(
    head: HeadName, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, labels = normal(300, 5, seed=0), np.arange(300) % 2
    complete = fit_head(head, features, labels, seed=0)
    assert complete.converged
    monkeypatch.setitem(_domain_classifiers.MAX_FIT_STEPS, head, 1)
    truncated = fit_head(head, features, labels, seed=0)
    assert not truncated.converged
    assert truncated.steps == (1 if head == "linear" else 2)
    assert complete.steps > truncated.steps


def test_only_the_larger_head_separates_a_disc_from_its_ring() -> None:
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    features, labels = np.concatenate([0.5 * circle, 1.5 * circle]), np.repeat([0, 1], 200)
    assert fit_head("linear", features, labels, seed=0).accuracy(features, labels) < 0.6
    assert fit_head("larger", features, labels, seed=0).accuracy(features, labels) == 1.0
