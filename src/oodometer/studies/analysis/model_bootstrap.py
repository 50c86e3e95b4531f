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
several seeds, such pairs would give pairs of seeds about twice their weight. Intervals are
percentiles of the replicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.stats import repeated_median_line, rng_for
from oodometer.studies.analysis._compare_measures import STATISTIC_LABELS
from oodometer.studies.analysis._kendall import dense_ranks
from oodometer.studies.analysis._weighted_statistics import (
    FLAT_SHARE,
    LineSums,
    PairUnits,
    weighted_pearson,
    weighted_ranks,
    weighted_spearman,
    weighted_tau,
)
from oodometer.studies.analysis.averaged_correlations import RESIDUAL_DECIMALS
from oodometer.studies.analysis.estimation_error import find_estimates
from oodometer.studies.analysis.evaluation_table import RECIPE_PREFIX, EvaluationTable
from oodometer.studies.analysis.grouped_scores import RowGroups
from oodometer.studies.analysis.kendall_family import PAIR_COLUMNS, TAU_STATISTICS
from oodometer.studies.analysis.linear_fit import FITTED_STATISTICS, RAW_STATISTICS
from oodometer.studies.analysis.measure_noise import group_ignoring_seed
from oodometer.studies.analysis.rank_correlation import canonical_sign

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
# Measure that `adjusted_rho` adjusts for: the error on the training domains of a model.
ID_ERROR = "ID error"
LINE_STATISTICS = (*FITTED_STATISTICS, *RAW_STATISTICS)
DEFAULT_REPLICATES = 2_000
MIN_REPLICATES = 1_000
# With fewer test domains than this, domains are not drawn: a handful of domains cannot stand for
# all domains, and the interval refers to these domains.
MIN_RESAMPLED_DOMAINS = 8
LEVEL = 0.95
# Replicates that are computed at a time are at most this many weights of rows.
MAX_WEIGHTS = 8_000_000
# A difference below this share of the half-width is too close to 0 for an extrapolation.
MIN_DIFFERENCE_SHARE = 0.1
_SEVERITY = re.compile(r"^(.*/[^/]+)-\d+$")


@dataclass(frozen=True, kw_only=True)
class BootstrapSettings:
    """Number of replicates, random seed, and whether test domains are drawn (None: if enough)."""

    replicates: int = DEFAULT_REPLICATES
    seed: int = 0
    resample_domains: bool | None = None

    def __post_init__(self) -> None:
        if self.replicates < MIN_REPLICATES:
            raise InputError(
                f"A bootstrap over models needs at least {MIN_REPLICATES:,} replicates; got "
                f"{self.replicates:,}."
            )


@dataclass(frozen=True, eq=False)
class Resamples:
    """Drawn models and test domains.

    Parameters
    ----------
    cluster : array of int, shape (models,)
        Cluster of each model of the table.
    models : array of shape (clusters, replicates)
        Number of times that each cluster was drawn.
    domains : array of shape (domains, replicates) or None
        Number of times that each test domain was drawn; None if domains are not drawn.
    n_single : int
        Number of strata with a single cluster, which do not vary.
    """

    cluster: Ints
    models: Floats
    domains: Floats | None
    n_single: int

    @property
    def replicates(self) -> int:
        return self.models.shape[1]

    def part(self, columns: slice) -> Resamples:
        """Return some of the replicates."""
        domains = None if self.domains is None else self.domains[:, columns]
        return Resamples(self.cluster, self.models[:, columns], domains, self.n_single)

    def of_rows(self, table: EvaluationTable, rows: Ints) -> Floats:
        """Return the number of times that the model of each row was drawn."""
        return self.models[self.cluster[table.model[rows]]]

    def of_domains(self, domains: Ints) -> Floats:
        """Return the number of times that each of some test domains was drawn."""
        if self.domains is None:
            return np.ones((len(domains), self.replicates))
        return self.domains[domains]


