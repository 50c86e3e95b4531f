"""Spurious-feature toy (Garg et al., ICLR 2022, §6 and App. D), with known true accuracy.

A row is x = [x_inv, x_sp]. The distance of the invariant feature x_inv from the class boundary is
uniform between a margin γ and c. The spurious feature x_sp is ±1 and agrees with the label with a
probability that differs between source and target.
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
    FalselyIdentified,
    Mandoline,
)

# Number of rows of the source and of each target. At the default p_sp of 0.995, Theorem 3 requires
# at least 350,563 source rows.
DEFAULT_ROWS = 360_000


@dataclass(frozen=True)
class SpuriousToy:
    """Linear sigmoid classifier on an invariant and a spurious feature.

    By default, the spurious feature disagrees with the label in 0.5 % of the source rows. This is
    less than one of 100 equal-mass bins holds, so re-weighting over such bins fails.

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
        """Return labelled predictions on n random rows.

        `agreement` is the probability that the spurious feature agrees with the label. The
        predictions of a second classifier, which has 3/4 of the spurious weight, are attached as
        those of another model.
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
        """Return the bound on the error of ATC-MC that holds with probability 1 − δ (Theorem 3)."""
        share = 1 - self.p_sp if self.w_sp > 0 else self.p_sp
        return math.sqrt(math.log(8 / delta) / (n * share))

    def min_rows(self, delta: float = 0.05) -> int:
        """Return the number of source rows that Theorem 3 requires.

        It is the smallest n with n ≥ 2 · log(4/δ) / (1 − p_sp)².

        >>> SpuriousToy(p_sp=0.995).min_rows()
        350563
        """
        return math.ceil(2 * math.log(4 / delta) / (1 - self.p_sp) ** 2)


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
    """True and estimated accuracy on one target.

    Parameters
    ----------
    agreement : float
        Probability that the spurious feature agrees with the label on the target.
    truth : float
        True accuracy on the target.
    estimates : dict of str to float
        Estimated accuracy by method.
    falsely_identified : FalselyIdentified
        Shares of rows that are wrong and above the threshold of ATC-MC, and of rows that are
        correct and below it.
    """

    agreement: float
    truth: float
    estimates: dict[str, float]
    falsely_identified: FalselyIdentified


def spurious_rows(
    toy: SpuriousToy, *, n: int = DEFAULT_ROWS, c: float | None = None, seed: int = 0
) -> Iterator[SpuriousRow]:
    """Estimate the accuracy on eleven targets.

    The spurious feature agrees with the label with probability 0, 0.1, …, 1.

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
        identified = ATC("mc").falsely_identified(source, target)
        yield SpuriousRow(tenth / 10, float(target.correct.mean()), estimates, identified)
