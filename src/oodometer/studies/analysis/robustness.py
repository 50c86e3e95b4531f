"""Accuracy on one test set against all others: correlations, patterns, effective robustness.

Models lie near a line of accuracy on a shifted set against accuracy on the usual one; how far one
lies above it is its effective robustness (Taori et al., NeurIPS 2020). The line is often straighter
between the logits or probits of accuracies; robustness is in accuracy whatever the scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.stats import Line, least_squares_line
from oodometer.studies.analysis.averaged_correlations import AveragedCorrelationMatrix
from oodometer.studies.analysis.correlation_matrix import (
    MIN_CORRELATION_ROWS,
    CorrelationKind,
    PairwiseCorrelations,
    number_or_none,
    pairwise_correlations,
)
from oodometer.studies.analysis.id_ood_scatter import AccuracyGap, accuracy_gap
from oodometer.studies.analysis.scatter_patterns import ScatterPattern, pattern_from_accuracies
from oodometer.studies.analysis.wide_table import AccuracyMatrix

AccuracyScale = Literal["plain", "logit", "probit"]


@dataclass(frozen=True)
class RobustnessFit:
    """The line of a set against the reference on a scale, and what it leaves.

    `models` are those it is fitted to: on other scales than the plain one, without accuracies of 0
    and 1. `residual_sd` is of effective robustness; `most_robust` has the most of it, `most`.
    """

    models: int
    line: Line
    r2: float | None
    residual_sd: float
    most_robust: str
    most: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "line": vars(self.line)}


@dataclass(frozen=True)
class ReferenceComparison:
    """One test set against the reference, over the models that have both.

    `fit` is None where fewer than three of these differ in accuracy on the reference.
    """

    name: str
    models: int
    spearman: float | None
    pearson: float | None
    gap: AccuracyGap
    pattern: ScatterPattern
    fit: RobustnessFit | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        parts = {"gap": self.gap.to_dict(), "pattern": self.pattern.to_dict()}
        return {**vars(self), **parts, "fit": self.fit.to_dict() if self.fit else None}


def compare_with_reference(
    wide: AccuracyMatrix, reference: str, *, scale: AccuracyScale = "plain"
) -> tuple[ReferenceComparison, ...]:
    """Every other test set against a reference; Pearson's coefficient and the line on the scale."""
    _check_scale(scale)
    place = wide.column_index(reference)
    others = [j for j in range(len(wide.test_sets)) if j != place]
    if not others:
        raise InputError(
            f"{reference!r} is the only test set: nothing can be held against it. Add columns of "
            "accuracies on other sets."
        )
    ranks = pairwise_correlations(wide.accuracy[:, [place]], wide.accuracy[:, others])
    scaled = to_scale(wide.accuracy, scale)
    linear = pairwise_correlations(scaled[:, [place]], scaled[:, others], kind="pearson").values[0]
    left = effective_robustness(wide, reference, scale=scale)
    return tuple(
        ReferenceComparison(
            wide.test_sets[j],
            int(ranks.n_rows[0, k]),
            number_or_none(ranks.values[0, k]),
            number_or_none(linear[k]),
            _common_gap(wide.accuracy[:, place], wide.accuracy[:, j]),
            pattern_from_accuracies(wide.accuracy[:, place], wide.accuracy[:, j]),
            _robustness_fit(wide, _fit_line(scaled[:, place], scaled[:, j]), left[:, j], linear[k]),
        )
        for k, j in enumerate(others)
    )


def effective_robustness(
    wide: AccuracyMatrix, reference: str, *, scale: AccuracyScale = "plain"
) -> Floats:
    """Accuracy less what the line in the accuracy on the reference says: (models, sets), or NaN.

    >>> wide = AccuracyMatrix.read({"model": ["a", "b", "c"], "val": [0.25, 0.5, 0.75], "new": [0.0, 0.75, 0.0]})
    >>> effective_robustness(wide, "val").round(6)[:, 1].tolist()
    [-0.25, 0.5, -0.25]
    """
    _check_scale(scale)
    scaled = to_scale(wide.accuracy, scale)
    x = scaled[:, wide.column_index(reference)]
    left: Floats = np.full(wide.accuracy.shape, np.nan)
    for j in range(len(wide.test_sets)):
        line = _fit_line(x, scaled[:, j])
        if line is not None:
            known = ~(np.isnan(x) | np.isnan(scaled[:, j]))
            said = from_scale(line.slope * x[known] + line.intercept, scale)
            left[known, j] = wide.accuracy[known, j] - said
    return left


