"""The spurious-feature toy of Garg et al. 2022 (ATC §6, App. D), where truth is known exactly.

x = [x_inv, x_sp]: the invariant feature is uniform at a margin γ from the boundary, up to c; the
spurious one is ±1 and agrees with the label with a probability that changes on the target.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from oodometer.core.errors import InputError
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
    """A linear sigmoid classifier on an invariant and a spurious feature.

    By default the minority, where the spurious feature misleads, is 0.5 % of the source: less
    than one of 100 equal-mass bins, which is what makes re-weighting over those fail.
    """

    p_sp: float = 0.995
    w_inv: float = 4.0
    w_sp: float = 2.0
    gamma: float = 0.1
    c: float = 1.0

    def __post_init__(self) -> None:
        if not 0.5 < self.p_sp < 1.0:
            raise InputError(f"p_sp must lie between 0.5 and 1; got {self.p_sp}.")
        if not (self.w_inv > 0 and self.w_sp != 0):
            raise InputError(
                f"w_inv must be above 0 and w_sp not 0; got {self.w_inv} and {self.w_sp}."
            )
        if not 0 <= self.gamma < self.c:
            raise InputError(f"gamma must lie in [0, c); got {self.gamma} and c = {self.c}.")

    def draw(
        self, n: int, agreement: float, rng: np.random.Generator, c: float | None = None
    ) -> Predictions:
        """Labelled predictions of n rows whose spurious feature agrees that often.

        A second classifier, that leans on the spurious feature a quarter less, comes as a peer.
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
        """Theorem 3: ATC-MC is off by no more than this with probability 1 − δ."""
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
    """True accuracy at one degree of agreement, and what every method makes of it."""

    agreement: float
    truth: float
    estimates: dict[str, float]


def spurious_rows(
    toy: SpuriousToy, *, n: int = 100_000, c: float | None = None, seed: int = 0
) -> Iterator[SpuriousRow]:
    """Eleven targets, agreement 0, 0.1, …, 1; `c` shrinks (or widens) their support."""
    source = toy.draw(n, toy.p_sp, rng_for(seed, "source"))
    for tenth in range(11):
        target = toy.draw(n, tenth / 10, rng_for(seed, "target", tenth), c=c)
        blind = target.without_labels()
        values = {name: m.estimate(source, blind).value for name, m in METHODS.items()}
        yield SpuriousRow(tenth / 10, float(target.correct.mean()), values)
