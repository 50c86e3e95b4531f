"""Geometric and statistical skew: why a classifier uses a spurious feature (Nagarajan et al., 2020).

The data are those of the spurious-feature toy (Garg et al., ICLR 2022, App. D and Fig. 4): the
invariant feature alone separates the classes with a margin γ, and the spurious feature ±1 agrees with
the label with probability p_sp. Let u be the invariant feature times the label ±1, so that u is
uniform between γ and c. In the minority group the spurious feature disagrees with the label.

Geometric skew: the smallest u of the few minority rows is far above γ, and the max-margin classifier
of these rows has a weight on the spurious feature. Statistical skew: with many rows the max-margin
classifier has nearly no such weight, and gradient descent still has one after any finite number of
epochs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, out_of_range
from oodometer.core.protocols import ProgressCallback
from oodometer.core.stats import rng_for

# Gradient descent replaces the sorted u of a group by the means of at most this many equal-mass
# bins. This changes the ratio of the weights by less than 0.02 % (3,000 rows, up to 10,000 epochs).
MAX_BINS = 64


@dataclass(frozen=True)
class SkewsToy:
    """Settings of the toy.

    Parameters
    ----------
    p_sp : float
        Probability that the spurious feature agrees with the label.
    gamma : float
        Margin of the invariant feature.
    c : float
        Largest absolute value of the invariant feature.
    sizes : tuple of int
        Numbers of training rows.
    epochs : tuple of int
        Numbers of epochs of gradient descent after which the weights are recorded.
    rate : float
        Learning rate of gradient descent on the mean logistic loss of all rows.
    repeats : int
        Number of training sets per size.

    Raises
    ------
    InputError
        If a setting is out of range.

    Examples
    --------
    >>> round(SkewsToy().expected_margin(100), 3)
    0.189
    """

    p_sp: float = 0.9
    gamma: float = 0.1
    c: float = 1.0
    sizes: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    epochs: tuple[int, ...] = (10, 100, 1000, 10_000)
    rate: float = 1.0
    repeats: int = 20

    def __post_init__(self) -> None:
        if not 0.5 < self.p_sp < 1.0:
            raise out_of_range("p_sp", self.p_sp, above=0.5, below=1)
        if not 0 < self.gamma < self.c:
            raise out_of_range("gamma", self.gamma, above=0, below=self.c)
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise out_of_range("rate", self.rate, above=0)
        if self.repeats < 1:
            raise out_of_range("repeats", self.repeats, low=1)
        for name, values in (("sizes", self.sizes), ("epochs", self.epochs)):
            if not values:
                raise InputError(f"{name} is empty; expected at least one number.")
            if min(values) < 1:
                raise out_of_range(name, min(values), low=1)

    def expected_margin(self, n: int) -> float:
        """Return the expected smallest u of the minority group among n rows.

        The smallest of m uniform values between γ and c is γ + (c − γ)/(m + 1) on average, and m is
        binomial, so the result is γ + (c − γ)(1 − p^(n+1)) / ((n + 1)(1 − p)) with p = p_sp. Without
        minority rows, the margin counts as c.
        """
        share = (1 - self.p_sp ** (n + 1)) / ((n + 1) * (1 - self.p_sp))
        return self.gamma + (self.c - self.gamma) * share

    def draw(self, n: int, rng: np.random.Generator) -> GroupedRows:
        """Return n random rows as the sorted u of the majority and of the minority."""
        agrees = rng.random(n) < self.p_sp
        u = rng.uniform(self.gamma, self.c, n)
        return GroupedRows(np.sort(u[agrees]), np.sort(u[~agrees]))


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Sorted u of the rows in which the spurious feature agrees with the label, and of the others."""

    majority: Floats
    minority: Floats

    def minority_margin(self, c: float) -> float:
        """Return the smallest u of the minority, or c if the minority is empty."""
        return float(self.minority[0]) if len(self.minority) else c


def max_margin_weights(rows: GroupedRows) -> tuple[float, float]:
    """Return the weights (w_inv, w_sp) of the smallest norm with a margin of at least 1.

    The constraints are w_inv·a + w_sp ≥ 1 and w_inv·b − w_sp ≥ 1, where a and b are the smallest u
    of the majority and of the minority. If both are active, w_sp / w_inv = (b − a) / 2.

    >>> max_margin_weights(GroupedRows(np.array([0.25, 0.5]), np.array([0.75])))
    (2.0, 0.5)
    """
    constraints = []
    if len(rows.majority):
        constraints.append((float(rows.majority[0]), 1.0))
    if len(rows.minority):
        constraints.append((float(rows.minority[0]), -1.0))
    for u, side in constraints:  # the smallest weights that satisfy one constraint exactly
        weights = (u / (u * u + 1), side / (u * u + 1))
        if all(
            weights[0] * other + weights[1] * other_side >= 1 - 1e-12
            for other, other_side in constraints
        ):
            return weights
    (a, _), (b, _) = constraints
    return 2 / (a + b), (b - a) / (a + b)


