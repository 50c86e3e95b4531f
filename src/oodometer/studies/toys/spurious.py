"""Spurious-feature toy (Garg et al., ICLR 2022, §6 and App. D), with known true accuracy.

x = [x_inv, x_sp]: the invariant feature is uniform between a margin γ and c from the boundary; the
spurious one is ±1 and agrees with the label with a probability that changes on the target.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from oodometer.core.errors import InputError, out_of_range
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator
from oodometer.core.stats import rng_for
from oodometer.estimators import (
    ATC,
    GDE,
    AverageConfidence,
    DifferenceOfConfidences,
    Mandoline,
)


@dataclass(frozen=True)
class SpuriousToy:
    """Linear sigmoid classifier on an invariant and a spurious feature.

    By default the minority, where the spurious feature disagrees with the label, is 0.5 % of the
    source: less than one of 100 equal-mass bins, which makes re-weighting over these bins fail.

    Parameters
    ----------
    p_sp : float
        Probability that the spurious feature agrees with the label on the source.
    w_inv, w_sp : float
        Weights of the invariant and the spurious feature.
    gamma : float
        Margin of the invariant feature.
    c : float
        Largest absolute value of the invariant feature.

    Raises
    ------
    InputError
        If a setting violates the assumptions of the theorem.

    Examples
    --------
    >>> round(SpuriousToy(p_sp=0.9).atc_error_bound(1000), 3)
    0.225
    """

    p_sp: float = 0.995
    w_inv: float = 4.0
    w_sp: float = 2.0
    gamma: float = 0.1
    c: float = 1.0

    def __post_init__(self) -> None:
        if not 0.5 < self.p_sp < 1.0:
            raise out_of_range("p_sp", self.p_sp, above=0.5, below=1)
        if not self.w_inv > 0:
            raise out_of_range("w_inv", self.w_inv, above=0)
        if self.w_sp == 0:
            raise InputError("w_sp must not be 0.")
        if not 0 <= self.gamma < self.c:
            raise out_of_range("gamma", self.gamma, low=0, below=self.c)

    def draw(
        self, n: int, agreement: float, rng: np.random.Generator, c: float | None = None
    ) -> Predictions:
        """Return labelled predictions of n rows with a given agreement of the spurious feature.

        A second classifier with 3/4 of the spurious weight is attached as another model.
        """
        labels = rng.integers(0, 2, n)
        side = 2 * labels - 1
        invariant = side * rng.uniform(self.gamma, self.c if c is None else c, n)
        spurious = np.where(rng.random(n) < agreement, side, -side)
        gap = self.w_inv * invariant + self.w_sp * spurious
        other = self.w_inv * invariant + 0.75 * self.w_sp * spurious
        peer = Predictions.from_logits(np.stack([np.zeros(n), other], axis=1))
        rows = Predictions.from_logits(np.stack([np.zeros(n), gap], axis=1), labels=labels)
        return rows.with_other_models(peer)

    def atc_error_bound(self, n: int, delta: float = 0.05) -> float:
        """Return the bound of Theorem 3 on the error of ATC-MC, with probability 1 − δ."""
        share = 1 - self.p_sp if self.w_sp > 0 else self.p_sp
        return math.sqrt(math.log(8 / delta) / (n * share))


METHODS: dict[str, Estimator] = {
    "atc-mc": ATC("mc"),
    "ac": AverageConfidence(),
    "doc": DifferenceOfConfidences(),
    "gde": GDE(),
    "im (10 equal-width)": Mandoline(10, "equal-width"),
    "im (100 equal-mass)": Mandoline(100, "equal-mass"),
}


@dataclass(frozen=True)
class SpuriousRow:
    """True and estimated accuracy at one degree of agreement.

    Parameters
    ----------
    agreement : float
        Probability that the spurious feature agrees with the label on the target.
    truth : float
        True accuracy on the target.
    estimates : dict of str to float
        Estimated accuracy by method.
    """

    agreement: float
    truth: float
    estimates: dict[str, float]


def spurious_rows(
    toy: SpuriousToy, *, n: int = 100_000, c: float | None = None, seed: int = 0
) -> Iterator[SpuriousRow]:
    """Estimate the accuracy on eleven targets with agreement 0, 0.1, …, 1.

    Parameters
    ----------
    toy : SpuriousToy
        Settings.
    n : int
        Number of rows of the source and of each target.
    c : float, optional
        Largest absolute value of the invariant feature on the targets. Default: as on the source.
    seed : int
        Random seed.

    Yields
    ------
    SpuriousRow
        One row per target.
    """
    source = toy.draw(n, toy.p_sp, rng_for(seed, "source"))
    for tenth in range(11):
        target = toy.draw(n, tenth / 10, rng_for(seed, "target", tenth), c=c)
        unlabelled = target.without_labels()
        estimates = {
            name: method.estimate(source, unlabelled).value for name, method in METHODS.items()
        }
        yield SpuriousRow(tenth / 10, float(target.correct.mean()), estimates)
