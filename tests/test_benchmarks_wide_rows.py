"""Wide tables of evaluations have the values of the long ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.studies._wide_rows import wide_rows
from oodometer.studies.analysis.evaluation_table import EvaluationTable


def long_rows() -> pa.Table:
    """Return two models on two domains with two measures; one value is missing."""
    cells = [
        (model, domain, measure, 0.1 * i)
        for i, (model, domain, measure) in enumerate(
            (m, d, v) for m in ("a", "b") for d in ("x", "y") for v in ("accuracy", "ac", "doc")
        )
        if (model, domain, measure) != ("b", "y", "doc")
    ]
    models, domains, measures, values = zip(*cells, strict=True)
    return pa.table(
        {
            "model": models,
            "trained_on": ["x"] * len(cells),
            "tested_on": domains,
            "accuracy": [0.5 if domain == "x" else 0.25 for domain in domains],
            "measure": measures,
            "value": values,
            "low": [None] * len(cells),
            "n": [400] * len(cells),
        }
    )


def test_wide_rows_have_one_column_per_measure() -> None:
    wide = wide_rows(long_rows())
    assert wide.column_names == ["model", "tested_on", "trained_on", "accuracy", "n", "ac", "doc"]
    assert wide.column("doc").null_count == 1
    assert wide.schema.field("ac").type == pa.float32()


def test_wide_and_long_rows_give_the_same_evaluations() -> None:
    long, wide = (
        EvaluationTable.read(rows, measures=["ac", "doc"])
        for rows in (long_rows(), wide_rows(long_rows()))
    )
    assert (long.models, long.domains) == (wide.models, wide.domains)
    np.testing.assert_array_equal(long.accuracy, wide.accuracy)
    for name in ("ac", "doc"):
        np.testing.assert_allclose(long.measures[name], wide.measures[name], rtol=1e-6)
