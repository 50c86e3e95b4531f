"""The hypersphere toy of NI §5.1: where measures rank models well, and where they must fail.

Is a point inside or outside the unit hypersphere of R¹⁶? Models are trained around its north
pole, on labels of which up to 30 % are wrong, and are then ranked further and further away.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from oodometer.core.array_types import Bools, Floats
from oodometer.core.errors import InputError
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
    """The settings of the study; as published, but for the training, which the papers leave open.

    A domain is a Gaussian of `variance` in each coordinate around a point of the sphere.
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
        for one in fields(self):
            least = 2 if one.name in ("models", "dimension", "distances") else 0
            value = getattr(self, one.name)
            if not (math.isfinite(value) and value >= least and (value > 0 or one.name == "noise")):
                raise InputError(
                    f"{one.name} must be {f'{least} or more' if least else 'above 0'}; got "
                    f"{value}. The default is {one.default}."
                )
        if self.noise > 0.5:
            raise InputError(f"noise must be a share up to 0.5; got {self.noise}. Give 0.3.")

    def sample_centre(self, distance: float, rng: np.random.Generator) -> Floats:
        """A random point of the sphere at that distance from the pole, measured along it."""
        side = rng.normal(size=self.dimension)
        side[0] = 0.0
        centre = math.sin(distance) * side / np.linalg.norm(side)
        centre[0] = math.cos(distance)
        return np.asarray(centre)

    def sample_domain(self, centre: Floats, rng: np.random.Generator) -> Floats:
        """Points around a centre."""
        shape = (self.points, self.dimension)
        return np.asarray(centre + rng.normal(scale=math.sqrt(self.variance), size=shape))


@dataclass(frozen=True)
class HypersphereRow:
    """How well each measure ranks the models at one distance from where they were trained.

    `ni` and `atc` are Kendall's τ-b with the true accuracy, the mean over the datasets where it
    is defined; on `left_out` of them all models are alike in accuracy or in either measure. None
    if all are left out.
    """

    distance: float
    accuracy: float
    ni: float | None
    atc: float | None
    left_out: int


def is_inside(points: Floats) -> Bools:
    """The true class: 1 inside the unit hypersphere, 0 outside."""
    return np.asarray((points * points).sum(axis=1) < 1.0)


def hypersphere_rows(
    toy: HypersphereToy, *, seed: int = 0, progress: ProgressCallback | None = None
) -> Iterator[HypersphereRow]:
    """Train the models, telling `progress` the steps done, then rank them at every distance."""
    yield from rank_by_distance(train_pool(toy, seed, progress), toy, seed)


def rank_by_distance(
    models: Perceptrons, toy: HypersphereToy, seed: int
) -> Iterator[HypersphereRow]:
    """How well trained models are ranked, from the pole to the opposite point."""
    cuts = fit_atc_thresholds(models, toy, seed)
    for at, distance in enumerate(np.linspace(0.0, math.pi, toy.distances)):
        found = []
        for number in range(toy.centres):
            rng = rng_for(seed, "target", at, number)
            points = toy.sample_domain(toy.sample_centre(float(distance), rng), rng)
            found.append(score_models(models, points, cuts, toy, seed))
        yield _build_row(float(distance), found)


def train_pool(
    toy: HypersphereToy, seed: int, progress: ProgressCallback | None = None
) -> Perceptrons:
    """The models, trained on one sample of the pole's domain, each with wrong labels of its own."""
    points = toy.sample_domain(
        toy.sample_centre(0.0, rng_for(seed, "pole")), rng_for(seed, "train")
    )
    rng = rng_for(seed, "labels")
    shares = rng.uniform(0.0, toy.noise, toy.models)
    wrong = rng.random((toy.models, toy.points)) < shares[:, None]
    weights = initial_weights(toy.models, toy.dimension, toy.hidden, rng_for(seed, "weights"))
    training = PerceptronTraining(toy.steps, toy.rate)
    return train_perceptrons(weights, points, is_inside(points) ^ wrong, training, progress)


def fit_atc_thresholds(models: Perceptrons, toy: HypersphereToy, seed: int) -> Floats:
    """ATC's threshold of every model, on fresh points of the pole's domain, rightly labelled."""
    points = toy.sample_domain(
        toy.sample_centre(0.0, rng_for(seed, "pole")), rng_for(seed, "validation")
    )
    logits = models.logits(points)
    errors = toy.points - ((logits > 0) == is_inside(points)).sum(axis=1)
    return np.array(
        [threshold_value(*one) for one in zip(confidences(logits), errors, strict=True)]
    )


def confidences(logits: Floats) -> Floats:
    """The probability of the class that is chosen."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.abs(logits.astype(np.float64)))))


@dataclass(frozen=True, eq=False)
class HypersphereScores:
    """Of every model on one dataset: its accuracy, its NI and its ATC."""

    accuracy: Floats
    ni: Floats
    atc: Floats


def score_models(
    models: Perceptrons, points: Floats, atc_thresholds: Floats, toy: HypersphereToy, seed: int
) -> HypersphereScores:
    """What the measures say of every model; all models are shown the same neighbors."""
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


def _build_row(distance: float, dataset_scores: list[HypersphereScores]) -> HypersphereRow:
    """The means of τ over the datasets of one distance, on which both are defined."""
    kept = [
        one
        for one in dataset_scores
        if min(np.ptp(one.accuracy), np.ptp(one.ni), np.ptp(one.atc)) > 0
    ]
    return HypersphereRow(
        distance=distance,
        accuracy=float(np.mean([one.accuracy.mean() for one in dataset_scores])),
        ni=_mean_or_none([kendall_tau(one.ni, one.accuracy) for one in kept]),
        atc=_mean_or_none([kendall_tau(one.atc, one.accuracy) for one in kept]),
        left_out=len(dataset_scores) - len(kept),
    )


def _mean_or_none(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def kendall_tau(first: Floats, second: Floats) -> float:
    """Kendall's τ-b, of values that are not all alike.

    >>> round(kendall_tau(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])), 3)
    0.333
    """
    from scipy.stats import kendalltau

    return float(kendalltau(first, second).statistic)