def model_clusters(table: EvaluationTable) -> Ints:
    """Return the cluster of each model: models that differ only in the seed have the same one.

    Without columns `recipe.…`, or if its seed is unknown, a model is a cluster of its own.

    >>> table = EvaluationTable.read({"model": ["k", "l", "m"], "trained_on": ["a"] * 3,
    ...     "tested_on": ["b"] * 3, "accuracy": [0.9, 0.8, 0.7], "seed": [0, 1, 0],
    ...     "recipe.lr": [0.1, 0.1, 0.5]}, measures=())
    >>> model_clusters(table).tolist()
    [0, 0, 1]
    """
    cluster = np.arange(len(table.models))
    if any(name.startswith(RECIPE_PREFIX) for name in table.columns):
        _, first = np.unique(table.model, return_index=True)
        models = table.select_rows(first)
        # All rows of a model agree in everything but the test domain.
        for rows in group_ignoring_seed(_with_one_test_domain(models)):
            cluster[models.model[rows]] = models.model[rows].min()
    return np.unique(cluster, return_inverse=True)[1]


def _with_one_test_domain(table: EvaluationTable) -> EvaluationTable:
    return replace(table, tested_on=np.zeros_like(table.tested_on))


def domain_clusters(domains: Sequence[str]) -> Ints:
    """Return the cluster of each domain: severities of one corruption have the same one.

    >>> domain_clusters(["a/fog-1", "a/fog-2", "a/snow-1", "b"]).tolist()
    [0, 0, 1, 2]
    """
    names = [match[1] if (match := _SEVERITY.match(name)) else name for name in domains]
    return np.unique(names, return_inverse=True)[1]


def draw_models(
    table: EvaluationTable, settings: BootstrapSettings, *, by_architecture: bool
) -> Resamples:
    """Draw clusters of models within strata, and test domains if they are to be drawn.

    A stratum is a training set, or a training set and an architecture.
    """
    cluster = model_clusters(table)
    n_clusters = int(cluster.max()) + 1
    stratum = np.zeros(n_clusters, dtype=np.int64)
    kinds = table.architecture if by_architecture else np.zeros_like(table.architecture)
    stratum[cluster[table.model]] = table.trained_on * len(table.architectures) + kinds
    used = np.bincount(cluster[table.model], minlength=n_clusters) > 0
    counts = np.zeros((n_clusters, settings.replicates))
    rng = rng_for(settings.seed, "model bootstrap", by_architecture)
    n_single = 0
    for code in np.unique(stratum[used]):
        members = np.flatnonzero(used & (stratum == code))
        counts[members] = _draw(rng, len(members), settings.replicates)
        n_single += len(members) == 1
    if n_single == len(np.unique(stratum[used])):
        raise NotApplicable(
            "every training set has a single model configuration, so no model can be drawn again"
        )
    return Resamples(cluster, counts, _draw_domains(table, settings), n_single)


def _draw(rng: np.random.Generator, size: int, replicates: int) -> Floats:
    """Return how often each of `size` units is drawn in `size` draws with replacement."""
    return rng.multinomial(size, np.full(size, 1 / size), size=replicates).T.astype(np.float64)


def _draw_domains(table: EvaluationTable, settings: BootstrapSettings) -> Floats | None:
    tested = np.unique(table.tested_on[~table.in_distribution])
    cluster = domain_clusters([table.domains[code] for code in tested])
    n_clusters = int(cluster.max(initial=-1)) + 1
    enough = n_clusters >= MIN_RESAMPLED_DOMAINS
    if settings.resample_domains is False or (settings.resample_domains is None and not enough):
        return None
    if n_clusters < 2:
        raise NotApplicable("there are fewer than two test domains to draw from")
    rng = rng_for(settings.seed, "domain bootstrap")
    counts = np.ones((len(table.domains), settings.replicates))
    counts[tested] = _draw(rng, n_clusters, settings.replicates)[cluster]
    return counts


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
    settings = {"replicates": replicates, "resample_domains": resample_domains, "seed": seed}
    return compare_by_statistics(table, first, second, statistics=[statistic], **settings)[
        statistic
    ]


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
        chosen = [name for name in statistics if _groups_by_architecture(name) == by_architecture]
        if chosen:
            draws = draw_models(table, settings, by_architecture=by_architecture)
            results |= _replicate(table, chosen, names, draws)
    return {name: results[name] for name in statistics}


def _groups_by_architecture(statistic: str) -> bool:
    return statistic in LINE_STATISTICS or "architecture" in _KEY_COLUMNS.get(statistic, ())


_KEY_COLUMNS = {one.name: one.key_columns for one in TAU_STATISTICS} | {
    "macro_tau_sd": PAIR_COLUMNS
}


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
        point = _statistic_values(table, statistic, values, whole)
        drawn = [_statistic_values(table, statistic, values, part).values for part in parts]
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


