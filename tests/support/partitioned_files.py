"""Prediction files in several parts, and an estimator that kills its worker."""

from __future__ import annotations

import gzip
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

from oodometer.core.array_types import Floats
from oodometer.core.predictions import Predictions
from oodometer.estimators import AverageConfidence


def table_of(rows: Predictions, labelled: bool = False, **more: Any) -> Any:
    probs = np.asarray(rows.probs)
    columns: dict[str, Any] = {f"prob_{j}": probs[:, j] for j in range(rows.k)}
    if labelled:
        columns["label"] = rows.labels
    return pa.table(columns | more)


def write(table: Any, path: Path, group: int | None = None) -> Path:
    """Write a table in the format of the file's extension."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=group)
    elif path.name.endswith(".csv.gz"):
        with gzip.open(path, "wb") as stream:
            pyarrow.csv.write_csv(table, stream)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(table, str(path), chunksize=group)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table, max_chunksize=group)
    return path


def split(table: Any, folder: Path, ends: Sequence[int], *, group: int | None = None) -> Path:
    """Write Parquet files of the rows between `ends`."""
    bounds = [0, *sorted(ends), table.num_rows]
    for number, (a, b) in enumerate(pairwise(bounds)):
        write(table.slice(a, b - a), folder / f"part-{number:03}.parquet", group)
    return folder


@dataclass(frozen=True)
class WorkerKillingEstimator(AverageConfidence):
    """Average confidence that kills its first worker during the summation."""

    trace: str = ""
    parent: int = 0

    name: ClassVar[str] = "dying"

    def summarize(self, learned: None, batch: Predictions) -> Floats:
        trace = Path(self.trace)
        if os.getpid() != self.parent and not trace.exists():
            trace.mkdir()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().summarize(learned, batch)
