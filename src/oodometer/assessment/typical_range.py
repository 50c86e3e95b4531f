"""Typical range: how far estimates were off in reference cases, scaled to the present case.

The package contains a table of reference errors: estimate, accuracy and three covariates of cases
from suites of real models and targets (benchmarks/suites), without data. The covariates are the
standard error of the estimate, the AUROC of a domain classifier, and the distance of confidences.
They predict the size of the error: log |error| is regressed on them, and every error is divided by
its predicted size. The quantiles of the ratios, times the size that is predicted for the present
case, are the typical range. Suites have the same weight. The lower and the upper quantile differ,
because estimates are more often too high than too low.

Past domains of the user (`History`) are added to the reference cases. All reference cases together
count as much as `REFERENCE_WEIGHT` past domains. If the past estimates are consistently too high or
too low, the estimate is corrected.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources

import numpy as np

from oodometer.assessment.conformal_interval import MIN_SPREAD, History, ShiftInterval
from oodometer.core.array_types import Floats
from oodometer.core.results import Estimate
from oodometer.core.stats import Z95

LEVEL = 0.9
METHOD = "regime"
TABLE = "reference_errors.csv"
COLUMNS = ("estimate", "truth", "standard_error", "domain_auc", "confidence_distance")
# Sum of the weights of the reference cases; a past domain of the user has weight 1.
REFERENCE_WEIGHT = 5.0
# Errors below this multiple of the standard error are set to it before the logarithm.
MIN_ERROR = 0.5
MIN_STANDARD_ERROR = 1e-4
# A bias of past estimates is consistent if it is at least this many standard errors.
CONSISTENT_BIAS = 2.0
# Cases are like the present one if the logarithm of their predicted error differs by at most this.
SIMILAR_SIZE = 0.3


@dataclass(frozen=True)
class Covariates:
    """What predicts the size of the error of an estimate.

    Parameters
    ----------
    standard_error : float
        Standard error of the estimate, from its confidence interval.
    domain_auc : float
        AUROC of the domain classifier minus 0.5, as far as it exceeds noise.
    confidence_distance : float
        Kolmogorov–Smirnov distance of the confidences, as far as it exceeds noise.

    Examples
    --------
    >>> Covariates(0.01, 0.2, 0.04).features.round(2)
    array([ 1.  , -4.61,  0.45,  0.2 ])
    """

    standard_error: float
    domain_auc: float
    confidence_distance: float

    @classmethod
    def of(
        cls, estimate: Estimate, *, n_source: int, n_target: int, distance: float
    ) -> Covariates | None:
        """Return the covariates of an estimate; None if its method has no reference errors."""
        if estimate.method != METHOD or estimate.low is None or estimate.high is None:
            return None
        noise = math.sqrt(1 / n_source + 1 / n_target)
        return cls(
            (estimate.high - estimate.low) / 2 / Z95,
            max(estimate.facts["regime_auc"] - 0.5 - 2 * noise / math.sqrt(12), 0.0),
            max(distance - 1.63 * noise, 0.0),
        )

    @property
    def features(self) -> Floats:
        """Return the inputs of the regression."""
        return _features(
            np.array([self.standard_error]),
            np.array([self.domain_auc]),
            np.array([self.confidence_distance]),
        )[0]


def _features(standard_error: Floats, domain_auc: Floats, distance: Floats) -> Floats:
    return np.stack(
        [
            np.ones(len(standard_error)),
            np.log(np.maximum(standard_error, MIN_STANDARD_ERROR)),
            np.sqrt(domain_auc),
            np.sqrt(distance),
        ],
        axis=1,
    )


@dataclass(frozen=True, eq=False)
class ReferenceErrors:
    """Table of reference cases, and the regression of the size of their errors.

    Parameters
    ----------
    suites : sequence of str
        Suite of each case.
    regimes : sequence of str
        Regime of each case: none, label, shift or both. All regimes of a suite have the same
        weight.
    columns : mapping of str to array
        The columns `COLUMNS`.

    Examples
    --------
    >>> reference = ReferenceErrors.load()
    >>> reference.n_suites > 12, len(reference.suites) > 3000
    (True, True)
    """

    suites: Sequence[str]
    regimes: Sequence[str]
    columns: Mapping[str, Floats]

    @classmethod
    @cache
    def load(cls) -> ReferenceErrors:
        """Return the table of the package."""
        text = (resources.files(__package__) / TABLE).read_text(encoding="utf-8")
        rows = list(csv.DictReader(text.splitlines()))
        return cls(
            [row["suite"] for row in rows],
            [row["regime"] for row in rows],
            {name: np.array([float(row[name]) for row in rows]) for name in COLUMNS},
        )

    @property
    def n_suites(self) -> int:
        """Return the number of suites."""
        return len(set(self.suites))

    @cached_property
    def weights(self) -> Floats:
        """Return the weight of each case; the weights sum to 1, and suites have the same weight."""
        keys = np.array([f"{s}\n{r}" for s, r in zip(self.suites, self.regimes, strict=True)])
        _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
        suites, inverse = np.unique(np.array(self.suites), return_inverse=True)
        first = np.unique(places, return_index=True)[1]
        n_regimes = np.bincount(inverse[first], minlength=len(suites))
        return np.asarray(1 / counts[places] / n_regimes[inverse] / len(suites))

    @cached_property
    def errors(self) -> Floats:
        """Return accuracy minus estimate of each case."""
        return np.asarray(self.columns["truth"] - self.columns["estimate"])

    @cached_property
    def _inputs(self) -> Floats:
        names = ("standard_error", "domain_auc", "confidence_distance")
        return _features(*(self.columns[name] for name in names))

    @cached_property
    def coefficients(self) -> Floats:
        """Return the coefficients of the regression of log |error|, weighted by `weights`."""
        smallest = MIN_ERROR * np.maximum(self.columns["standard_error"], MIN_STANDARD_ERROR)
        sizes = np.log(np.maximum(np.abs(self.errors), smallest))
        root = np.sqrt(self.weights)
        solution = np.linalg.lstsq(self._inputs * root[:, None], sizes * root, rcond=None)
        return np.asarray(solution[0])

    @cached_property
    def sizes(self) -> Floats:
        """Return the predicted size of the error of each case."""
        return np.asarray(np.exp(self._inputs @ self.coefficients))

    def size(self, covariates: Covariates) -> float:
        """Return the predicted size of the error."""
        return float(np.exp(covariates.features @ self.coefficients))

    def too_high_share(self, covariates: Covariates) -> float:
        """Return the share of similar cases, suites weighted equally, that were too high."""
        distance = np.abs(np.log(self.sizes) - math.log(self.size(covariates)))
        near = distance <= max(SIMILAR_SIZE, float(distance.min()))
        weights = self.weights[near]
        return float(weights @ (self.errors[near] < 0) / weights.sum())


@dataclass(frozen=True)
class PastErrors:
    """Errors of past estimates of the user, divided by their predicted size, and their bias.

    `bias` is the mean of estimate minus accuracy if it is consistent, otherwise 0.
    """

    ratios: Floats
    mean_error: float
    bias: float

    @classmethod
    def of(cls, history: History, size: float, spread: float | None) -> PastErrors:
        """Return the errors of a history, as if the past domains had the present size of errors.

        If the spreads of the past domains are known, errors are scaled by them.
        """
        errors = history.truths - history.estimates
        mean = float(errors.mean())
        deviation = float(errors.std(ddof=1)) / math.sqrt(len(errors))
        is_consistent = abs(mean) > max(CONSISTENT_BIAS * deviation, 1e-9)
        correction = mean if is_consistent else 0.0
        scale = np.full(len(errors), size)
        if history.spreads is not None and spread is not None:
            scale = size * np.sqrt(
                np.maximum(history.spreads, MIN_SPREAD) / max(spread, MIN_SPREAD)
            )
        n = len(errors)
        remaining = (errors - correction) * (math.sqrt((n + 1) / (n - 1)) if is_consistent else 1.0)
        return cls(remaining / scale, -mean, -correction)


def typical_range(
    value: float,
    covariates: Covariates,
    *,
    history: History | None = None,
    spread: float | None = None,
    reference: ReferenceErrors | None = None,
) -> ShiftInterval:
    """Return the range that contains the accuracy in 90 % of cases like the reference cases.

    Parameters
    ----------
    value : float
        Estimate.
    covariates : Covariates
        Covariates of the estimate.
    history : History, optional
        Past domains of the user, which are added to the reference cases.
    spread : float, optional
        Difference between the highest and the lowest estimate of several methods.
    reference : ReferenceErrors, optional
        Reference cases; by default those of the package.

    Returns
    -------
    ShiftInterval
        The range around the estimate, corrected by the bias of the history if it is consistent.

    Examples
    --------
    >>> near = typical_range(0.8, Covariates(0.01, 0.0, 0.0))
    >>> far = typical_range(0.8, Covariates(0.01, 0.3, 0.3))
    >>> far.high - far.low > 3 * (near.high - near.low)
    True
    """
    reference = ReferenceErrors.load() if reference is None else reference
    size = reference.size(covariates)
    ratios, weights = reference.errors / reference.sizes, reference.weights
    past = None
    if history is not None:
        past = PastErrors.of(history, size, spread)
        ratios = np.concatenate([ratios, past.ratios])
        weights = np.concatenate([REFERENCE_WEIGHT * weights, np.ones(len(past.ratios))])
    tail = (1 - LEVEL) / 2
    low, high = (size * weighted_quantile(ratios, weights, q) for q in (tail, 1 - tail))
    center = value - (past.bias if past else 0.0)
    return ShiftInterval(
        low=min(max(center + low, 0.0), 1.0),
        high=max(min(center + high, 1.0), 0.0),
        level=LEVEL,
        n_domains=len(history.truths) if history is not None else 0,
        scaled_by_spread=history is not None and history.spreads is not None and spread is not None,
        bias=past.mean_error if past else 0.0,
        n_suites=reference.n_suites,
        correction=-past.bias if past else 0.0,
        too_high_share=reference.too_high_share(covariates),
    )


def weighted_quantile(values: Floats, weights: Floats, level: float) -> float:
    """Return the smallest value up to which at least the share `level` of the weights lies.

    >>> weighted_quantile(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0]), 0.5)
    2.0
    """
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    place = int(np.searchsorted(cumulative, level * cumulative[-1] * (1 - 1e-12)))
    return float(values[order][min(place, len(values) - 1)])
