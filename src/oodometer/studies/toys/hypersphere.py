"""Hypersphere toy: how well measures rank models far from the training data (Ng et al. 2023, §5.1).

Models classify whether a point is inside the unit hypersphere of R¹⁶. They are trained on points
around the north pole of the sphere, with up to 30 % label noise, and then ranked on points at
increasing distances from the pole. A noisy label is drawn uniformly from both classes, so half of
the noisy labels are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from oodometer.core.array_types import Bools, Floats
from oodometer.core.errors import out_of_range
from oodometer.core.inputs import hash_rows
from oodometer.core.protocols import ProgressCallback
from oodometer.core.random_streams import RowStreams
from oodometer.core.stats import rng_for
from oodometer.estimators.atc import threshold_value
from oodometer.studies.toys._perceptrons import (
    Perceptrons,
    PerceptronTraining,
    initial_weights,
    train_perceptrons,
)
from oodometer.transforms.sphere import Sphere


@dataclass(frozen=True)
class HypersphereToy:
    """Settings of the hypersphere toy.

    A domain is a Gaussian distribution around a point of the sphere. The defaults are those of the
    paper, except `hidden`, `steps` and `rate`, which the paper does not state.

    Parameters
    ----------
    models : int
        Number of models.
    dimension : int
        Dimension of the space.
    variance : float
        Variance of a domain in each coordinate.
    points : int
        Number of points per domain.
    noise : float
        Largest probability that a training label is replaced by a label drawn uniformly from both
        classes, from 0 to 1. The probability of each model is between 0 and this value.
    distances : int
        Number of distances from the pole, from 0 to π.
    centres : int
        Number of domains per distance.
    radius : float
        Radius of neighborhoods.
    draws : int
        Number of neighbors per point.
    hidden : int
        Number of hidden units.
    steps : int
        Number of training steps.
    rate : float
        Learning rate.

    Raises
    ------
    InputError
        If a setting is out of range.

    Examples
    --------
    >>> HypersphereToy(models=20).dimension
    16
    """

    models: int = 200
    dimension: int = 16
    variance: float = 0.005
    points: int = 1000
    noise: float = 0.3
    distances: int = 40
    centres: int = 5
    radius: float = 0.01
    draws: int = 10
    hidden: int = 16
    steps: int = 2000
    rate: float = 0.01

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name in ("models", "dimension", "distances"):
                if not (math.isfinite(value) and value >= 2):
                    raise out_of_range(setting.name, value, low=2)
            elif setting.name == "noise":
                if not 0 <= value <= 1:
                    raise out_of_range("noise", value, low=0, high=1)
            elif not (math.isfinite(value) and value > 0):
                raise out_of_range(setting.name, value, above=0)

    def sample_centre(self, distance: float, rng: np.random.Generator) -> Floats:
        """Return a random point of the sphere at a distance from the pole, along the surface."""
        side = rng.normal(size=self.dimension)
        side[0] = 0.0
        centre = math.sin(distance) * side / np.linalg.norm(side)
        centre[0] = math.cos(distance)
        return np.asarray(centre)

    def sample_domain(self, centre: Floats, rng: np.random.Generator) -> Floats:
        """Return random points of the domain around a centre."""
        shape = (self.points, self.dimension)
        return np.asarray(centre + rng.normal(scale=math.sqrt(self.variance), size=shape))


@dataclass(frozen=True)
class HypersphereRow:
    """Rank correlation of the measures with accuracy at one distance from the training domain.

    Parameters
    ----------
    distance : float
        Distance from the pole, in radians.
    accuracy : float
        Mean accuracy of the models.
    ni, atc : float or None
        Kendall's τ-b of neighborhood invariance and of ATC with the true accuracy, averaged over
        datasets; None if τ-b is undefined on all datasets.
    left_out : int
        Number of datasets without τ-b, because the accuracy, the neighborhood invariance or the ATC
        is the same for all models.
    """

    distance: float
    accuracy: float
    ni: float | None
    atc: float | None
    left_out: int


def is_inside(points: Floats) -> Bools:
    """Return the true class: 1 inside the unit hypersphere, 0 outside."""
    return np.asarray((points * points).sum(axis=1) < 1.0)


def hypersphere_rows(
    toy: HypersphereToy, *, seed: int = 0, progress: ProgressCallback | None = None
) -> Iterator[HypersphereRow]:
    """Train the models, then correlate the measures with accuracy at every distance.

    Parameters
    ----------
    toy : HypersphereToy
        Settings.
    seed : int
        Random seed.
    progress : callable, optional
        Called with the number of training steps done, their total and a label.

    Yields
    ------
    HypersphereRow
        One row per distance, from the pole to the opposite point.
    """
    yield from rank_by_distance(train_pool(toy, seed, progress), toy, seed)


def rank_by_distance(
    models: Perceptrons, toy: HypersphereToy, seed: int
) -> Iterator[HypersphereRow]:
    """Yield the rank correlations at each distance, from the pole to the opposite point."""
    for distance, scores in score_by_distance(models, toy, seed):
        yield build_row(distance, scores)


def score_by_distance(
    models: Perceptrons, toy: HypersphereToy, seed: int
) -> Iterator[tuple[float, list[HypersphereScores]]]:
    """Yield each distance with the scores of all models on its datasets."""
    thresholds = fit_atc_thresholds(models, toy, seed)
    for step, distance in enumerate(np.linspace(0.0, math.pi, toy.distances)):
        scores = []
        for number in range(toy.centres):
            rng = rng_for(seed, "target", step, number)
            points = toy.sample_domain(toy.sample_centre(float(distance), rng), rng)
            scores.append(score_models(models, points, thresholds, toy, seed))
        yield float(distance), scores


def train_pool(
    toy: HypersphereToy, seed: int, progress: ProgressCallback | None = None
) -> Perceptrons:
    """Train all models on the same points around the pole, each with its own noisy labels."""
    points = toy.sample_domain(
        toy.sample_centre(0.0, rng_for(seed, "pole")), rng_for(seed, "train")
    )
    labels = noisy_labels(is_inside(points), toy, rng_for(seed, "labels"))
    weights = initial_weights(toy.models, toy.dimension, toy.hidden, rng_for(seed, "weights"))
    training = PerceptronTraining(toy.steps, toy.rate)
    return train_perceptrons(weights, points, labels, training, progress)


def noisy_labels(labels: Bools, toy: HypersphereToy, rng: np.random.Generator) -> Bools:
    """Return the training labels of every model, shape (models, points).

    Each label is redrawn from both classes with the noise probability of its model.
    """
    shape = (toy.models, len(labels))
    shares = rng.uniform(0.0, toy.noise, toy.models)
    redrawn = rng.random(shape) < shares[:, None]
    return np.where(redrawn, rng.random(shape) < 0.5, labels)


def fit_atc_thresholds(models: Perceptrons, toy: HypersphereToy, seed: int) -> Floats:
    """Fit the ATC threshold of every model on new, correctly labelled points around the pole."""
    points = toy.sample_domain(
        toy.sample_centre(0.0, rng_for(seed, "pole")), rng_for(seed, "validation")
    )
    logits = models.logits(points)
    errors = toy.points - ((logits > 0) == is_inside(points)).sum(axis=1)
    return np.array(
        [
            threshold_value(scores, n_errors)
            for scores, n_errors in zip(confidences(logits), errors, strict=True)
        ]
    )


def confidences(logits: Floats) -> Floats:
    """Return the probability of the predicted class."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.abs(logits.astype(np.float64)))))