@dataclass(frozen=True, eq=False)
class _StatisticValues:
    """Values (measures, replicates), the rows that they are computed from, and number of groups."""

    values: Floats
    rows: Ints
    n_groups: int


def _statistic_values(
    table: EvaluationTable, statistic: str, values: Floats, draws: Resamples
) -> _StatisticValues:
    if statistic in LINE_STATISTICS:
        return _line_values(table, statistic, values, draws)
    if statistic == "cross_domain_tau":
        return _cross_domain_values(table, values, draws)
    if statistic in _KEY_COLUMNS:
        return _tau_values(table, statistic, values, draws)
    return _RANK_FUNCTIONS[statistic](table, values, draws)


def _known_rows(table: EvaluationTable, *, in_distribution: bool = False) -> Bools:
    return (table.in_distribution == in_distribution) & ~np.isnan(table.accuracy)


def _mean_over_groups(by_group: Floats, weights: Floats) -> Floats:
    """Average (groups, measures, replicates) over the groups with a value; weights are (groups, replicates)."""
    known = ~np.isnan(by_group)
    weights = weights[:, None, :] * known
    total = weights.sum(axis=0)
    sums = (weights * np.where(known, by_group, 0.0)).sum(axis=0)
    return np.asarray(np.divide(sums, total, out=np.full_like(sums, np.nan), where=total > 0))


def _tau_values(
    table: EvaluationTable, statistic: str, values: Floats, draws: Resamples
) -> _StatisticValues:
    """Return the mean over groups of τ-b between measure and accuracy, over models of a group."""
    name = statistic.removesuffix("_sd")
    spec = next(one for one in TAU_STATISTICS if one.name == name)
    mask = _known_rows(table, in_distribution=spec.in_distribution)
    groups = RowGroups.from_columns(table, spec.key_columns, mask)
    by_group = np.full((len(groups), len(values), draws.replicates), np.nan)
    for g, rows in enumerate(groups):
        unit = draws.cluster[table.model[rows]]
        order = np.argsort(unit, kind="stable")
        rows, unit = rows[order], unit[order]
        for m, x in enumerate(values[:, rows]):
            known = ~np.isnan(x)
            if known.sum() > 1:
                by_group[g, m] = _unit_tau(
                    x[known], table.accuracy[rows[known]], unit[known], draws.models
                )
    weights = draws.of_domains(groups.keys["tested_on"])
    values = _mean_over_groups(by_group, weights)
    if name != statistic:
        values = np.sqrt(np.maximum(_mean_over_groups(by_group**2, weights) - values**2, 0.0))
    return _StatisticValues(values, groups.rows, len(groups))


def _unit_tau(x: Floats, y: Floats, unit: Ints, weights: Floats) -> Floats:
    codes, local = np.unique(unit, return_inverse=True)
    return weighted_tau(dense_ranks(x), dense_ranks(y), PairUnits(local, weights[codes]))


def _cross_domain_values(
    table: EvaluationTable, values: Floats, draws: Resamples
) -> _StatisticValues:
    """Return the mean over models of τ-b between measure and accuracy over the domains of a model."""
    groups = RowGroups.from_columns(table, ("architecture", "model"), _known_rows(table))
    drawn = draws.domains
    weights = np.ones((len(table.domains), 1)) if drawn is None else drawn
    clusters = domain_clusters(table.domains)
    first = np.unique(clusters, return_index=True)[1]
    by_group = np.full((len(groups), len(values), weights.shape[1]), np.nan)
    for g, rows in enumerate(groups):
        unit = clusters[table.tested_on[rows]]
        order = np.argsort(unit, kind="stable")
        rows, unit = rows[order], unit[order]
        for m, x in enumerate(values[:, rows]):
            known = ~np.isnan(x)
            if known.sum() > 1:
                by_group[g, m] = _unit_tau(
                    x[known], table.accuracy[rows[known]], unit[known], weights[first]
                )
    models = draws.models[draws.cluster[groups.keys["model"]]]
    return _StatisticValues(_mean_over_groups(by_group, models), groups.rows, len(groups))


