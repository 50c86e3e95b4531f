"""One pass over the rows of a target: what every estimator sums up, a sample, and few labels.

A tally of some rows and one of others add up to that of both, so parts may be read by anyone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oodometer.assessment import _fused_softmax
from oodometer.assessment.ppi import BinnedAccuracy
from oodometer.core import frames
from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.segments import segment_values
from oodometer.data.batch_reader import (
    FilePartition,
    ScoreSchema,
    error_context,
    read_labels,
    read_tables,
)
from oodometer.data.bottom_k import BottomKSample, BottomKSampler, row_priorities

# A column with more values than this is no column of segments.
MAX_SEGMENTS = 10_000


@dataclass(frozen=True)
class FittedEstimator:
    """An estimator that sums up, with what it learned of the source."""

    estimator: StreamingEstimator[Any, Any]
    learned_state: Any


@dataclass
class SegmentTotal:
    """The rows of one value: how it is shown, how many they are, and what was summed of them.

    `reason` is why nothing could be summed.
    """

    name: str
    n: int
    total: Any
    reason: str = ""


@dataclass
class PartialResult:
    """What was found of some rows."""

    n: int = 0
    totals: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    segments: dict[Any, SegmentTotal] = field(default_factory=dict)
    bin_counts: Any = 0
    n_unlabelled: int = 0
    sample: BottomKSample | None = None
    labelled_sample: BottomKSample | None = None

    def merge(self, other: PartialResult) -> None:
        """The sums of other rows; samples are for who keeps them."""
        self.n += other.n
        self.n_unlabelled += other.n_unlabelled
        self.bin_counts = self.bin_counts + other.bin_counts
        self.skipped.update(other.skipped)
        for name, total in other.totals.items():
            self.totals[name] = self.totals[name] + total if name in self.totals else total
        for value, segment in other.segments.items():
            self.merge_segment(value, segment)

    def merge_segment(self, value: Any, other: SegmentTotal) -> None:
        """More rows of one value."""
        known = self.segments.get(value)
        if known is None:
            self.segments[value] = other
            return
        known.n += other.n
        known.reason = known.reason or other.reason
        if not known.reason:
            known.total = known.total + other.total


@dataclass(frozen=True)
class ScanPlan:
    """What is done with every part; it can be sent to workers.

    `segment_estimator` is the estimator of the segments. Of the sample `sample_size` rows are kept, of rows with
    labels `max_labels`; `priority_bound` is a priority that no row of the sample has. `binned_accuracy` are those of
    rows whose labels are few.
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
    segment_estimator: FittedEstimator | None = None

    def __call__(
        self, part: FilePartition, report_rows: Callable[[int], None] | None = None
    ) -> PartialResult:
        """The tally of a part; `report_rows` hears of rows as they are done."""
        found, sample, labelled = (
            PartialResult(),
            BottomKSampler(self.sample_size, self.priority_bound),
            BottomKSampler(self.max_labels),
        )
        room = self._allocate_score_buffer()
        for before, table in read_tables(self.schema, part, self.batch_size):
            with error_context(part.path, part.first_row_in_file + before):
                rows = self.predictions(table, room)
                batch = ScannedBatch(table, part.first_position + before, rows, self.seed)
                self._accumulate(found, batch)
                batch.update_samples(sample, labelled, self.schema)
            if report_rows is not None:
                report_rows(table.num_rows)
        found.sample, found.labelled_sample = sample.sample(), labelled.sample()
        return found

    def _allocate_score_buffer(self) -> Array:
        """Where the scores of one batch after another are laid."""
        wide = any(str(kind) == "double" for _, kind in self.schema.types)
        shape = len(self.schema.score_columns.columns), self.batch_size
        return np.empty(shape, dtype=np.float64 if wide else np.float32)

    def predictions(self, table: Any, out: Array | None = None) -> Predictions:
        """Rows of a table, checked; what is in `out` is theirs until it is used again."""
        return _fused_softmax.validated_predictions(
            self.schema.scores(table, out),
            self.schema.score_columns.score_type,
            temperature=self.temperature,
            class_names=self.schema.class_names,
        )

    def _accumulate(self, result: PartialResult, batch: ScannedBatch) -> None:
        rows = batch.predictions
        result.n += rows.n
        for one in self.estimators:
            if one.estimator.name not in result.skipped:
                _accumulate_estimator(result, one, rows)
        if self.schema.label_column is not None:
            result.bin_counts = result.bin_counts + self.binned_accuracy.bin_counts(rows.confidence)
            result.n_unlabelled += rows.n - len(batch.labelled_rows(self.schema.label_column))
        if self.segment_estimator is not None and self.schema.segment_by is not None:
            for value, segment in _segment_totals(
                self.segment_estimator, batch, self.schema.segment_by
            ):
                result.merge_segment(value, segment)
            check_segment_count(len(result.segments), self.schema.segment_by)


