"""Reader of texts, pairs, vectors or tables in Parquet, CSV, Arrow and JSON-lines files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.errors import InputError, format_error
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Dataset
from oodometer.data.input_rows import read_frame
from oodometer.data.options import DatasetOptions, RawRows
from oodometer.data.prediction_files import ScoreFile
from oodometer.studies.domains._reader import ImageSize, matching_rows, require_file
from oodometer.studies.domains.array_files import RowFilters

JSON_EXTENSIONS = (".json", ".jsonl")


@dataclass(frozen=True)
class TableReader:
    """Reader of a table file; `where` selects rows, for example the rows of one domain.

    label     column of labels
    text      column of texts, or two columns that form pairs of texts
    inputs    columns of a table; default: all except the label and the columns of `where`
    vectors   numeric columns that form one vector per row, so that networks can be trained on them
    where     required values of columns; only rows that have all of them are read
    skip_bad  whether unusable rows are skipped instead of raising an error

    At most one of `text`, `inputs` and `vectors` can be set.
    """

    path: str
    label: str = "label"
    text: str | tuple[str, ...] | None = None
    inputs: tuple[str, ...] | None = None
    where: RowFilters = ()
    skip_bad: bool = False
    vectors: tuple[str, ...] | None = None

    @property
    def kind(self) -> InputKind:
        if self.text is None:
            return "table" if self.vectors is None else "vectors"
        return "text" if isinstance(self.text, str) else "pairs"

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Read the selected rows into memory."""
        if sum(columns is not None for columns in (self.text, self.inputs, self.vectors)) > 1:
            raise InputError(
                f"{self.path}: text, inputs and vectors exclude one another. Set one of them."
            )
        table = self._filter_rows(frames.as_table(read_table_file(require_file(root, self.path))))
        options = DatasetOptions(
            labels=self.label, text=self.text, inputs=self.inputs or self.vectors
        )
        rows = read_frame(table, options)
        return (rows if self.vectors is None else as_vectors(rows)).to_dataset(
            self.path, self.skip_bad
        )

    def _filter_rows(self, table: Any) -> Any:
        rows = np.ones(table.num_rows, dtype=np.bool_)
        for column, accepted in self.where:
            matches = matching_rows(frames.read_column(table, column), accepted, column)
            if not (rows & matches).any():
                raise InputError(
                    f"No row has {column} = {accepted!r} and meets the other conditions "
                    f"({', '.join(name for name, _ in self.where)}). Remove a condition."
                )
            rows &= matches
        named = (self.label, *(self.inputs or self.vectors or ()), *self._text_columns())
        extra = [column for column, _ in self.where if column not in named]
        return table.filter(rows).drop_columns(extra)

    def _text_columns(self) -> tuple[str, ...]:
        return (self.text,) if isinstance(self.text, str) else self.text or ()


def as_vectors(raw_rows: RawRows) -> RawRows:
    """Convert a table to one vector per row; raise if a column is not numeric.

    >>> import pyarrow as pa
    >>> table = pa.table({"age": [30, 40], "tall": [True, False]})
    >>> as_vectors(RawRows(table, None, np.zeros(2, dtype=bool))).inputs
    array([[30.,  1.],
           [40.,  0.]])
    """
    columns = {
        name: raw_rows.inputs.column(name).to_numpy() for name in raw_rows.inputs.column_names
    }
    for name, values in columns.items():
        if values.dtype.kind not in "iufb":
            raise InputError(
                f"The column {name!r} holds {raw_rows.inputs.column(name).type}, and vectors need "
                "numbers. Choose numeric columns, or encode the column as numbers."
            )
    return replace(raw_rows, inputs=np.stack(list(columns.values()), axis=1).astype(np.float64))


def read_table_file(path: Path) -> Any:
    """Read a table from a file; a JSON file must have one object per line."""
    if not any(ending.lower() in JSON_EXTENSIONS for ending in path.suffixes[-2:]):
        return ScoreFile.open(path).content
    import pyarrow as pa
    from pyarrow import json

    try:
        return json.read_json(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"Cannot read {path.name} as JSON: {format_error(error, first_line=True)}. Expected "
            "one object per line."
        ) from error
