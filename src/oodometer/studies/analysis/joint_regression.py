"""Joint linear regression of target error on several measures, leaving one environment out.

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021, §5.3 and Appendix 3. The paper fits and evaluates on all
environments at once (`pooled` here). Here, each regression is also fitted on all environments
except one and tested on that environment. The best measure or pair of measures is selected on the
fitted environments only, so the test environment does not influence the selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import NotApplicable, UnknownName
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.studies.analysis._least_squares import best_subset, fit_least_squares, r_squared
from oodometer.studies.analysis.correlation_matrix import correlation
from oodometer.studies.analysis.evaluation_table import EvaluationTable, select_measures
from oodometer.studies.analysis.grouped_scores import MeanStd
from oodometer.studies.analysis.rank_correlation import measure_matrix, select_out_of_distribution

# A measure that has values for fewer than this share of the evaluations is dropped. Only
# evaluations with values of all measures are used, so such a measure would exclude too many of
# them.
MIN_ANSWERED_SHARE = 0.5
# Subsets of measures: the best measure, the best two measures, and all measures.
BEST_ONE, BEST_TWO, ALL_MEASURES = "one", "two", "all"
FitStatistic = Literal["r2", "spearman", "mae"]
FIT_STATISTICS: tuple[FitStatistic, ...] = ("r2", "spearman", "mae")


@dataclass(frozen=True)
class RegressionTrial:
    """One regression with its scores.

    `environment` is the environment that was left out of the fit and used for the test; None if
    the regression was fitted and tested on all environments. `weights` refer to standardized
    measures. `fitted` is the number of evaluations in the fit, `n` the number of evaluations in the
    test. `mae` is in percentage points.
    """

    environment: str | None
    weights: Mapping[str, float]
    fitted: int
    n: int
    r2: float | None
    spearman: float | None
    mae: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


@dataclass(frozen=True)
class LeaveOneOutRegression:
    """Regressions on one subset of measures.

    There is one regression per environment left out, and one on all environments pooled.
    """

    subset: str
    environments: tuple[RegressionTrial, ...]
    pooled: RegressionTrial

    def mean(self, statistic: FitStatistic) -> MeanStd:
        """Return the mean of a statistic over the environments."""
        return MeanStd.from_values(
            _statistic_or_reason(trial, statistic) for trial in self.environments
        )

    def to_dict(self) -> dict[str, Any]:
        means: dict[str, Any] = {name: self.mean(name).to_dict() for name in FIT_STATISTICS}
        return {
            "taken": self.subset,
            **means,
            "together": self.pooled.to_dict(),
            "environments": [trial.to_dict() for trial in self.environments],
        }


@dataclass(frozen=True)
class JointRegression:
    """Regressions on the best measure, the best two and all measures.

    `n_evaluations` is the number of evaluations that have a value of every measure, and
    `n_incomplete` the number of those that do not. `left_out` maps each dropped measure to the
    reason.
    """

    measures: tuple[str, ...]
    regressions: Mapping[str, LeaveOneOutRegression]
    n_evaluations: int
    n_incomplete: int
    left_out: Mapping[str, str]

    def gain(self, statistic: FitStatistic, *, subset: str = ALL_MEASURES) -> MeanStd:
        """Return the improvement over the best single measure; positive means better."""
        if subset not in self.regressions:
            raise UnknownName("regression", subset, self.regressions)
        sign = -1.0 if statistic == "mae" else 1.0
        pairs = zip(
            self.regressions[subset].environments,
            self.regressions[BEST_ONE].environments,
            strict=True,
        )
        return MeanStd.from_values(
            _improvement(trial, baseline, statistic, sign) for trial, baseline in pairs
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per regression; the environment is None for all environments pooled."""
        return [
            {"taken": regression.subset, **trial.to_dict()}
            for regression in self.regressions.values()
            for trial in (regression.pooled, *regression.environments)
        ]

    def to_dict(self) -> dict[str, Any]:
        gains = {
            subset: {
                statistic: self.gain(statistic, subset=subset).to_dict()
                for statistic in FIT_STATISTICS
            }
            for subset in self.regressions
            if subset != BEST_ONE
        }
        return {
            "measures": list(self.measures),
            "evaluations": self.n_evaluations,
            "lacking": self.n_incomplete,
            "left_out": dict(self.left_out),
            "regressions": [regression.to_dict() for regression in self.regressions.values()],
            "gains": gains,
        }


def _statistic_or_reason(trial: RegressionTrial, statistic: FitStatistic) -> float | str:
    value = getattr(trial, statistic)
    return f"no {statistic} in the environment" if value is None else float(value)


def _improvement(
    trial: RegressionTrial, baseline: RegressionTrial, statistic: FitStatistic, sign: float
) -> float | str:
    value = getattr(trial, statistic)
    baseline_value = getattr(baseline, statistic)
    if value is None or baseline_value is None:
        return f"no {statistic} of one of the two"
    return float(sign * (value - baseline_value))


