"""Sums and a sample of the rows of a batch, computed in one pass in bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.assessment.bootstrap import RowMoments
from oodometer.assessment.prediction_inputs import is_frame, open_target
from oodometer.assessment.segments import (
    as_segments,
    combine_segments,
    group_rows,
    time_periods,
)
from oodometer.core import frames
from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.data.batch_reader import (
    error_context,
    find_files,
    infer_schema,
    is_read_in_batches,
    make_partitions,
    read_tables,
    rows_per_batch,
)
from oodometer.data.bottom_k import BottomKSample, BottomKSampler, row_priorities
from oodometer.data.prediction_files import PredictionColumns, ScoreFile
from oodometer.monitor.learned_scores import LearnedScores

# Rows of each batch that are kept for labelling.
SAMPLE_ROWS = 200
MAX_SEGMENTS = 1000
ID_COLUMN = "id"


@dataclass(frozen=True, eq=False)
class RowChunk:
    """Consecutive rows of a batch, with the values of its segment columns and its time column."""

    rows: Predictions
    first_position: int = 0
    segments: Array | None = None
    times: Array | None = None


@dataclass(frozen=True, kw_only=True)
class BatchColumns:
    """Columns to read from the table of a batch."""

    predictions: PredictionColumns = field(default_factory=PredictionColumns)
    segment_by: tuple[str, ...] = ()
    time_column: str | None = None

    @property
    def others(self) -> tuple[str, ...]:
        times = () if self.time_column is None else (self.time_column,)
        return (*self.segment_by, *times)


def read_chunks(batch: Any, columns: BatchColumns, segments: Any = None) -> Iterator[RowChunk]:
    """Yield the rows of a batch: of large files in parts, otherwise all at once.

    `batch` is a path, a data frame, Predictions or an array of probabilities; `segments` has one value
    per row and replaces the columns of a table.
    """
    if isinstance(batch, str | Path) and is_read_in_batches(batch):
        if segments is not None:
            raise InputError("Name the segment column of a file that is read in batches.")
        yield from _read_parts(batch, columns)
        return
    if isinstance(batch, str | Path) or is_frame(batch):
        yield _whole_table(batch, columns, segments)
        return
    if columns.others and segments is None:
        raise InputError(
            f"The batch has no column {columns.others[0]!r}, because it is not a file or a data "
            "frame. Pass one value per row."
        )
    rows = open_target(batch).predictions
    yield RowChunk(rows, segments=as_segments(segments, rows.n, "values of segment_by"))


def _whole_table(batch: Any, columns: BatchColumns, segments: Any) -> RowChunk:
    is_path = isinstance(batch, str | Path)
    file = ScoreFile.open(batch) if is_path else ScoreFile.from_frame(batch, "batch")
    rows = file.predictions(columns.predictions, labelled=False)
    values = as_segments(segments, rows.n, "values of segment_by")
    if values is None and columns.segment_by:
        values = combine_segments([file.column(name) for name in columns.segment_by])
    times = None if columns.time_column is None else file.column(columns.time_column)
    return RowChunk(rows, segments=values, times=times)


def _read_parts(location: str | Path, columns: BatchColumns) -> Iterator[RowChunk]:
    files = find_files(location)
    schema = infer_schema(files, columns.predictions, labelled=False)
    if schema.score_columns is None:
        raise InputError("The batch has predicted classes but no scores, which the monitor needs.")
    ids = (ID_COLUMN,) if ID_COLUMN in schema.all_columns else ()
    others = tuple(dict.fromkeys((*columns.others, *ids)))
    schema = infer_schema(files, columns.predictions, labelled=False, segment_by=others)
    partitions, _ = make_partitions(files)
    n_classes = max(len(schema.columns), 2)
    for partition in partitions:
        for offset, table in read_tables(schema, partition, rows_per_batch(n_classes)):
            with error_context(partition.path, partition.first_row_in_file + offset):
                rows = schema.predictions(
                    schema.scores(table),
                    ids=frames.read_column(table, ID_COLUMN) if ids else None,
                    decisions=schema.read_decisions(table),
                )
                named = {name: frames.read_column(table, name) for name in columns.others}
            yield RowChunk(
                columns.predictions.decide(rows),
                partition.first_position + offset,
                combine_segments([named[name] for name in columns.segment_by])
                if columns.segment_by
                else None,
                None if columns.time_column is None else named[columns.time_column],
            )


@dataclass
class ScoreSums:
    """Number of rows, sum and sum of squares of the watched score."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, scores: Floats) -> None:
        self.n += len(scores)
        self.total += float(scores.sum())
        self.squares += float(np.dot(scores, scores))

    @property
    def mean(self) -> float:
        return self.total / self.n

    @property
    def variance(self) -> float:
        """Return the variance of the scores, with divisor n − 1."""
        if self.n < 2:
            return 0.0
        return max(self.squares - self.total**2 / self.n, 0.0) / (self.n - 1)


