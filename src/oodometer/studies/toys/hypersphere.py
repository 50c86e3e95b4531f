"""The hypersphere toy of NI §5.1: where measures rank models well, and where they must fail.

Is a point inside or outside the unit hypersphere of R¹⁶? Models are trained around its north
pole, on labels of which up to 30 % are wrong, and are then ranked further and further away.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import keys
from oodometer.core.protocols import Progress
from oodometer.core.random_streams import Draws
from oodometer.core.softmax_kernels import Bools, Floats
from oodometer.core.stats import stream
from oodometer.estimators.atc import threshold
from oodometer.studies.toys._perceptrons import Perceptrons, Training, initial_weights, trained
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

    def centre(self, distance: float, rng: np.random.Generator) -> Floats:
        """A random point of the sphere at that distance from the pole, measured along it."""
        side = rng.normal(size=self.dimension)
        side[0] = 0.0
        centre = math.sin(distance) * side / np.linalg.norm(side)
        centre[0] = math.cos(distance)
        return np.asarray(centre)

    def domain(self, centre: Floats, rng: np.random.Generator) -> Floats:
        """Points around a centre."""
        shape = (self.points, self.dimension)
        return np.asarray(centre + rng.normal(scale=math.sqrt(self.variance), size=shape))


@dataclass(frozen=True)
class SphereRow:
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


def inside(points: Floats) -> Bools:
    """The true class: 1 inside the unit hypersphere, 0 outside."""
    return np.asarray((points * points).sum(axis=1) < 1.0)


def hypersphere_rows(
    toy: HypersphereToy, *, seed: int = 0, progress: Progress | None = None
) -> Iterator[SphereRow]:
    """Train the models, telling `progress` the steps done, then rank them at every distance."""
    yield from rankings(pool(toy, seed, progress), toy, seed)


def rankings(models: Perceptrons, toy: HypersphereToy, seed: int) -> Iterator[SphereRow]:
    """How well trained models are ranked, from the pole to the opposite point."""
    cuts = thresholds(models, toy, seed)
    for at, distance in enumerate(np.linspace(0.0, math.pi, toy.distances)):
        found = []
        for number in range(toy.centres):
            rng = stream(seed, "target", at, number)
            points = toy.domain(toy.centre(float(distance), rng), rng)
            found.append(scores(models, points, cuts, toy, seed))
        yield _row(float(distance), found)


def pool(toy: HypersphereToy, seed: int, progress: Progress | None = None) -> Perceptrons:
    """The models, trained on one sample of the pole's domain, each with wrong labels of its own."""
    points = toy.domain(toy.centre(0.0, stream(seed, "pole")), stream(seed, "train"))
    rng = stream(seed, "labels")
    shares = rng.uniform(0.0, toy.noise, toy.models)
    wrong = rng.random((toy.models, toy.points)) < shares[:, None]
    weights = initial_weights(toy.models, toy.dimension, toy.hidden, stream(seed, "weights"))
    training = Training(toy.steps, toy.rate)
    return trained(weights, points, inside(points) ^ wrong, training, progress)


def thresholds(models: Perceptrons, toy: HypersphereToy, seed: int) -> Floats:
    """ATC's threshold of every model, on fresh points of the pole's domain, rightly labelled."""
    points = toy.domain(toy.centre(0.0, stream(seed, "pole")), stream(seed, "validation"))
    logits = models.logits(points)
    errors = toy.points - ((logits > 0) == inside(points)).sum(axis=1)
    return np.array([threshold(*one) for one in zip(confidences(logits), errors, strict=True)])


def confidences(logits: Floats) -> Floats:
    """The probability of the class that is chosen."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.abs(logits.astype(np.float64)))))


@dataclass(frozen=True, eq=False)
class Scores:
    """Of every model on one dataset: its accuracy, its NI and its ATC."""

    accuracy: Floats
    ni: Floats
    atc: Floats


def scores(
    models: Perceptrons, points: Floats, cuts: Floats, toy: HypersphereToy, seed: int
) -> Scores:
    """What the measures say of every model; all models are shown the same neighbors."""
    logits = models.logits(points)
    ones = (logits > 0).astype(np.int64)
    examples = keys(points)
    for number in range(1, toy.draws + 1):
        draws = Draws(seed, examples, np.full(len(points), number))
        ones += models.logits(Sphere(toy.radius).apply(points, draws)) > 0
    members = toy.draws + 1
    return Scores(
        accuracy=((logits > 0) == inside(points)).mean(axis=1),
        ni=(np.maximum(ones, members - ones) / members).mean(axis=1),
        atc=(confidences(logits) >= cuts[:, None]).mean(axis=1),
    )


def _row(distance: float, found: list[Scores]) -> SphereRow:
    """The means of τ over the datasets of one distance, on which both are defined."""
    kept = [one for one in found if min(np.ptp(one.accuracy), np.ptp(one.ni), np.ptp(one.atc)) > 0]
    return SphereRow(
        distance=distance,
        accuracy=float(np.mean([one.accuracy.mean() for one in found])),
        ni=_mean([tau(one.ni, one.accuracy) for one in kept]),
        atc=_mean([tau(one.atc, one.accuracy) for one in kept]),
        left_out=len(found) - len(kept),
    )


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def tau(first: Floats, second: Floats) -> float:
    """Kendall's τ-b, of values that are not all alike.

    >>> round(tau(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])), 3)
    0.333
    """
    from scipy.stats import kendalltau

    return float(kendalltau(first, second).statistic)
