"""How well a measure orders models by their error: in each environment, and over all at once.

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021 (DG). An environment is a test domain; its models are those that were
not trained on it. Which way a measure points is fixed once, on some of the models, and applied to
the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.stats import rng_for
from oodometer.studies.analysis.correlation_matrix import (
    MIN_CORRELATION_ROWS,
    pairwise_correlations,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable, select_measures
from oodometer.studies.analysis.grouped_scores import MeanStd

# Ranks are halves, so that a correlation this small is 0 and its sign an accident of rounding.
ZERO_TOLERANCE = 1e-12


@dataclass(frozen=True)
class MeasureSign:
    """Which way a measure points: +1 where it rises with the error, −1 where it falls."""

    value: int
    correlation: float
    n: int


def canonical_sign(values: npt.ArrayLike, errors: npt.ArrayLike) -> MeasureSign:
    """The sign of Spearman's correlation of a measure with the error over many models. DG §5.

    A model for which the measure has no answer (NaN) is left out.

    >>> canonical_sign([3.0, 2.0, 1.0], [0.1, 0.2, 0.4])
    MeasureSign(value=-1, correlation=-1.0, n=3)
    """
    from scipy.stats import spearmanr

    x, y = np.asarray(values, dtype=float), np.asarray(errors, dtype=float)
    if x.shape != y.shape or x.ndim != 1:
        raise InputError(f"A sign needs an error a value; got {x.shape} and {y.shape}.")
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(np.unique(x)) < 2 or len(np.unique(y)) < 2:
        raise NotApplicable(
            f"of {len(x)} models none differs from another, so nothing points anywhere"
        )
    correlation = float(spearmanr(x, y).statistic)
    if abs(correlation) < ZERO_TOLERANCE:
        raise NotApplicable("the measure rises and falls with the error alike")
    return MeasureSign(1 if correlation > 0 else -1, correlation, len(x))


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's ρ of a measure with the error over n models; where there is none, the reason."""

    value: float | None
    n: int
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"rho": self.value, "n": self.n, "reason": self.reason}


@dataclass(frozen=True)
class ErrorRankCorrelations:
    """How one measure goes with the error: by environment, and over all of them at once."""

    measure: str
    environments: Mapping[str, RankCorrelation]
    joint: RankCorrelation

    @property
    def mean(self) -> MeanStd:
        """Over environments; those without an answer are counted."""
        found = self.environments.values()
        return MeanStd.from_values(one.reason if one.value is None else one.value for one in found)

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for all environments at once, named None, and one for each."""
        found = [(None, self.joint), *self.environments.items()]
        return [
            {"measure": self.measure, "environment": name, **one.to_dict()} for name, one in found
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        by_name = {name: one.to_dict() for name, one in self.environments.items()}
        return {"measure": self.measure, "joint": self.joint.to_dict(),
                "mean": self.mean.to_dict(), "environments": by_name}  # fmt: skip


def correlate_with_error(
    table: EvaluationTable, *, measures: Sequence[str] | None = None
) -> dict[str, ErrorRankCorrelations]:
    """Every measure's Spearman ρ with the target error 1 − accuracy: per test domain, and joint.

    >>> table = EvaluationTable.read({"model": ["l", "m", "n"], "trained_on": ["a"] * 3, "tested_on": ["b"] * 3,
    ...                     "accuracy": [0.9, 0.8, 0.7], "ni": [0.8, 0.7, 0.6]})
    >>> found = correlate_with_error(table)["ni"].environments["b"]
    >>> round(found.value, 6), found.n
    (-1.0, 3)
    """
    names = list(select_measures(list(table.measures), measures))
    outside = select_out_of_distribution(table)
    joint = _error_correlations(outside, names)
    places = {
        outside.domains[code]: _error_correlations(
            outside.select_rows(outside.tested_on == code), names
        )
        for code in np.unique(outside.tested_on)
    }
    return {
        name: ErrorRankCorrelations(
            name, {domain: found[j] for domain, found in places.items()}, joint[j]
        )
        for j, name in enumerate(names)
    }


def select_out_of_distribution(table: EvaluationTable) -> EvaluationTable:
    """The evaluations on domains that the model was not trained on, of known accuracy."""
    outside = table.select_rows(~table.in_distribution & np.isfinite(table.accuracy))
    if not len(outside):
        raise InputError(
            f"None of {len(table)} evaluations is of known accuracy on a domain that the model was "
            "not trained on. Add such rows, with the domain in tested_on."
        )
    return outside


def measure_matrix(table: EvaluationTable, measures: Sequence[str]) -> Floats:
    """The values of some measures: (evaluations, measures)."""
    return np.stack([table.measures[name] for name in measures], axis=1)


def _error_correlations(table: EvaluationTable, measures: Sequence[str]) -> list[RankCorrelation]:
    values, errors = measure_matrix(table, measures), 1.0 - table.accuracy
    found = pairwise_correlations(values, errors[:, None])
    return [
        RankCorrelation(None, int(n), _missing_reason(column[np.isfinite(column)]))
        if np.isnan(rho)
        else RankCorrelation(float(rho), int(n))
        for column, rho, n in zip(values.T, found.values[:, 0], found.n_rows[:, 0], strict=True)
    ]


def _missing_reason(values: Floats) -> str:
    """Why the values of some models have no rank correlation with their errors."""
    if len(values) < MIN_CORRELATION_ROWS:
        return f"fewer than {MIN_CORRELATION_ROWS} models have an answer"
    return f"{'the measure' if np.ptp(values) == 0 else 'the error'} is the same for all models"


def measure_directions(table: EvaluationTable) -> tuple[dict[str, MeasureSign], dict[str, str]]:
    """The canonical sign of each measure over all environments, and why some have none.

    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"], "tested_on": ["b", "b"],
    ...                     "accuracy": [0.9, 0.7], "ni": [0.8, 0.6], "flat": [1, 1]})
    >>> found, reasons = measure_directions(table)
    >>> found["ni"].value, list(reasons)
    (-1, ['flat'])
    """
    outside = select_out_of_distribution(table)
    found, reasons = {}, {}
    for name, values in outside.measures.items():
        try:
            found[name] = canonical_sign(values, 1.0 - outside.accuracy)
        except NotApplicable as refusal:
            reasons[name] = str(refusal)
    return found, reasons


def apply_signs(table: EvaluationTable, signs: Mapping[str, MeasureSign]) -> EvaluationTable:
    """The table with each measure times its sign, so that all rise with the error.

    Measures that have no sign are left out.
    """
    for name in signs:
        if name not in table.measures:
            raise UnknownName("measure", name, table.measures)
    kept = {name: one.value * table.measures[name] for name, one in signs.items()}
    return replace(table, measures=kept)


def split_models(
    table: EvaluationTable, *, seed: int = 0
) -> tuple[EvaluationTable, EvaluationTable]:
    """The rows of one half of the models, to fix signs on, and those of the other, to judge on.

    Models are drawn, not rows: one that a sign was fixed on is judged nowhere.
    """
    models = np.unique(table.model)
    order = sorted(models, key=lambda code: rng_for(seed, "half", table.models[code]).random())
    first = np.isin(table.model, order[: (len(models) + 1) // 2])
    return table.select_rows(first), table.select_rows(~first)
