"""Compare two measures by a bootstrap over models (Efron, 1979; Davison & Hinkley, 1997, §3.8).

The groups of a study share models: the same hundred models are tested on every domain. Groups are
therefore not independent, and a standard error over groups is too small. Here, models are drawn
with replacement, and a drawn model enters every group that contains it. The models of each training
set (and of each architecture, if the statistic groups by it) are drawn separately. All seeds of one
training configuration are drawn together, as a cluster.

Test domains can be drawn as well. The interval then also reflects that other domains could have
been chosen. Corruptions of one kind that differ only in severity are drawn together.

A cluster that is drawn twice is compared with other clusters twice. Its two copies are not compared
with each other: for single models these pairs are tied in both columns, and τ-b leaves them out of
numerator and denominator, so the replicates of τ-b are not weakened by copies. For clusters of
several seeds, such pairs would give pairs of seeds about twice their weight.

Intervals are percentiles of the replicates. In simulated studies with known truth (12 models per
training set, four training sets and domains), they contain the true difference of Macro τ, MAE and
r2_pearson in 96, 94 and 94 % of 200 studies. Basic intervals do so in 97, 97 and 79 %; two standard
errors over groups, as if groups were independent, in 83, 80 and 75 %. The replicates of R² of a
single measure are biased in small groups; use intervals of differences. 1,000 replicates of Micro τ
of 20 measures for 1,728 models on 16 domains take 18 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable, UnknownName
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.studies.analysis._compare_measures import STATISTIC_LABELS
from oodometer.studies.analysis._resampled_statistics import (
    groups_by_architecture,
    statistic_values,
)
from oodometer.studies.analysis.estimation_error import find_estimates
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.linear_fit import RAW_STATISTICS
from oodometer.studies.analysis.model_resampling import (
    DEFAULT_REPLICATES,
    BootstrapSettings,
    Resamples,
    draw_models,
)

Verdict = Literal["held", "refuted", "undecided"]
# Statistics of this module that `compare_measures` does not have.
FURTHER_STATISTICS = {
    "macro_tau_sd": "sd of Macro τ over groups",
    "rho": "ρ with error",
    "joint_rho": "ρ with error, pooled",
    "pair_rho": "ρ with error by pair of domains",
    "adjusted_rho": "ρ with error given ID error, by pair of domains",
    "estimation_error": "error of the estimate",
    "siegel_gap": "gap between Siegel's line and y = x",
}
BOOTSTRAP_STATISTICS = {**STATISTIC_LABELS, **FURTHER_STATISTICS}
# Statistics of which smaller values are better. Errors and the gap are in percentage points.
LOWER_IS_BETTER = ("mae", "raw_mae", "macro_tau_sd", "estimation_error", "siegel_gap")
LEVEL = 0.95
# Replicates that are computed at a time are at most this many weights of rows.
MAX_WEIGHTS = 8_000_000
# A difference below this share of the half-width is too close to 0 for an extrapolation.
MIN_DIFFERENCE_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class BootstrapReplicates:
    """Values of one statistic for several measures, and their bootstrap replicates.

    Parameters
    ----------
    statistic : str
        Name of the statistic.
    measures : tuple of str
        Names of the measures.
    values : array of shape (measures,)
        Values of the statistic on the table.
    replicates : array of shape (measures, replicates)
        Values on resampled tables; NaN where undefined.
    n_models, n_clusters, n_groups, n_domains : int
        Numbers of models, of model configurations, of groups and of test domains.
    domains_drawn : bool
        Whether test domains were drawn too.
    n_evaluations : int
        Number of evaluations.
    """

    statistic: str
    measures: tuple[str, ...]
    values: Floats
    replicates: Floats
    n_models: int
    n_clusters: int
    n_groups: int
    n_domains: int
    domains_drawn: bool
    n_evaluations: int

    def value(self, measure: str) -> float:
        """Return the value of a measure; NaN if it is undefined."""
        return float(self.values[self._index(measure)])

    def standard_error(self, measure: str) -> float:
        """Return the standard deviation of the replicates of a measure; NaN if it is undefined."""
        replicates = self.replicates[self._index(measure)]
        known = replicates[~np.isnan(replicates)]
        return float(known.std(ddof=1)) if len(known) > 1 else np.nan

    def interval(self, measure: str, *, level: float = LEVEL) -> tuple[float, float]:
        """Return the percentile interval of a measure."""
        return percentile_interval(self.replicates[self._index(measure)], level=level)

    def difference(self, first: str, second: str, *, level: float = LEVEL) -> MeasureDifference:
        """Return the difference of two measures with its interval."""
        i, j = self._index(first), self._index(second)
        low, high = percentile_interval(self.replicates[i] - self.replicates[j], level=level)
        return MeasureDifference(
            statistic=self.statistic,
            first=first,
            second=second,
            first_value=float(self.values[i]),
            second_value=float(self.values[j]),
            low=low,
            high=high,
            level=level,
            models=self.n_models,
            configurations=self.n_clusters,
            groups=self.n_groups,
            domains=self.n_domains,
            domains_drawn=self.domains_drawn,
            evaluations=self.n_evaluations,
            replicates=self.replicates.shape[1],
        )

    def _index(self, measure: str) -> int:
        if measure not in self.measures:
            raise UnknownName("measure", measure, self.measures)
        return self.measures.index(measure)


def percentile_interval(replicates: Floats, *, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval between two quantiles of the replicates; NaN replicates are left out.

    >>> percentile_interval(np.arange(81.0), level=0.5)
    (20.0, 60.0)
    """
    known = replicates[~np.isnan(replicates)]
    if len(known) < len(replicates) / 2:
        raise NotApplicable("the statistic is undefined in most of the resampled studies")
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@dataclass(frozen=True, kw_only=True)
class MeasureDifference:
    """Difference of a statistic between two measures, with a bootstrap interval over models.

    Parameters
    ----------
    statistic : str
        Name of the statistic.
    first, second : str
        Measures.
    first_value, second_value : float
        Values of the statistic.
    low, high : float
        Interval of `first_value` − `second_value`.
    level : float
        Confidence level of the interval.
    models, configurations, groups, domains, evaluations : int
        Numbers of models, of model configurations (all seeds of a configuration are one), of groups
        that the statistic averages over, of test domains, and of evaluations.
    domains_drawn : bool
        Whether test domains were drawn as well as models.
    replicates : int
        Number of bootstrap replicates.
    left_out : int
        Evaluations in which one of the measures is missing.

    Examples
    --------
    >>> difference = MeasureDifference(statistic="macro_tau", first="ni", second="doc",
    ...     first_value=0.7, second_value=0.6, low=-0.1, high=0.3, level=0.95, models=40,
    ...     configurations=40, groups=6, domains=3, evaluations=80, domains_drawn=False,
    ...     replicates=1000)
    >>> round(difference.value, 6), difference.verdict, difference.configurations_needed
    (0.1, 'undecided', 161)
    """

    statistic: str
    first: str
    second: str
    first_value: float
    second_value: float
    low: float
    high: float
    level: float
    models: int
    configurations: int
    groups: int
    domains: int
    evaluations: int
    domains_drawn: bool
    replicates: int
    left_out: int = 0

    @property
    def value(self) -> float:
        """Difference of the two values."""
        return self.first_value - self.second_value

    @property
    def verdict(self) -> Verdict:
        """Verdict on the claim that the first measure is better than the second.

        `held` if the interval lies on the side of 0 on which the first measure is better, `refuted`
        if it lies on the other side, else `undecided`.
        """
        sign = -1 if self.statistic in LOWER_IS_BETTER else 1
        return interval_verdict(*sorted((sign * self.low, sign * self.high)))

    @property
    def configurations_needed(self) -> int | None:
        """Number of configurations that would decide; None if the difference is too close to 0.

        This is an extrapolation: it assumes that the difference stays the same, and that the width
        of the interval shrinks with the square root of the number of configurations.
        """
        return extrapolate_count(self.configurations, self.value, self.low, self.high)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, the difference and the verdict, for JSON."""
        return {
            **fields_to_jsonable(self),
            "difference": self.value,
            "verdict": self.verdict,
            "configurations_needed": self.configurations_needed,
        }


def interval_verdict(low: float, high: float) -> Verdict:
    """Return the verdict on the claim that a quantity is positive, given its interval.

    >>> interval_verdict(0.1, 0.3), interval_verdict(-0.3, -0.1), interval_verdict(-0.1, 0.1)
    ('held', 'refuted', 'undecided')
    """
    return "held" if low > 0 else "refuted" if high < 0 else "undecided"


def extrapolate_count(count: int, value: float, low: float, high: float) -> int | None:
    """Return the number of units at which an interval of this value would no longer contain 0.

    None if the value is less than a tenth of the interval's half-width.

    >>> extrapolate_count(50, 0.1, -0.1, 0.3), extrapolate_count(50, 0.001, -0.2, 0.2)
    (201, None)
    """
    half_width = (high - low) / 2
    if abs(value) < MIN_DIFFERENCE_SHARE * half_width or not half_width:
        return None
    return max(int(count * (half_width / abs(value)) ** 2), count) + 1


def compare_two_measures(
    table: Any,
    first: str,
    second: str,
    *,
    statistic: str = "macro_tau",
    replicates: int = DEFAULT_REPLICATES,
    resample_domains: bool | None = None,
    seed: int = 0,
) -> MeasureDifference:
    """Compare two measures by one statistic, with an interval from a bootstrap over models.

    Evaluations in which one of the two measures is missing are left out, so both measures are
    compared on the same evaluations.

    Parameters
    ----------
    table : EvaluationTable, path, data frame or mapping of columns
        Evaluations of models on domains; see `compare_measures`.
    first, second : str
        Measures of the table.
    statistic : str
        One of the statistics of `compare_measures` (``macro_tau``, ``micro_tau``, ``id_tau``,
        ``arch_tau``, ``cross_domain_tau``, ``r2``, ``r2_pearson``, ``mae``, ``raw_r2``,
        ``raw_mae``); ``macro_tau_sd``, the standard deviation of the τ of Macro τ over groups;
        ``rho``, the mean over test domains of Spearman's ρ with the error, after multiplying each
        measure by its canonical sign; ``joint_rho``, the same over all evaluations pooled;
        ``pair_rho``, the mean over pairs of training set and test domain of Spearman's ρ with the
        error, without a sign, with the same weight for each value of the column `task`;
        ``adjusted_rho``, the same with the residuals of the error given the measure ``ID error``;
        ``estimation_error``, the mean absolute error in points over all evaluations out of
        distribution; or ``siegel_gap``, the mean distance in points between the line y = x and
        Siegel's line through the test domains' mean estimated against mean true accuracies.
    replicates : int
        Number of bootstrap replicates, at least 1,000.
    resample_domains : bool, optional
        Whether to draw test domains as well as models. Default: if there are at least 8.
    seed : int
        Random seed.

    Returns
    -------
    MeasureDifference
        Both values, the interval of their difference, and the verdict on the claim that `first` is
        better.

    Raises
    ------
    UnknownName
        If the table has no such measure, or there is no such statistic.
    NotApplicable
        If the statistic is undefined, or if every training set has a single configuration.
    InputError
        If the table cannot be read, or `replicates` is too small.

    Examples
    --------
    >>> n = range(12)
    >>> table = {"model": [f"m{i}" for i in n], "trained_on": ["a"] * 12, "tested_on": ["b"] * 12,
    ...     "accuracy": [0.5 + i / 50 for i in n], "good": n, "poor": [(5 * i) % 12 for i in n]}
    >>> result = compare_two_measures(table, "good", "poor")
    >>> result.first_value, result.verdict, result.models
    (1.0, 'held', 12)
    """
    results = compare_by_statistics(
        table,
        first,
        second,
        statistics=[statistic],
        replicates=replicates,
        resample_domains=resample_domains,
        seed=seed,
    )
    return results[statistic]


def compare_by_statistics(
    table: Any,
    first: str,
    second: str,
    *,
    statistics: Sequence[str] | None = None,
    replicates: int = DEFAULT_REPLICATES,
    resample_domains: bool | None = None,
    seed: int = 0,
) -> dict[str, MeasureDifference]:
    """Compare two measures by several statistics, as `compare_two_measures` does by one.

    Parameters
    ----------
    table : EvaluationTable, path, data frame or mapping of columns
        Evaluations of models on domains; see `compare_measures`.
    first, second : str
        Measures of the table.
    statistics : sequence of str, optional
        Names of statistics. Default: the statistics of `compare_measures` that are defined for both
        measures, and ``estimation_error`` if both are estimators of this package.
    replicates : int
        Number of bootstrap replicates, at least 1,000.
    resample_domains : bool, optional
        Whether to draw test domains as well as models. Default: if there are at least 8.
    seed : int
        Random seed.

    Returns
    -------
    dict of str to MeasureDifference
        By statistic.

    Raises
    ------
    UnknownName
        If the table has no such measure, or there is no such statistic.
    NotApplicable
        If a requested statistic is undefined, or if every training set has a single configuration.
    InputError
        If the table cannot be read, or `replicates` is too small.

    Examples
    --------
    >>> n = range(12)
    >>> table = {"model": [f"m{i}" for i in n], "trained_on": ["a"] * 12, "tested_on": ["b"] * 12,
    ...     "accuracy": [0.5 + i / 50 for i in n], "good": n, "poor": [(5 * i) % 12 for i in n]}
    >>> results = compare_by_statistics(table, "good", "poor")
    >>> results["r2_pearson"].verdict, "id_tau" in results
    ('held', False)
    """
    table = EvaluationTable.open(table)
    for name in (first, second):
        if name not in table.measures:
            raise UnknownName("measure", name, table.measures)
    both = ~np.isnan(table.measures[first]) & ~np.isnan(table.measures[second])
    if not both.any():
        raise NotApplicable(f"no evaluation has values of both {first!r} and {second!r}")
    names = _default_statistics(table, first, second) if statistics is None else statistics
    drawn = bootstrap_statistics(
        table.select_rows(both), names, measures=(first, second), replicates=replicates,
        resample_domains=resample_domains, seed=seed,
    )  # fmt: skip
    results = {}
    for name, result in drawn.items():
        if statistics is None and np.isnan(result.values).any():
            continue
        difference = result.difference(first, second)
        results[name] = replace(difference, left_out=int((~both).sum()))
    return results


def _default_statistics(table: EvaluationTable, first: str, second: str) -> list[str]:
    estimates = {first, second} <= set(find_estimates(table))
    names = [name for name in STATISTIC_LABELS if estimates or name not in RAW_STATISTICS]
    return [*names, "estimation_error"] if estimates else names


def bootstrap_statistics(
    table: Any,
    statistics: Sequence[str],
    *,
    measures: Sequence[str] | None = None,
    replicates: int = DEFAULT_REPLICATES,
    resample_domains: bool | None = None,
    seed: int = 0,
) -> dict[str, BootstrapReplicates]:
    """Return bootstrap replicates over models of some statistics for several measures.

    All measures and statistics with the same strata use the same draws, so that the replicates of
    differences are the differences of replicates.

    Parameters
    ----------
    table : EvaluationTable, path, data frame or mapping of columns
        Evaluations of models on domains; see `compare_measures`.
    statistics : sequence of str
        Names of statistics; see `compare_two_measures`.
    measures : sequence of str, optional
        Measures of the table. Default: all.
    replicates : int
        Number of bootstrap replicates, at least 1,000.
    resample_domains : bool, optional
        Whether to draw test domains as well as models. Default: if there are at least 8.
    seed : int
        Random seed.

    Returns
    -------
    dict of str to BootstrapReplicates
        By statistic.

    Raises
    ------
    UnknownName
        If the table has no such measure, or there is no such statistic.
    NotApplicable
        If every training set has a single configuration.
    InputError
        If the table cannot be read, or `replicates` is too small.

    Examples
    --------
    >>> n = range(12)
    >>> table = {"model": [f"m{i}" for i in n], "trained_on": ["a"] * 12, "tested_on": ["b"] * 12,
    ...     "accuracy": [0.5 + i / 50 for i in n], "ni": [i * i for i in n]}
    >>> bootstrap_statistics(table, ["macro_tau"])["macro_tau"].interval("ni")
    (1.0, 1.0)
    """
    table = EvaluationTable.open(table)
    names = tuple(table.measures) if measures is None else tuple(measures)
    for name in names:
        if name not in table.measures:
            raise UnknownName("measure", name, table.measures)
    for statistic in statistics:
        if statistic not in BOOTSTRAP_STATISTICS:
            raise UnknownName("statistic", statistic, list(BOOTSTRAP_STATISTICS))
    settings = BootstrapSettings(
        replicates=replicates, seed=seed, resample_domains=resample_domains
    )
    results: dict[str, BootstrapReplicates] = {}
    for by_architecture in (True, False):
        chosen = [name for name in statistics if groups_by_architecture(name) == by_architecture]
        if chosen:
            draws = draw_models(table, settings, by_architecture=by_architecture)
            results |= _replicate(table, chosen, names, draws)
    return {name: results[name] for name in statistics}


def _replicate(
    table: EvaluationTable, statistics: Sequence[str], measures: tuple[str, ...], draws: Resamples
) -> dict[str, BootstrapReplicates]:
    """Compute statistics on the table itself and on all resamples."""
    whole = Resamples(draws.cluster, np.ones((len(draws.models), 1)), None, 0)
    values = np.array([table.measures[name] for name in measures]).reshape(-1, len(table))
    size = max(1, MAX_WEIGHTS // max(len(table), 1))
    parts = [draws.part(slice(at, at + size)) for at in range(0, draws.replicates, size)]
    results = {}
    for statistic in statistics:
        point = statistic_values(table, statistic, values, whole)
        drawn = [statistic_values(table, statistic, values, part).values for part in parts]
        results[statistic] = BootstrapReplicates(
            statistic=statistic,
            measures=measures,
            values=point.values[:, 0],
            replicates=np.concatenate(drawn, axis=1),
            n_models=len(np.unique(table.model[point.rows])),
            n_clusters=len(np.unique(draws.cluster[table.model[point.rows]])),
            n_groups=point.n_groups,
            n_domains=len(np.unique(table.tested_on[point.rows])),
            domains_drawn=draws.domains is not None,
            n_evaluations=len(point.rows),
        )
    return results