def descend(
    sets: Sequence[GroupedRows], toy: SkewsToy, progress: ProgressCallback | None
) -> Floats:
    """Return w_sp / w_inv of every training set after the recorded epochs, (sets, epochs).

    Gradient descent starts at weights of 0 and minimizes the mean logistic loss, for all training
    sets at the same time.
    """
    values, shares = _stack_bins(sets)
    sides = np.concatenate([np.ones(MAX_BINS), -np.ones(MAX_BINS)])
    invariant, spurious = np.zeros((2, len(sets), 1))
    recorded = np.empty((len(sets), len(toy.epochs)))
    last = max(toy.epochs)
    for epoch in range(1, last + 1):
        margins = invariant * values + spurious * sides
        # −dloss/dmargin is 1 / (1 + e^margin), which tanh computes without overflow.
        slopes = shares * (0.5 - 0.5 * np.tanh(margins / 2))
        invariant = invariant + toy.rate * (slopes * values).sum(axis=1, keepdims=True)
        spurious = spurious + toy.rate * (slopes * sides).sum(axis=1, keepdims=True)
        for column, wanted in enumerate(toy.epochs):
            if wanted == epoch:
                recorded[:, column] = (spurious / invariant)[:, 0]
        if progress is not None and (epoch % 100 == 0 or epoch == last):
            progress(epoch, last, "epochs")
    return recorded


def _stack_bins(sets: Sequence[GroupedRows]) -> tuple[Floats, Floats]:
    """Return the mean u and the share of the rows of every bin, (sets, 2 · MAX_BINS).

    The bins of the majority come first. Bins without rows have a share of 0.
    """
    values = np.zeros((len(sets), 2 * MAX_BINS))
    shares = np.zeros_like(values)
    for number, rows in enumerate(sets):
        n = len(rows.majority) + len(rows.minority)
        for start, group in ((0, rows.majority), (MAX_BINS, rows.minority)):
            parts = np.array_split(group, MAX_BINS) if len(group) > MAX_BINS else group[:, None]
            for offset, part in enumerate(parts):
                values[number, start + offset] = part.mean()
                shares[number, start + offset] = len(part) / n
    return values, shares


@dataclass(frozen=True)
class SkewRow:
    """Margin and weights for one number of training rows, averaged over training sets.

    Parameters
    ----------
    n : int
        Number of training rows.
    margin : float
        Smallest u of the minority group.
    expected_margin : float
        Expectation of `margin`.
    max_margin : float
        w_sp / w_inv of the max-margin classifier.
    descent : dict of int to float
        w_sp / w_inv of gradient descent, by the number of epochs.

    Examples
    --------
    >>> SkewRow(100, margin=0.2, expected_margin=0.189, max_margin=0.04, descent={10: 1.2}).n
    100
    """

    n: int
    margin: float
    expected_margin: float
    max_margin: float
    descent: dict[int, float]


def skew_rows(
    toy: SkewsToy, *, seed: int = 0, progress: ProgressCallback | None = None
) -> Iterator[SkewRow]:
    """Measure both skews for every number of training rows.

    Parameters
    ----------
    toy : SkewsToy
        Settings.
    seed : int
        Random seed.
    progress : callable, optional
        Called with the number of finished epochs, their total and a label.

    Yields
    ------
    SkewRow
        One row per number of training rows.

    Examples
    --------
    >>> toy = SkewsToy(sizes=(20, 2000), epochs=(10,), repeats=3)
    >>> few, many = skew_rows(toy)
    >>> few.margin > many.margin > toy.gamma
    True
    """
    sets = [
        toy.draw(n, rng_for(seed, "skews", n, repeat))
        for n in toy.sizes
        for repeat in range(toy.repeats)
    ]
    ratios = descend(sets, toy, progress)
    for number, n in enumerate(toy.sizes):
        group = slice(number * toy.repeats, (number + 1) * toy.repeats)
        weights = [max_margin_weights(rows) for rows in sets[group]]
        means = ratios[group].mean(axis=0)
        yield SkewRow(
            n,
            margin=float(np.mean([rows.minority_margin(toy.c) for rows in sets[group]])),
            expected_margin=toy.expected_margin(n),
            max_margin=float(np.mean([spurious / invariant for invariant, spurious in weights])),
            descent=dict(zip(toy.epochs, means.tolist(), strict=True)),
        )
