"""The target of many files: what is known of it before all of it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oodometer.core import validation
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import Array
from oodometer.data._partitions import FilePartition, find_files, make_partitions
from oodometer.data._score_schema import (
    ScoreSchema,
    error_context,
    infer_schema,
    read_tables,
    rows_per_batch,
)
from oodometer.data.bottom_k import BottomKSample
from oodometer.data.prediction_files import PredictionColumns

# Rows that are looked at before all are.
PREVIEW_ROWS = 1024


@dataclass(frozen=True, eq=False)
class StreamedTarget:
    """Files, what is taken of them, their parts, and how many rows they have if that is known."""

    files: tuple[Path, ...]
    schema: ScoreSchema
    parts: tuple[FilePartition, ...]
    n_rows: int | None
    preview: Predictions

    @classmethod
    def open(
        cls, location: str | Path, columns: PredictionColumns, segment_by: str | None
    ) -> StreamedTarget:
        """Find the files, and look at the first rows."""
        files = find_files(location)
        taken = infer_schema(files, columns, labelled=False, segment_by=segment_by)
        parts, total = make_partitions(files)
        return cls(files, taken, parts, total, _read_preview(taken, parts, location))

    @property
    def k(self) -> int:
        """How many classes there are."""
        return self.preview.k

    @property
    def batch_size(self) -> int:
        """How many rows are read at a time."""
        return rows_per_batch(self.k)

    def reorder_classes(self, class_names: tuple[str, ...] | None) -> StreamedTarget:
        """The same with the classes in the order of these names."""
        return replace(
            self,
            schema=self.schema.reorder_classes(class_names),
            preview=self.preview.reorder_classes(class_names),
        )

    def predictions(self, sample: BottomKSample | None) -> Predictions:
        """The sampled rows, in the order of their places."""
        if sample is None:
            raise InputError("The target has no rows; at least one was expected.")
        return self.schema.predictions(sample.columns["scores"])

    def labels(self, sample: BottomKSample) -> Array:
        """The classes of rows with labels, by number."""
        given = sample.columns["labels"]
        if all(isinstance(value, str) and value.strip().isdecimal() for value in given):
            given = given.astype(int)  # a column of text that began with blanks
        names, what = self.schema.class_names, "labels of the target"
        found = validation.encode_labels(given, len(sample), self.k, names, what)
        assert found is not None
        return found


def _read_preview(
    schema: ScoreSchema, parts: Sequence[FilePartition], location: str | Path
) -> Predictions:
    """The first rows, by the usual door: it warns of logits that look like probabilities."""
    scored = replace(schema, label_column=None, segment_by=None)
    for part in parts:
        for _, table in read_tables(scored, part, PREVIEW_ROWS):
            with error_context(part.path):
                return schema.predictions(schema.scores(table))
    raise InputError(f"{str(location)!r} has no rows; at least one was expected.")
