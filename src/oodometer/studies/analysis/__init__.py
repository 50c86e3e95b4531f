"""Statistics that compare measures, computed from a table of evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies.analysis._compare_measures import (
        SAME_AS_PREFIX,
        STATISTIC_LABELS,
        MeasureComparison,
        compare_measures,
    )
    from oodometer.studies.analysis.evaluation_table import EvaluationTable

__all__ = [
    "SAME_AS_PREFIX",
    "STATISTIC_LABELS",
    "EvaluationTable",
    "MeasureComparison",
    "compare_measures",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "EvaluationTable": "evaluation_table",
            "MeasureComparison": "_compare_measures",
            "SAME_AS_PREFIX": "_compare_measures",
            "STATISTIC_LABELS": "_compare_measures",
            "compare_measures": "_compare_measures",
        },
    )
