"""Accuracy by segment of the target, such that the segments add up to the headline.

Each row has a probability g that the model is correct on it: the calibrated probability of the
predicted class. The estimate of a segment is the mean of g over its rows, plus the mean residual
(correct − g) of the source rows of the same segment, shrunk towards 0 by empirical Bayes if these
rows are few. Finally, the log-odds of all segments are shifted by one constant, so that their mean,
weighted by rows, equals the headline.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oodometer.assessment.bootstrap import LearnedSource, count_rarer, stabilize_variance
from oodometer.assessment.conformal_interval import History
from oodometer.assessment.diagnostics import DiagnosticContext, class_shift, score_distance
from oodometer.assessment.ppi import MIN_LABELS, BinnedAccuracy, UnlabelledMoments, ppi_estimate
from oodometer.assessment.result import Segment
from oodometer.core import frames, validation
from oodometer.core.array_types import Array, Bools, Floats
from oodometer.core.calibration import Calibration
from oodometer.core.errors import InputError, NotApplicable, UnknownName, out_of_range
from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate, worst_status
from oodometer.core.stats import accuracy_interval, rng_for

METHOD = "segment"
ASSUMES = "the accuracy given the confidence is the same as on the source, within each segment"
ASSUMES_WITHOUT_SOURCE = "the accuracy given the confidence is the same as on the whole source"
MAX_SHIFT_STEPS = 200
# Units of numpy for the periods of `--period`; a week is counted from its Monday.
PERIOD_UNITS = {"hour": "h", "day": "D", "week": "W", "month": "M"}


def segment_values(values: Array) -> Array:
    """Return sortable values: keep numbers, convert times to days and all other values to text."""
    if values.dtype.kind == "M":
        return values.astype("datetime64[D]")
    return values if values.dtype.kind in "iuf" else values.astype(str)


def as_segments(values: Any, n: int, argument: str) -> Array | None:
    """Return the segment of each of n rows from the argument `segment_by`; None if it is None.

    The argument is one value per row, an array of shape (n, m), a mapping or a data frame with m
    columns. Several columns are combined.

    >>> as_segments({"site": ["a", "b"], "sex": ["f", "f"]}, 2, "values").tolist()
    ['a, f', 'b, f']
    """
    if values is None:
        return None
    columns: Sequence[Any]
    if isinstance(values, Mapping):
        columns = list(values.values())
    elif hasattr(values, "columns") or hasattr(values, "column_names"):
        table = frames.drop_pandas_index(frames.as_table(values))
        columns = [frames.read_column(table, name) for name in table.column_names]
    else:
        array = np.asarray(values)
        columns = [values] if array.ndim != 2 else list(array.T)
    arrays = [validation.validate_row_values(column, n, argument) for column in columns]
    if not arrays:
        raise InputError(f"{argument} have no columns; expected at least one.")
    return combine_segments([array for array in arrays if array is not None])


def combine_segments(columns: Sequence[Array]) -> Array:
    """Return one column unchanged; combine the values of several columns to text.

    >>> combine_segments([np.array(["x", "x, y"]), np.array([3, 4])]).tolist()
    ['x, 3', '"x, y", 4']
    """
    if len(columns) == 1:
        return columns[0]
    encoded = [np.unique(segment_values(column), return_inverse=True) for column in columns]
    names, index = combine_codes(encoded)
    return names[index]


def combine_codes(columns: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the distinct combinations of encoded columns as text, and each row's index among them.

    Each column is given by its distinct values and each row's index among these.
    """
    sizes = [len(values) for values, _ in columns]
    combined = np.ravel_multi_index([codes for _, codes in columns], sizes)
    distinct, index = np.unique(combined, return_inverse=True)
    parts = np.unravel_index(distinct, sizes)
    texts = [
        [_quoted(text) for text in values[part].astype(str).tolist()]
        for (values, _), part in zip(columns, parts, strict=True)
    ]
    return np.array([", ".join(row) for row in zip(*texts, strict=True)]), index


def _quoted(text: str) -> str:
    """Return a text in quotes if it contains a comma, so that combinations stay distinct."""
    return f'"{text}"' if "," in text else text


