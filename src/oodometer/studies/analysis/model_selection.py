"""Model selection by a measure: top-1 regret, and win probabilities between models.

The models that compete on a test domain are those that were not trained on it. The top-1 regret of
a measure is the accuracy of the best of these models minus the accuracy of the model that the
measure ranks first. Baselines are a random choice and the model with the best accuracy on its own
training domains. Win probabilities compare models by values per example (paired bootstrap).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, UnknownName, out_of_range
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.stats import paired_bootstrap_means, rng_for, win_probability
from oodometer.studies.analysis.correlation_matrix import correlation, round_means
from oodometer.studies.analysis.evaluation_table import EvaluationTable, select_measures
from oodometer.studies.analysis.grouped_scores import MeanStd
from oodometer.studies.analysis.rank_correlation import MeasureSign, select_out_of_distribution

# Baselines that every measure is compared with.
AT_RANDOM = "at random"
BY_SOURCE = "by source accuracy"
DEFAULT_REPLICATES = 1000


@dataclass(frozen=True)
class ModelChoice:
    """Model selected on one test domain by one criterion.

    `regret` is a fraction; it is None, and `reason` is set, if no model can be selected. If several
    models tie for first place, `regret` is the mean of their regrets, and `models` lists them
    unless all models tie. `rho` is Spearman's correlation of the criterion with accuracy.
    """

    by: str
    domain: str
    n: int
    models: tuple[str, ...]
    regret: float | None
    rho: float | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


@dataclass(frozen=True)
class SelectionRegret:
    """Models selected by one criterion on all test domains, with their regrets."""

    criterion: str
    choices: tuple[ModelChoice, ...]

    @property
    def regret(self) -> MeanStd:
        """Mean regret over domains, and the number of domains without a selected model."""
        return MeanStd.from_values(
            choice.reason if choice.regret is None else choice.regret for choice in self.choices
        )

    @property
    def rho(self) -> MeanStd:
        """Mean rank correlation with accuracy over domains."""
        return MeanStd.from_values(
            (choice.reason or "all models tie") if choice.rho is None else choice.rho
            for choice in self.choices
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "by": self.criterion,
            "regret": self.regret.to_dict(),
            "rho": self.rho.to_dict(),
            "choices": [choice.to_dict() for choice in self.choices],
        }


def evaluate_selection(
    table: EvaluationTable,
    *,
    measures: Sequence[str] | None = None,
    signs: Mapping[str, MeasureSign] | None = None,
) -> dict[str, SelectionRegret]:
    """Return the regret of selecting by each measure, at random, and by source accuracy.

    The model with the largest value is selected. If the sign of a measure in `signs` is +1, the
    measure increases with the error, and the model with the smallest value is selected
    (`rank_correlation.measure_directions` determines signs; use it on other models than these). A
    measure selects among the models that have a value of it. The selected model is compared with
    the best of all models.

    >>> table = EvaluationTable.read({"model": ["l", "m", "n"], "trained_on": ["a"] * 3,
    ...     "tested_on": ["b"] * 3, "accuracy": [0.5, 0.75, 1.0], "ni": [0.9, 0.9, 0.8]})
    >>> {name: result.regret.mean for name, result in evaluate_selection(table).items()}
    {'ni': 0.375, 'at random': 0.25, 'by source accuracy': None}
    """
    for name in signs or {}:
        if name not in table.measures:
            raise UnknownName("measure", name, table.measures)
    names = select_measures(list(table.measures), measures)
    outside = select_out_of_distribution(table)
    criteria = {}
    for name in names:
        sign = signs[name].value if signs and name in signs else -1
        criteria[name] = -sign * outside.measures[name]
    criteria[AT_RANDOM] = np.zeros(len(outside))
    criteria[BY_SOURCE] = _source_accuracy(table)[outside.model]
    domains = [np.flatnonzero(outside.tested_on == code) for code in np.unique(outside.tested_on)]
    return {
        name: SelectionRegret(
            name, tuple(_choose_model(outside, rows, name, scores[rows]) for rows in domains)
        )
        for name, scores in criteria.items()
    }


def _source_accuracy(table: EvaluationTable) -> Floats:
    """Return the mean accuracy of each model on its training domains; NaN if it has none."""
    rows = table.in_distribution & np.isfinite(table.accuracy)
    count = np.bincount(table.model[rows], minlength=len(table.models))
    total = np.bincount(table.model[rows], table.accuracy[rows], minlength=len(table.models))
    return round_means(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _choose_model(
    table: EvaluationTable, rows: Ints, criterion: str, scores: Floats
) -> ModelChoice:
    domain = table.domains[table.tested_on[rows[0]]]
    accuracy = table.accuracy[rows]
    known = np.isfinite(scores)
    n = int(known.sum())
    if n < 2:
        return ModelChoice(
            by=criterion,
            domain=domain,
            n=n,
            models=(),
            regret=None,
            rho=None,
            reason="fewer than two models have a value",
        )
    first = scores == scores[known].max()
    selected = rows[first] if first.sum() < n else rows[:0]
    return ModelChoice(
        by=criterion,
        domain=domain,
        n=n,
        models=tuple(table.models[code] for code in table.model[selected]),
        regret=float(accuracy.max() - accuracy[first].mean()),
        rho=correlation(scores, accuracy),
    )


@dataclass(frozen=True, eq=False)
class WinProbabilities:
    """Matrix of probabilities that the model of a row is better than the model of a column."""

    models: tuple[str, ...]
    values: Floats
    n: int
    replicates: int

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


def win_probabilities(
    values: Mapping[str, npt.ArrayLike], *, seed: int = 0, replicates: int = DEFAULT_REPLICATES
) -> WinProbabilities:
    """Return the probability that one model is better than another (paired bootstrap).

    `values` maps each model to one value per example, such as 1 for a correct prediction and 0 for
    a wrong one; larger values are better. Examples are resampled with replacement, and every
    replicate has the same examples for all models. The probability is the share of replicates in
    which the mean of one model is above the mean of the other; ties count half.

    >>> win_probabilities({"m": [1, 1, 1], "n": [0, 0, 0]}).values
    array([[0.5, 1. ], [0. , 0.5]])
    """
    rows = _stack_examples(values)
    if replicates < 1:
        raise out_of_range("replicates", replicates, low=1)
    means = paired_bootstrap_means(rng_for(seed, "beating"), rows, replicates).T
    return WinProbabilities(
        models=tuple(values),
        values=np.array([[win_probability(row, column) for column in means] for row in means]),
        n=rows.shape[1],
        replicates=replicates,
    )


def _stack_examples(values: Mapping[str, npt.ArrayLike]) -> Floats:
    """Return the values as an array (models, examples)."""
    rows = [np.asarray(row, dtype=np.float64) for row in values.values()]
    if len(rows) < 2 or any(row.shape != rows[0].shape or row.ndim != 1 for row in rows):
        shapes = ", ".join(f"{name}: {row.shape}" for name, row in zip(values, rows, strict=True))
        raise InputError(
            f"At least two models with one value per example are needed; got {shapes or 'none'}. "
            "Pass the same examples for all models, in the same order."
        )
    for name, row in zip(values, rows, strict=True):
        if not np.isfinite(row).all():
            raise InputError(
                f"Values per example must be finite; {name!r} has NaN or infinite values. Leave "
                "out such examples."
            )
    if not rows[0].size:
        raise InputError("There are no examples; expected at least one per model.")
    return np.stack(rows)
