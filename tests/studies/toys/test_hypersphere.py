"""Hypersphere toy: geometry, measures, and the published shape of the result."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.inputs import hash_rows
from oodometer.core.predictions import Predictions
from oodometer.core.random_streams import RowStreams
from oodometer.core.stats import rng_for
from oodometer.estimators import ATC
from oodometer.studies.toys import HypersphereRow, HypersphereToy, hypersphere_rows
from oodometer.studies.toys._perceptrons import Perceptrons
from oodometer.studies.toys.hypersphere import (
    HypersphereScores,
    build_row,
    confidences,
    fit_atc_thresholds,
    is_inside,
    noisy_labels,
    rank_by_distance,
    score_models,
    train_pool,
)
from oodometer.transforms.sphere import Sphere

SMALL = HypersphereToy(models=20, points=300, distances=5, centres=2, draws=5, steps=300, rate=0.03)
POLE = np.eye(16)[0]


@pytest.fixture(scope="module")
def models() -> Perceptrons:
    return train_pool(SMALL, 0)


@pytest.fixture(scope="module")
def rows(models: Perceptrons) -> list[HypersphereRow]:
    return list(rank_by_distance(models, SMALL, 0))


@pytest.mark.parametrize("distance", [0.0, 0.4, math.pi / 2, 3.0, math.pi])
def test_centres_are_on_the_sphere_at_their_distance(distance: float) -> None:
    centre = SMALL.sample_centre(distance, rng_for(0, "centre"))
    assert np.linalg.norm(centre) == pytest.approx(1.0)
    assert math.acos(max(-1.0, min(1.0, float(centre @ POLE)))) == pytest.approx(distance, abs=1e-7)


def test_domain_is_a_gaussian_around_its_centre() -> None:
    toy = replace(SMALL, points=40_000)
    points = toy.sample_domain(POLE, rng_for(0, "domain"))
    assert points.mean(axis=0) == pytest.approx(POLE, abs=0.002)
    assert points.var(axis=0) == pytest.approx(np.full(16, 0.005), rel=0.05)


def test_points_inside_the_sphere_have_class_one() -> None:
    assert is_inside(np.array([[0.9, 0.0], [0.8, 0.7], [0.0, -0.99]])).tolist() == [
        True,
        False,
        True,
    ]


def test_half_of_the_noisy_labels_are_wrong() -> None:
    """NI §4.2: noisy labels are uniform samples from the label space."""
    toy = HypersphereToy(models=200, points=2000, noise=1.0)
    labels = is_inside(toy.sample_domain(POLE, rng_for(0, "points")))
    found = noisy_labels(labels, toy, rng_for(0, "labels"))
    wrong = (found != labels).mean(axis=1)
    shares = rng_for(0, "labels").uniform(0.0, 1.0, 200)
    # Five standard errors of a share of 1/4 in 2000 points and of 1/2.
    assert np.abs(wrong - shares / 2).max() < 5 * 0.5 / math.sqrt(2000)
    assert wrong.mean() == pytest.approx(0.25, abs=0.02)
    # The errors do not prefer a class.
    assert (found != labels)[:, labels].mean() == pytest.approx(wrong.mean(), abs=0.01)
    clean = noisy_labels(labels, replace(toy, noise=0.0), rng_for(0, "labels"))
    assert (clean == labels).all()


def test_atc_of_all_models_matches_the_estimator(models: Perceptrons) -> None:
    source = SMALL.sample_domain(POLE, rng_for(0, "validation"))
    target = SMALL.sample_domain(SMALL.sample_centre(0.5, rng_for(1)), rng_for(2))
    found = score_models(models, target, fit_atc_thresholds(models, SMALL, 0), SMALL, 0)
    for model in range(SMALL.models):
        sides = []
        for points in (source, target):
            logits = models.logits(points)[model].astype(np.float64)
            pair = np.stack([np.zeros_like(logits), logits], axis=1)
            sides.append(Predictions.from_logits(pair, labels=is_inside(points).astype(int)))
        estimate = ATC("mc").estimate(*sides)
        # Rounding may put a row at the threshold on either side of it.
        assert found.atc[model] == pytest.approx(estimate.value, abs=2 / SMALL.points)
        assert found.accuracy[model] == pytest.approx(sides[1].correct.mean())


def test_ni_is_the_mean_majority_share(models: Perceptrons) -> None:
    points = SMALL.sample_domain(SMALL.sample_centre(1.0, rng_for(1)), rng_for(2))[:30]
    found = score_models(models, points, np.zeros(SMALL.models), SMALL, 7)
    sphere, total = Sphere(SMALL.radius), np.zeros(SMALL.models)
    for i in range(30):
        one = points[i : i + 1]
        near = [one] + [
            sphere.apply(one, RowStreams(7, hash_rows(one), np.array([number])))
            for number in range(1, SMALL.draws + 1)
        ]
        classes = [(models.logits(x)[:, 0] > 0).astype(int) for x in near]
        votes = np.stack([np.bincount(column, minlength=2) for column in np.array(classes).T])
        total += votes.max(axis=1) / len(near)
    assert found.ni == pytest.approx(total / 30)


def test_confidences_belong_to_the_predicted_class() -> None:
    assert confidences(np.array([0.0, math.log(3), -math.log(3)])) == pytest.approx(
        [0.5, 0.75, 0.75]
    )


def test_tau_is_positive_near_the_pole_and_negative_far_away(
    rows: list[HypersphereRow],
) -> None:
    assert [row.distance for row in rows] == pytest.approx(np.linspace(0, math.pi, 5))
    near, far = rows[0], rows[-1]
    assert near.ni is not None
    assert near.atc is not None
    assert far.ni is not None
    assert far.atc is not None
    assert min(near.ni, near.atc) > 0.3
    assert max(far.ni, far.atc) < -0.3
    assert near.accuracy > 0.7 > 0.5 > far.accuracy


def test_rows_depend_only_on_the_seed() -> None:
    tiny = replace(SMALL, models=3, points=50, distances=2, steps=5)
    first, again, other = (list(hypersphere_rows(tiny, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_datasets_with_equal_models_are_left_out_and_counted() -> None:
    rising, flat = np.array([0.1, 0.2, 0.3]), np.full(3, 0.5)
    good, dull = HypersphereScores(rising, rising, -rising), HypersphereScores(rising, flat, rising)
    both = build_row(1.0, [good, dull])
    assert (both.accuracy, both.ni, both.atc) == pytest.approx((0.2, 1.0, -1.0))
    assert both.left_out == 1
    none = build_row(1.0, [dull])
    assert (none.ni, none.atc, none.left_out) == (None, None, 1)


def test_defaults_are_those_of_the_paper() -> None:
    toy = HypersphereToy()
    assert (toy.models, toy.dimension, toy.variance, toy.points) == (200, 16, 0.005, 1000)
    assert (toy.noise, toy.distances, toy.centres) == (0.3, 40, 5)
    assert (toy.radius, toy.draws, toy.hidden) == (0.01, 10, 16)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("models", 1, "models must be at least 2; got 1"),
        ("steps", 0, "steps must be above 0; got 0"),
        ("variance", float("nan"), "variance must be above 0; got nan"),
        ("noise", 1.1, "noise must be at least 0 and at most 1; got 1.1"),
        ("noise", -0.1, "noise must be"),
        ("distances", 1, "distances must be at least 2"),
    ],
)
def test_invalid_settings_raise(name: str, value: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        HypersphereToy(**{name: value})  # type: ignore[arg-type]