def time_periods(values: Array, period: str) -> Array:
    """Return the period of each time as text that sorts by time; a week is its Monday.

    Parameters
    ----------
    values : array of shape (n,)
        Times, dates, or text such as "2026-03-01 05:30".
    period : {"hour", "day", "week", "month"}
        Length of the periods.

    Returns
    -------
    array of str
        One period per row.

    Raises
    ------
    InputError
        If the period is unknown, or a value is not a time.

    Examples
    --------
    >>> times = np.array(["2026-03-01T05:30", "2026-03-02T00:00"])
    >>> time_periods(times, "month").tolist(), time_periods(times, "week").tolist()
    (['2026-03', '2026-03'], ['2026-02-23', '2026-03-02'])
    """
    if period not in PERIOD_UNITS:
        raise UnknownName("period", period, PERIOD_UNITS)
    try:
        times = values.astype("datetime64[s]")
    except (ValueError, TypeError) as error:
        raise InputError(
            f"The times of the segments must be dates or times; got {values[:1].tolist()[0]!r}."
        ) from error
    if np.isnat(times).any():
        raise InputError(f"The time of row {int(np.isnat(times).argmax())} is missing.")
    if period == "week":
        days = times.astype("datetime64[D]")
        # Day 0, 1970-01-01, was a Thursday.
        return (days - (days.astype(np.int64) + 3) % 7).astype(str)
    return times.astype(f"datetime64[{PERIOD_UNITS[period]}]").astype(str)


def row_chunks(n: int, chunk_rows: int, times: Array | None = None) -> Array:
    """Return the chunk of each row: consecutive rows, in the order of `times` if they are given.

    >>> row_chunks(5, 2).tolist()
    ['0–1', '0–1', '2–3', '2–3', '4–4']
    """
    if chunk_rows < 1:
        raise out_of_range("chunk_rows", chunk_rows, low=1)
    order = np.arange(n) if times is None else np.argsort(times, kind="stable")
    width = len(str(n - 1))
    starts = range(0, n, chunk_rows)
    ends = [min(start + chunk_rows, n) for start in starts]
    names = [
        f"{start:0{width}d}–{end - 1:0{width}d}" for start, end in zip(starts, ends, strict=True)
    ]
    chunks = np.empty(n, dtype=f"<U{2 * width + 1}")
    chunks[order] = np.repeat(names, np.subtract(ends, starts))
    return chunks


@dataclass(frozen=True, eq=False)
class RowCorrectness:
    """Probability that the model is correct on each row, learned from the source.

    It is the calibrated probability of the predicted class. Without class probabilities, it is the
    source accuracy in the row's confidence bin or, with classes only, of the predicted class.
    """

    calibration: Calibration
    binned: BinnedAccuracy | None
    by_class: Floats | None

    @classmethod
    def fit(cls, learned: LearnedSource) -> RowCorrectness:
        """Fit the probabilities to the source."""
        source = learned.predictions
        binned = by_class = None
        if source.score_type == "signals":
            binned = BinnedAccuracy.fit(source)
        elif not source.has_probs:
            counts = np.bincount(source.classes, minlength=source.k)
            n_correct = np.bincount(source.classes, source.correct, source.k)
            by_class = (n_correct + source.correct.mean()) / (counts + 1)
        return cls(learned.calibration.without_source(), binned, by_class)

    def __call__(self, rows: Predictions) -> Floats:
        """Return the probability of each row."""
        if self.binned is not None:
            return self.binned(rows.confidence)
        if self.by_class is not None:
            return np.asarray(self.by_class[rows.classes])
        return self.calibration(rows).confidence.astype(np.float64)


def segment_sums(correctness: Floats) -> Floats:
    """Return the number of rows, Σg and Σg(1 − g), which add up over batches."""
    return np.array([len(correctness), correctness.sum(), (correctness * (1 - correctness)).sum()])


