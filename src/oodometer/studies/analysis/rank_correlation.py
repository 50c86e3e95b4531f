"""Spearman's rank correlation of a measure with target error, per environment and pooled.

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021. An environment is a test domain with the models that were not
trained on it. The sign of a measure is determined once, on some of the models, and applied to the
remaining models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.jsonable import to_jsonable
from oodometer.core.stats import rng_for
from oodometer.studies.analysis.correlation_matrix import (
    MIN_CORRELATION_ROWS,
    pairwise_correlations,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable, select_measures
from oodometer.studies.analysis.grouped_scores import MeanStd

# Ranks are multiples of 1/2, so a correlation that is not 0 cannot be this small. A smaller value is
# a rounding error and has no sign.
ZERO_TOLERANCE = 1e-12


@dataclass(frozen=True)
class MeasureSign:
    """Sign of a measure: +1 if the measure increases with the error, −1 if it decreases."""

    value: int
    correlation: float
    n: int


def canonical_sign(values: npt.ArrayLike, errors: npt.ArrayLike) -> MeasureSign:
    """Return the sign of Spearman's correlation of a measure with the error (§5 of the paper).

    Models with a missing value (NaN) are left out.

    >>> canonical_sign([3.0, 2.0, 1.0], [0.1, 0.2, 0.4])
    MeasureSign(value=-1, correlation=-1.0, n=3)
    """
    from scipy.stats import spearmanr

    x = np.asarray(values, dtype=float)
    y = np.asarray(errors, dtype=float)
    if x.shape != y.shape or x.ndim != 1:
        raise InputError(f"A sign needs one error per value; got {x.shape} and {y.shape}.")
    known = np.isfinite(x) & np.isfinite(y)
    x = x[known]
    y = y[known]
    if len(np.unique(x)) < 2 or len(np.unique(y)) < 2:
        raise NotApplicable(f"the measure or the error is the same for all {len(x)} models")
    correlation = float(spearmanr(x, y).statistic)
    if abs(correlation) < ZERO_TOLERANCE:
        raise NotApplicable("the rank correlation of the measure with the error is 0")
    return MeasureSign(1 if correlation > 0 else -1, correlation, len(x))


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's ρ of a measure with the error over `n` models, or why it is undefined."""

    value: float | None
    n: int
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"rho": self.value, "n": self.n, "reason": self.reason}


