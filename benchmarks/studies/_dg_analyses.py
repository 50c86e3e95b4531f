"""Analyses of Vedantam et al., NeurIPS 2021 (DG), with bootstrap intervals over models.

Every interval is the central 95 % of replicates in which the models of each training set are drawn
with replacement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.stats import rng_for
from oodometer.studies.analysis.correlation_matrix import correlation, pairwise_correlations
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.joint_regression import (
    ALL_MEASURES,
    BEST_ONE,
    fit_joint_regressions,
)
from oodometer.studies.analysis.model_bootstrap import (
    BootstrapReplicates,
    bootstrap_statistics,
    percentile_interval,
)
from oodometer.studies.analysis.rank_correlation import (
    correlate_with_error,
    measure_matrix,
    select_out_of_distribution,
)

REPLICATES = 2_000
# A regression is fitted 14 times per replicate.
REGRESSION_REPLICATES = 1_000


@dataclass(frozen=True)
class Interval:
    """Value with the bounds of its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, replicates: Floats) -> Interval:
        return cls(value, *percentile_interval(replicates))

    def minus(self, bound: float) -> Interval:
        return Interval(self.value - bound, self.low - bound, self.high - bound)

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        """Format value and bounds.

        >>> str(Interval(0.5, 0.25, 0.75))
        '+0.50 (+0.25 to +0.75)'
        """
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


# Correlations with target error -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ErrorCorrelations:
    """Spearman's ρ of measures with target error, in the direction of the data.

    Parameters
    ----------
    measures : tuple of str
        Measures whose ρ is defined.
    joint, mean : mapping of str to Interval
        ρ over all environments pooled, and the mean over environments.
    environments : mapping of str to mapping of str to float or None
        ρ by measure and environment.
    replicates : array of shape (measures, replicates)
        Replicates of the pooled ρ.
    """

    measures: tuple[str, ...]
    joint: Mapping[str, Interval]
    mean: Mapping[str, Interval]
    environments: Mapping[str, Mapping[str, float | None]]
    replicates: Floats


def error_correlations(
    table: EvaluationTable, measures: Sequence[str], *, seed: int = 0
) -> ErrorCorrelations:
    """Correlate measures with target error, per environment and pooled."""
    found = correlate_with_error(table, measures=measures)
    known = [name for name in measures if found[name].joint.value is not None]
    drawn = bootstrap_statistics(
        table, ["joint_rho", "rho"], measures=known, replicates=REPLICATES, seed=seed
    )
    # The bootstrap multiplies ρ by the canonical sign, which is the sign of the pooled ρ.
    signs = np.array([np.sign(found[name].joint.value or 1.0) for name in known])
    return ErrorCorrelations(
        measures=tuple(known),
        joint=_signed_intervals(drawn["joint_rho"], signs),
        mean=_signed_intervals(drawn["rho"], signs),
        environments={
            name: {domain: rho.value for domain, rho in found[name].environments.items()}
            for name in known
        },
        replicates=drawn["joint_rho"].replicates * signs[:, None],
    )


def _signed_intervals(drawn: BootstrapReplicates, signs: Floats) -> dict[str, Interval]:
    rows = zip(drawn.measures, drawn.values * signs, drawn.replicates * signs[:, None], strict=True)
    return {name: Interval.of(float(value), replicates) for name, value, replicates in rows}


# ERM and CORAL ------------------------------------------------------------------------------------


def rank_agreement(first: ErrorCorrelations, second: ErrorCorrelations) -> Interval:
    """Return the rank correlation over measures of their ρ under two training algorithms."""
    one, other = _shared_replicates(first, second)
    values = [_spearman(a, b) for a, b in zip(one.T, other.T, strict=True)]
    return Interval.of(_spearman(*_shared_values(first, second)), np.array(values))


def change_difference(
    first: ErrorCorrelations, second: ErrorCorrelations, exceptions: Sequence[str]
) -> Interval:
    """Return the mean |change of ρ| of some measures minus that of all other measures."""
    shared = [name for name in first.measures if name in second.measures]
    chosen = np.array([name in exceptions for name in shared])

    def difference(one: Floats, other: Floats) -> Floats:
        change = np.abs(one - other)
        return np.asarray(change[chosen].mean(axis=0) - change[~chosen].mean(axis=0))

    value = difference(*_shared_values(first, second))
    return Interval.of(float(value), difference(*_shared_replicates(first, second)))


