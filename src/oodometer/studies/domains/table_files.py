"""Domains in columns: texts, pairs or tables of Parquet, CSV, Arrow and JSON-lines files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.errors import InputError
from oodometer.core.inputs import Kind
from oodometer.core.protocols import Dataset
from oodometer.data._table_rows import read_frame
from oodometer.data.options import Asked, Read
from oodometer.data.prediction_files import Outputs
from oodometer.studies.domains._reader import Size, chosen, existing
from oodometer.studies.domains.array_files import Pairs

LINES = (".json", ".jsonl")


@dataclass(frozen=True)
class Table:
    """The rows of a table that `where` chooses, such as those of a domain or of a subgroup.

    `text` is the column of texts, or the two of pairs; without it all columns are the inputs, or
    those that `inputs` names, but the label and the columns of `where`. `vectors` names columns of
    numbers instead, which side by side are a row's vector: networks take these.
    """

    path: str
    label: str = "label"
    text: str | tuple[str, ...] | None = None
    inputs: tuple[str, ...] | None = None
    where: Pairs = ()
    skip_bad: bool = False
    vectors: tuple[str, ...] | None = None

    @property
    def kind(self) -> Kind:
        """Text, pairs, vectors or a table."""
        if self.text is None:
            return "table" if self.vectors is None else "vectors"
        return "text" if isinstance(self.text, str) else "pairs"

    @property
    def files(self) -> tuple[str, ...]:
        """The file."""
        return (self.path,)

    def read(self, root: Path, size: Size) -> Dataset:
        """The chosen rows, in memory."""
        if sum(one is not None for one in (self.text, self.inputs, self.vectors)) > 1:
            raise InputError(
                f"{self.path}: text, inputs and vectors are three forms of one thing. Name one."
            )
        table = self._chosen(frames.as_table(content(existing(root, self.path))))
        asked = Asked(labels=self.label, text=self.text, inputs=self.inputs or self.vectors)
        read = read_frame(table, asked)
        return (read if self.vectors is None else as_vectors(read)).dataset(
            self.path, self.skip_bad
        )

    def _chosen(self, table: Any) -> Any:
        rows = np.ones(table.num_rows, dtype=np.bool_)
        for column, wanted in self.where:
            found = chosen(frames.values(table, column), wanted, column)
            if not (rows & found).any():
                raise InputError(
                    f"No row has {column} = {wanted!r} and all else that is asked for "
                    f"({', '.join(name for name, _ in self.where)}). Ask for less."
                )
            rows &= found
        named = (self.label, *(self.inputs or self.vectors or ()), *self._texts())
        extra = [column for column, _ in self.where if column not in named]
        return table.filter(rows).drop_columns(extra)

    def _texts(self) -> tuple[str, ...]:
        return (self.text,) if isinstance(self.text, str) else self.text or ()


def as_vectors(read: Read) -> Read:
    """The same with the columns of its table side by side; all must be of numbers, or true and false.

    >>> import pyarrow as pa
    >>> table = pa.table({"age": [30, 40], "tall": [True, False]})
    >>> as_vectors(Read(table, None, np.zeros(2, dtype=bool))).inputs
    array([[30.,  1.],
           [40.,  0.]])
    """
    columns = {name: read.inputs.column(name).to_numpy() for name in read.inputs.column_names}
    for name, values in columns.items():
        if values.dtype.kind not in "iufb":
            raise InputError(
                f"The column {name!r} holds {read.inputs.column(name).type}, and vectors are of "
                "numbers. Name columns of numbers alone, or turn it into some."
            )
    return replace(read, inputs=np.stack(list(columns.values()), axis=1).astype(np.float64))


def content(path: Path) -> Any:
    """A table of a file; JSON has a row a line, and may be compressed."""
    if not any(ending.lower() in LINES for ending in path.suffixes[-2:]):
        return Outputs.open(path).content
    import pyarrow as pa
    from pyarrow import json

    try:
        return json.read_json(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path.name} can't be read as JSON: {str(error).splitlines()[0]}. One object a line "
            "was expected."
        ) from error
