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
from oodometer.data.prediction_files import Columns, Outputs

Past = Annotated[
    list[Path] | None,
    typer.Option(
        "--history",
        help="Past domains whose truth is known, for an interval of shift: a table with columns "
        "estimate and truth, or a file of labelled outputs a domain (give it again).",
    ),
]
ESTIMATE, TRUTH, SPREAD = "estimate", "truth", "spread"


def opened_history(paths: Sequence[Path], columns: Columns) -> History | list[Predictions] | None:
    """A table of estimates and truths, or labelled outputs of several domains."""
    files = [Outputs.open(path) for path in paths]
    tables = [file for file in files if {ESTIMATE, TRUTH} <= set(_names(file))]
    if not files:
        return None
    if not tables:
        return [file.predictions(columns, labelled=True) for file in files]
    if len(files) > 1:
        raise InputError(
            f"{tables[0].path.name} is a table of past estimates, and {len(files)} files were given "
            "for --history. Give one such table, or one file of labelled outputs a domain."
        )
    return _history(tables[0])


def _names(file: Outputs) -> Sequence[str]:
    content = file.content
    return list(content if isinstance(content, dict) else content.column_names)


def _history(table: Outputs) -> History:
    estimates, truths = (_numbers(table, name) for name in (ESTIMATE, TRUTH))
    spreads = _numbers(table, SPREAD) if SPREAD in _names(table) else None
    try:
        return History(estimates, truths, spreads)
    except InputError as error:
        raise InputError(f"{table.path.name}: {error}") from error


def _numbers(table: Outputs, name: str) -> np.ndarray:
    values = table.column(name)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{table.path.name}: The column {name!r} holds {values[:1].tolist()[0]!r}; numbers from "
            "0 to 1 were expected."
        ) from error
