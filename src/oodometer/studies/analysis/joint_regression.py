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

from oodometer.core.errors import NoAnswer, UnknownName
from oodometer.core.softmax_kernels import Bools, Floats, Ints
from oodometer.studies.analysis._evaluation_columns import chosen
from oodometer.studies.analysis._least_squares import best, determination, fitted
from oodometer.studies.analysis._mean_std import Spread
from oodometer.studies.analysis.correlation_matrix import correlation
from oodometer.studies.analysis.evaluation_table import Table
from oodometer.studies.analysis.rank_correlation import matrix, outside_of_training

# A measure that answers for fewer than this share of the evaluations would cost too many of them.
ENOUGH = 0.5
# How many measures are taken: the best one, the best two, all.
ONE, TWO, ALL = "one", "two", "all"
Figure = Literal["r2", "spearman", "mae"]
FIGURES: tuple[Figure, ...] = ("r2", "spearman", "mae")


@dataclass(frozen=True)
class Trial:
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
class Regression:
    """One way to take measures, tested on each environment in turn, and on all it was fitted on."""

    taken: str
    environments: tuple[Trial, ...]
    together: Trial

    def mean(self, figure: Figure) -> Spread:
        """The mean of `r2`, `spearman` or `mae` over environments."""
        return Spread.of(_told(one, figure) for one in self.environments)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        means: dict[str, Any] = {figure: self.mean(figure).to_dict() for figure in FIGURES}
        return {"taken": self.taken, **means, "together": self.together.to_dict(),
                "environments": [one.to_dict() for one in self.environments]}  # fmt: skip


@dataclass(frozen=True)
class Joint:
    """Regressions on the best measure, the best two and all; what was left out, and why.

    `evaluations` have all measures, `lacking` others do not.
    """

    measures: tuple[str, ...]
    regressions: Mapping[str, Regression]
    evaluations: int
    lacking: int
    left_out: Mapping[str, str]

    def gain(self, figure: Figure, *, taken: str = ALL) -> Spread:
        """By how much a regression is better than the best single measure, over environments."""
        if taken not in self.regressions:
            raise UnknownName("regression", taken, self.regressions)
        sense = -1.0 if figure == "mae" else 1.0
        pairs = zip(
            self.regressions[taken].environments, self.regressions[ONE].environments, strict=True
        )
        return Spread.of(_difference(*pair, figure, sense) for pair in pairs)

    def rows(self) -> list[dict[str, Any]]:
        """A flat row an environment and regression; that of all environments is named None."""
        return [
            {"taken": one.taken, **trial.to_dict()}
            for one in self.regressions.values()
            for trial in (one.together, *one.environments)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "measures": list(self.measures),
            "evaluations": self.evaluations,
            "lacking": self.lacking,
            "left_out": dict(self.left_out),
            "regressions": [one.to_dict() for one in self.regressions.values()],
            "gains": {
                taken: {figure: self.gain(figure, taken=taken).to_dict()
                        for figure in FIGURES}
                for taken in self.regressions if taken != ONE
            },
        }  # fmt: skip


def _told(one: Trial, figure: Figure) -> float | str:
    value = getattr(one, figure)
    return f"no {figure} in the environment" if value is None else float(value)


def _difference(one: Trial, other: Trial, figure: Figure, sense: float) -> float | str:
    first, second = _told(one, figure), _told(other, figure)
    if isinstance(first, str) or isinstance(second, str):
        return f"no {figure} of one of the two"
    return sense * (first - second)


def joint(table: Table, *, measures: Sequence[str] | None = None) -> Joint:
    """Linear regressions of target error on measures, each environment left out in turn.

    A figure a pair of measures, chosen by nobody, is `joint(table, measures=pair)` for each.

    >>> table = Table.read({"model": ["m", "n"] * 2, "trained_on": ["a"] * 4, "tested_on": [*"bbcc"],
    ...                     "accuracy": [0.9, 0.7, 0.8, 0.6], "x": [1, 3, 2, 4], "y": [0, 1, 0, 1]})
    >>> found = joint(table)
    >>> [list(trial.weights) for trial in found.regressions["one"].environments]
    [['x'], ['x']]
    >>> round(found.gain("mae").mean, 6)
    -5.0
    """
    outside = outside_of_training(table)
    names, left_out = _answering(outside, measures)
    data = _complete(outside, names)
    sizes = {ONE: 1, TWO: 2, ALL: len(names)} if len(names) > 2 else {ONE: 1, ALL: len(names)}
    regressions = {taken: _regression(data, taken, size) for taken, size in sizes.items()}
    rows = len(data.errors)
    return Joint(tuple(names), regressions, rows, len(outside) - rows, left_out)


def _answering(table: Table, measures: Sequence[str] | None) -> tuple[list[str], dict[str, str]]:
    """Measures with enough answers, and how few the others have."""
    wanted = chosen(list(table.measures), measures)
    answers = {name: int(np.isfinite(table.measures[name]).sum()) for name in wanted}
    few = {name: n for name, n in answers.items() if n < ENOUGH * len(table)}
    reasons = {
        name: f"it has answers for {n} of {len(table)} evaluations" for name, n in few.items()
    }
    return [name for name in wanted if name not in few], reasons


@dataclass(frozen=True, eq=False)
class _Data:
    """Evaluations that have all measures."""

    names: Sequence[str]
    values: Floats
    errors: Floats
    environment: Ints
    environments: Mapping[int, str]


def _complete(table: Table, names: Sequence[str]) -> _Data:
    if not names:
        raise NoAnswer(f"no measure has answers for {ENOUGH:.0%} of the evaluations")
    values = matrix(table, names)
    known = np.isfinite(values).all(axis=1)
    codes = np.unique(table.tested_on[known])
    if len(codes) < 2:
        raise NoAnswer(
            f"one environment is left out at a time, which takes two; evaluations with all of "
            f"{len(names)} measures are in {len(codes)}"
        )
    named = {int(code): table.domains[code] for code in codes}
    return _Data(names, values[known], 1.0 - table.accuracy[known], table.tested_on[known], named)


def _regression(data: _Data, taken: str, size: int) -> Regression:
    everything = np.ones(len(data.errors), dtype=np.bool_)
    tested = []
    for code, name in data.environments.items():
        out = data.environment == code
        tested.append(_tested(data, size, fit=~out, test=out, name=name))
    together = _tested(data, size, fit=everything, test=everything, name=None)
    return Regression(taken, tuple(tested), together)


def _tested(data: _Data, size: int, *, fit: Bools, test: Bools, name: str | None) -> Trial:
    columns = best(data.values[fit], data.errors[fit], size)
    line = fitted(data.values[fit][:, columns], data.errors[fit])
    predicted, errors = line.predict(data.values[test][:, columns]), data.errors[test]
    return Trial(
        environment=name,
        weights={data.names[j]: float(w) for j, w in zip(columns, line.weights, strict=True)},
        fitted=int(fit.sum()),
        n=int(test.sum()),
        r2=determination(predicted, errors),
        spearman=correlation(predicted, errors),
        mae=float(100.0 * np.abs(predicted - errors).mean()),
        notes=line.notes,
    )
