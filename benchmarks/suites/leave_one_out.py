"""Leave-one-suite-out evaluation: related suites leave together.

Suites are related if they have the same family (same data or same models) or, on request, the same
pretrained body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.suites.registry import SUITES
from benchmarks.suites.suite import Suite
from benchmarks.suites.summary import read_table


def read_all(folder: Path, suites: Sequence[Suite] = SUITES) -> Any:
    """Return the results of all built suites in a work folder as one pandas table."""
    import pandas as pd

    paths = [folder / "results" / f"{suite.name}.parquet" for suite in suites]
    # Columns without any value have no type, and would make the concatenation warn.
    tables = [read_table(path).dropna(axis=1, how="all") for path in paths if path.exists()]
    if not tables:
        raise SystemExit(f"There are no results in {folder}; run python -m benchmarks.suites.")
    return pd.concat(tables, ignore_index=True)


def related_suites(suites: Sequence[Suite] = SUITES, *, same_body: bool = True) -> list[list[str]]:
    """Return the names of the suites, grouped such that related suites are in one group."""
    groups: list[tuple[set[str], list[str]]] = []
    for suite in suites:
        keys = {f"family {suite.family}"} | ({f"body {suite.body}"} if suite.body else set())
        keys = keys if same_body else {f"family {suite.family}"}
        names = [suite.name]
        apart = []
        for other_keys, other_names in groups:
            if keys & other_keys:
                keys, names = keys | other_keys, [*other_names, *names]
            else:
                apart.append((other_keys, other_names))
        groups = [*apart, (keys, names)]
    return [names for _, names in groups]


def folds(table: Any, groups: Sequence[Sequence[str]]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each suite's name, the rows of unrelated suites, and the rows of the suite."""
    for group in groups:
        rest = table[~table["suite"].isin(group)]
        for name in group:
            rows = table[table["suite"] == name]
            if len(rows):
                yield name, rest, rows
