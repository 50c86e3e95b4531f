"""Do several measures together tell the error of models in an environment never seen?

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021 (DG), §5.3 and Appendix 3: linear regression of the target error on
two measures, or on many. The paper fits and correlates over all environments at once; that is
given here as `together`, and beside it what is asked in earnest: fitted on all environments but
one, tested on that one. Which measure, or which two, is chosen inside, on the environments that are
fitted, so that nothing is known of the one left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import NotApplicable, UnknownName
from oodometer.studies.analysis._least_squares import best_subset, fit_least_squares, r_squared
from oodometer.studies.analysis.correlation_matrix import correlation
from oodometer.studies.analysis.evaluation_table import EvaluationTable, select_measures
from oodometer.studies.analysis.grouped_scores import MeanStd
from oodometer.studies.analysis.rank_correlation import measure_matrix, select_out_of_distribution

# A measure that answers for fewer than this share of the evaluations would cost too many of them.
MIN_ANSWERED_SHARE = 0.5
# How many measures are taken: the best one, the best two, all.
BEST_ONE, BEST_TWO, ALL_MEASURES = "one", "two", "all"
FitStatistic = Literal["r2", "spearman", "mae"]
FIT_STATISTICS: tuple[FitStatistic, ...] = ("r2", "spearman", "mae")


@dataclass(frozen=True)
class RegressionTrial:
    """A regression on some environments, and how its predictions do on those it was tested on.

    `environment` is None where it was fitted and tested on all; `weights` belong to standardised
    measures; `mae` is in points.
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
        """Plain values, for JSON."""
        return {**vars(self), "weights": dict(self.weights), "notes": list(self.notes)}


