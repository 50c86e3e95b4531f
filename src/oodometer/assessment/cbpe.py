"""Expected precision, recall, F1 and AUROC without labels (CBPE; Kivimäki et al., 2025).

If probabilities are calibrated, "row i has class c" is a Bernoulli variable with probability p_ic,
and counts over rows have a Poisson-binomial distribution. The expected number TP_c of true
positives is the sum of p_ic over the rows predicted as c. The expected number FN_c of false
negatives is the sum of p_ic over all other rows. A ratio of counts is estimated by the ratio of
their expectations. The ranking metrics, AUROC and average precision, rank rows by the uncalibrated
probability of the class and use p as fractional labels.

A calibration that is right on average can be wrong where it matters for a metric, such as on the few
rows that are predicted as a rare class. Therefore the source rows of each class are divided into
cells by decision and probability, and p is moved by the mean residual (label − p) of each cell,
shrunk to 0 by empirical Bayes if it is not larger than its standard error. Intervals combine two errors by the delta method:
the randomness of the target's labels, and the sampling error of the mean residuals of the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from oodometer.assessment.bootstrap import LearnedSource
from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.predictions import Predictions
from oodometer.core.stats import Z95

ASSUMES = "the probabilities, calibrated on the source, are calibrated on the target"
METRIC_NAMES = ("accuracy", "precision", "recall", "f1", "auroc", "average_precision")
ALL_SCOPE = "all"
MACRO_SCOPE = "macro"
NO_EXPECTED_ROWS = "no row is expected to have this class"
NO_PAIRS = "the class requires rows that may have it and rows that may not"
MAX_CELLS = 10
# Minimum Σp(1 − p) over the source rows of a cell, if a class has more than one cell per decision.
MIN_CELL_VARIANCE = 10.0
# With fewer selected source rows, residuals are computed from all source rows.
MIN_RESIDUAL_ROWS = 100
# Variance of the number of rows of a class in a cell is at least that of one row with p = ½.
MIN_COUNT_VARIANCE = 0.25
MAX_BISECTION_STEPS = 60
MAX_LOG_ODDS = 30.0


@dataclass(frozen=True)
class ExpectedMetric:
    """Expected value of a metric with its confidence interval.

    `scope` is the name of a class, "all" for all rows, or "macro" for the mean over classes. If the
    metric is not defined, the value is None and `reason` says why. `source_value` is the value on
    the source, computed from its labels; None if it is not defined there or there is no source.
    """

    metric: str
    scope: str
    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    source_value: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


def expected_metrics(
    target: Predictions,
    source: LearnedSource | None = None,
    *,
    metrics: Sequence[str] = METRIC_NAMES,
    classes: Sequence[int] | None = None,
    source_rows: Ints | None = None,
) -> tuple[ExpectedMetric, ...]:
    """Return the expected accuracy, all other metrics of each class, and their class means.

    The predicted classes are `target.classes`, so decisions are respected. The 95 % intervals are
    for the metric on the target rows. They reflect the randomness of the labels and, with a source,
    the sampling error of the calibration. The latter is a first-order (influence) formula: the mean
    residual of each cell of source rows has the variance of a mean of Bernoulli variables, and it
    contributes by the sum of the derivatives of the metric over the target rows of the cell. This
    holds for every method of calibration, and is conservative for methods with few parameters.

    Parameters
    ----------
    target : Predictions
        Target rows, divided by the temperature of the source.
    source : LearnedSource, optional
        Labelled source and its calibration. Without it, the probabilities of the target are used as
        they are.
    metrics : sequence of str
        Names of the metrics to compute.
    classes : sequence of int, optional
        Classes to compute metrics of; by default all classes and their mean.
    source_rows : array of int, optional
        Numbers of the source rows whose values are compared, such as those of a segment; by default
        all. Residuals are computed from these rows too if there are at least 100, else from all.

    Returns
    -------
    tuple of ExpectedMetric

    Raises
    ------
    NotApplicable
        If the target has no probabilities.

    Examples
    --------
    >>> rows = Predictions.from_probs([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    >>> results = expected_metrics(rows)
    >>> [round(result.value, 3) for result in results if result.scope in ("all", "0")]
    [0.7, 0.7, 0.824, 0.757, 0.813, 0.929]
    """
    if not target.has_probs:
        raise NotApplicable("expected metrics require probabilities")
    target_columns = _Columns.from_target(target, source)
    metric_source = None if source is None else _MetricSource.create(source, source_rows)
    numbers = range(target.k) if classes is None else classes
    names = target.class_names or tuple(str(j) for j in range(target.k))
    values: dict[str, list[_MetricValue]] = {name: [] for name in metrics}
    for number in (None, *numbers):
        scope = ALL_SCOPE if number is None else names[number]
        inputs = _ScopeInputs.create(target_columns.of_class(number), metric_source, number)
        for name in metrics:
            if (name == "accuracy") == (number is None):
                values[name].append(inputs.compute(name, scope))
    results: list[ExpectedMetric] = []
    for name, metric_values in values.items():
        results += [value.result for value in metric_values]
        if name != "accuracy" and classes is None:
            results.append(_macro(name, metric_values))
    return tuple(results)


@dataclass(frozen=True, eq=False)
class _Columns:
    """Uncalibrated and calibrated probabilities of all classes, predicted classes and labels."""

    raw: Floats
    calibrated: Floats
    classes: Ints
    labels: Ints | None = None

    @classmethod
    def from_target(cls, target: Predictions, source: LearnedSource | None) -> _Columns:
        rows = target if source is None else source.calibrated(target)
        return cls(target.at_temperature(1.0).probs, rows.probs, target.classes)

    @classmethod
    def from_source(cls, source: LearnedSource) -> _Columns:
        """Return the labelled source rows, calibrated by the same map as the target."""
        rows = source.predictions
        calibrated = source.calibrated(rows)
        return cls(rows.at_temperature(1.0).probs, calibrated.probs, rows.classes, rows.labels)

    def rows(self, index: Ints) -> _Columns:
        assert self.labels is not None
        return _Columns(
            self.raw[index], self.calibrated[index], self.classes[index], self.labels[index]
        )

    def of_class(self, number: int | None) -> _ClassRows:
        """Return the rows seen from one class or, with None, from the predicted class of each."""
        if number is not None:
            return _ClassRows(
                self.raw[:, number].astype(np.float64),
                self.calibrated[:, number].astype(np.float64),
                self.classes == number,
                None if self.labels is None else self.labels == number,
            )
        index = np.arange(len(self.classes))
        return _ClassRows(
            self.raw[index, self.classes].astype(np.float64),
            self.calibrated[index, self.classes].astype(np.float64),
            np.ones(len(index), dtype=bool),
            None if self.labels is None else self.labels == self.classes,
        )


@dataclass(frozen=True, eq=False)
class _ClassRows:
    """Rows seen from one class: score, probability, whether it is predicted, and if it is true."""

    score: Floats
    p: Floats
    predicted: Bools
    positive: Bools | None = None

    @cached_property
    def order(self) -> Ints:
        """Return the numbers of the rows by descending score."""
        return np.argsort(-self.score, kind="stable")

    @cached_property
    def ties(self) -> tuple[Ints, Ints]:
        """Return, by descending score, the first and end index of the equal scores of each row."""
        ordered = self.score[self.order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        sizes = np.diff(np.r_[starts, len(ordered)])
        return np.repeat(starts, sizes), np.repeat(starts + sizes, sizes)

    def unsort(self, values: Floats) -> Floats:
        """Return values that are sorted by descending score in the order of the rows."""
        result = np.empty(len(values))
        result[self.order] = values
        return result

    def label_variance(self, by_row: Floats) -> float:
        """Return the variance of a metric caused by the labels, from its derivatives in p."""
        return float((by_row**2 * self.p * (1 - self.p)).sum())


@dataclass(frozen=True, eq=False)
class _MetricSource:
    """Source rows whose values are compared, and source rows from which cells are computed.

    What is computed from all rows is cached, because it is used for every segment.
    """

    learned: LearnedSource
    compared: _Columns
    residuals: _Columns | None
    has_all_rows: bool

    @classmethod
    def create(cls, learned: LearnedSource, index: Ints | None) -> _MetricSource | None:
        """Select the source rows; return None if the source has no class labels."""
        source = learned.predictions
        if source.labels is None or not source.has_probs:
            return None
        key = ("metric columns", learned.calibration)
        columns = source.cached(key, lambda: _Columns.from_source(learned))
        if index is None:
            return cls(learned, columns, None, has_all_rows=True)
        compared = columns.rows(index)
        residuals = compared if len(index) >= MIN_RESIDUAL_ROWS else None
        return cls(learned, compared, residuals, has_all_rows=False)

    def value(self, name: str, number: int | None) -> float | None:
        """Return a metric on the source; None if it is not defined there."""
        if not self.has_all_rows:
            return self._compute(name, number)
        key = ("metric value", self.learned.calibration, name, number)
        return self.learned.predictions.cached(key, lambda: self._compute(name, number))

    def _compute(self, name: str, number: int | None) -> float | None:
        rows = self.compared.of_class(number)
        labels = np.asarray(rows.positive, dtype=np.float64)
        try:
            return _METRIC_FUNCTIONS[name](replace(rows, p=labels))[0]
        except NotApplicable:
            return None

    def cells(self, number: int | None) -> _Cells:
        """Return the cells of one class, or of the predicted class of each row."""
        if self.residuals is not None:
            return _Cells.fit(self.residuals.of_class(number))
        source, calibration = self.learned.predictions, self.learned.calibration
        columns = source.cached(
            ("metric columns", calibration), lambda: _Columns.from_source(self.learned)
        )
        return source.cached(
            ("metric cells", calibration, number), lambda: _Cells.fit(columns.of_class(number))
        )


@dataclass(frozen=True, eq=False)
class _ScopeInputs:
    """Target rows of one scope, and the source with its cells of this scope."""

    target: _ClassRows
    number: int | None
    source: _MetricSource | None = None
    cells: _Cells | None = None

    @classmethod
    def create(
        cls, target: _ClassRows, source: _MetricSource | None, number: int | None
    ) -> _ScopeInputs:
        if source is None:
            return cls(target, number)
        cells = source.cells(number)
        return cls(cells.correct(target), number, source, cells)

    def compute(self, name: str, scope: str) -> _MetricValue:
        """Return a metric of this scope, with its value on the source."""
        source_value = None if self.source is None else self.source.value(name, self.number)
        try:
            value, by_row = _METRIC_FUNCTIONS[name](self.target)
        except NotApplicable as error:
            reason = str(error)
            return _MetricValue(
                ExpectedMetric(name, scope, None, reason=reason, source_value=source_value), None
            )
        variance = self.target.label_variance(by_row)
        if self.cells is not None:
            variance += self.cells.calibration_variance(self.target, by_row)
        result = _with_interval(name, scope, value, variance**0.5, source_value=source_value)
        return _MetricValue(result, variance**0.5)


@dataclass(frozen=True)
class _MetricValue:
    """Metric with its standard deviation; None if the metric is not defined."""

    result: ExpectedMetric
    deviation: float | None


def _macro(metric: str, values: Sequence[_MetricValue]) -> ExpectedMetric:
    """Return the mean over the classes for which the metric is defined."""
    by_source = [v.result.source_value for v in values if v.result.source_value is not None]
    source_value = float(np.mean(by_source)) if by_source else None
    defined = [v.result.value for v in values if v.result.value is not None]
    if not defined:
        reason = "the metric is defined for no class"
        return ExpectedMetric(metric, MACRO_SCOPE, None, reason=reason, source_value=source_value)
    # The metrics of different classes are correlated. Full correlation is assumed, so the standard
    # deviations are averaged, which gives an upper bound.
    deviation = float(np.mean([v.deviation for v in values if v.deviation is not None]))
    n_undefined = len(values) - len(defined)
    return _with_interval(
        metric,
        MACRO_SCOPE,
        float(np.mean(defined)),
        deviation,
        reason=f"{n_undefined} classes without a value are left out" if n_undefined else "",
        source_value=source_value,
    )


def _with_interval(
    metric: str,
    scope: str,
    value: float,
    deviation: float,
    *,
    reason: str = "",
    source_value: float | None = None,
) -> ExpectedMetric:
    half = Z95 * deviation
    low, high = max(value - half, 0.0), min(value + half, 1.0)
    return ExpectedMetric(metric, scope, value, low, high, reason, source_value)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells of source rows by decision and score, with their mean residuals (label − p).

    `edges` has the inner edges of the cells of rows for which the class is not predicted, and of
    those for which it is. `shifts` has the change of the log-odds of p in each cell, `variances` the
    variance of the mean residual of each cell.
    """

    edges: tuple[Floats, Floats]
    shifts: Floats
    variances: Floats

    @classmethod
    def fit(cls, source: _ClassRows) -> _Cells:
        """Divide labelled rows into cells and compute what is left of their residuals."""
        edges = (_cell_edges(source, ~source.predicted), _cell_edges(source, source.predicted))
        n_cells = len(edges[0]) + len(edges[1]) + 2
        index = _cell_index(edges, source)
        assert source.positive is not None
        residual = source.positive - source.p
        counts = np.bincount(index, minlength=n_cells)
        expected = np.bincount(index, source.p * (1 - source.p), n_cells)
        observed = np.bincount(index, residual**2, n_cells)
        variance = np.maximum(expected, observed) + MIN_COUNT_VARIANCE
        sums = np.bincount(index, residual, n_cells)
        # Empirical Bayes: the variance of residuals beyond sampling error is sums² − variance.
        weights = np.maximum(1 - variance / np.maximum(sums**2, 1e-300), 0.0)
        shifts = np.zeros(n_cells)
        for cell in np.flatnonzero(weights):
            p = source.p[index == cell]
            shifts[cell] = _log_odds_shift(p, float(p.sum() + weights[cell] * sums[cell]))
        # A cell without source rows, because the class is never predicted, has unknown residuals.
        means = np.where(counts > 0, variance / np.maximum(counts, 1) ** 2, MIN_COUNT_VARIANCE)
        return cls(edges, shifts, means)

    def correct(self, rows: _ClassRows) -> _ClassRows:
        """Return the rows with the log-odds of p moved as on the source."""
        if not self.shifts.any():
            return rows
        shift = self.shifts[_cell_index(self.edges, rows)]
        moved = np.where(shift == 0, rows.p, _move_log_odds(rows.p, shift))
        return _ClassRows(rows.score, moved, rows.predicted, rows.positive)

    def calibration_variance(self, rows: _ClassRows, by_row: Floats) -> float:
        """Return the variance of a metric caused by the mean residuals of the cells."""
        influence = np.bincount(_cell_index(self.edges, rows), by_row, len(self.variances))
        return float((influence**2 * self.variances).sum())


def _cell_edges(source: _ClassRows, selected: Bools) -> Floats:
    """Return scores that divide the selected rows into cells of about equal Σp(1 − p).

    Rows with equal scores are in one cell, alone if they have the Σp(1 − p) of two cells.
    """
    scores, p = source.score[selected], source.p[selected]
    distinct, inverse = np.unique(scores, return_inverse=True)
    variance = np.bincount(inverse, p * (1 - p), len(distinct))
    n_cells = int(min(MAX_CELLS, variance.sum() / MIN_CELL_VARIANCE))
    if n_cells < 2:
        return np.empty(0)
    middle = np.cumsum(variance) - variance / 2
    cell = np.floor(middle * (n_cells / variance.sum()))
    return np.asarray(distinct[1:][cell[1:] > cell[:-1]])


def _cell_index(edges: tuple[Floats, Floats], rows: _ClassRows) -> Ints:
    """Return the cell of each row: first the cells without, then those with the prediction."""
    others = np.searchsorted(edges[0], rows.score, side="right")
    predicted = len(edges[0]) + 1 + np.searchsorted(edges[1], rows.score, side="right")
    return np.where(rows.predicted, predicted, others)


def _log_odds_shift(p: Floats, total: float) -> float:
    """Return the shift of the log-odds with which the probabilities have the sum `total`.

    >>> round(_log_odds_shift(np.array([0.5, 0.5]), 1.5), 6) == round(float(np.log(3)), 6)
    True
    """
    total = min(max(total, 0.25), len(p) - 0.25)
    low, high = -MAX_LOG_ODDS, MAX_LOG_ODDS
    for _ in range(MAX_BISECTION_STEPS):
        middle = (low + high) / 2
        if _move_log_odds(p, middle).sum() < total:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _move_log_odds(p: Floats, shift: float | Floats) -> Floats:
    """Return probabilities whose odds are multiplied by exp(shift)."""
    odds = p * np.exp(shift)
    return np.asarray(odds / (1 - p + odds))


# Each of the following functions returns the value of a metric, and its derivative by the
# probability of each row. With labels as probabilities, the value is the usual metric.


def _precision(rows: _ClassRows) -> tuple[float, Floats]:
    n_predicted = int(np.count_nonzero(rows.predicted))
    if not n_predicted:
        raise NotApplicable("this class is predicted for no row")
    return float(rows.p[rows.predicted].sum() / n_predicted), rows.predicted / n_predicted


def _recall(rows: _ClassRows) -> tuple[float, Floats]:
    true_positives, total = float(rows.p[rows.predicted].sum()), float(rows.p.sum())
    if not total:
        raise NotApplicable(NO_EXPECTED_ROWS)
    value = true_positives / total
    return value, (rows.predicted - value) / total


def _f1(rows: _ClassRows) -> tuple[float, Floats]:
    """Compute 2 TP / (predicted rows + TP + FN)."""
    total = float(np.count_nonzero(rows.predicted) + rows.p.sum())
    if not total:
        raise NotApplicable("no row is predicted or expected to have this class")
    value = float(2 * rows.p[rows.predicted].sum() / total)
    return value, (2.0 * rows.predicted - value) / total


def _auroc(rows: _ClassRows) -> tuple[float, Floats]:
    """Compute the probability that a row of the class ranks above another row; ties count ½."""
    p, (first, end) = rows.p[rows.order], rows.ties
    positive, negative = p.sum(), (1 - p).sum()
    if len(p) < 2 or not positive or not negative:
        raise NotApplicable(NO_PAIRS)
    up_to = np.r_[0.0, np.cumsum(p)]
    # A row is not paired with itself, so p is subtracted.
    above = (up_to[first] + up_to[end] - p) / 2
    total = len(p) - (first + end) / 2
    below = total - (positive - (up_to[first] + up_to[end]) / 2) - (1 - p) / 2
    pairs = positive * negative - (p * (1 - p)).sum()
    if pairs <= 0:
        raise NotApplicable(NO_PAIRS)
    value = float((p * below).sum() / pairs)
    by_row = (below - above - value * ((negative - (1 - p)) - (positive - p))) / pairs
    return value, rows.unsort(by_row)


def _average_precision(rows: _ClassRows) -> tuple[float, Floats]:
    """Compute the mean precision at the rank of each row of the class."""
    p, (first, end) = rows.p[rows.order], rows.ties
    positive = p.sum()
    if not positive:
        raise NotApplicable(NO_EXPECTED_ROWS)
    up_to = np.cumsum(p)
    precision = (1 + up_to[end - 1] - p) / end
    value = float((p * precision).sum() / positive)
    later = np.r_[np.cumsum((p / end)[::-1])[::-1], 0.0]
    by_row = (precision + later[first] - p / end - value) / positive
    return value, rows.unsort(by_row)


# The accuracy is the precision of rows that are all predicted.
_METRIC_FUNCTIONS: dict[str, Callable[[_ClassRows], tuple[float, Floats]]] = {
    "accuracy": _precision,
    "precision": _precision,
    "recall": _recall,
    "f1": _f1,
    "auroc": _auroc,
    "average_precision": _average_precision,
}
