"""Matrix of accuracies as evaluations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer import InputError
from oodometer.studies.analysis._compare_measures import compare_measures
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.wide_table import AccuracyMatrix, to_evaluations

SETS = ("val", "art", "sketch")


def naive(wide: AccuracyMatrix, reference: str) -> set[tuple[str, str, float, float]]:
    """Return (model, test set, accuracy, accuracy on the reference) of every known cell."""
    found = set()
    for i, model in enumerate(wide.models):
        for j, name in enumerate(wide.test_sets):
            value, usual = wide.accuracy[i, j], wide.accuracy[i, wide.test_sets.index(reference)]
            if not np.isnan(value):
                found.add((model, name, float(value), -1.0 if np.isnan(usual) else float(usual)))
    return found


@given(st.integers(0, 10_000))
def test_rows_are_the_known_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = np.where(rng.random((5, 3)) < 0.3, np.nan, rng.integers(0, 10, (5, 3)) / 10)
    cells[0] = 0.5
    names = [f"m{j}" for j in rng.permutation(5)]
    wide = AccuracyMatrix.read({"model": names, **dict(zip(SETS, cells.T, strict=True))})
    table = to_evaluations(wide, "art")
    usual = np.nan_to_num(table.measures["accuracy on art"], nan=-1.0)
    rows = zip(table.model, table.tested_on, table.accuracy, usual, strict=True)
    found = [(table.models[m], table.domains[d], float(a), float(u)) for m, d, a, u in rows]
    assert len(found) == len(set(found))
    assert set(found) == naive(wide, "art")
    assert {table.domains[d] for d in table.tested_on[table.in_distribution]} == {"art"}


def test_comparison_matches_the_same_rows_in_a_long_table() -> None:
    rng = np.random.default_rng(0)
    val = rng.uniform(0.2, 0.9, 9)
    wide = AccuracyMatrix.read(
        {"model": list("abcdefghi"), "val": val, "v2": val**2, "odd": rng.random(9)}
    )
    columns: dict[str, list[object]] = {
        "model": [], "trained_on": [], "tested_on": [], "accuracy": [], "accuracy on val": [],
    }  # fmt: skip
    for i, model in enumerate(wide.models):
        for name in wide.test_sets:
            row = (model, "val", name, wide.accuracy_on(name)[i], val[i])
            for column, cell in zip(columns.values(), row, strict=True):
                column.append(cell)
    from_long = compare_measures(EvaluationTable.read(columns))
    from_matrix = compare_measures(to_evaluations(wide, "val"))
    assert from_matrix.to_dict() == from_long.to_dict()
    assert from_matrix.summary("accuracy on val", "macro_tau").groups == 2


def test_unknown_reference_raises() -> None:
    wide = AccuracyMatrix.read({"model": ["m"], "val": [0.5]})
    with pytest.raises(InputError, match="Did you mean 'val'"):
        to_evaluations(wide, "vall")
