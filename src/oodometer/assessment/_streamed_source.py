"""The labelled source, gathered from many files: all of its rows, or a random sample of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import Array
from oodometer.data._partitions import FilePartition, find_files, is_multi_file, make_partitions
from oodometer.data._score_schema import (
    ScoreSchema,
    error_context,
    infer_schema,
    read_tables,
    rows_per_batch,
)
from oodometer.data.bottom_k import BottomKSample, BottomKSampler, priority_bound, row_priorities
from oodometer.data.prediction_files import PredictionColumns, ScoreFile
from oodometer.parallel.runners import Runner

# A source of more rows, or of more cells (rows times classes), is represented by a sample.
MAX_SOURCE_ROWS, MAX_SOURCE_CELLS = 2_000_000, 64_000_000
# A single file that is larger than this is read batch by batch.
MAX_WHOLE_FILE_BYTES = 1_000_000_000


@dataclass(frozen=True, eq=False)
class StreamedSource:
    """Labelled predictions, and of how many rows they are a sample."""

    predictions: Predictions
    n_rows: int

    @property
    def sampling_note(self) -> str | None:
        """What is to be said of a sample."""
        if self.predictions.n == self.n_rows:
            return None
        return f"The source is a random sample of {self.predictions.n:,} of {self.n_rows:,} rows."


def is_large(location: str | Path) -> bool:
    """Whether it is many files, or one that is not read whole."""
    path = Path(location)
    return is_multi_file(location) or (
        path.is_file() and path.stat().st_size > MAX_WHOLE_FILE_BYTES
    )


def load_source(
    location: str | Path,
    columns: PredictionColumns,
    seed: int,
    runner: Runner,
    report_rows: Callable[[int], None],
) -> StreamedSource:
    """The source of a file, a folder or a pattern; a small file is read as it always is."""
    if not is_large(location):
        whole = ScoreFile.open(location).predictions(columns, labelled=True)
        return StreamedSource(whole, whole.n)
    files = find_files(location)
    taken = infer_schema(files, columns, labelled=True)
    parts, total = make_partitions(files)
    k = count_classes(taken, parts)
    size = min(MAX_SOURCE_ROWS, MAX_SOURCE_CELLS // k)
    plan = SourceScanPlan(taken, rows_per_batch(k), seed, size, priority_bound(size, total))
    keeper, done = BottomKSampler(size), 0
    for _, found in runner(plan, parts):
        if isinstance(found, Exception):
            raise found
        done += found[0]
        report_rows(found[0])
        if found[1] is not None:
            keeper.merge(found[1])
    return StreamedSource(_to_predictions(keeper.sample(), taken, files), done)


def count_classes(schema: ScoreSchema, parts: Sequence[FilePartition]) -> int:
    """How many classes there are, by the first rows that can be found."""
    if not schema.score_columns.is_single_column:
        return len(schema.score_columns.columns)
    for part in parts:
        for _, table in read_tables(replace(schema, label_column=None, segment_by=None), part, 64):
            with error_context(part.path):
                return int(schema.scores(table).shape[1])
    raise InputError("There are no rows in these files; at least one was expected.")


@dataclass(frozen=True)
class SourceScanPlan:
    """What is done with every part of the source; it can be sent to workers."""

    schema: ScoreSchema
    batch_size: int
    seed: int
    sample_size: int
    priority_bound: int

    def __call__(self, part: FilePartition) -> tuple[int, BottomKSample | None]:
        """How many rows the part has, and the sample of them."""
        keeper, n = BottomKSampler(self.sample_size, self.priority_bound), 0
        for before, table in read_tables(self.schema, part, self.batch_size):
            with error_context(part.path, part.first_row_in_file + before):
                self._update_sample(keeper, table, part.first_position + before)
            n += table.num_rows
        return n, keeper.sample()

    def _update_sample(self, sampler: BottomKSampler, table: Any, first_row: int) -> None:
        scores = self.schema.scores(table)
        kept: dict[str, Array] = {"scores": scores}
        if self.schema.label_column is not None:
            kept["labels"] = frames.read_column(table, self.schema.label_column)
        draws = row_priorities(self.seed, first_row, len(scores))
        sampler.update(draws, BottomKSample(first_row + np.arange(len(scores)), draws, kept).take)


def _to_predictions(
    sample: BottomKSample | None, schema: ScoreSchema, files: Sequence[Path]
) -> Predictions:
    if sample is None:
        raise InputError(f"{files[0].parent} has no rows; at least one was expected.")
    return schema.predictions(sample.columns["scores"], sample.columns.get("labels"))
