"""Statistics that compare measures, computed from a table of evaluations.

`compare_measures` computes the statistics of Ng et al. (2023). `run_analysis` runs one of the other
analyses by name; each of these analyses is also available as a function. To add an analysis, write
a function in a new file, and in `analyses` a second function that puts its result into a table.
"""

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
    from oodometer.studies.analysis.analyses import ANALYSES, AnalysisResult, run_analysis
    from oodometer.studies.analysis.averaged_correlations import (
        adjusted_correlations,
        average_correlations,
    )
    from oodometer.studies.analysis.comparison_with_truth import compare_with_truth
    from oodometer.studies.analysis.estimation_error import estimation_errors
    from oodometer.studies.analysis.evaluation_table import EvaluationTable
    from oodometer.studies.analysis.factors import (
        FactorAnalysis,
        factor_analysis,
        table_factor_analysis,
    )
    from oodometer.studies.analysis.grouped_scores import MeanStd
    from oodometer.studies.analysis.joint_regression import fit_joint_regressions
    from oodometer.studies.analysis.measure_noise import signal_to_noise
    from oodometer.studies.analysis.rank_correlation import correlate_with_error

__all__ = [
    "ANALYSES",
    "SAME_AS_PREFIX",
    "STATISTIC_LABELS",
    "AnalysisResult",
    "EvaluationTable",
    "FactorAnalysis",
    "MeanStd",
    "MeasureComparison",
    "adjusted_correlations",
    "average_correlations",
    "compare_measures",
    "compare_with_truth",
    "correlate_with_error",
    "estimation_errors",
    "factor_analysis",
    "fit_joint_regressions",
    "run_analysis",
    "signal_to_noise",
    "table_factor_analysis",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "ANALYSES": "analyses",
            "AnalysisResult": "analyses",
            "EvaluationTable": "evaluation_table",
            "FactorAnalysis": "factors",
            "MeanStd": "grouped_scores",
            "MeasureComparison": "_compare_measures",
            "SAME_AS_PREFIX": "_compare_measures",
            "STATISTIC_LABELS": "_compare_measures",
            "adjusted_correlations": "averaged_correlations",
            "average_correlations": "averaged_correlations",
            "compare_measures": "_compare_measures",
            "compare_with_truth": "comparison_with_truth",
            "correlate_with_error": "rank_correlation",
            "estimation_errors": "estimation_error",
            "factor_analysis": "factors",
            "fit_joint_regressions": "joint_regression",
            "run_analysis": "analyses",
            "signal_to_noise": "measure_noise",
            "table_factor_analysis": "factors",
        },
    )
