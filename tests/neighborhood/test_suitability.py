"""Which transforms are fit, as told by the entropy of predictions."""

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
    """Is the left half of an image brighter than the right? Flips destroy the class."""

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


def test_the_fit_come_first_by_their_entropy_and_the_unfit_say_why() -> None:
    found = suggest_transforms(LeftOrRight(), halves())
    assert {one.transform for one in found} == {m.name for m in available_for_kind("images")}
    rises = [one.entropy_difference for one in found if one.fit]
    assert rises == sorted(r for r in rises if r is not None)
    verdicts = [one.fit for one in found]
    assert verdicts == sorted(verdicts, key=lambda fit: fit is False)
    for one in found:
        if one.fit is False and one.entropy_difference is not None:
            assert one.entropy_difference > 0.1 or "no draw moves any decision" in one.reason
    assert any(one.fit is False for one in found)


def test_the_entropy_is_that_of_invariance_on_the_sample() -> None:
    data = vectors(40)
    (one,) = suggest_transforms(Linear(), data, transforms=[Noise(0.5)], draws=4)
    measured = invariance(Linear(), data, transform=Noise(0.5), draws=4)[0]
    assert one.entropy_difference == pytest.approx(measured.entropy_difference)
    assert one.ni == pytest.approx(measured.mean_with_interval("ni").value)


def test_rough_noise_is_unfit_and_gentle_noise_is_fit() -> None:
    far, near = [[1.5, 0.0], [-1.5, 0.0]] * 30, [[0.05, 0.0], [-0.05, 0.0]]
    data = np.array(far + near) + vectors(62) * 0.01
    found = suggest_transforms(Linear(), data, transforms=[Noise(4.0), Noise(0.6)])
    assert [one.fit for one in found] == [True, False]
    assert "more than 0.1" in found[1].reason


def test_a_still_transform_is_unfit_for_it_tells_nothing() -> None:
    (one,) = suggest_transforms(Linear(), vectors(30), transforms=[Noise(0.0)])
    assert one.fit is False
    assert "no draw moves any decision" in one.reason


def test_hard_classes_give_no_verdict_and_none_is_guessed() -> None:
    (one,) = suggest_transforms(ByContent(hard=True), vectors(30), transforms=[Noise()])
    assert one.fit is None
    assert one.entropy_difference is None
    assert "can't be told" in one.reason


def test_with_labels_it_says_how_well_agreement_tells_right_from_wrong() -> None:
    """Noise moves what lies near the border, and labels are wrong only there."""
    data = vectors(400)
    near = np.abs(data[:, 0]) < 0.3
    labels = np.where(near, np.arange(400) % 2, data[:, 0] > 0).astype(int)
    given = as_dataset(data, labels=labels)
    (one,) = suggest_transforms(Linear(), given, transforms=[Noise(0.6)])
    sample = invariance(Linear(), data, transform=Noise(0.6), draws=5)[0]
    right = (data[:, 0] > 0) == labels
    assert one.auroc == pytest.approx(roc_auc_score(right, sample.by_example("pa")))
    assert (one.auroc or 0.0) > 0.7
    (blind,) = suggest_transforms(Linear(), data, transforms=[Noise(0.6)])
    assert blind.auroc is None


def test_labels_of_classes_that_a_hard_model_never_gives_are_wrong_answers() -> None:
    """How many classes there are is not known of such a model, least of all from one row."""
    data = vectors(60)
    labels = np.where(data[:, 1] > 1.0, 4, (data[:, 0] > 0).astype(int))
    given = as_dataset(data, labels=labels)
    (one,) = suggest_transforms(lambda x: (x[:, 0] > 0).astype(int), given, transforms=[Noise(0.6)])
    measured = invariance(Linear(), data, transform=Noise(0.6), draws=5)[0]
    right = (data[:, 0] > 0) == labels
    assert one.auroc == pytest.approx(roc_auc_score(right, measured.by_example("pa")))


def test_a_model_that_fails_is_no_transforms_fault() -> None:
    with pytest.raises(InputError, match="must be finite"):
        suggest_transforms(lambda x: np.full((len(x), 2), np.nan), vectors(20))


def test_a_transform_that_cant_be_used_says_why_and_stands_last() -> None:
    found = suggest_transforms(Linear(), vectors(20), transforms=["eda", Noise(0.5), Noise(0.0)])
    assert [one.fit for one in found] == [True, False, None]
    assert found[-1].transform == "eda"
    assert "can't be used here" in found[-1].reason
    assert found[-1].ni is None


def test_only_a_sample_is_looked_at_and_the_same_one_in_any_order() -> None:
    data, model = vectors(300), ByContent()
    (one,) = suggest_transforms(model, data, transforms=[Noise()], examples=50, draws=3)
    assert sum(model.shown) <= 50 + 50 * 4
    (mixed,) = suggest_transforms(
        ByContent(), data[::-1], transforms=[Noise()], examples=50, draws=3
    )
    assert one.entropy_difference == pytest.approx(mixed.entropy_difference)
    with pytest.raises(InputError, match="examples must be at least 1"):
        suggest_transforms(model, data, examples=0)


def test_a_transform_that_moves_few_decisions_says_so() -> None:
    far, near = [[2.0, 0.0], [-2.0, 0.0]] * 30, [[0.05, 0.0], [-0.05, 0.0]]
    (one,) = suggest_transforms(Linear(), np.array(far + near), transforms=[Noise(0.4)])
    assert one.fit
    assert "moves few decisions" in one.reason
