"""Past domains whose truth is known, from files: `--history`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from oodometer.assessment.conformal_interval import History
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.data.prediction_files import PredictionColumns, ScoreFile

HistoryPaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--history",
        help="Past labelled domains, for an interval under shift: a table with columns estimate and "
        "truth, or one file of labelled predictions per domain (repeatable).",
    ),
]
ESTIMATE_COLUMN, TRUTH_COLUMN, SPREAD_COLUMN = "estimate", "truth", "spread"


def load_history(
    paths: Sequence[Path], columns: PredictionColumns
) -> History | list[Predictions] | None:
    """A table of estimates and truths, or labelled outputs of several domains."""
    files = [ScoreFile.open(path) for path in paths]
    tables = [file for file in files if {ESTIMATE_COLUMN, TRUTH_COLUMN} <= set(_column_names(file))]
    if not files:
        return None
    if not tables:
        return [file.predictions(columns, labelled=True) for file in files]
    if len(files) > 1:
        raise InputError(
            f"{tables[0].path.name} is a table of past estimates, and {len(files)} files were given "
            "for --history. Give one such table, or one file of labelled outputs a domain."
        )
    return _read_history_table(tables[0])


def _column_names(file: ScoreFile) -> Sequence[str]:
    content = file.content
    return list(content if isinstance(content, dict) else content.column_names)


def _read_history_table(table: ScoreFile) -> History:
    estimates, truths = (
        _read_float_column(table, name) for name in (ESTIMATE_COLUMN, TRUTH_COLUMN)
    )
    spreads = (
        _read_float_column(table, SPREAD_COLUMN) if SPREAD_COLUMN in _column_names(table) else None
    )
    try:
        return History(estimates, truths, spreads)
    except InputError as error:
        raise InputError(f"{table.path.name}: {error}") from error


def _read_float_column(table: ScoreFile, name: str) -> np.ndarray:
    values = table.column(name)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{table.path.name}: The column {name!r} holds {values[:1].tolist()[0]!r}; numbers from "
            "0 to 1 were expected."
        ) from error