def _line_values(
    table: EvaluationTable, statistic: str, values: Floats, draws: Resamples
) -> _StatisticValues:
    """Return the mean over groups of a statistic of predicted accuracies (`linear_fit`)."""
    groups = RowGroups.from_columns(table, PAIR_COLUMNS, _known_rows(table))
    domains = groups.keys["tested_on"]
    by_group = np.full((len(groups), len(values), draws.replicates), np.nan)
    rows_by_group = list(groups)
    for domain in np.unique(domains):
        members = np.flatnonzero(domains == domain)
        parts = [_GroupRows.of(table, rows_by_group[g], draws) for g in members]
        for m in range(len(values)):
            for part, result in zip(
                members, _score_lines(table, parts, values[m], statistic), strict=True
            ):
                by_group[part, m] = result
    weights = draws.of_domains(domains)
    return _StatisticValues(_mean_over_groups(by_group, weights), groups.rows, len(groups))


@dataclass(frozen=True, eq=False)
class _GroupRows:
    """Models of one architecture and training set on one test domain, with their weights."""

    rows: Ints
    weights: Floats
    architecture: int
    training: int

    @classmethod
    def of(cls, table: EvaluationTable, rows: Ints, draws: Resamples) -> _GroupRows:
        first = rows[0]
        return cls(
            rows,
            draws.of_rows(table, rows),
            int(table.architecture[first]),
            int(table.trained_on[first]),
        )


def _score_lines(
    table: EvaluationTable, parts: Sequence[_GroupRows], values: Floats, statistic: str
) -> Iterator[Floats]:
    """Yield a statistic of each group of one test domain, for every replicate."""
    every = np.concatenate([part.rows for part in parts])
    center = np.nanmean(values[every]) if (~np.isnan(values[every])).any() else 0.0
    scale = np.nanmax(np.abs(values[every] - center), initial=0.0) or 1.0
    fitted = statistic in ("r2", "mae")
    xs = [(values[part.rows] - center) / scale for part in parts]
    ys = [table.accuracy[part.rows] for part in parts]
    sums = (
        [LineSums.of_rows(x, y, p.weights) for x, y, p in zip(xs, ys, parts, strict=True)]
        if fitted
        else []
    )
    for j, (part, x, y) in enumerate(zip(parts, xs, ys, strict=True)):
        if statistic == "r2_pearson":
            yield _squared_correlation(x, y, part.weights)
        elif fitted:
            predicted = _predict_group(table, parts, sums, j, x, y)
            yield _prediction_score(predicted, y, x, part.weights, statistic)
        else:
            raw = np.broadcast_to(values[part.rows][:, None], part.weights.shape)
            yield _prediction_score(raw, y, x, part.weights, statistic)


def _predict_group(
    table: EvaluationTable,
    parts: Sequence[_GroupRows],
    sums: Sequence[LineSums],
    j: int,
    x: Floats,
    y: Floats,
) -> Floats:
    """Return the predictions of the line of the first rule of `linear_fit` that applies."""
    inside = table.domain_in_training[parts[j].training]
    pools: list[list[int]] = [[], []]
    for other, part in enumerate(parts):
        if part.architecture != parts[j].architecture:
            pools[1].append(other)
        elif not (inside & table.domain_in_training[part.training]).any():
            pools[0].append(other)
    for pool in pools:
        if sum(len(parts[other].rows) for other in pool) > 1:
            total = sums[pool[0]]
            for other in pool[1:]:
                total = total + sums[other]
            return total.predict(x)
    return sums[j].without(x, y, parts[j].weights).predict(x)


def _squared_correlation(x: Floats, y: Floats, weights: Floats) -> Floats:
    known = ~np.isnan(x)
    if known.sum() < 2:
        return np.full(weights.shape[1], np.nan)
    shape = (int(known.sum()), weights.shape[1])
    columns = (np.broadcast_to(side[known, None], shape) for side in (x, y))
    return weighted_pearson(*columns, weights[known]) ** 2


def _prediction_score(
    predicted: Floats, y: Floats, x: Floats, weights: Floats, statistic: str
) -> Floats:
    """Return R² or mean absolute error (in points) of predictions (n, replicates)."""
    known = ~np.isnan(x)
    if not known.any():
        return np.full(weights.shape[1], np.nan)
    residual = predicted[known] - y[known, None]
    weights = weights[known]
    count = weights.sum(axis=0)
    enough = count > 0
    safe = np.where(enough, count, 1.0)
    # A row that is not drawn may have no prediction; it does not count.
    residual = np.where(weights > 0, residual, 0.0)
    if statistic.endswith("mae"):
        return np.where(enough, 100.0 * (weights * np.abs(residual)).sum(axis=0) / safe, np.nan)
    centered = y[known, None] - y[known].mean()
    mean = (weights * centered).sum(axis=0) / safe
    total = (weights * (centered - mean) ** 2).sum(axis=0)
    varies = total > FLAT_SHARE * np.maximum((centered**2).sum(), 1e-300)
    error = (weights * residual**2).sum(axis=0)
    return np.where(varies, 1.0 - error / np.where(varies, total, 1.0), np.nan)


