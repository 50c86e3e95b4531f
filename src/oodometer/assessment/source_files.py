"""Read a labelled source from files: as a whole, or in batches with a random sample of its rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.assessment.learned_reference import SourceRows
from oodometer.assessment.segments import combine_segments, segment_values
from oodometer.core import frames
from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, OodometerError
from oodometer.core.predictions import observed_classes
from oodometer.core.protocols import ProgressCallback
from oodometer.data.batch_reader import (
    FilePartition,
    error_context,
    find_files,
    infer_schema,
    is_read_in_batches,
    make_partitions,
    read_tables,
    rows_per_batch,
)
from oodometer.data.bottom_k import BottomKSample, BottomKSampler, priority_bound, row_priorities
from oodometer.data.prediction_files import PredictionColumns, ScoreFile, ScoreSchema
from oodometer.parallel.runners import Runner, serial

# If the source has more rows than this, or more cells (rows × classes), a random sample is used.
MAX_SOURCE_ROWS = 2_000_000
MAX_SOURCE_CELLS = 64_000_000


class RowProgress:
    """Thread-safe progress report of the rows read; calls after `stop` raise an error."""

    def __init__(self, progress: ProgressCallback | None, total: int | None, unit: str) -> None:
        self._progress = progress
        self._total = total
        self._unit = unit
        self._done = 0
        self._stopped = False
        self._lock = threading.Lock()

    def __call__(self, n_rows: int) -> None:
        """Report that `n_rows` more rows were read."""
        with self._lock:
            if self._stopped:
                raise OodometerError("The pass was stopped because another partition failed.")
            self._done += n_rows
            if self._progress is not None:
                unit = self._unit if self._total is not None else f"{self._done:,} {self._unit}"
                self._progress(self._done, self._total or 0, unit)

    def stop(self) -> None:
        self._stopped = True


def read_source(
    location: str | Path,
    columns: PredictionColumns,
    *,
    segment_by: tuple[str, ...] = (),
    seed: int = 0,
    runner: Runner = serial,
    progress: ProgressCallback | None = None,
) -> SourceRows:
    """Read a labelled source; small files are read as a whole, larger files in batches.

    The segments are read if the source has all columns `segment_by`.
    """
    if not is_read_in_batches(location):
        return read_whole_source(location, columns, segment_by)
    report_rows = RowProgress(progress, None, "source rows")
    return load_source(location, columns, seed, runner, report_rows, segment_by=segment_by)


def read_whole_source(
    location: str | Path, columns: PredictionColumns, segment_by: tuple[str, ...] = ()
) -> SourceRows:
    """Read a labelled source into memory, with its segments if it has all columns `segment_by`."""
    return whole_source(ScoreFile.open(location), columns, segment_by, location)


def whole_source(
    file: ScoreFile,
    columns: PredictionColumns,
    segment_by: tuple[str, ...] = (),
    location: str | Path | None = None,
) -> SourceRows:
    """Return a labelled source that is in memory, with its segments if it has their columns."""
    whole = file.predictions(columns, labelled=True)
    segments = None
    if segment_by and set(segment_by) <= set(file.column_names):
        segments = combine_segments([file.column(name) for name in segment_by])
    return SourceRows(whole, whole.n, segments, location)


def load_source(
    location: str | Path,
    columns: PredictionColumns,
    seed: int,
    runner: Runner,
    report_rows: Callable[[int], None],
    *,
    segment_by: tuple[str, ...] = (),
) -> SourceRows:
    """Read a labelled source in batches; sample its rows if there are many.

    The segments are read if the source has all columns `segment_by`.
    """
    files = find_files(location)
    schema = infer_schema(files, columns, labelled=True)
    if segment_by and set(segment_by) <= schema.all_columns:
        schema = infer_schema(files, columns, labelled=True, segment_by=segment_by)
    partitions, total = make_partitions(files)
    k = max(len(schema.score_names), 1)
    if schema.score_columns is not None and schema.score_columns.is_single_column:
        _, table = read_first_rows(schema, partitions, 64, location)
        k = schema.scores(table).shape[1]
    size = min(MAX_SOURCE_ROWS, MAX_SOURCE_CELLS // k)
    plan = SourceScanPlan(schema, rows_per_batch(k), seed, size, priority_bound(size, total))
    sampler = BottomKSampler(size)
    n_rows = 0
    for _, result in runner(plan, partitions):
        if isinstance(result, Exception):
            raise result
        n_partition_rows, sample = result
        n_rows += n_partition_rows
        report_rows(n_partition_rows)
        merge_sample(sampler, sample)
    sample = sampler.sample()
    if sample is None:
        raise no_rows_error(location)
    labels, decisions = sample.columns.get("labels"), sample.columns.get("decisions")
    if schema.score_columns is None and schema.class_names is None:
        schema = replace(schema, class_names=observed_classes(decisions, labels))
    rows = schema.predictions(sample.columns.get("scores"), labels, decisions=decisions)
    return SourceRows(columns.decide(rows), n_rows, sample.columns.get("by"), location)


@dataclass(frozen=True)
class SourceScanPlan:
    """Callable that samples the rows of one source partition; it can be pickled."""

    schema: ScoreSchema
    batch_size: int
    seed: int
    sample_size: int
    priority_bound: int

    def __call__(self, partition: FilePartition) -> tuple[int, BottomKSample | None]:
        """Return the number of rows of a partition and a sample of them."""
        sampler = BottomKSampler(self.sample_size, self.priority_bound)
        n_rows = 0
        for offset, table in read_tables(self.schema, partition, self.batch_size):
            with error_context(partition.path, partition.first_row_in_file + offset):
                self._update_sample(sampler, table, partition.first_position + offset)
            n_rows += table.num_rows
        return n_rows, sampler.sample()

    def _update_sample(self, sampler: BottomKSampler, table: Any, first_position: int) -> None:
        columns: dict[str, Array] = {}
        if self.schema.score_columns is not None:
            columns["scores"] = self.schema.scores(table)
        if self.schema.label_column is not None:
            columns["labels"] = frames.read_column(table, self.schema.label_column)
        if self.schema.pred_column is not None:
            columns["decisions"] = frames.read_column(table, self.schema.pred_column)
        if self.schema.segment_by:
            by = [frames.read_column(table, name) for name in self.schema.segment_by]
            columns["by"] = segment_values(combine_segments(by))
        priorities = row_priorities(self.seed, first_position, table.num_rows)
        positions = first_position + np.arange(table.num_rows)
        sampler.update(priorities, BottomKSample(positions, priorities, columns).take)


def merge_sample(sampler: BottomKSampler, sample: BottomKSample | None) -> None:
    """Add the sample of a partition; None if the partition has no rows."""
    if sample is not None:
        sampler.merge(sample)


def read_first_rows(
    schema: ScoreSchema,
    partitions: Sequence[FilePartition],
    max_rows: int,
    location: str | Path,
) -> tuple[Path, Any]:
    """Return the first batch that has rows, without labels, and the file it is from."""
    scores_only = replace(schema, label_column=None, segment_by=())
    for partition in partitions:
        for _, table in read_tables(scores_only, partition, max_rows):
            with error_context(partition.path):
                return partition.path, table
    raise no_rows_error(location)


def no_rows_error(location: str | Path) -> InputError:
    """Return the error for files without rows."""
    return InputError(f"{str(location)!r} has no rows; at least one was expected.")