@dataclass(frozen=True, eq=False)
class HypersphereScores:
    """Accuracy, NI and ATC of every model on one dataset."""

    accuracy: Floats
    ni: Floats
    atc: Floats


def score_models(
    models: Perceptrons, points: Floats, atc_thresholds: Floats, toy: HypersphereToy, seed: int
) -> HypersphereScores:
    """Compute accuracy, NI and ATC of every model; all models classify the same neighbors."""
    logits = models.logits(points)
    ones = (logits > 0).astype(np.int64)
    examples = hash_rows(points)
    for number in range(1, toy.draws + 1):
        draws = RowStreams(seed, examples, np.full(len(points), number))
        ones += models.logits(Sphere(toy.radius).apply(points, draws)) > 0
    members = toy.draws + 1
    return HypersphereScores(
        accuracy=((logits > 0) == is_inside(points)).mean(axis=1),
        ni=(np.maximum(ones, members - ones) / members).mean(axis=1),
        atc=(confidences(logits) >= atc_thresholds[:, None]).mean(axis=1),
    )


def build_row(distance: float, dataset_scores: list[HypersphereScores]) -> HypersphereRow:
    """Average τ over those datasets at one distance on which τ is defined for NI and ATC."""
    kept = [
        scores
        for scores in dataset_scores
        if min(np.ptp(scores.accuracy), np.ptp(scores.ni), np.ptp(scores.atc)) > 0
    ]
    return HypersphereRow(
        distance=distance,
        accuracy=float(np.mean([scores.accuracy.mean() for scores in dataset_scores])),
        ni=_mean_or_none([kendall_tau(scores.ni, scores.accuracy) for scores in kept]),
        atc=_mean_or_none([kendall_tau(scores.atc, scores.accuracy) for scores in kept]),
        left_out=len(dataset_scores) - len(kept),
    )


def _mean_or_none(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def kendall_tau(first: Floats, second: Floats) -> float:
    """Return Kendall's τ-b of two arrays, in each of which not all values are equal.

    >>> round(kendall_tau(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])), 3)
    0.333
    """
    from scipy.stats import kendalltau

    return float(kendalltau(first, second).statistic)
