"""Neighborhood invariance ranks networks trained on MNIST by their accuracy on USPS."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks._digit_classifiers import (
    SIDE,
    handwritten,
    light_on_dark,
    noisy,
    one_thread,
    trained,
    training_digits,
)
from benchmarks.quality_invariance_digits import (
    GOOD,
    RECIPES,
    accuracies,
    neighborhood_scores,
    rises,
    taus,
)
from oodometer.core.protocols import Model
from oodometer.neighborhood.results import ENTROPY_LIMIT
from tests.support.research_data import require_data

# Half of the benchmark's models: those without wrong labels and those with the most.
CHOSEN = tuple(recipe for recipe in RECIPES if recipe.noise in (0.0, 0.6))


def test_exactly_the_requested_share_of_labels_is_wrong() -> None:
    labels = np.arange(10_000) % 10
    changed = noisy(labels, 0.3, np.random.default_rng(0))
    assert (changed != labels).mean() == pytest.approx(0.3, abs=0.02)
    assert set(changed.tolist()) == set(range(10))


@pytest.mark.parametrize(("ink", "paper"), [(250, 20), (20, 250)])
def test_both_polarities_become_light_on_dark(ink: int, paper: int) -> None:
    photo = np.full((32, 32, 3), paper, dtype=np.uint8)
    photo[8:24, 14:18] = ink
    grey = light_on_dark(photo)
    assert (grey[8:24, 14:18] == 255).all()
    assert grey.sum() == 255 * 16 * 4


@pytest.fixture(scope="module")
def models() -> Iterator[list[Model]]:
    images, labels = training_digits(require_data("digits/mnist.npz"), margin=4)
    assert images.shape[1:] == (SIDE, SIDE)
    with one_thread():
        yield [trained(recipe, images, labels) for recipe in CHOSEN]


@pytest.mark.realdata
def test_invariance_ranks_models_out_of_domain(models: list[Model]) -> None:
    usps = handwritten(require_data("digits/usps.npz"), n=1000)
    truth = accuracies(models, usps)
    found = taus(neighborhood_scores(models, usps, ["randaugment", "translate"]), truth)
    assert truth.max() - truth.min() > 0.1
    assert found["NI-RandAug"] >= 0.4
    assert found["NI-Translate"] >= 0.4


@pytest.mark.realdata
def test_label_changing_transforms_are_detected_without_labels(models: list[Model]) -> None:
    good = models[CHOSEN.index(RECIPES[GOOD])]
    found = rises(good, handwritten(require_data("digits/mnist.npz"), margin=4, n=1000))
    assert found["flip_crop"] > ENTROPY_LIMIT
    assert found["erase"] > ENTROPY_LIMIT
    assert found["brightness"] < ENTROPY_LIMIT