def group_rows(values: Array) -> Iterator[tuple[str, Array]]:
    """Yield the name of each distinct value, in order, and the numbers of its rows."""
    distinct, inverse = np.unique(segment_values(values), return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.searchsorted(inverse[order], np.arange(len(distinct) + 1))
    for j, name in enumerate(distinct.astype(str).tolist()):
        yield name, order[ends[j] : ends[j + 1]]


@dataclass(frozen=True)
class SourceSegment:
    """Source rows of one segment: their number, accuracy and mean residual (correct − g)."""

    n: int
    accuracy: float
    residual: float


@dataclass(frozen=True, eq=False)
class SourceSegments:
    """What the source tells about each segment.

    `residual_variance` is the variance of correct − g within segments, and `between` the variance
    of the segments' mean residuals beyond sampling error. `between_error` is the standard error of
    `between`; with few segments, it is large.
    """

    segments: Mapping[str, SourceSegment]
    residual_variance: float
    between: float
    between_error: float
    n: int

    @classmethod
    def fit(cls, learned: LearnedSource, values: Array | None) -> SourceSegments:
        """Compute the statistics; `values` has one value per source row, or is None."""
        source = learned.calibration.source
        has_probs = source.has_probs
        if not has_probs:
            source = learned.predictions
        expected = (
            source.confidence.astype(np.float64)
            if has_probs
            else RowCorrectness.fit(learned)(source)
        )
        residuals = source.correct - expected
        variance = float(residuals.var())
        if values is None:
            return cls({}, variance, 0.0, 0.0, source.n)
        if len(values) != source.n:  # the calibration was fitted to every j-th row
            values = values[:: -(-len(values) // source.n)]
        segments = {
            name: SourceSegment(
                len(rows), float(source.correct[rows].mean()), float(residuals[rows].mean())
            )
            for name, rows in group_rows(values)
        }
        between, error = _between_variance(segments, variance)
        return cls(segments, variance, between, error, source.n)

    def correction(self, name: str) -> tuple[float, float]:
        """Return the shrunken mean residual of a segment, and its variance.

        The variance between segments may be larger than estimated, by its standard error.
        """
        segment = self.segments.get(name)
        largest = self.between + self.between_error
        if segment is None:
            return 0.0, largest + self.residual_variance / self.n
        sampling = self.residual_variance / segment.n
        weight = self.between / (self.between + sampling) if self.between else 0.0
        variance = largest * sampling / (largest + sampling) if largest else 0.0
        return weight * segment.residual, variance + self.residual_variance / self.n


def _between_variance(
    segments: Mapping[str, SourceSegment], variance: float
) -> tuple[float, float]:
    """Return the variance between segments and its standard error if it is 0.

    The method is that of DerSimonian & Laird (1986).
    """
    if len(segments) < 2 or not variance:
        return 0.0, 0.0
    weights = np.array([segment.n for segment in segments.values()]) / variance
    residuals = np.array([segment.residual for segment in segments.values()])
    mean = (weights * residuals).sum() / weights.sum()
    excess = (weights * (residuals - mean) ** 2).sum() - (len(weights) - 1)
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    error = math.sqrt(2 * (len(weights) - 1)) / scale
    return float(max(excess / scale, 0.0)), float(error)


@dataclass(frozen=True, eq=False)
class SegmentModel:
    """What the estimates of segments need from the source: g, statistics, and rows by segment."""

    correctness: RowCorrectness
    source: SourceSegments
    source_rows: Mapping[str, Array]

    @classmethod
    def fit(cls, learned: LearnedSource, values: Array | None) -> SegmentModel:
        """Fit to the source; `values` has one value per source row, or is None."""
        return cls(
            RowCorrectness.fit(learned),
            SourceSegments.fit(learned, values),
            {} if values is None else dict(group_rows(values)),
        )


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Labelled target rows: their segments, whether the model is correct, and g."""

    segments: Array
    correct: Bools
    correctness: Floats


def estimate_segments(
    sums: Mapping[str, Floats],
    headline: Estimate,
    learned: LearnedSource,
    source: SourceSegments,
    *,
    labelled: LabelledRows | None = None,
    history: History | None = None,
    seed: int = 0,
) -> tuple[Segment, ...]:
    """Return the estimates of all segments; their mean, weighted by rows, is the headline.

    `sums` has the sums of each segment by name, in the order of the segments.
    """
    names = list(sums)
    values = np.empty(len(names))
    variances = np.empty(len(names))
    by_labels: dict[int, Estimate] = {}
    for j, name in enumerate(names):
        n, expected, noise = sums[name]
        correction, variance = source.correction(name)
        values[j] = expected / n + correction
        variances[j] = variance + noise / n**2
        few_labels = _estimate_by_labels(name, sums[name], labelled, seed)
        if few_labels is not None:
            by_labels[j] = few_labels
            values[j] = few_labels.value
    counts = np.array([sums[name][0] for name in names])
    shifted = shift_to_mean(values, counts / counts.sum(), headline.value)
    segments = []
    for j, name in enumerate(names):
        estimate = _with_interval(
            float(shifted[j]), float(variances[j]), int(counts[j]), learned, by_labels.get(j)
        )
        known = source.segments.get(name)
        if j not in by_labels:
            assumes = ASSUMES if known is not None else ASSUMES_WITHOUT_SOURCE
            estimate = replace(
                estimate, assumes=assumes, calibration=learned.calibration.method, method=METHOD
            )
        segments.append(
            Segment(
                name,
                int(counts[j]),
                estimate,
                n_source=0 if known is None else known.n,
                source_accuracy=None if known is None else known.accuracy,
                shift=None if history is None else history.interval(estimate.value),
            )
        )
    return tuple(segments)


def _estimate_by_labels(
    name: str, sums: Floats, labelled: LabelledRows | None, seed: int
) -> Estimate | None:
    """Return the estimate of a segment by PPI++; None if it has too few labels."""
    if labelled is None:
        return None
    rows = labelled.segments == name
    if np.count_nonzero(rows) < MIN_LABELS:
        return None
    scores = labelled.correctness[rows]
    n, total, noise = sums
    # Σg² is Σg − Σg(1 − g).
    n_rest = int(n) - len(scores)
    rest = float(total - scores.sum())
    squares = float(total - noise - (scores**2).sum())
    spread = max(squares - rest**2 / max(n_rest, 1), 0.0) / max(n_rest - 1, 1)
    unlabelled = UnlabelledMoments(n_rest, rest / max(n_rest, 1), spread)
    rng = rng_for(seed, "few labels", "segment", name)
    return ppi_estimate(labelled.correct[rows], scores, unlabelled, rng=rng).estimate


def _with_interval(
    value: float, variance: float, n: int, learned: LearnedSource, by_labels: Estimate | None
) -> Estimate:
    """Return the estimate of a segment with its interval.

    The interval of an estimate from labels is moved together with its value.
    """
    if by_labels is not None and by_labels.low is not None and by_labels.high is not None:
        change = value - by_labels.value
        return replace(
            by_labels,
            value=value,
            low=max(by_labels.low + change, 0.0),
            high=min(by_labels.high + change, 1.0),
        )
    n_source = learned.predictions.n
    center = min(max(value, 0.5 / (n_source + 1)), 1 - 0.5 / (n_source + 1))
    n_rarer = count_rarer(learned.predictions)
    variance = stabilize_variance(variance, center, n_source, n_rarer, n)
    low, high = accuracy_interval(value, variance, center=center, n_source=n_source, n_target=n)
    return Estimate(value, low=low, high=high, temperature=learned.temperature)


def shift_to_mean(values: Floats, weights: Floats, mean: float) -> Floats:
    """Return values in [0, 1] whose log-odds are shifted so that their weighted mean is `mean`.

    >>> shift_to_mean(np.array([0.5, 0.9]), np.array([0.5, 0.5]), 0.6).round(3).tolist()
    [0.363, 0.837]
    """
    inner = np.clip(values, 1e-9, 1 - 1e-9)
    if not 0 < mean < 1:
        return np.full(len(values), mean)
    odds = np.log(inner) - np.log1p(-inner)
    low, high = -60.0, 60.0
    for _ in range(MAX_SHIFT_STEPS):
        middle = (low + high) / 2
        current = float(weights @ (1 / (1 + np.exp(-np.clip(odds + middle, -700, 700)))))
        if current < mean:
            low = middle
        else:
            high = middle
        if high - low < 1e-14 * max(1.0, math.fabs(middle)):
            break
    return np.asarray(1 / (1 + np.exp(-np.clip(odds + (low + high) / 2, -700, 700))))


def with_status(
    segments: tuple[Segment, ...],
    target: Predictions,
    values: Array,
    source: Predictions,
    source_rows: Mapping[str, Array],
) -> tuple[Segment, ...]:
    """Return the segments with a status: how far their scores and classes are from the source.

    A segment is compared with the source rows of the same segment, or with the whole source if it
    has none. `source_rows` has the row numbers by segment. `target` and `values` may be a sample of
    the target rows.
    """
    target_rows = dict(group_rows(values))
    result = []
    for segment in segments:
        rows = target_rows.get(segment.value)
        if rows is None:
            result.append(segment)
            continue
        known = source_rows.get(segment.value)
        context = DiagnosticContext(
            source if known is None else source.rows(known), target.rows(rows), (), None
        )
        diagnostics = []
        for diagnose in (score_distance, class_shift):
            try:
                diagnostics.append(diagnose(context))
            except NotApplicable:
                continue
        result.append(replace(segment, status=worst_status(diagnostics)))
    return tuple(result)
