"""Mergeable sums of each estimator, and a row sample, collected in one pass over target data.

Each partition of the files gives a partial result. Partial results can be merged, so any worker can
read any partition. A softmax kernel validates the scores and computes the confidence, the class and
the entropy of each row in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from oodometer.assessment.ppi import BinnedAccuracy, row_confidence
from oodometer.assessment.segments import (
    RowCorrectness,
    combine_codes,
    segment_values,
    time_periods,
)
from oodometer.core import frames, softmax_kernels, validation
from oodometer.core.array_types import Array, Floats, Ints, ScoreType
from oodometer.core.calibration import Calibration
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.labels import validate_class_names
from oodometer.core.predictions import Predictions, RowStatistics
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.softmax_kernels import MIN_PROBABILITY
from oodometer.data.batch_reader import (
    FilePartition,
    error_context,
    read_labels,
    read_tables,
)
from oodometer.data.bottom_k import BottomKSample, BottomKSampler, row_priorities
from oodometer.data.prediction_files import ScoreSchema

# A segment column with more distinct values is rejected, because the sums would not fit into
# memory.
MAX_SEGMENTS = 10_000


@dataclass(frozen=True)
class FittedEstimator:
    """Streaming estimator with the state that it learned from the source, to send to workers."""

    estimator: StreamingEstimator[Any, Any]
    learned_state: Any
    calibration: Calibration | None = None

    def summarize(self, rows: Predictions) -> Any:
        """Return the sums over a batch of target rows, which are calibrated first if necessary."""
        if self.calibration is not None and self.estimator.reads_probabilities:
            calibration = self.calibration
            rows = rows.cached("calibrated", lambda: calibration(rows))
        return self.estimator.summarize(self.learned_state, rows)


@dataclass
class PartialResult:
    """Result of a pass over some rows: the number of rows, sums by method, and samples.

    `totals` has the sums of each method, and `skipped` the reason for each method that is not
    applicable. `segments` has the sums of `segment_sums` for each segment value, and `bin_counts`
    has the number of rows per confidence bin.
    """

    n: int = 0
    totals: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    segments: dict[Any, Floats] = field(default_factory=dict)
    bin_counts: Any = 0
    n_unlabelled: int = 0
    sample: BottomKSample | None = None
    labelled_sample: BottomKSample | None = None

    def merge(self, other: PartialResult) -> None:
        """Add the sums over other rows. Samples are not merged here, but by `BottomKSampler`."""
        self.n += other.n
        self.n_unlabelled += other.n_unlabelled
        self.bin_counts = self.bin_counts + other.bin_counts
        self.skipped.update(other.skipped)
        for name, total in other.totals.items():
            self.add_total(name, total)
        for value, sums in other.segments.items():
            self.add_segment(value, sums)

    def add_total(self, name: str, total: Any) -> None:
        self.totals[name] = self.totals[name] + total if name in self.totals else total

    def add_segment(self, value: Any, sums: Floats) -> None:
        self.segments[value] = self.segments[value] + sums if value in self.segments else sums


@dataclass(frozen=True, kw_only=True)
class ScanPlan:
    """Callable that computes the partial result of one target partition; it can be pickled.

    Parameters
    ----------
    schema : ScoreSchema
        Columns to read.
    batch_size : int
        Maximum number of rows per batch.
    temperature : float
        Temperature that divides the logits.
    zero_replacement : float, optional
        Value that replaces probabilities of exactly 0.
    sum_tolerance : float
        Largest accepted difference between the sum of a row of probabilities and 1.
    thresholds : tuple of float, optional
        Decision thresholds; see `Predictions.decide`.
    estimators : tuple of FittedEstimator
        Estimators whose sums over all rows are computed.
    row_correctness : RowCorrectness, optional
        Probability that the model is correct on a row, which is summed over each segment.
    binned_accuracy : BinnedAccuracy
        Confidence bins. If the target has a label column, the rows in each bin are counted.
    seed : int
        Seed of the row priorities.
    sample_size, max_labels : int
        Maximum number of sampled rows, and maximum number of sampled labelled rows.
    priority_bound : int
        Upper bound of the priorities of the final sample. Rows with this priority or a higher one
        are not collected.
    """

    schema: ScoreSchema
    batch_size: int
    temperature: float
    estimators: tuple[FittedEstimator, ...]
    seed: int
    sample_size: int
    priority_bound: int
    max_labels: int
    binned_accuracy: BinnedAccuracy
    row_correctness: RowCorrectness | None = None
    zero_replacement: float | None = None
    sum_tolerance: float = validation.SUM_TOLERANCE
    thresholds: tuple[float, ...] | None = None

    def __call__(
        self, partition: FilePartition, report_rows: Callable[[int], None] | None = None
    ) -> PartialResult:
        """Return the result of one partition; pass the row count of each batch to `report_rows`."""
        result = PartialResult()
        sampler = BottomKSampler(self.sample_size, self.priority_bound)
        labelled_sampler = BottomKSampler(self.max_labels)
        buffer = self._allocate_score_buffer()
        for offset, table in read_tables(self.schema, partition, self.batch_size):
            with error_context(partition.path, partition.first_row_in_file + offset):
                rows = self._predictions(table, buffer)
                batch = _Batch(
                    table,
                    rows,
                    partition.first_position + offset,
                    self.schema,
                    self.seed,
                    self.row_correctness,
                )
                self._add_totals(result, batch)
                batch.update_sample(sampler)
                if self.schema.label_column is not None:
                    batch.update_labelled_sample(labelled_sampler)
            if report_rows is not None:
                report_rows(table.num_rows)
        result.sample = sampler.sample()
        result.labelled_sample = labelled_sampler.sample()
        return result

    def _predictions(self, table: Any, buffer: Array) -> Predictions:
        """Return the rows of a batch, divided by the temperature, with their decisions."""
        if self.schema.score_columns is None:
            return self.schema.read_classes(table)
        scores = self.schema.scores(table, buffer)
        rows = one_pass_predictions(
            scores,
            self.schema.score_columns.score_type,
            temperature=self.temperature,
            class_names=self.schema.class_names,
            zero_replacement=self.zero_replacement,
            sum_tolerance=self.sum_tolerance,
        )
        if self.schema.pred_column is not None:
            return rows.with_decisions(frames.read_column(table, self.schema.pred_column))
        if self.thresholds is not None:
            decided = rows.at_temperature(1.0).decide(self.thresholds)
            return rows.with_decisions(decided.classes)
        return rows

    def _allocate_score_buffer(self) -> Array:
        """Return a buffer for the scores of a batch, which is reused for every batch."""
        has_doubles = any(str(column_type) == "double" for _, column_type in self.schema.types)
        shape = len(self.schema.score_names), self.batch_size
        return np.empty(shape, dtype=np.float64 if has_doubles else np.float32)

    def _add_totals(self, result: PartialResult, batch: _Batch) -> None:
        rows = batch.rows
        result.n += rows.n
        for fitted in self.estimators:
            name = fitted.estimator.name
            if name in result.skipped:
                continue
            try:
                result.add_total(name, fitted.summarize(rows))
            except NotApplicable as reason:
                result.skipped[name] = str(reason)
        if self.schema.label_column is not None:
            result.bin_counts = result.bin_counts + self.binned_accuracy.bin_counts(
                row_confidence(rows)
            )
            result.n_unlabelled += rows.n - len(batch.labelled_rows)
        if self.row_correctness is not None and self.schema.segment_by:
            for value, sums in batch.segment_totals(self.row_correctness):
                result.add_segment(value, sums)
            _check_segment_count(len(result.segments), ", ".join(self.schema.segment_by))


@dataclass(frozen=True, eq=False)
class _Batch:
    """Consecutive target rows with their predictions.

    `first_position` is the position of the first row among all rows of the target.
    """

    table: Any
    rows: Predictions
    first_position: int
    schema: ScoreSchema
    seed: int
    row_correctness: RowCorrectness | None = None

    @cached_property
    def priorities(self) -> Ints:
        return row_priorities(self.seed, self.first_position, self.rows.n)

    @cached_property
    def labelled_rows(self) -> Ints:
        assert self.schema.label_column is not None
        return find_labelled_rows(self.table.column(self.schema.label_column))

    @cached_property
    def segments(self) -> tuple[Array, Ints]:
        """Return the sorted distinct segment values, and for each row the index of its value."""
        columns = [
            _encode_segments(self.table.column(name), name, self.schema.period)
            for name in self.schema.segment_by
        ]
        return columns[0] if len(columns) == 1 else combine_codes(columns)

    def update_sample(self, sampler: BottomKSampler) -> None:
        sampler.update(self.priorities, self._sample_rows)

    def update_labelled_sample(self, sampler: BottomKSampler) -> None:
        known = self.labelled_rows
        sampler.update(self.priorities[known], lambda index: self._sample_labels(known[index]))

    def _sample_rows(self, index: Ints) -> BottomKSample:
        columns: dict[str, Array] = {}
        if self.rows.scores is not None:
            columns["scores"] = self.rows.scores[index]
        if self.rows.has_decisions or self.rows.scores is None:
            columns["decisions"] = self.rows.classes[index]
        if self.schema.segment_by:
            values, codes = self.segments
            columns["by"] = values[codes[index]]
        return BottomKSample(self.first_position + index, self.priorities[index], columns)

    def _sample_labels(self, index: Ints) -> BottomKSample:
        assert self.schema.label_column is not None
        columns = {
            "labels": read_labels(self.table, self.schema.label_column, index),
            "classes": self.rows.classes[index],
            "confidence": row_confidence(self.rows)[index],
        }
        if self.row_correctness is not None:
            values, codes = self.segments
            columns["by"] = values[codes[index]].astype(str)
            columns["correctness"] = self.row_correctness(self.rows.rows(index))
        return BottomKSample(self.first_position + index, self.priorities[index], columns)

    def segment_totals(self, correctness: RowCorrectness) -> Iterator[tuple[Any, Floats]]:
        """Yield each segment value of the batch with the sums over the rows that have it."""
        values, codes = self.segments
        expected = correctness(self.rows)
        columns = (None, expected, expected * (1 - expected))
        sums = np.stack([np.bincount(codes, column, len(values)) for column in columns], axis=1)
        for value, row in zip(values.tolist(), sums, strict=True):
            if row[0]:
                yield value, row


def find_labelled_rows(labels: Any) -> Ints:
    """Return the numbers of the rows whose label is not null, NaN or blank text."""
    import pyarrow.compute as pc

    labels = labels.cast(frames.value_type(labels.type))
    category = frames.type_category(labels.type)
    blank = labels.is_null(nan_is_null=category == "number")
    if category == "text":
        blank = pc.or_kleene(blank, pc.equal(pc.utf8_trim_whitespace(labels), ""))
    return np.flatnonzero(~np.asarray(blank))


def _encode_segments(column: Any, name: str, period: str | None) -> tuple[Array, Ints]:
    """Return the sorted distinct values of an Arrow column, and each row's index among them.

    With a period, the values are times, and the distinct values are their periods.
    """
    import pyarrow as pa

    frames.check_no_nulls(column, name)
    coded = pa.concat_arrays(column.chunks) if column.num_chunks > 1 else column.chunk(0)
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    values = frames.read_column(pa.table({name: coded.dictionary}), name)
    if period is None:
        _check_segment_count(len(values), name)
        values = segment_values(values)
    else:
        values = time_periods(values, period)
    distinct, places = np.unique(values, return_inverse=True)
    return distinct, places[np.asarray(coded.indices)]


def _check_segment_count(count: int, segment_by: str) -> None:
    if count > MAX_SEGMENTS:
        raise InputError(
            f"The column {segment_by!r} has more than {MAX_SEGMENTS:,} values. Segment by a column "
            "with few values, such as a site or a day."
        )


# One-pass softmax kernel ------------------------------------------------------------------------


def one_pass_predictions(
    scores: Array,
    score_type: ScoreType,
    *,
    temperature: float = 1.0,
    class_names: tuple[str, ...] | None = None,
    zero_replacement: float | None = None,
    sum_tolerance: float = validation.SUM_TOLERANCE,
) -> Predictions:
    """Return unlabelled predictions whose confidence, class and entropy are already computed.

    `Predictions` computes each of the three statistics on demand. This function validates the
    scores and computes all three in one pass, which saves one logarithm and one exponential per
    score. It uses the same arithmetic operations as `Predictions`, so the statistics are equal to
    the last bit.

    Examples
    --------
    >>> rows = one_pass_predictions(np.array([[0.2, 0.5, 0.3]]), "probs")
    >>> rows.confidence, rows.classes, rows.negative_entropy.round(3)
    (array([0.5]), array([1], dtype=int32), array([-1.03]))
    """
    validation.validate_score_matrix(scores, score_type)
    n, k = scores.shape
    if score_type == "probs":
        scores = _clean_probs(scores, zero_replacement, sum_tolerance)
    if k == 2:
        # With two classes, one exponential per row is enough. The entropy is computed from the
        # confidence on demand.
        _validate_scores(scores, score_type)
        confidence, classes = softmax_kernels.confidence_and_class(scores, score_type, temperature)
        statistics = RowStatistics(confidence=confidence, classes=classes)
    else:
        statistics = _multiclass_statistics(scores, score_type, temperature)
    return Predictions(
        n=n,
        k=k,
        score_type=score_type,
        scores=scores,
        class_names=validate_class_names(class_names, k),
        temperature=float(temperature),
        precomputed=statistics,
    )


def _clean_probs(scores: Array, zero_replacement: float | None, tolerance: float) -> Array:
    """Return probabilities without zeros whose rows sum to 1; raise if they are invalid."""
    _, _, must_normalize = validation.validate_probs(
        scores, with_classes=False, tolerance=tolerance
    )
    if must_normalize:
        scores = validation.normalize_rows(scores)
    return (
        scores if zero_replacement is None else validation.replace_zeros(scores, zero_replacement)
    )


def _multiclass_statistics(
    scores: Array, score_type: ScoreType, temperature: float
) -> RowStatistics:
    n, _ = scores.shape
    dtype = softmax_kernels.work_dtype(scores)
    confidence: Floats = np.empty(n, dtype=dtype)
    negative_entropy: Floats = np.empty(n, dtype=dtype)
    classes: Ints = np.empty(n, dtype=np.int32)
    # Classes are often masked by setting their logits to the lowest finite number, which overflows
    # when it is divided by a low temperature.
    with np.errstate(invalid="ignore", over="ignore"):
        for rows, block, (logs, weights), axis in _iter_blocks(scores):
            best, classes[rows] = softmax_kernels.first_maximum(block, axis)
            lowest = float(block.min())
            if not _is_valid_block(block, axis, score_type, lowest, float(best.max())):
                _validate_scores(scores, score_type)
            if score_type == "probs" and temperature == 1.0:
                confidence[rows] = best
                _clipped_log(block, lowest, logs)
                negative_entropy[rows] = np.multiply(block, logs, out=logs).sum(axis=axis)
                continue
            if score_type == "probs":
                _clipped_log(block, lowest, logs)
                block = logs
                best = logs.max(axis=axis)
            np.subtract(block, best if axis == 0 else best[:, None], out=logs)
            np.multiply(logs, 1.0 / temperature, out=weights)
            np.exp(weights, out=weights)
            total = weights.sum(axis=axis)
            np.divide(1.0, total, out=confidence[rows])
            weights *= logs
            sums = weights.sum(axis=axis)
            negative_entropy[rows] = sums / (total * temperature) - np.log(total)
    np.minimum(negative_entropy, 0.0, out=negative_entropy)
    return RowStatistics(confidence=confidence, negative_entropy=negative_entropy, classes=classes)


def _clipped_log(block: Floats, lowest: float, out: Floats) -> None:
    """Write the logarithm of probabilities to `out`; raise them to `MIN_PROBABILITY` if lower."""
    if lowest < MIN_PROBABILITY:
        block = np.maximum(block, MIN_PROBABILITY, out=out)
    np.log(block, out=out)


def _iter_blocks(scores: Array) -> Iterator[tuple[slice, Floats, tuple[Floats, Floats], int]]:
    """Yield the rows of each block, its scores, two scratch arrays, and the axis of the classes.

    Do not overwrite the scores of a block: they are a view of `scores` if the dtype and the memory
    layout allow it.
    """
    n, k = scores.shape
    axis = 1 if k >= softmax_kernels.MIN_ROWWISE_CLASSES else 0
    oriented = scores if axis == 1 else scores.T
    dtype = softmax_kernels.work_dtype(scores)
    slices = list(softmax_kernels.row_blocks(n, k))
    max_rows = max((rows.stop - rows.start for rows in slices), default=0)
    shape = (max_rows, k) if axis == 1 else (k, max_rows)
    scratch = [np.empty(shape, dtype=dtype) for _ in range(2)]
    for rows in slices:
        block = oriented[rows] if axis == 1 else oriented[:, rows]
        if block.dtype != dtype or block.strides[1] != block.itemsize:
            block = np.ascontiguousarray(block, dtype=dtype)
        used = slice(0, rows.stop - rows.start)
        logs, weights = (array[used] if axis == 1 else array[:, used] for array in scratch)
        yield rows, block, (logs, weights), axis


def _is_valid_block(
    block: Floats, axis: int, score_type: ScoreType, lowest: float, highest: float
) -> bool:
    """Return whether all rows are valid; if not, `_validate_scores` reports the first error."""
    if score_type == "logits":
        return bool(np.isfinite(lowest) and np.isfinite(highest))
    excess = block.sum(axis=axis) - 1.0
    in_range = lowest >= -validation.RANGE_TOLERANCE and highest <= 1.0 + validation.RANGE_TOLERANCE
    return bool(
        in_range
        and excess.min() >= -validation.SUM_TOLERANCE
        and excess.max() <= validation.SUM_TOLERANCE
    )


def _validate_scores(scores: Array, score_type: ScoreType) -> None:
    """Raise the same errors as `Predictions`; omit warnings, which every batch would repeat."""
    if score_type == "probs":
        validation.validate_probs(scores, with_classes=False)
    else:
        validation.check_finite_logits(scores)
