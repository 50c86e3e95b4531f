"""Choosing a model by a measure: what that costs against the best there was.

The top-1 regret of a measure on a test domain is the accuracy of the best of the models that were
not trained on it, less that of the model that the measure puts first. Beside it stand the regret of
a choice at random and of the model that is best on its own domains. And from values by example: how
sure one model is better than another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.stats import paired_bootstrap_means, rng_for, win_probability
from oodometer.studies.analysis.correlation_matrix import correlation, round_means
from oodometer.studies.analysis.evaluation_table import EvaluationTable, select_measures
from oodometer.studies.analysis.grouped_scores import MeanStd
from oodometer.studies.analysis.rank_correlation import MeasureSign, select_out_of_distribution

# Ways to choose that every measure is held against.
AT_RANDOM, BY_SOURCE = "at random", "by source accuracy"
DEFAULT_REPLICATES = 1000


@dataclass(frozen=True)
class ModelChoice:
    """A model chosen on one test domain by one way to choose.

    `regret` is a fraction, None where there is no choice, and `reason` says why. Where several
    models are first, the regret is the mean of theirs, and `models` has them, unless all are. `rho`
    is Spearman's correlation of what was chosen by with accuracy.
    """

    by: str
    domain: str
    n: int
    models: tuple[str, ...]
    regret: float | None
    rho: float | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "models": list(self.models)}


@dataclass(frozen=True)
class SelectionRegret:
    """One way to choose, on all test domains."""

    criterion: str
    choices: tuple[ModelChoice, ...]

    @property
    def regret(self) -> MeanStd:
        """The mean regret over domains; those without a choice are counted."""
        return MeanStd.from_values(c.reason if c.regret is None else c.regret for c in self.choices)

    @property
    def rho(self) -> MeanStd:
        """The mean rank correlation with accuracy over domains."""
        return MeanStd.from_values(
            (c.reason or "no order among the models") if c.rho is None else c.rho
            for c in self.choices
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"by": self.criterion, "regret": self.regret.to_dict(), "rho": self.rho.to_dict(),
                "choices": [one.to_dict() for one in self.choices]}  # fmt: skip


def evaluate_selection(
    table: EvaluationTable,
    *,
    measures: Sequence[str] | None = None,
    signs: Mapping[str, MeasureSign] | None = None,
) -> dict[str, SelectionRegret]:
    """The regret of choosing by each measure, at random, and by accuracy on own domains.

    The largest value is chosen, or the smallest of a measure whose sign says that it rises with
    the error (`environments.signs`: fix them on other models than these). A measure chooses among
    the models that it has an answer for, and is held against the best of all.

    >>> table = EvaluationTable.read({"model": ["l", "m", "n"], "trained_on": ["a"] * 3, "tested_on": ["b"] * 3,
    ...                     "accuracy": [0.5, 0.75, 1.0], "ni": [0.9, 0.9, 0.8]})
    >>> {name: found.regret.mean for name, found in evaluate_selection(table).items()}
    {'ni': 0.375, 'at random': 0.25, 'by source accuracy': None}
    """
    for name in signs or {}:
        if name not in table.measures:
            raise UnknownName("measure", name, table.measures)
    names = select_measures(list(table.measures), measures)
    outside = select_out_of_distribution(table)
    ways = {name: -_sign_value(name, signs) * outside.measures[name] for name in names}
    ways |= {AT_RANDOM: np.zeros(len(outside)), BY_SOURCE: _source_accuracy(table)[outside.model]}
    places = [np.flatnonzero(outside.tested_on == code) for code in np.unique(outside.tested_on)]
    return {
        by: SelectionRegret(
            by, tuple(_choose_model(outside, rows, by, scores[rows]) for rows in places)
        )
        for by, scores in ways.items()
    }


def _sign_value(name: str, signs: Mapping[str, MeasureSign] | None) -> int:
    return signs[name].value if signs and name in signs else -1


def _source_accuracy(table: EvaluationTable) -> Floats:
    """Every model's mean accuracy on the domains that it was trained on; NaN without any."""
    rows = table.in_distribution & np.isfinite(table.accuracy)
    count = np.bincount(table.model[rows], minlength=len(table.models))
    total = np.bincount(table.model[rows], table.accuracy[rows], minlength=len(table.models))
    return round_means(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _choose_model(
    table: EvaluationTable, rows: Ints, criterion: str, scores: Floats
) -> ModelChoice:
    domain, accuracy = table.domains[table.tested_on[rows[0]]], table.accuracy[rows]
    known = np.isfinite(scores)
    if known.sum() < 2:
        return ModelChoice(criterion, domain, int(known.sum()), (), None, None,
                      "fewer than two models have an answer")  # fmt: skip
    first = scores == scores[known].max()
    named = rows[first] if first.sum() < known.sum() else rows[:0]
    return ModelChoice(
        criterion,
        domain,
        int(known.sum()),
        tuple(table.models[code] for code in table.model[named]),
        float(accuracy.max() - accuracy[first].mean()),
        correlation(scores, accuracy),
    )


@dataclass(frozen=True, eq=False)
class WinProbabilities:
    """The probability that the model of a row is better than that of a column."""

    models: tuple[str, ...]
    values: Floats
    n: int
    replicates: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"models": list(self.models), "values": self.values.tolist(), "n": self.n,
                "replicates": self.replicates}  # fmt: skip


def win_probabilities(
    values: Mapping[str, npt.ArrayLike], *, seed: int = 0, replicates: int = DEFAULT_REPLICATES
) -> WinProbabilities:
    """How sure one model is better than another, from a value an example of each.

    Values are whether an example was right, or of any measure that is a mean over examples, larger
    being better. Examples are drawn again with replacement, the same for all models, and the shares
    of draws are given in which one mean is above another; equal ones count by half.

    >>> win_probabilities({"m": [1, 1, 1], "n": [0, 0, 0]}).values
    array([[0.5, 1. ], [0. , 0.5]])
    """
    rows = _stack_examples(values)
    if replicates < 1:
        raise InputError(
            f"replicates must be 1 or more; got {replicates}. {DEFAULT_REPLICATES} is usual."
        )
    drawn = paired_bootstrap_means(rng_for(seed, "beating"), rows, replicates)
    return WinProbabilities(
        tuple(values),
        np.array([[win_probability(one, other) for other in drawn.T] for one in drawn.T]),
        rows.shape[1],
        replicates,
    )


def _stack_examples(values: Mapping[str, npt.ArrayLike]) -> Floats:
    """The values as an array (models, examples)."""
    rows = [np.asarray(one, dtype=np.float64) for one in values.values()]
    if len(rows) < 2 or any(row.shape != rows[0].shape or row.ndim != 1 for row in rows):
        shapes = ", ".join(f"{name}: {row.shape}" for name, row in zip(values, rows, strict=True))
        raise InputError(
            f"Two models or more must have a value an example each; got {shapes or 'none'}. Give the "
            "same examples of all, in the same order."
        )
    lacking = [name for name, row in zip(values, rows, strict=True) if not np.isfinite(row).all()]
    if lacking or not rows[0].size:
        what = f"{lacking[0]!r} has NaN or infinite values" if lacking else "there are no examples"
        raise InputError(f"Values by example must be finite; {what}. Leave such examples out.")
    return np.stack(rows)
