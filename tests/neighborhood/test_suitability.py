"""suggest_transforms(): suitability of transforms by the entropy of predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.data import as_dataset
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.suitability import suggest_transforms
from oodometer.transforms import available_for_kind
from tests.neighborhood.test_invariance import Linear, Noise, vectors
from tests.support.stub_models import ByContent


class LeftOrRight:
    """Model: is the left half of an image brighter than the right? Flips destroy the class."""

    name = "left or right"

    def classify(self, inputs: Any) -> Predictions:
        wide = inputs.shape[2] // 2
        gap = (inputs[:, :, :wide].mean((1, 2)) - inputs[:, :, wide:].mean((1, 2))) / 6.0
        return Predictions.from_logits(np.stack([np.zeros(len(gap)), gap], axis=1))


def halves(n: int = 60) -> np.ndarray:
    rng = np.random.default_rng(0)
    images = rng.integers(80, 120, (n, 16, 16)).astype(np.uint8)
    images[np.arange(n) % 2 == 0, :, :8] += 60
    images[np.arange(n) % 2 == 1, :, 8:] += 60
    return images


def test_suitable_transforms_come_first_by_entropy() -> None:
    results = suggest_transforms(LeftOrRight(), halves())
    assert {result.transform for result in results} == {
        member.name for member in available_for_kind("images")
    }
    increases = [result.entropy_difference for result in results if result.fit]
    assert increases == sorted(increase for increase in increases if increase is not None)
    verdicts = [result.fit for result in results]
    assert verdicts == sorted(verdicts, key=lambda fit: fit is False)
    for result in results:
        if result.fit is False and result.entropy_difference is not None:
            assert (
                result.entropy_difference > 0.1 or "no draw changes any decision" in result.reason
            )
    assert any(result.fit is False for result in results)


def test_entropy_difference_matches_invariance() -> None:
    data = vectors(40)
    (result,) = suggest_transforms(Linear(), data, transforms=[Noise(0.5)], draws=4)
    measured = invariance(Linear(), data, transform=Noise(0.5), draws=4)[0]
    assert result.entropy_difference == pytest.approx(measured.entropy_difference)
    assert result.ni == pytest.approx(measured.mean_with_interval("ni").value)


def test_strong_noise_is_unsuitable_and_weak_noise_suitable() -> None:
    far, near = [[1.5, 0.0], [-1.5, 0.0]] * 30, [[0.05, 0.0], [-0.05, 0.0]]
    data = np.array(far + near) + vectors(62) * 0.01
    results = suggest_transforms(Linear(), data, transforms=[Noise(4.0), Noise(0.6)])
    assert [result.fit for result in results] == [True, False]
    assert "more than 0.1" in results[1].reason


def test_transform_without_effect_is_unsuitable() -> None:
    (result,) = suggest_transforms(Linear(), vectors(30), transforms=[Noise(0.0)])
    assert result.fit is False
    assert "no draw changes any decision" in result.reason


def test_models_without_probabilities_give_no_verdict() -> None:
    (result,) = suggest_transforms(ByContent(hard=True), vectors(30), transforms=[Noise()])
    assert result.fit is None
    assert result.entropy_difference is None
    assert "cannot be checked: the model returns classes only" in result.reason


def test_labels_give_the_auroc_of_agreement() -> None:
    """Noise changes decisions near the boundary, and errors occur only there."""
    data = vectors(400)
    near = np.abs(data[:, 0]) < 0.3
    labels = np.where(near, np.arange(400) % 2, data[:, 0] > 0).astype(int)
    labelled = as_dataset(data, labels=labels)
    (result,) = suggest_transforms(Linear(), labelled, transforms=[Noise(0.6)])
    sample = invariance(Linear(), data, transform=Noise(0.6), draws=5)[0]
    right = (data[:, 0] > 0) == labels
    assert result.auroc == pytest.approx(roc_auc_score(right, sample.by_example("pa")))
    assert (result.auroc or 0.0) > 0.7
    (unlabelled,) = suggest_transforms(Linear(), data, transforms=[Noise(0.6)])
    assert unlabelled.auroc is None


def test_labels_outside_the_models_classes_count_as_errors() -> None:
    """The number of classes of a model without probabilities is unknown."""
    data = vectors(60)
    labels = np.where(data[:, 1] > 1.0, 4, (data[:, 0] > 0).astype(int))
    labelled = as_dataset(data, labels=labels)
    (result,) = suggest_transforms(
        lambda x: (x[:, 0] > 0).astype(int), labelled, transforms=[Noise(0.6)]
    )
    measured = invariance(Linear(), data, transform=Noise(0.6), draws=5)[0]
    right = (data[:, 0] > 0) == labels
    assert result.auroc == pytest.approx(roc_auc_score(right, measured.by_example("pa")))


def test_model_failure_without_transform_is_raised() -> None:
    with pytest.raises(InputError, match="must be finite"):
        suggest_transforms(lambda x: np.full((len(x), 2), np.nan), vectors(20))


def test_inapplicable_transform_comes_last_with_reason() -> None:
    results = suggest_transforms(Linear(), vectors(20), transforms=["eda", Noise(0.5), Noise(0.0)])
    assert [result.fit for result in results] == [True, False, None]
    assert results[-1].transform == "eda"
    assert "cannot be applied" in results[-1].reason
    assert results[-1].ni is None


def test_sample_is_bounded_and_independent_of_row_order() -> None:
    data, model = vectors(300), ByContent()
    (result,) = suggest_transforms(model, data, transforms=[Noise()], examples=50, draws=3)
    assert sum(model.shown) <= 50 + 50 * 4
    (mixed,) = suggest_transforms(
        ByContent(), data[::-1], transforms=[Noise()], examples=50, draws=3
    )
    assert result.entropy_difference == pytest.approx(mixed.entropy_difference)
    with pytest.raises(InputError, match="examples must be at least 1"):
        suggest_transforms(model, data, examples=0)


def test_transform_that_changes_few_decisions_is_reported() -> None:
    far, near = [[2.0, 0.0], [-2.0, 0.0]] * 30, [[0.05, 0.0], [-0.05, 0.0]]
    (result,) = suggest_transforms(Linear(), np.array(far + near), transforms=[Noise(0.4)])
    assert result.fit
    assert "changes few decisions" in result.reason