def _shared_values(first: ErrorCorrelations, second: ErrorCorrelations) -> tuple[Floats, Floats]:
    shared = [name for name in first.measures if name in second.measures]
    one, other = (np.array([one.joint[name].value for name in shared]) for one in (first, second))
    return one, other


def _shared_replicates(
    first: ErrorCorrelations, second: ErrorCorrelations
) -> tuple[Floats, Floats]:
    """Return the replicates of the measures that both have; they must have different seeds."""
    one = [j for j, name in enumerate(first.measures) if name in second.measures]
    other = [second.measures.index(first.measures[j]) for j in one]
    return first.replicates[one], second.replicates[other]


def _spearman(x: Floats, y: Floats) -> float:
    value = correlation(x, y)
    return np.nan if value is None else value


# Joint regression ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class RegressionGain:
    """Rank correlation and R² of a joint regression, and its gain over the best single measure.

    `pooled` and `pooled_single` are ρ with fit and test on all environments. `held_out`,
    `held_out_single`, `r2` and `r2_single` are means over the environments left out.
    """

    pooled: float
    pooled_single: float
    held_out: float
    held_out_single: float
    r2: float
    r2_single: float
    gains: Mapping[str, Interval]
    n: int


def regression_gain(
    table: EvaluationTable, features: Sequence[str], singles: Sequence[str]
) -> RegressionGain:
    """Compare a regression on some measures with the best of single measures.

    For the pooled ρ, the best single measure has the highest |ρ|. For the environments left out, it
    has the highest R² on the other environments. Only evaluations that have all measures are used.
    """
    table = _complete_rows(table, [*features, *singles])
    figures = _regression_figures(table, features, singles)
    rng = rng_for(0, "regression gain")
    draws = [
        _regression_figures(table.select_rows(_draw_rows(table, rng)), features, singles)
        for _ in range(REGRESSION_REPLICATES)
    ]
    gains = {
        name: Interval.of(
            figures[name] - figures[f"{name}_single"],
            np.array([draw[name] - draw[f"{name}_single"] for draw in draws]),
        )
        for name in ("pooled", "held_out", "r2")
    }
    return RegressionGain(**figures, gains=gains, n=len(table))


def _complete_rows(table: EvaluationTable, measures: Sequence[str]) -> EvaluationTable:
    outside = replace(select_out_of_distribution(table), columns={})
    known = np.isfinite(measure_matrix(outside, measures))
    return outside.select_rows(np.flatnonzero(known.all(axis=1)))


def _draw_rows(table: EvaluationTable, rng: np.random.Generator) -> Ints:
    """Draw the models of each training set with replacement; each has one evaluation."""
    parts = [np.flatnonzero(table.trained_on == code) for code in np.unique(table.trained_on)]
    return np.concatenate([rng.choice(part, len(part)) for part in parts])


def _regression_figures(
    table: EvaluationTable, features: Sequence[str], singles: Sequence[str]
) -> dict[str, float]:
    joint = fit_joint_regressions(table, measures=features, subsets=[ALL_MEASURES])
    single = fit_joint_regressions(table, measures=singles, subsets=[BEST_ONE])
    errors = (1.0 - table.accuracy)[:, None]
    each = pairwise_correlations(measure_matrix(table, singles), errors).values
    both = {"": joint.regressions[ALL_MEASURES], "_single": single.regressions[BEST_ONE]}
    figures = {}
    for suffix, regression in both.items():
        figures[f"pooled{suffix}"] = regression.pooled.spearman
        figures[f"held_out{suffix}"] = regression.mean("spearman").mean
        figures[f"r2{suffix}"] = regression.mean("r2").mean
    figures["pooled_single"] = float(np.nanmax(np.abs(each)))
    return {name: np.nan if value is None else value for name, value in figures.items()}


# Signal to noise ----------------------------------------------------------------------------------


def mean_difference(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the mean difference of paired values, with a bootstrap interval over the pairs."""
    differences = np.asarray(first) - np.asarray(second)
    draws = rng_for(0, "paired difference").choice(differences, (REPLICATES, len(differences)))
    return Interval.of(float(differences.mean()), draws.mean(axis=1))


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean of values, with a bootstrap interval over the values."""
    return mean_difference(values, np.zeros(len(values)).tolist())