@dataclass(frozen=True)
class ErrorRankCorrelations:
    """Rank correlations of one measure with the error, per environment and pooled (`joint`)."""

    measure: str
    environments: Mapping[str, RankCorrelation]
    joint: RankCorrelation

    @property
    def mean(self) -> MeanStd:
        """Mean over environments, and the number of environments without a correlation."""
        return MeanStd.from_values(
            correlation.reason if correlation.value is None else correlation.value
            for correlation in self.environments.values()
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for all environments pooled, named None, and one per environment."""
        return [
            {"measure": self.measure, "environment": name, **correlation.to_dict()}
            for name, correlation in [(None, self.joint), *self.environments.items()]
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "joint": self.joint.to_dict(),
            "mean": self.mean.to_dict(),
            "environments": to_jsonable(self.environments),
        }


def correlate_with_error(
    table: EvaluationTable, *, measures: Sequence[str] | None = None
) -> dict[str, ErrorRankCorrelations]:
    """Return Spearman's ρ of each measure with the target error, per test domain and pooled.

    The target error is 1 − accuracy on domains that the model was not trained on.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains.
    measures : sequence of str, optional
        Measures to correlate. Default: all measures of the table.

    Returns
    -------
    dict of str to ErrorRankCorrelations
        By measure: the correlation in each environment (`environments`), the correlation over all
        evaluations pooled (`joint`), and the mean over environments (`mean`).

    Raises
    ------
    InputError
        If no evaluation has a known accuracy on a domain that the model was not trained on.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": ["l", "m", "n"], "trained_on": ["a"] * 3,
    ...     "tested_on": ["b"] * 3, "accuracy": [0.9, 0.8, 0.7], "ni": [0.8, 0.7, 0.6]})
    >>> correlation = correlate_with_error(table)["ni"].environments["b"]
    >>> round(correlation.value, 6), correlation.n
    (-1.0, 3)
    """
    names = list(select_measures(list(table.measures), measures))
    outside = select_out_of_distribution(table)
    joint = _error_correlations(outside, names)
    by_domain = {
        outside.domains[code]: _error_correlations(
            outside.select_rows(outside.tested_on == code), names
        )
        for code in np.unique(outside.tested_on)
    }
    return {
        name: ErrorRankCorrelations(
            name, {domain: results[j] for domain, results in by_domain.items()}, joint[j]
        )
        for j, name in enumerate(names)
    }


def select_out_of_distribution(table: EvaluationTable) -> EvaluationTable:
    """Return the evaluations with known accuracy on domains that the model was not trained on."""
    outside = table.select_rows(~table.in_distribution & np.isfinite(table.accuracy))
    if not len(outside):
        raise InputError(
            f"None of {len(table)} evaluations has a known accuracy on a domain that the model was "
            "not trained on. Add such rows, with the domain in tested_on."
        )
    return outside


def measure_matrix(table: EvaluationTable, measures: Sequence[str]) -> Floats:
    """Return the values of some measures as an array of shape (evaluations, measures)."""
    return np.stack([table.measures[name] for name in measures], axis=1)


def _error_correlations(table: EvaluationTable, measures: Sequence[str]) -> list[RankCorrelation]:
    values = measure_matrix(table, measures)
    result = pairwise_correlations(values, (1.0 - table.accuracy)[:, None])
    return [
        RankCorrelation(None, int(n), _missing_reason(column[np.isfinite(column)]))
        if np.isnan(rho)
        else RankCorrelation(float(rho), int(n))
        for column, rho, n in zip(values.T, result.values[:, 0], result.n_rows[:, 0], strict=True)
    ]


def _missing_reason(values: Floats) -> str:
    """Return why the rank correlation of these values with the errors is undefined."""
    if len(values) < MIN_CORRELATION_ROWS:
        return f"fewer than {MIN_CORRELATION_ROWS} models have a value"
    return f"{'the measure' if np.ptp(values) == 0 else 'the error'} is the same for all models"


def measure_directions(table: EvaluationTable) -> tuple[dict[str, MeasureSign], dict[str, str]]:
    """Return the sign of each measure over all environments, and reasons for those without one.

    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"],
    ...     "tested_on": ["b", "b"], "accuracy": [0.9, 0.7], "ni": [0.8, 0.6], "flat": [1, 1]})
    >>> signs, reasons = measure_directions(table)
    >>> signs["ni"].value, list(reasons)
    (-1, ['flat'])
    """
    outside = select_out_of_distribution(table)
    signs = {}
    reasons = {}
    for name, values in outside.measures.items():
        try:
            signs[name] = canonical_sign(values, 1.0 - outside.accuracy)
        except NotApplicable as error:
            reasons[name] = str(error)
    return signs, reasons


def apply_signs(table: EvaluationTable, signs: Mapping[str, MeasureSign]) -> EvaluationTable:
    """Multiply each measure by its sign, so that all measures increase with the error.

    Measures without a sign are left out.
    """
    for name in signs:
        if name not in table.measures:
            raise UnknownName("measure", name, table.measures)
    signed = {name: sign.value * table.measures[name] for name, sign in signs.items()}
    return replace(table, measures=signed)


def split_models(
    table: EvaluationTable, *, seed: int = 0
) -> tuple[EvaluationTable, EvaluationTable]:
    """Split the rows by model into two halves: one to determine signs, the other to evaluate.

    Models are sampled, not rows, so no model is in both halves.
    """
    models = np.unique(table.model)
    order = sorted(models, key=lambda code: rng_for(seed, "half", table.models[code]).random())
    first = np.isin(table.model, order[: (len(models) + 1) // 2])
    return table.select_rows(first), table.select_rows(~first)
