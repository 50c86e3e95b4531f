"""Statistics that compare measures, computed from a table of evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies.analysis._compare_measures import LABELS, REPEATED, Judgement, judge
    from oodometer.studies.analysis.evaluation_table import Table

__all__ = [
    "LABELS",
    "REPEATED",
    "Judgement",
    "Table",
    "judge",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Judgement": "_compare_measures",
        "LABELS": "_compare_measures",
        "REPEATED": "_compare_measures",
        "Table": "evaluation_table",
        "judge": "_compare_measures",
    },
)
