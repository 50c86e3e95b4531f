"""Two worlds with the same data: covariate shift or label shift (Garg et al., ICLR 2022, Example 1).

The source is a mixture of two classes, p_s(x) = α·N(μ₀, 1) + (1 − α)·N(μ₁, 1), and the inputs of the
target are distributed as p_t(x) = β·N(μ₀, 1) + (1 − β)·N(μ₁, 1). Both p_s(x, y) and p_t(x) are known
then, and the accuracy on the target is not: under label shift the class frequencies are β and 1 − β,
under covariate shift p_t(y|x) = p_s(y|x). An estimator sees the same data in both worlds, so it can
be right in at most one of them.

The paper prints the difference of the two errors (equation 10) with the factor α − β in both terms.
In its second term the factor is β − α. The sign of the difference therefore depends on the
classifier, and for some classifiers both errors are equal, for example for a boundary in the middle
between the classes if α = 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, out_of_range
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator
from oodometer.core.stats import rng_for
from oodometer.estimators import ATC, BBSE, MLLS, ImportanceWeighting

DEFAULT_BETAS = tuple(tenth / 10 for tenth in range(1, 10))
# Both densities are negligible at this distance from the means.
REACH = 12.0


@dataclass(frozen=True)
class CovariateOrLabelToy:
    """Two normal distributions, one per class, and a classifier with a threshold on x.

    The classifier predicts class 1 above `boundary`. Its probabilities are those of the source if
    `boundary` is left at its default, the optimal boundary on the source.

    Parameters
    ----------
    alpha : float
        Share of class 0 on the source.
    mu_0, mu_1 : float
        Means of the classes; `mu_1` is larger.
    boundary : float, optional
        Boundary of the classifier. Default: the boundary with the smallest error on the source.

    Raises
    ------
    InputError
        If `alpha` is not between 0 and 1, or `mu_1` is not above `mu_0`.

    Examples
    --------
    >>> toy = CovariateOrLabelToy(alpha=0.5)
    >>> round(toy.label_shift_accuracy(0.5), 3), round(toy.covariate_shift_accuracy(0.5), 3)
    (0.841, 0.841)
    """

    alpha: float = 0.3
    mu_0: float = -1.0
    mu_1: float = 1.0
    boundary: float | None = None

    def __post_init__(self) -> None:
        _check_share("alpha", self.alpha)
        values = (self.mu_0, self.mu_1, 0.0 if self.boundary is None else self.boundary)
        if not all(math.isfinite(value) for value in values):
            raise InputError(f"mu_0, mu_1 and boundary must be finite; got {values}.")
        if not self.mu_1 > self.mu_0:
            raise out_of_range("mu_1", self.mu_1, above=self.mu_0)

    @property
    def threshold(self) -> float:
        """Return the boundary of the classifier."""
        if self.boundary is not None:
            return self.boundary
        middle = (self.mu_0 + self.mu_1) / 2
        return middle - math.log((1 - self.alpha) / self.alpha) / (self.mu_1 - self.mu_0)

    def density(self, x: Floats, share: float) -> Floats:
        """Return the density of the mixture in which class 0 has the given share."""
        return np.asarray(share * _normal(x - self.mu_0) + (1 - share) * _normal(x - self.mu_1))

    def posterior(self, x: Floats, share: float) -> Floats:
        """Return the probability of class 1 given x if class 0 has the given share."""
        odds = (self.mu_1 - self.mu_0) * (x - (self.mu_0 + self.mu_1) / 2)
        odds = odds + math.log((1 - share) / share)
        return np.asarray(0.5 * (1 + np.tanh(odds / 2)))

    def covariate_shift_accuracy(self, beta: float) -> float:
        """Return ``1 − E_s[p_t(x) / p_s(x) · 1(f(x) ≠ y)]``, by numerical integration over x."""

        def error(x: float) -> float:
            point = np.array(x)
            one = float(self.posterior(point, self.alpha))
            return float(self.density(point, beta)) * (1 - one if x > self.threshold else one)

        return 1 - self._integrate(error)

    def label_shift_accuracy(self, beta: float) -> float:
        """Return ``1 − E_s[w(y) · 1(f(x) ≠ y)]`` with w = β/α for class 0, (1 − β)/(1 − α) else."""
        right_0 = _normal_cdf(self.threshold - self.mu_0)
        right_1 = 1 - _normal_cdf(self.threshold - self.mu_1)
        return beta * right_0 + (1 - beta) * right_1

    def error_difference(self, beta: float) -> float:
        """Return the error under covariate shift minus the error under label shift.

        This is equation (10) of the paper with the sign of the second term corrected:
        ``(α − β) · (∫ 1(f ≠ 0) p_s(0|x) φ₁ dx / α − ∫ 1(f ≠ 1) p_s(1|x) φ₀ dx / (1 − α))``.
        """

        def weighted(x: float) -> float:
            one = float(self.posterior(np.array(x), self.alpha))
            if x > self.threshold:
                return (1 - one) * float(_normal(np.array(x - self.mu_1))) / self.alpha
            return -one * float(_normal(np.array(x - self.mu_0))) / (1 - self.alpha)

        return (self.alpha - beta) * self._integrate(weighted)

    def _integrate(self, function: Callable[[float], float]) -> float:
        """Return the integral over all x of a function that jumps at the boundary."""
        from scipy.integrate import quad

        low = min(self.mu_0, self.threshold) - REACH
        high = max(self.mu_1, self.threshold) + REACH
        parts = ((low, self.threshold), (self.threshold, high))
        return sum(float(quad(function, *part, epsabs=1e-10, limit=200)[0]) for part in parts)

    def draw(self, n: int, share: float, rng: np.random.Generator) -> tuple[Floats, Ints]:
        """Return n random inputs of the mixture, and the class of the component of each."""
        classes = (rng.random(n) >= share).astype(np.int64)
        means = np.where(classes == 1, self.mu_1, self.mu_0)
        return rng.normal(size=n) + means, classes

    def predict(self, x: Floats, labels: Ints | None = None) -> Predictions:
        """Return the predictions of the classifier, with the first five powers of x as features."""
        logits = (self.mu_1 - self.mu_0) * (x - self.threshold)
        features = np.stack([x**power for power in range(1, 6)], axis=1)
        scores = np.stack([np.zeros(len(x)), logits], axis=1)
        return Predictions.from_logits(scores, labels=labels, features=features)


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise out_of_range(name, value, above=0, below=1)


def _normal(x: Floats) -> Floats:
    return np.asarray(np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))


def _normal_cdf(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


@dataclass(frozen=True)
class WorldAccuracy:
    """Accuracy on the target in one of the two worlds.

    Parameters
    ----------
    exact : float
        Value of the formula.
    weighted : float
        Accuracy of the simulated source rows, weighted by the exact importance weights.
    simulated : float
        Accuracy of the simulated target rows.

    Examples
    --------
    >>> WorldAccuracy(exact=0.75, weighted=0.751, simulated=0.748).exact
    0.75
    """

    exact: float
    weighted: float
    simulated: float


@dataclass(frozen=True)
class CovariateOrLabelRow:
    """True accuracies in both worlds, and the estimates, which are the same in both.

    Parameters
    ----------
    beta : float
        Share of the first component on the target.
    covariate, label : WorldAccuracy
        Accuracy if the shift is a covariate shift or a label shift.
    estimates : dict of str to float
        Estimated accuracy by method.
    """

    beta: float
    covariate: WorldAccuracy
    label: WorldAccuracy
    estimates: dict[str, float]


def covariate_or_label_rows(
    toy: CovariateOrLabelToy,
    *,
    betas: Sequence[float] = DEFAULT_BETAS,
    n: int = 50_000,
    seed: int = 0,
) -> Iterator[CovariateOrLabelRow]:
    """Compute and estimate the accuracy in both worlds for several shares of the components.

    Parameters
    ----------
    toy : CovariateOrLabelToy
        Settings.
    betas : sequence of float
        Shares of the first component on the target.
    n : int
        Number of rows of the source and of each target.
    seed : int
        Random seed.

    Yields
    ------
    CovariateOrLabelRow
        One row per share.

    Raises
    ------
    InputError
        If a share is not between 0 and 1.

    Examples
    --------
    >>> row = next(covariate_or_label_rows(CovariateOrLabelToy(), betas=[0.9], n=2000))
    >>> round(row.covariate.exact, 3), round(row.label.exact, 3)
    (0.81, 0.738)
    """
    for beta in betas:
        _check_share("beta", beta)
    x, labels = toy.draw(n, toy.alpha, rng_for(seed, "source"))
    source = toy.predict(x, labels)
    methods: tuple[Estimator, ...] = (ImportanceWeighting(n), BBSE(), MLLS(), ATC("mc"))
    for number, beta in enumerate(betas):
        inputs, components = toy.draw(n, beta, rng_for(seed, "target", number))
        target = toy.predict(inputs)
        posterior = toy.posterior(inputs, toy.alpha)
        redrawn = rng_for(seed, "labels", number).random(n) < posterior
        ratio = toy.density(x, beta) / toy.density(x, toy.alpha)
        class_ratio = np.where(labels == 0, beta / toy.alpha, (1 - beta) / (1 - toy.alpha))
        yield CovariateOrLabelRow(
            beta,
            covariate=WorldAccuracy(
                toy.covariate_shift_accuracy(beta),
                weighted=1 - float(np.mean(ratio * ~source.correct)),
                simulated=float(np.mean(target.classes == redrawn)),
            ),
            label=WorldAccuracy(
                toy.label_shift_accuracy(beta),
                weighted=1 - float(np.mean(class_ratio * ~source.correct)),
                simulated=float(np.mean(target.classes == components)),
            ),
            estimates={method.name: method.estimate(source, target).value for method in methods},
        )
