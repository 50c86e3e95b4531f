"""Divergences on real images: sketches are farther from photos than other photos."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._digit_classifiers import one_thread
from benchmarks.quality_measures_pacs import (
    DISTANCES,
    DOMAINS,
    PUBLISHED,
    distances,
    domain,
    mean_ratio,
    missed,
    trained,
)
from oodometer import measures
from oodometer.measures._measure import SubsetNoise
from tests.support.research_data import require_data


def test_all_named_measures_exist() -> None:
    for name in (*DISTANCES, *PUBLISHED):
        assert measures.get(name).name == name


def test_claim_that_does_not_hold_is_named() -> None:
    rising = {name: dict.fromkeys(DISTANCES, float(place)) for place, name in enumerate(DOMAINS)}
    quiet, loud = [SubsetNoise(1.0, 0.1, 20)], [SubsetNoise(1.0, 0.5, 20)]
    noise = {"h-divergence": quiet, "hdh-divergence": loud, "hdh-divergence-ms": loud}
    assert missed(rising, noise) == []
    turned = {**noise, "hdh-divergence": quiet}
    assert missed(rising, turned) == [
        "the signal-to-noise ratio of h-divergence is not above that of hdh-divergence"
    ]
    falling = {name: dict.fromkeys(DISTANCES, -float(i)) for i, name in enumerate(DOMAINS)}
    assert len(missed(falling, noise)) == 3


def test_ratio_is_the_mean_over_models_with_noise() -> None:
    assert (
        mean_ratio([SubsetNoise(1.0, 0.5, 9), SubsetNoise(1.0, 0.25, 9), SubsetNoise(1.0, 0.0, 9)])
        == 3.0
    )


@pytest.mark.realdata
def test_sketches_are_farther_from_photos_than_other_photos() -> None:
    path = require_data("pacs/pacs32.npz")
    with one_thread():
        photos, sketches = domain(path, "photo"), domain(path, "sketch")
        model = trained([photos.train], width=8, seed=0, epochs=2)
        half = np.arange(150)
        source = photos.held_out.rows(half)
        targets = {
            "photo": photos.held_out.rows(half + 150),
            "sketch": sketches.held_out.rows(half),
        }
        found = distances([model], source, targets)
    for name in ("h-divergence", "mmd-gaussian", "mmd-mean-cov"):
        assert found["photo"][name] < found["sketch"][name]
    assert found["photo"]["h-divergence"] < 0.65
    assert found["sketch"]["h-divergence"] > 0.9