def _error_correlation(
    table: EvaluationTable,
    values: Floats,
    draws: Resamples,
    *,
    key_columns: tuple[str, ...],
    signed: bool,
) -> _StatisticValues:
    """Return the mean over groups of Spearman's ρ between measure and error."""
    groups = RowGroups.from_columns(table, key_columns, _known_rows(table))
    by_group = np.full((len(groups), len(values), draws.replicates), np.nan)
    for g, rows in enumerate(groups):
        weights = draws.of_rows(table, rows)
        for m, x in enumerate(values[:, rows]):
            by_group[g, m] = _known_spearman(x, 1.0 - table.accuracy[rows], weights)
    weights = draws.of_domains(groups.keys["tested_on"])
    weights = weights * (1.0 if signed else _task_weights(table, groups)[:, None])
    means = _mean_over_groups(by_group, weights)
    if signed:
        means = means * _signs(table, values)[:, None]
    return _StatisticValues(means, groups.rows, len(groups))


def _adjusted_values(table: EvaluationTable, values: Floats, draws: Resamples) -> _StatisticValues:
    """Return the mean over pairs of Spearman's ρ between measure and error beyond ID error."""
    if ID_ERROR not in table.measures:
        raise UnknownName("measure", ID_ERROR, table.measures)
    groups = RowGroups.from_columns(table, ("trained_on", "tested_on"), _known_rows(table))
    by_group = np.full((len(groups), len(values), draws.replicates), np.nan)
    for g, rows in enumerate(groups):
        weights = draws.of_rows(table, rows)
        residual = _residuals(table.measures[ID_ERROR][rows], 1.0 - table.accuracy[rows], weights)
        for m, x in enumerate(values[:, rows]):
            known = ~np.isnan(x) & ~np.isnan(table.measures[ID_ERROR][rows])
            if known.sum() > 2:
                by_group[g, m] = weighted_pearson(
                    weighted_ranks(x[known], weights[known]),
                    _column_ranks(residual[known], weights[known]),
                    weights[known],
                )
    weights = draws.of_domains(groups.keys["tested_on"]) * _task_weights(table, groups)[:, None]
    return _StatisticValues(_mean_over_groups(by_group, weights), groups.rows, len(groups))