@dataclass(eq=False)
class BatchSums:
    """Collected sums and sample of a batch; `update` adds rows in their order.

    `expected`, `noise` and `products` are the sums of g, of g (1 − g) and of g times the score, where
    g is the source accuracy at the confidence of a row.
    """

    learned: LearnedScores
    scores: ScoreSums = field(default_factory=ScoreSums)
    expected: float = 0.0
    noise: float = 0.0
    products: float = 0.0
    totals: dict[str, Any] = field(default_factory=dict)
    segments: dict[str, ScoreSums] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sampler = BottomKSampler(SAMPLE_ROWS)
        self._digest = hashlib.blake2b(digest_size=16)

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return self.scores.n

    @property
    def content_hash(self) -> str:
        """Return the hash of the scores, decisions and ids of all rows."""
        return self._digest.hexdigest()

    @property
    def sample(self) -> BottomKSample:
        """Return the sampled rows: their scores, predicted classes, and ids if there are any."""
        sample = self._sampler.sample()
        assert sample is not None
        return sample

    @property
    def moments(self) -> RowMoments:
        """Return the means that the confidence interval of the estimate needs."""
        expected = self.expected / self.n
        covariance = self.products / self.n - self.scores.mean * expected
        return RowMoments(expected, self.noise / self.n, covariance)

    def update(self, raw: Predictions, positions: Ints, priorities: Ints, groups: Any) -> None:
        """Add rows at given positions of the file; `groups` has their segments, or is None."""
        rows = self.learned.prepare(raw)
        self._hash(raw)
        scores = self.learned.scores(rows)
        expected = self.learned.expected_correct(rows)
        self.scores.add(scores)
        self.expected += float(expected.sum())
        self.noise += float((expected * (1 - expected)).sum())
        self.products += float(np.dot(expected, scores))
        for name, fitted in self.learned.fitted.items():
            try:
                total = fitted.summarize(rows)
            except NotApplicable:
                continue
            self.totals[name] = self.totals[name] + total if name in self.totals else total
        if groups is not None:
            for name, index in group_rows(groups):
                self.segments.setdefault(name, ScoreSums()).add(scores[index])
            _check_segment_count(len(self.segments))
        columns = {"score": scores.astype(np.float32), "class": rows.classes.astype(np.int32)}
        if rows.ids is not None:
            columns["id"] = rows.ids.astype(str)
        self._sampler.merge(BottomKSample(positions, priorities, columns))

    def _hash(self, raw: Predictions) -> None:
        """Add the content of rows to the hash, which does not depend on the size of the chunks."""
        parts: list[Array] = [] if raw.scores is None else [raw.scores.astype(np.float64)]
        if raw.has_decisions:
            parts.append(raw.classes.astype(np.float64)[:, None])
        content = np.ascontiguousarray(np.hstack(parts))
        if raw.ids is None:
            self._digest.update(content.tobytes())
            return
        for row, name in zip(content, raw.ids.astype(str).tolist(), strict=True):
            self._digest.update(row.tobytes() + name.encode() + b"\0")


def _check_segment_count(count: int) -> None:
    if count > MAX_SEGMENTS:
        raise InputError(
            f"The segment column has more than {MAX_SEGMENTS:,} values. Use a column with few "
            "values, such as a site."
        )


def sum_batches(
    chunks: Iterator[RowChunk], learned: LearnedScores, *, period: str | None = None
) -> dict[str, BatchSums]:
    """Return the sums of a batch or, with a period, of the batch of each period by its time.

    Without a period, the key of the only batch is an empty text.
    """
    batches: dict[str, BatchSums] = {}
    for chunk in chunks:
        positions = chunk.first_position + np.arange(chunk.rows.n)
        priorities = row_priorities(learned.seed, chunk.first_position, chunk.rows.n)
        for key, index in _group_by_period(chunk, period):
            groups = None if chunk.segments is None else chunk.segments[index]
            sums = batches.setdefault(key, BatchSums(learned))
            sums.update(chunk.rows.rows(index), positions[index], priorities[index], groups)
    if not batches:
        raise InputError("The batch has no rows; expected at least one.")
    return dict(sorted(batches.items()))


def _group_by_period(chunk: RowChunk, period: str | None) -> Iterator[tuple[str, Any]]:
    if period is None or chunk.times is None:
        yield "", slice(None)
        return
    yield from group_rows(time_periods(chunk.times, period))