def fit_joint_regressions(
    table: EvaluationTable,
    *,
    measures: Sequence[str] | None = None,
    subsets: Sequence[str] = (BEST_ONE, BEST_TWO, ALL_MEASURES),
) -> JointRegression:
    """Regress target error on one, two and all measures, leaving one environment out at a time.

    An environment is a test domain. Only evaluations on domains that the model was not trained on
    are used. To score one particular pair of measures, pass the pair as `measures` and use the
    regression ``"all"``.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains.
    measures : sequence of str, optional
        Measures to regress on. Default: all measures of the table.
    subsets : sequence of {"one", "two", "all"}
        Regressions to fit: on the best measure, on the best two, and on all measures.

    Returns
    -------
    JointRegression
        Regressions ``"one"``, ``"two"`` (if there are at least three measures) and ``"all"``, each
        with R², Spearman's ρ and mean absolute error on every environment left out.

    Raises
    ------
    UnknownName
        If there is no such subset.
    NotApplicable
        If fewer than two environments have evaluations with all measures, or if every measure is
        missing for more than half of the evaluations.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": ["m", "n"] * 2, "trained_on": ["a"] * 4,
    ...     "tested_on": [*"bbcc"], "accuracy": [0.9, 0.7, 0.8, 0.6],
    ...     "x": [1, 3, 2, 4], "y": [0, 1, 0, 1]})
    >>> result = fit_joint_regressions(table)
    >>> [list(trial.weights) for trial in result.regressions["one"].environments]
    [['x'], ['x']]
    >>> round(result.gain("mae").mean, 6)
    -5.0
    """
    outside = select_out_of_distribution(table)
    names, left_out = _drop_sparse_measures(outside, measures)
    data = _complete_evaluations(outside, names)
    sizes = {BEST_ONE: 1, BEST_TWO: 2, ALL_MEASURES: len(names)}
    for subset in subsets:
        if subset not in sizes:
            raise UnknownName("regression", subset, sizes)
    return JointRegression(
        measures=tuple(names),
        regressions={
            subset: _leave_one_out(data, subset, size)
            for subset, size in sizes.items()
            if subset in subsets and not (subset == BEST_TWO and len(names) <= 2)
        },
        n_evaluations=len(data.errors),
        n_incomplete=len(outside) - len(data.errors),
        left_out=left_out,
    )


def _drop_sparse_measures(
    table: EvaluationTable, measures: Sequence[str] | None
) -> tuple[list[str], dict[str, str]]:
    """Return the measures with enough values, and the reason for each dropped measure."""
    requested = select_measures(list(table.measures), measures)
    counts = {name: int(np.isfinite(table.measures[name]).sum()) for name in requested}
    reasons = {
        name: f"it has values for {count} of {len(table)} evaluations"
        for name, count in counts.items()
        if count < MIN_ANSWERED_SHARE * len(table)
    }
    return [name for name in requested if name not in reasons], reasons


@dataclass(frozen=True, eq=False)
class _CompleteEvaluations:
    """Evaluations that have a value of every measure."""

    names: Sequence[str]
    values: Floats
    errors: Floats
    environment: Ints
    environments: Mapping[int, str]


def _complete_evaluations(table: EvaluationTable, names: Sequence[str]) -> _CompleteEvaluations:
    if not names:
        raise NotApplicable(
            f"no measure has values for {MIN_ANSWERED_SHARE:.0%} of the evaluations"
        )
    values = measure_matrix(table, names)
    complete = np.isfinite(values).all(axis=1)
    codes = np.unique(table.tested_on[complete])
    if len(codes) < 2:
        raise NotApplicable(
            "leaving one environment out needs at least two environments; evaluations with all "
            f"{len(names)} measures are in {len(codes)}"
        )
    return _CompleteEvaluations(
        names=names,
        values=values[complete],
        errors=1.0 - table.accuracy[complete],
        environment=table.tested_on[complete],
        environments={int(code): table.domains[code] for code in codes},
    )


def _leave_one_out(data: _CompleteEvaluations, subset: str, size: int) -> LeaveOneOutRegression:
    everything = np.ones(len(data.errors), dtype=np.bool_)
    trials = []
    for code, name in data.environments.items():
        out = data.environment == code
        trials.append(_fit_and_test(data, size, fit_mask=~out, test_mask=out, name=name))
    pooled = _fit_and_test(data, size, fit_mask=everything, test_mask=everything, name=None)
    return LeaveOneOutRegression(subset, tuple(trials), pooled)


def _fit_and_test(
    data: _CompleteEvaluations, size: int, *, fit_mask: Bools, test_mask: Bools, name: str | None
) -> RegressionTrial:
    columns = best_subset(data.values[fit_mask], data.errors[fit_mask], size)
    fit = fit_least_squares(data.values[fit_mask][:, columns], data.errors[fit_mask])
    predicted = fit.predict(data.values[test_mask][:, columns])
    errors = data.errors[test_mask]
    return RegressionTrial(
        environment=name,
        weights={data.names[j]: float(w) for j, w in zip(columns, fit.weights, strict=True)},
        fitted=int(fit_mask.sum()),
        n=int(test_mask.sum()),
        r2=r_squared(predicted, errors),
        spearman=correlation(predicted, errors),
        mae=float(100.0 * np.abs(predicted - errors).mean()),
        notes=fit.notes,
    )