def _residuals(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the residuals of y from its line on x in each resample, shape (n, replicates)."""
    center = np.nanmean(x) if (~np.isnan(x)).any() else 0.0
    predicted = LineSums.of_rows(x - center, y, weights).predict(x - center)
    # Without a line, because x is constant, the best prediction is the mean of y.
    mean = (weights * y[:, None]).sum(axis=0) / np.maximum(weights.sum(axis=0), 1.0)
    predicted = np.where(np.isnan(predicted), mean, predicted)
    return np.asarray((y[:, None] - predicted).round(RESIDUAL_DECIMALS))


def _column_ranks(columns: Floats, weights: Floats) -> Floats:
    """Return the ranks of each column among its rows, with its own weights; ties get mean ranks."""
    order = np.argsort(columns, axis=0, kind="stable")
    values = np.take_along_axis(columns, order, axis=0)
    counts = np.take_along_axis(weights, order, axis=0)
    up_to = np.cumsum(counts, axis=0)
    index = np.arange(len(columns))[:, None]
    changes = values[1:] != values[:-1]
    edge = np.ones((1, columns.shape[1]), dtype=np.bool_)
    first = np.maximum.accumulate(np.where(np.concatenate([edge, changes]), index, 0), axis=0)
    last = np.where(np.concatenate([changes, edge]), index, len(columns))
    last = np.minimum.accumulate(last[::-1], axis=0)[::-1]
    before = np.take_along_axis(up_to - counts, first, axis=0)
    ranks = np.empty_like(weights)
    sorted_ranks = (before + np.take_along_axis(up_to, last, axis=0) + 1.0) / 2
    np.put_along_axis(ranks, order, sorted_ranks, axis=0)
    return ranks


def _known_spearman(x: Floats, y: Floats, weights: Floats) -> Floats:
    known = ~np.isnan(x)
    if known.sum() < 3:
        return np.full(weights.shape[1], np.nan)
    return weighted_spearman(x[known], y[known], weights[known])


def _signs(table: EvaluationTable, values: Floats) -> Floats:
    """Return the canonical sign of each measure, from all evaluations out of distribution."""
    rows = _known_rows(table)
    signs = []
    for x in values:
        try:
            signs.append(canonical_sign(x[rows], 1.0 - table.accuracy[rows]).value)
        except NotApplicable:
            signs.append(1)
    return np.array(signs, dtype=np.float64)


def _task_weights(table: EvaluationTable, groups: RowGroups) -> Floats:
    """Return weights with which every task counts the same, one per group."""
    tasks = table.columns.get("task", ("",) * len(table))
    firsts = [tasks[rows[0]] for rows in groups]
    return np.array([1.0 / firsts.count(task) for task in firsts])


def _joint_values(table: EvaluationTable, values: Floats, draws: Resamples) -> _StatisticValues:
    """Return Spearman's ρ between measure and error over all evaluations pooled."""
    rows = np.flatnonzero(_known_rows(table))
    weights = draws.of_rows(table, rows) * draws.of_domains(table.tested_on[rows])
    error = 1.0 - table.accuracy[rows]
    means = np.stack([_known_spearman(x, error, weights) for x in values[:, rows]])
    return _StatisticValues(means * _signs(table, values)[:, None], rows, 1)


def _estimation_errors(
    table: EvaluationTable, values: Floats, draws: Resamples
) -> _StatisticValues:
    """Return the mean absolute error of estimates over all evaluations, in points."""
    rows = np.flatnonzero(_known_rows(table))
    weights = draws.of_rows(table, rows) * draws.of_domains(table.tested_on[rows])
    errors = 100.0 * np.abs(values[:, rows] - table.accuracy[rows])
    known = ~np.isnan(errors)
    count = known.astype(np.float64) @ weights
    total = np.where(known, errors, 0.0) @ weights
    means = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    return _StatisticValues(means, rows, 1)


def _siegel_gaps(table: EvaluationTable, values: Floats, draws: Resamples) -> _StatisticValues:
    """Return the mean distance of Siegel's line through the test domains from y = x, in points."""
    known = _known_rows(table)
    domains = np.unique(table.tested_on[known])
    weights = draws.of_domains(domains)
    result = np.full((len(values), draws.replicates), np.nan)
    for m, x in enumerate(values):
        truth, estimate = (
            np.stack([
                _domain_mean(side, np.flatnonzero(known & ~np.isnan(x) & (table.tested_on == o)),
                             table, draws)
                for o in domains
            ])
            for side in (table.accuracy, x)
        )  # fmt: skip
        for r in range(draws.replicates):
            used = np.repeat(np.arange(len(domains)), weights[:, r].astype(np.int64))
            used = used[~np.isnan(truth[used, r])]
            result[m, r] = _line_gap(truth[used, r], estimate[used, r])
    return _StatisticValues(result, np.flatnonzero(known), len(domains))


def _domain_mean(side: Floats, rows: Ints, table: EvaluationTable, draws: Resamples) -> Floats:
    weights = draws.of_rows(table, rows)
    total = weights.sum(axis=0)
    sums = side[rows] @ weights
    return np.divide(sums, total, out=np.full_like(sums, np.nan), where=total > 0)


def _line_gap(truth: Floats, estimate: Floats) -> float:
    if len(np.unique(truth)) < 3:
        return np.nan
    line = repeated_median_line(truth, estimate)
    return float(100.0 * np.abs(line.intercept + (line.slope - 1.0) * truth).mean())


_RANK_FUNCTIONS: Mapping[str, Callable[[EvaluationTable, Floats, Resamples], _StatisticValues]] = {
    "rho": partial(_error_correlation, key_columns=("tested_on",), signed=True),
    "joint_rho": _joint_values,
    "pair_rho": partial(_error_correlation, key_columns=("trained_on", "tested_on"), signed=False),
    "adjusted_rho": _adjusted_values,
    "estimation_error": _estimation_errors,
    "siegel_gap": _siegel_gaps,
}
