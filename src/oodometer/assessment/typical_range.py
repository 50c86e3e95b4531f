"""Typical range: how far estimates were off in reference cases, scaled to the present case.

The package contains a table of reference errors: estimate, accuracy and four covariates of cases
from suites of real models and targets (benchmarks/suites), without data. The covariates are the
standard error of the estimate, the AUROC of a domain classifier before and after the source was
reweighted to the estimated class frequencies, and the distance of confidences. They predict the size
of the error: log |error| is regressed on them, and every error is divided by its predicted size. The
quantiles of the ratios, times the size that is predicted for the present case, are the typical
range. Suites have the same weight, and cases with a similar predicted size count more. The lower and
the upper quantile differ, because estimates are more often too high than too low.

Past domains of the user (`History`) are added to the reference cases. The reference cases together
count as much as `REFERENCE_WEIGHT` past domains, and past domains with a similar predicted size count
more. If the past estimates are consistently too high or too low, the estimate is corrected. Batches
of the source, each estimated from the rest of it, are added in the same way (`SourceBatches`); they
count only if the target looks like the source. The range is at least as wide as the confidence interval.
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
COVARIATES = ("standard_error", "domain_auc", "remaining_auc", "confidence_distance")
COLUMNS = ("estimate", "truth", *COVARIATES)
# Sum of the weights of the reference cases; a past domain of the user has at most weight 1.
REFERENCE_WEIGHT = 3.0
# Errors below this multiple of the standard error are set to it before the logarithm.
MIN_ERROR = 0.5
MIN_STANDARD_ERROR = 1e-4
# Standard deviation of the weights, in the logarithm of the predicted size of the error.
SIZE_BANDWIDTH = 0.5
# A bias of past estimates is consistent if it is at least this many standard errors.
CONSISTENT_BIAS = 2.0


@dataclass(frozen=True)
class Covariates:
    """What predicts the size of the error of an estimate.

    Parameters
    ----------
    standard_error : float
        Standard error of the estimate, from its confidence interval.
    domain_auc : float
        AUROC of the domain classifier minus 0.5, as far as it exceeds noise.
    remaining_auc : float
        The same after the source was reweighted to the estimated class frequencies.
    confidence_distance : float
        Kolmogorov–Smirnov distance of the confidences, as far as it exceeds noise.

    Examples
    --------
    >>> Covariates(0.01, 0.2, 0.09, 0.04).features.round(2)
    array([ 1.  , -4.61,  0.45,  0.3 ,  0.2 ])
    """

    standard_error: float
    domain_auc: float
    remaining_auc: float
    confidence_distance: float

    @classmethod
    def of(
        cls, estimate: Estimate, *, n_source: int, n_target: int, distance: float
    ) -> Covariates | None:
        """Return the covariates of an estimate; None if its method has no reference errors."""
        if estimate.method != METHOD or estimate.low is None or estimate.high is None:
            return None
        noise = math.sqrt(1 / n_source + 1 / n_target)
        chance = 0.5 + 2 * noise / math.sqrt(12)
        return cls(
            (estimate.high - estimate.low) / 2 / Z95,
            max(estimate.facts["regime_auc"] - chance, 0.0),
            max(estimate.facts["regime_auc_reweighted"] - chance, 0.0),
            max(distance - 1.63 * noise, 0.0),
        )

    @property
    def features(self) -> Floats:
        """Return the inputs of the regression."""
        return np.asarray(
            _features({name: np.array([getattr(self, name)]) for name in COVARIATES})[0]
        )


def _features(columns: Mapping[str, Floats]) -> Floats:
    standard_error = np.maximum(columns["standard_error"], MIN_STANDARD_ERROR)
    roots = [np.sqrt(columns[name]) for name in COVARIATES[1:]]
    return np.stack([np.ones(len(standard_error)), np.log(standard_error), *roots], axis=1)


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
        return _features(self.columns)

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

    def weights_near(self, size: float) -> Floats:
        """Return the weights of the cases for a case with a given predicted size; they sum to 1."""
        weights = self.weights * similarity(self.sizes, size)
        return np.asarray(weights / weights.sum())

    def too_high_share(self, covariates: Covariates) -> float:
        """Return the share of similar cases, suites weighted equally, that were too high."""
        return float(self.weights_near(self.size(covariates)) @ (self.errors < 0))


def similarity(sizes: Floats, size: float) -> Floats:
    """Return a weight from 0 to 1 by the difference of the logarithms of predicted sizes.

    >>> similarity(np.array([0.02, 0.04]), 0.02).round(2)
    array([1.  , 0.38])
    """
    deviations = np.log(sizes / size) / SIZE_BANDWIDTH
    # Without a lower bound, all weights could vanish far from the reference cases.
    return np.asarray(np.exp(-0.5 * np.minimum(np.abs(deviations), 6.0) ** 2))


@dataclass(frozen=True)
class PastErrors:
    """Errors of past estimates, divided by their predicted size, with a weight for each of them.

    `bias` is the mean of estimate minus accuracy if it is consistent, otherwise 0.
    """

    ratios: Floats
    weights: Floats
    mean_error: float
    bias: float

    @classmethod
    def of(cls, history: History, size: float, spread: float | None) -> PastErrors:
        """Return the errors of a history, for a present case with a predicted size of the error.

        If the predicted sizes of the past errors are not known, the spreads replace them, and
        without spreads all past domains have the present size.
        """
        errors = history.truths - history.estimates
        sizes = np.full(len(errors), size)
        if history.expected_errors is not None:
            sizes = np.maximum(history.expected_errors, MIN_STANDARD_ERROR)
        elif history.spreads is not None and spread is not None:
            sizes = size * np.sqrt(
                np.maximum(history.spreads, MIN_SPREAD) / max(spread, MIN_SPREAD)
            )
        correction = _consistent_mean(errors)
        n = len(errors)
        remaining = errors - correction
        if correction:
            # The mean is estimated from the same errors, and is uncertain for the present case.
            remaining = remaining * math.sqrt((n + 1) / (n - 1))
        return cls(remaining / sizes, similarity(sizes, size), -float(errors.mean()), -correction)


def _consistent_mean(errors: Floats) -> float:
    """Return the mean if it is at least two standard errors from 0, otherwise 0."""
    mean = float(errors.mean())
    deviation = float(errors.std(ddof=1)) / math.sqrt(len(errors))
    return mean if abs(mean) > max(CONSISTENT_BIAS * deviation, 1e-9) else 0.0


def typical_range(
    value: float,
    covariates: Covariates,
    *,
    history: History | None = None,
    spread: float | None = None,
    source_batches: History | None = None,
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
    source_batches : History, optional
        Estimates and accuracies of batches of the source, which are added as past domains are, but
        do not correct the estimate.
    reference : ReferenceErrors, optional
        Reference cases; by default those of the package.

    Returns
    -------
    ShiftInterval
        The range around the estimate, corrected by the bias of the history if it is consistent.

    Examples
    --------
    >>> near = typical_range(0.8, Covariates(0.01, 0.0, 0.0, 0.0))
    >>> far = typical_range(0.8, Covariates(0.01, 0.3, 0.3, 0.3))
    >>> far.high - far.low > 3 * (near.high - near.low)
    True
    """
    reference = ReferenceErrors.load() if reference is None else reference
    size = reference.size(covariates)
    ratios: list[Floats] = [reference.errors / reference.sizes]
    weights: list[Floats] = [REFERENCE_WEIGHT * reference.weights_near(size)]
    past = None
    if history is not None:
        past = PastErrors.of(history, size, spread)
        ratios.append(past.ratios)
        weights.append(past.weights)
    if source_batches is not None:
        assert source_batches.expected_errors is not None
        errors = source_batches.truths - source_batches.estimates
        ratios.append(errors / source_batches.expected_errors)
        weights.append(similarity(source_batches.expected_errors, size))
    low, high = (
        size * weighted_quantile(np.concatenate(ratios), np.concatenate(weights), quantile)
        for quantile in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    )
    # Few batches of the source can be estimated well by chance.
    sampling = Z95 * covariates.standard_error
    low, high = min(low, -sampling), max(high, sampling)
    center = value - (past.bias if past else 0.0)
    return ShiftInterval(
        low=min(max(center + low, 0.0), 1.0),
        high=max(min(center + high, 1.0), 0.0),
        level=LEVEL,
        n_domains=len(history.truths) if history is not None else 0,
        scaled_by_spread=history is not None
        and history.expected_errors is None
        and history.spreads is not None
        and spread is not None,
        bias=past.mean_error if past else 0.0,
        n_suites=reference.n_suites,
        n_source_batches=0 if source_batches is None else len(source_batches.truths),
        correction=-past.bias if past else 0.0,
        too_high_share=reference.too_high_share(covariates),
        expected_error=size,
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