@dataclass(frozen=True)
class LeaveOneOutRegression:
    """One way to take measures, tested on each environment in turn, and on all it was fitted on."""

    subset: str
    environments: tuple[RegressionTrial, ...]
    pooled: RegressionTrial

    def mean(self, statistic: FitStatistic) -> MeanStd:
        """The mean of `r2`, `spearman` or `mae` over environments."""
        return MeanStd.from_values(
            _statistic_or_reason(one, statistic) for one in self.environments
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        means: dict[str, Any] = {figure: self.mean(figure).to_dict() for figure in FIT_STATISTICS}
        return {"taken": self.subset, **means, "together": self.pooled.to_dict(),
                "environments": [one.to_dict() for one in self.environments]}  # fmt: skip


@dataclass(frozen=True)
class JointRegression:
    """Regressions on the best measure, the best two and all; what was left out, and why.

    `n_evaluations` have all measures, `n_incomplete` others do not.
    """

    measures: tuple[str, ...]
    regressions: Mapping[str, LeaveOneOutRegression]
    n_evaluations: int
    n_incomplete: int
    left_out: Mapping[str, str]

    def gain(self, statistic: FitStatistic, *, subset: str = ALL_MEASURES) -> MeanStd:
        """By how much a regression is better than the best single measure, over environments."""
        if subset not in self.regressions:
            raise UnknownName("regression", subset, self.regressions)
        sense = -1.0 if statistic == "mae" else 1.0
        pairs = zip(
            self.regressions[subset].environments,
            self.regressions[BEST_ONE].environments,
            strict=True,
        )
        return MeanStd.from_values(_improvement(*pair, statistic, sense) for pair in pairs)

    def rows(self) -> list[dict[str, Any]]:
        """A flat row an environment and regression; that of all environments is named None."""
        return [
            {"taken": one.subset, **trial.to_dict()}
            for one in self.regressions.values()
            for trial in (one.pooled, *one.environments)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "measures": list(self.measures),
            "evaluations": self.n_evaluations,
            "lacking": self.n_incomplete,
            "left_out": dict(self.left_out),
            "regressions": [one.to_dict() for one in self.regressions.values()],
            "gains": {
                taken: {figure: self.gain(figure, subset=taken).to_dict()
                        for figure in FIT_STATISTICS}
                for taken in self.regressions if taken != BEST_ONE
            },
        }  # fmt: skip


def _statistic_or_reason(trial: RegressionTrial, statistic: FitStatistic) -> float | str:
    value = getattr(trial, statistic)
    return f"no {statistic} in the environment" if value is None else float(value)


def _improvement(
    trial: RegressionTrial, baseline: RegressionTrial, statistic: FitStatistic, sign: float
) -> float | str:
    first, second = (
        _statistic_or_reason(trial, statistic),
        _statistic_or_reason(baseline, statistic),
    )
    if isinstance(first, str) or isinstance(second, str):
        return f"no {statistic} of one of the two"
    return sign * (first - second)


def fit_joint_regressions(
    table: EvaluationTable, *, measures: Sequence[str] | None = None
) -> JointRegression:
    """Linear regressions of target error on measures, each environment left out in turn.

    A figure a pair of measures, chosen by nobody, is `fit_joint_regressions(table, measures=pair)` for each.

    >>> table = EvaluationTable.read({"model": ["m", "n"] * 2, "trained_on": ["a"] * 4, "tested_on": [*"bbcc"],
    ...                     "accuracy": [0.9, 0.7, 0.8, 0.6], "x": [1, 3, 2, 4], "y": [0, 1, 0, 1]})
    >>> found = fit_joint_regressions(table)
    >>> [list(trial.weights) for trial in found.regressions["one"].environments]
    [['x'], ['x']]
    >>> round(found.gain("mae").mean, 6)
    -5.0
    """
    outside = select_out_of_distribution(table)
    names, left_out = _drop_sparse_measures(outside, measures)
    data = _complete_evaluations(outside, names)
    sizes = (
        {BEST_ONE: 1, BEST_TWO: 2, ALL_MEASURES: len(names)}
        if len(names) > 2
        else {BEST_ONE: 1, ALL_MEASURES: len(names)}
    )
    regressions = {taken: _leave_one_out(data, taken, size) for taken, size in sizes.items()}
    rows = len(data.errors)
    return JointRegression(tuple(names), regressions, rows, len(outside) - rows, left_out)


def _drop_sparse_measures(
    table: EvaluationTable, measures: Sequence[str] | None
) -> tuple[list[str], dict[str, str]]:
    """Measures with enough answers, and how few the others have."""
    wanted = select_measures(list(table.measures), measures)
    answers = {name: int(np.isfinite(table.measures[name]).sum()) for name in wanted}
    few = {name: n for name, n in answers.items() if n < MIN_ANSWERED_SHARE * len(table)}
    reasons = {
        name: f"it has answers for {n} of {len(table)} evaluations" for name, n in few.items()
    }
    return [name for name in wanted if name not in few], reasons


@dataclass(frozen=True, eq=False)
class _CompleteEvaluations:
    """Evaluations that have all measures."""

    names: Sequence[str]
    values: Floats
    errors: Floats
    environment: Ints
    environments: Mapping[int, str]


def _complete_evaluations(table: EvaluationTable, names: Sequence[str]) -> _CompleteEvaluations:
    if not names:
        raise NotApplicable(
            f"no measure has answers for {MIN_ANSWERED_SHARE:.0%} of the evaluations"
        )
    values = measure_matrix(table, names)
    known = np.isfinite(values).all(axis=1)
    codes = np.unique(table.tested_on[known])
    if len(codes) < 2:
        raise NotApplicable(
            f"one environment is left out at a time, which takes two; evaluations with all of "
            f"{len(names)} measures are in {len(codes)}"
        )
    named = {int(code): table.domains[code] for code in codes}
    return _CompleteEvaluations(
        names, values[known], 1.0 - table.accuracy[known], table.tested_on[known], named
    )


def _leave_one_out(data: _CompleteEvaluations, subset: str, size: int) -> LeaveOneOutRegression:
    everything = np.ones(len(data.errors), dtype=np.bool_)
    tested = []
    for code, name in data.environments.items():
        out = data.environment == code
        tested.append(_fit_and_test(data, size, fit_mask=~out, test_mask=out, name=name))
    together = _fit_and_test(data, size, fit_mask=everything, test_mask=everything, name=None)
    return LeaveOneOutRegression(subset, tuple(tested), together)


def _fit_and_test(
    data: _CompleteEvaluations, size: int, *, fit_mask: Bools, test_mask: Bools, name: str | None
) -> RegressionTrial:
    columns = best_subset(data.values[fit_mask], data.errors[fit_mask], size)
    line = fit_least_squares(data.values[fit_mask][:, columns], data.errors[fit_mask])
    predicted, errors = line.predict(data.values[test_mask][:, columns]), data.errors[test_mask]
    return RegressionTrial(
        environment=name,
        weights={data.names[j]: float(w) for j, w in zip(columns, line.weights, strict=True)},
        fitted=int(fit_mask.sum()),
        n=int(test_mask.sum()),
        r2=r_squared(predicted, errors),
        spearman=correlation(predicted, errors),
        mae=float(100.0 * np.abs(predicted - errors).mean()),
        notes=line.notes,
    )