def correlate_test_sets(
    wide: AccuracyMatrix, *, kind: CorrelationKind = "spearman", scale: AccuracyScale = "plain"
) -> PairwiseCorrelations:
    """Every test set with every other, each over the models that have both."""
    return pairwise_correlations(to_scale(wide.accuracy, scale), kind=kind)


def correlate_groups(
    wide: AccuracyMatrix,
    *,
    groups: Mapping[str, str] | None = None,
    kind: CorrelationKind = "spearman",
) -> AveragedCorrelationMatrix:
    """Groups of test sets with one another: the mean over all pairs of different sets of the two.

    `groups` gives sets their group; without, sets that share what stands before the first dot
    (imagenet-c.fog.1, imagenet-c.fog.2) are one. A group of one set is 1 with itself.
    """
    names = shared_prefixes(wide.test_sets) if groups is None else groups
    for name in names:
        wide.column_index(name)
    labels = [names.get(name, name) for name in wide.test_sets]
    distinct = tuple(dict.fromkeys(labels))
    members = [np.array([one == label for one in labels]) for label in distinct]
    each = correlate_test_sets(wide, kind=kind)
    figures = [[_average_groups(each, mine, theirs) for theirs in members] for mine in members]
    values, sd, pairs, left_out, models = np.moveaxis(np.array(figures), 2, 0)
    counts: list[Ints] = [part.astype(np.int64) for part in (pairs, left_out, models)]
    return AveragedCorrelationMatrix("test sets", kind, distinct, distinct, values, sd, *counts)


def shared_prefixes(test_sets: tuple[str, ...]) -> dict[str, str]:
    """What stands before the first dot, of the sets that share it with another.

    >>> shared_prefixes(("c.fog.1", "c.fog.2", "v2-0.7"))
    {'c.fog.1': 'c', 'c.fog.2': 'c'}
    """
    beginnings = [name.partition(".")[0] if "." in name else None for name in test_sets]
    return {
        name: start
        for name, start in zip(test_sets, beginnings, strict=True)
        if start is not None and beginnings.count(start) > 1
    }


def to_scale(accuracy: Floats, scale: AccuracyScale) -> Floats:
    """Accuracies on a scale; NaN for 0 and 1, which have no logit or probit.

    >>> to_scale(np.array([0.5, 1.0]), "logit").tolist()
    [0.0, nan]
    """
    _check_scale(scale)
    if scale == "plain":
        return accuracy
    from scipy import special

    inner = np.where((accuracy > 0) & (accuracy < 1), accuracy, np.nan)
    return np.asarray(special.logit(inner) if scale == "logit" else special.ndtri(inner))


def from_scale(values: Floats, scale: AccuracyScale) -> Floats:
    """Accuracies of values on a scale."""
    if scale == "plain":
        return values
    from scipy import special

    return np.asarray(special.expit(values) if scale == "logit" else special.ndtr(values))


def _check_scale(scale: str) -> None:
    if scale not in get_args(AccuracyScale):
        raise UnknownName("scale", str(scale), get_args(AccuracyScale))


def _fit_line(x: Floats, y: Floats) -> Line | None:
    known = ~(np.isnan(x) | np.isnan(y))
    enough = len(np.unique(x[known])) >= MIN_CORRELATION_ROWS
    return least_squares_line(x[known], y[known]) if enough else None


def _robustness_fit(
    wide: AccuracyMatrix, line: Line | None, robustness: Floats, r: float
) -> RobustnessFit | None:
    if line is None:
        return None
    known = robustness[~np.isnan(robustness)]
    most = int(np.nanargmax(robustness))
    sd = float(known.std(ddof=1))
    return RobustnessFit(
        len(known), line, number_or_none(r * r), sd, wide.models[most], float(robustness[most])
    )


def _common_gap(x: Floats, y: Floats) -> AccuracyGap:
    both = ~(np.isnan(x) | np.isnan(y))
    return accuracy_gap(x[both], y[both])


def _average_groups(
    pairwise: PairwiseCorrelations, mine: Any, theirs: Any
) -> tuple[float, float, int, int, int]:
    """Mean, sd, answered and unanswered pairs, and models, of two groups."""
    cells = np.outer(mine, theirs)
    if mine is theirs and mine.sum() > 1:
        cells &= np.tri(len(cells), k=-1, dtype=np.bool_)
    known = cells & ~np.isnan(pairwise.values)
    values, count = pairwise.values[known], int(known.sum())
    mean = float(values.mean()) if count else np.nan
    sd = float(values.std(ddof=1)) if count > 1 else np.nan
    return mean, sd, count, int(cells.sum()) - count, int(pairwise.n_rows[known].sum())
