"""Effective robustness: accuracy beyond what a reference test set predicts (Taori et al., 2020).

If the accuracy of models on a shifted test set is plotted against their accuracy on the reference,
the models lie near a line. The effective robustness of a model is its accuracy on the shifted test
set minus the accuracy that the line predicts. The relation is often closer to linear on a logit or
probit scale. On such a scale too, effective robustness is a difference of accuracies, because the
prediction is transformed back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.result_views import ResultViews, TableRows
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
    """Line that predicts the accuracy on a test set from that on the reference, on some scale.

    `models` is the number of fitted models; on logit and probit scales, models with an accuracy of
    0 or 1 are not fitted. `residual_sd` is the standard deviation of effective robustness. `most`
    is the highest effective robustness, and `most_robust` is the model that has it.
    """

    models: int
    line: Line
    r2: float | None
    residual_sd: float
    most_robust: str
    most: float

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


@dataclass(frozen=True)
class ReferenceComparison:
    """Comparison of one test set with the reference, over the models that have both accuracies.

    `fit` is None if there are fewer than three different accuracies on the reference.
    """

    name: str
    models: int
    spearman: float | None
    pearson: float | None
    gap: AccuracyGap
    pattern: ScatterPattern
    fit: RobustnessFit | None

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


@dataclass(frozen=True, eq=False, repr=False)
class RobustnessComparison(ResultViews):
    """Comparisons of all test sets with a reference; iterate over it to get one per test set.

    Parameters
    ----------
    accuracies : AccuracyMatrix
        Accuracies of models on test sets.
    reference : str
        Test set that the others are compared with.
    scale : {"plain", "logit", "probit"}
        Scale on which Pearson's r and the lines are computed.
    comparisons : tuple of ReferenceComparison
        One comparison per test set, in the order of the table.
    """

    renderer: ClassVar[str] = "oodometer.studies.report.robustness_views"

    accuracies: AccuracyMatrix
    reference: str
    scale: AccuracyScale
    comparisons: tuple[ReferenceComparison, ...]

    def __iter__(self) -> Iterator[ReferenceComparison]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def __getitem__(self, test_set: str) -> ReferenceComparison:
        for comparison in self.comparisons:
            if comparison.name == test_set:
                return comparison
        raise UnknownName("test set", test_set, [each.name for each in self.comparisons])

    def key_values(self) -> dict[str, Any]:
        return {
            "reference": self.reference,
            "test_sets": len(self.comparisons),
            "models": len(self.accuracies.models),
            "scale": self.scale,
        }

    def tables(self) -> dict[str, TableRows]:
        """Return the tables `test_sets` and `models`; accuracies are fractions."""
        return {
            "test_sets": [_comparison_row(each) for each in self.comparisons],
            "models": list(self._model_rows()),
        }

    def _model_rows(self) -> Iterator[dict[str, Any]]:
        """Yield one row per model and test set with known accuracies."""
        wide = self.accuracies
        robustness = effective_robustness(wide, self.reference, scale=self.scale)
        reference = wide.accuracy_on(self.reference)
        for each in self.comparisons:
            column = wide.column_index(each.name)
            for row in np.flatnonzero(~np.isnan(wide.accuracy[:, column] + reference)):
                yield {
                    "model": wide.models[row],
                    "test_set": each.name,
                    "reference_accuracy": float(reference[row]),
                    "accuracy": float(wide.accuracy[row, column]),
                    "effective_robustness": number_or_none(robustness[row, column]),
                }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "reference": self.reference,
            "models": len(self.accuracies.models),
            "sets": [comparison.to_dict() for comparison in self.comparisons],
        }


def _comparison_row(comparison: ReferenceComparison) -> dict[str, Any]:
    fit = comparison.fit
    return {
        "test_set": comparison.name,
        "models": comparison.models,
        "spearman": comparison.spearman,
        "pearson": comparison.pearson,
        "reference_accuracy": comparison.gap.id,
        "accuracy": comparison.gap.ood,
        "relative_drop": comparison.gap.value,
        "pattern": comparison.pattern.name,
        "slope": None if fit is None else fit.line.slope,
        "residual_sd": None if fit is None else fit.residual_sd,
        "most_robust": None if fit is None else fit.most_robust,
        "effective_robustness": None if fit is None else fit.most,
    }


def compare_with_reference(
    table: Any, reference: str, *, scale: AccuracyScale = "plain"
) -> RobustnessComparison:
    """Compare every test set of a table of accuracies with a reference test set.

    Parameters
    ----------
    table : path, data frame, mapping of columns, or AccuracyMatrix
        Accuracies with one row per model and one column per test set, in percent or as fractions,
        and a column `model`.
    reference : str
        Column of the test set that the others are compared with.
    scale : {"plain", "logit", "probit"}
        Scale on which Pearson's r and the lines are computed.

    Returns
    -------
    RobustnessComparison
        Rank correlation, drop of accuracy, pattern, line and effective robustness per test set.

    Raises
    ------
    InputError
        If the table cannot be read, or has no other test set.
    UnknownName
        If there is no such test set or scale.

    Examples
    --------
    >>> table = {"model": ["a", "b", "c"], "val": [0.9, 0.8, 0.7], "new": [0.6, 0.5, 0.4]}
    >>> comparison = compare_with_reference(table, "val")
    >>> comparison
    RobustnessComparison(reference='val', test_sets=1, models=3, scale='plain')
    >>> round(comparison["new"].spearman, 3), round(comparison["new"].fit.line.slope, 3)
    (1.0, 1.0)
    """
    _check_scale(scale)
    wide = table if isinstance(table, AccuracyMatrix) else AccuracyMatrix.read(table)
    return RobustnessComparison(wide, reference, scale, _compare_columns(wide, reference, scale))


def _compare_columns(
    wide: AccuracyMatrix, reference: str, scale: AccuracyScale
) -> tuple[ReferenceComparison, ...]:
    column = wide.column_index(reference)
    others = [j for j in range(len(wide.test_sets)) if j != column]
    if not others:
        raise InputError(
            f"{reference!r} is the only test set; there is nothing to compare it with. Add columns "
            "of accuracies on other test sets."
        )
    x = wide.accuracy[:, column]
    ranks = pairwise_correlations(x[:, None], wide.accuracy[:, others])
    scaled = to_scale(wide.accuracy, scale)
    pearson = pairwise_correlations(scaled[:, [column]], scaled[:, others], kind="pearson").values[
        0
    ]
    robustness = effective_robustness(wide, reference, scale=scale)
    comparisons = []
    for k, j in enumerate(others):
        line = _fit_line(scaled[:, column], scaled[:, j])
        comparisons.append(
            ReferenceComparison(
                name=wide.test_sets[j],
                models=int(ranks.n_rows[0, k]),
                spearman=number_or_none(ranks.values[0, k]),
                pearson=number_or_none(pearson[k]),
                gap=_common_gap(x, wide.accuracy[:, j]),
                pattern=pattern_from_accuracies(x, wide.accuracy[:, j]),
                fit=_robustness_fit(wide, line, robustness[:, j], pearson[k]),
            )
        )
    return tuple(comparisons)


def effective_robustness(
    wide: AccuracyMatrix, reference: str, *, scale: AccuracyScale = "plain"
) -> Floats:
    """Return accuracy minus the line's prediction, shape (models, test sets); NaN if undefined.

    >>> wide = AccuracyMatrix.read(
    ...     {"model": ["a", "b", "c"], "val": [0.25, 0.5, 0.75], "new": [0.0, 0.75, 0.0]})
    >>> effective_robustness(wide, "val").round(6)[:, 1].tolist()
    [-0.25, 0.5, -0.25]
    """
    _check_scale(scale)
    scaled = to_scale(wide.accuracy, scale)
    x = scaled[:, wide.column_index(reference)]
    robustness: Floats = np.full(wide.accuracy.shape, np.nan)
    for j in range(len(wide.test_sets)):
        line = _fit_line(x, scaled[:, j])
        if line is not None:
            known = ~(np.isnan(x) | np.isnan(scaled[:, j]))
            predicted = from_scale(line.slope * x[known] + line.intercept, scale)
            robustness[known, j] = wide.accuracy[known, j] - predicted
    return robustness


def correlate_test_sets(
    wide: AccuracyMatrix, *, kind: CorrelationKind = "spearman", scale: AccuracyScale = "plain"
) -> PairwiseCorrelations:
    """Correlate every pair of test sets over the models that have both accuracies."""
    return pairwise_correlations(to_scale(wide.accuracy, scale), kind=kind)


def correlate_groups(
    wide: AccuracyMatrix,
    *,
    groups: Mapping[str, str] | None = None,
    kind: CorrelationKind = "spearman",
) -> AveragedCorrelationMatrix:
    """Correlate groups of test sets with each other.

    The correlation of two groups is the mean over all pairs of different test sets, one from each
    group. `groups` maps test sets to groups. By default, test sets with the same text before the
    first dot (imagenet-c.fog.1, imagenet-c.fog.2) form a group. The correlation of a group of one
    test set with itself is 1.
    """
    names = shared_prefixes(wide.test_sets) if groups is None else groups
    for name in names:
        wide.column_index(name)
    labels = [names.get(name, name) for name in wide.test_sets]
    distinct = tuple(dict.fromkeys(labels))
    masks = [np.array([group == label for group in labels]) for label in distinct]
    pairwise = correlate_test_sets(wide, kind=kind)
    cells = [[_average_groups(pairwise, row, column) for column in masks] for row in masks]
    values, sd, pairs, left_out, models = np.moveaxis(np.array(cells), 2, 0)
    counts: list[Ints] = [part.astype(np.int64) for part in (pairs, left_out, models)]
    return AveragedCorrelationMatrix("test sets", kind, distinct, distinct, values, sd, *counts)


def shared_prefixes(test_sets: tuple[str, ...]) -> dict[str, str]:
    """Map each test set to the prefix of its name (before the first dot) if another one shares it.

    >>> shared_prefixes(("c.fog.1", "c.fog.2", "v2-0.7"))
    {'c.fog.1': 'c', 'c.fog.2': 'c'}
    """
    prefixes = [name.partition(".")[0] if "." in name else None for name in test_sets]
    return {
        name: prefix
        for name, prefix in zip(test_sets, prefixes, strict=True)
        if prefix is not None and prefixes.count(prefix) > 1
    }


def to_scale(accuracy: Floats, scale: AccuracyScale) -> Floats:
    """Transform accuracies to a scale; 0 and 1 have no logit or probit and become NaN.

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
    """Transform values on a scale back to accuracies."""
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
    pairwise: PairwiseCorrelations, first: Bools, second: Bools
) -> tuple[float, float, int, int, int]:
    """Return mean, sd, number of pairs with and without a coefficient, and number of models."""
    cells = np.outer(first, second)
    if first is second and first.sum() > 1:
        cells &= np.tri(len(cells), k=-1, dtype=np.bool_)
    known = cells & ~np.isnan(pairwise.values)
    values, count = pairwise.values[known], int(known.sum())
    mean = float(values.mean()) if count else np.nan
    sd = float(values.std(ddof=1)) if count > 1 else np.nan
    return mean, sd, count, int(cells.sum()) - count, int(pairwise.n_rows[known].sum())