def _accumulate_estimator(
    result: PartialResult, fitted: FittedEstimator, rows: Predictions
) -> None:
    name = fitted.estimator.name
    try:
        total = fitted.estimator.summarize(fitted.learned_state, rows)
    except NotApplicable as reason:
        result.skipped[name] = str(reason)
        return
    result.totals[name] = result.totals[name] + total if name in result.totals else total


@dataclass(frozen=True, eq=False)
class ScannedBatch:
    """Some rows of a file, the place of the first one, and what the model said of them."""

    table: Any
    first_row: int
    predictions: Predictions
    seed: int

    def update_samples(
        self, sampler: BottomKSampler, labelled_sampler: BottomKSampler, schema: ScoreSchema
    ) -> None:
        """Offer the rows to the samples."""
        draws = row_priorities(self.seed, self.first_row, self.predictions.n)
        sampler.update(draws, lambda index: self._sample_rows(index, draws, schema.segment_by))
        if schema.label_column is not None:
            known, name = self.labelled_rows(schema.label_column), schema.label_column
            labelled_sampler.update(
                draws[known], lambda index: self._sample_labels(known[index], draws, name)
            )

    def _sample_rows(self, index: Ints, draws: Ints, segment_by: str | None) -> BottomKSample:
        assert self.predictions.scores is not None
        kept = {"scores": self.predictions.scores[index]}
        if segment_by is not None:
            known, codes = _encode_column(self.table, segment_by)
            kept["by"] = known[codes[index]]
        return BottomKSample(self.first_row + index, draws[index], kept)

    def _sample_labels(self, index: Ints, draws: Ints, name: str) -> BottomKSample:
        rows = self.predictions
        kept = {
            "labels": read_labels(self.table, name, index),
            "classes": rows.classes[index],
            "confidence": rows.confidence[index],
        }
        return BottomKSample(self.first_row + index, draws[index], kept)

    def labelled_rows(self, name: str) -> Ints:
        """The rows whose label was not left out."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self.table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        blank = column.is_null(nan_is_null=pa.types.is_floating(column.type))
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            blank = pc.or_kleene(blank, pc.equal(pc.utf8_trim_whitespace(column), ""))
        return np.flatnonzero(~np.asarray(blank))


def _encode_column(table: Any, segment_by: str) -> tuple[Array, Ints]:
    """The values of a column, each once and in order, and which of them every row has."""
    import pyarrow as pa

    column = table.column(segment_by)
    frames.check_no_nulls(column, segment_by)
    coded = pa.concat_arrays(column.chunks) if column.num_chunks > 1 else column.chunk(0)
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    check_segment_count(len(coded.dictionary), segment_by)
    values = segment_values(
        frames.read_column(pa.table({segment_by: coded.dictionary}), segment_by)
    )
    known, place = np.unique(values, return_inverse=True)
    return known, place[np.asarray(coded.indices)]


def _segment_totals(
    fitted: FittedEstimator, batch: ScannedBatch, segment_by: str
) -> Iterator[tuple[Any, SegmentTotal]]:
    """The rows of a batch, value by value."""
    values, codes = _encode_column(batch.table, segment_by)
    names = values.astype(str)
    order = np.argsort(codes.astype(np.uint16), kind="stable")  # of 16 bits: no comparisons
    ends = np.searchsorted(codes[order], np.arange(len(names) + 1))
    for j, value in enumerate(values.tolist()):
        rows = batch.predictions.rows(order[ends[j] : ends[j + 1]])
        if rows.n:
            yield value, _segment_total(fitted, str(names[j]), rows)


def _segment_total(fitted: FittedEstimator, name: str, rows: Predictions) -> SegmentTotal:
    try:
        return SegmentTotal(name, rows.n, fitted.estimator.summarize(fitted.learned_state, rows))
    except NotApplicable as reason:
        return SegmentTotal(name, rows.n, None, str(reason))


def check_segment_count(count: int, segment_by: str) -> None:
    """Refuse a column that is of no use for segments, and would take all memory."""
    if count > MAX_SEGMENTS:
        raise InputError(
            f"The column {segment_by!r} has more than {MAX_SEGMENTS:,} values. Segments are made of a "
            "column with few of them, such as a site or a day."
        )
