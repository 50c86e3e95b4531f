"""A table of accuracies, models × test sets, as evaluations with one measure.

The measure is the accuracy on the set that all others are held against, as in Miller et al.,
"Accuracy on the Line", ICML 2021: how well does it tell the accuracy elsewhere?
"""

from __future__ import annotations

import numpy as np

from oodometer.core.softmax_kernels import Ints
from oodometer.studies.analysis.evaluation_table import DEFAULT_ARCHITECTURE, EvaluationTable
from oodometer.studies.analysis.wide_table import AccuracyMatrix


def to_evaluations(wide: AccuracyMatrix, reference: str) -> EvaluationTable:
    """Every model on every set that it was tested on, as if trained on the reference.

    >>> wide = AccuracyMatrix.read({"model": ["m", "n"], "val": [0.9, 0.8], "sketch": [0.4, None]})
    >>> table = to_evaluations(wide, "val")
    >>> len(table), table.accuracy.tolist(), {k: v.tolist() for k, v in table.measures.items()}
    (3, [0.4, 0.9, 0.8], {'accuracy on val': [0.9, 0.9, 0.8]})
    """
    usual = wide.accuracy_on(reference)
    models, model_of = _sort_names(wide.models)
    domains, domain_of = _sort_names(wide.test_sets)
    rows, columns = np.nonzero(~np.isnan(wide.accuracy))
    order = np.lexsort((domain_of[columns], model_of[rows]))
    rows, columns = rows[order], columns[order]
    zeros = np.zeros(len(rows), dtype=np.int64)
    return EvaluationTable(
        models, (DEFAULT_ARCHITECTURE,), domains, model_of[rows], zeros, zeros, ((reference,),),
        domain_of[columns], wide.accuracy[rows, columns], {f"accuracy on {reference}": usual[rows]},
    )  # fmt: skip


def _sort_names(names: tuple[str, ...]) -> tuple[tuple[str, ...], Ints]:
    """The names sorted, and where each of them has gone."""
    ordered = tuple(sorted(names))
    place = {name: j for j, name in enumerate(ordered)}
    return ordered, np.array([place[name] for name in names], dtype=np.int64)
