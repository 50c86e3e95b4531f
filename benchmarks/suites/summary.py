"""Summary of the stored results: cases per regime and errors of today's methods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import markdown_table
from benchmarks.suites.suite import REGIMES, Workspace

COMPARED = {
    "source": "source_accuracy", "ac": "est_ac", "atc-ne": "est_atc-ne", "cot": "est_cot",
    "headline": "headline",
}  # fmt: skip


def read_table(path: Path) -> Any:
    """Return the results of one suite as a pandas table."""
    import pyarrow.parquet as pq

    return pq.read_table(path).to_pandas()


def summary(space: Workspace, names: Sequence[str]) -> str:
    """Return the table of all suites with results, and the mean over families."""
    paths = [space.folder / "results" / f"{name}.parquet" for name in names]
    tables = [read_table(path) for path in paths if path.exists()]
    if not tables:
        return "There are no results."
    head = ("suite", "family", "k", "models", "targets", "cases", "accuracy, %",
            *(f"{regime}: {' / '.join(COMPARED)}" for regime in REGIMES))  # fmt: skip
    rows = [_row(table) for table in tables]
    total = sum(len(table) for table in tables)
    return (
        f"{markdown_table(head, rows)}\n\n{total:,} cases. Cases are those of the regimes "
        f"{', '.join(REGIMES)}; errors are mean absolute errors in points."
    )


def _row(table: Any) -> tuple[str, ...]:
    first = table.iloc[0]
    counts = [int((table["regime"] == regime).sum()) for regime in REGIMES]
    models = (table["group"] + table["model"]).nunique()
    return (
        first["suite"],
        first["family"],
        str(first["k"]),
        str(models),
        str(table["target"].nunique()),
        " + ".join(map(str, counts)),
        f"{100 * table['truth'].mean():.1f}",
        *(_errors(table[table["regime"] == regime]) for regime in REGIMES),
    )


def _errors(table: Any) -> str:
    """Return the mean absolute errors of the compared methods in points."""
    cells = []
    for column in COMPARED.values():
        known = column in table and len(table) and table[column].notna().any()
        error = np.nanmean(np.abs(table[column] - table["truth"])) if known else None
        cells.append("–" if error is None else f"{100 * error:.1f}")
    return " / ".join(cells)
