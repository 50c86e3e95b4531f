"""Domains in columns: texts, pairs or tables of Parquet, CSV, Arrow and JSON-lines files."""

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
    """The rows of a table that `where` chooses, such as those of a domain or of a subgroup.

    `text` is the column of texts, or the two of pairs; without it all columns are the inputs, or
    those that `inputs` names, but the label and the columns of `where`. `vectors` names columns of
    numbers instead, which side by side are a row's vector: networks take these.
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
        """Text, pairs, vectors or a table."""
        if self.text is None:
            return "table" if self.vectors is None else "vectors"
        return "text" if isinstance(self.text, str) else "pairs"

    @property
    def files(self) -> tuple[str, ...]:
        """The file."""
        return (self.path,)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """The chosen rows, in memory."""
        if sum(one is not None for one in (self.text, self.inputs, self.vectors)) > 1:
            raise InputError(
                f"{self.path}: text, inputs and vectors are three forms of one thing. Name one."
            )
        table = self._filter_rows(frames.as_table(read_table_file(require_file(root, self.path))))
        asked = DatasetOptions(
            labels=self.label, text=self.text, inputs=self.inputs or self.vectors
        )
        read = read_frame(table, asked)
        return (read if self.vectors is None else as_vectors(read)).to_dataset(
            self.path, self.skip_bad
        )

    def _filter_rows(self, table: Any) -> Any:
        rows = np.ones(table.num_rows, dtype=np.bool_)
        for column, wanted in self.where:
            found = matching_rows(frames.read_column(table, column), wanted, column)
            if not (rows & found).any():
                raise InputError(
                    f"No row has {column} = {wanted!r} and all else that is asked for "
                    f"({', '.join(name for name, _ in self.where)}). Ask for less."
                )
            rows &= found
        named = (self.label, *(self.inputs or self.vectors or ()), *self._text_columns())
        extra = [column for column, _ in self.where if column not in named]
        return table.filter(rows).drop_columns(extra)

    def _text_columns(self) -> tuple[str, ...]:
        return (self.text,) if isinstance(self.text, str) else self.text or ()


def as_vectors(raw_rows: RawRows) -> RawRows:
    """The same with the columns of its table side by side; all must be of numbers, or true and false.

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
                f"The column {name!r} holds {raw_rows.inputs.column(name).type}, and vectors are of "
                "numbers. Name columns of numbers alone, or turn it into some."
            )
    return replace(raw_rows, inputs=np.stack(list(columns.values()), axis=1).astype(np.float64))


def read_table_file(path: Path) -> Any:
    """A table of a file; JSON has a row a line, and may be compressed."""
    if not any(ending.lower() in JSON_EXTENSIONS for ending in path.suffixes[-2:]):
        return ScoreFile.open(path).content
    import pyarrow as pa
    from pyarrow import json

    try:
        return json.read_json(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path.name} can't be read as JSON: {format_error(error, first_line=True)}. One "
            "object per line was expected."
        ) from error
