"""Statistics that compare measures, computed from a table of evaluations.

`compare_measures` computes the statistics of Ng et al. (2023), and `compare_with_reference` those of
accuracies on several test sets (Taori et al., 2020). `compare_two_measures` compares two measures by
a bootstrap over models, and `truth_reliability` tells whether the true accuracies are precise enough
to order the models. `run_analysis` runs one of the other analyses by name; each of these analyses is
also available as a function. To add an analysis, write a function in a new file, and in `analyses` a
second function that puts its result into a table.
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
    from oodometer.studies.analysis.difficulty_correlations import (
        DifficultyPoint,
        DifficultyTrend,
        correlations_by_difficulty,
    )
    from oodometer.studies.analysis.estimation_error import estimation_errors
    from oodometer.studies.analysis.evaluation_table import EvaluationTable
    from oodometer.studies.analysis.factors import (
        FactorAnalysis,
        factor_analysis,
        table_factor_analysis,
    )
    from oodometer.studies.analysis.grouped_scores import MeanStd
    from oodometer.studies.analysis.hyperparameter_selection import (
        ArchitecturePerformance,
        ConfigurationChoice,
        best_configurations,
    )
    from oodometer.studies.analysis.joint_regression import fit_joint_regressions
    from oodometer.studies.analysis.measure_noise import signal_to_noise
    from oodometer.studies.analysis.model_bootstrap import (
        BOOTSTRAP_STATISTICS,
        BootstrapReplicates,
        MeasureDifference,
        bootstrap_statistics,
        compare_by_statistics,
        compare_two_measures,
    )
    from oodometer.studies.analysis.pretrained_accuracies import add_pretrained_accuracies
    from oodometer.studies.analysis.rank_correlation import correlate_with_error
    from oodometer.studies.analysis.reliability import TruthReliability, truth_reliability
    from oodometer.studies.analysis.robustness import (
        RobustnessComparison,
        compare_with_reference,
    )
    from oodometer.studies.analysis.training_strategies import (
        AugmentationAccuracy,
        StrategyGap,
        augmentation_effects,
        training_strategy_gaps,
    )

__all__ = [
    "ANALYSES",
    "BOOTSTRAP_STATISTICS",
    "SAME_AS_PREFIX",
    "STATISTIC_LABELS",
    "AnalysisResult",
    "ArchitecturePerformance",
    "AugmentationAccuracy",
    "BootstrapReplicates",
    "ConfigurationChoice",
    "DifficultyPoint",
    "DifficultyTrend",
    "EvaluationTable",
    "FactorAnalysis",
    "MeanStd",
    "MeasureComparison",
    "MeasureDifference",
    "RobustnessComparison",
    "StrategyGap",
    "TruthReliability",
    "add_pretrained_accuracies",
    "adjusted_correlations",
    "augmentation_effects",
    "average_correlations",
    "best_configurations",
    "bootstrap_statistics",
    "compare_by_statistics",
    "compare_measures",
    "compare_two_measures",
    "compare_with_reference",
    "compare_with_truth",
    "correlate_with_error",
    "correlations_by_difficulty",
    "estimation_errors",
    "factor_analysis",
    "fit_joint_regressions",
    "run_analysis",
    "signal_to_noise",
    "table_factor_analysis",
    "training_strategy_gaps",
    "truth_reliability",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "ANALYSES": "analyses",
            "BOOTSTRAP_STATISTICS": "model_bootstrap",
            "BootstrapReplicates": "model_bootstrap",
            "MeasureDifference": "model_bootstrap",
            "TruthReliability": "reliability",
            "bootstrap_statistics": "model_bootstrap",
            "compare_by_statistics": "model_bootstrap",
            "compare_two_measures": "model_bootstrap",
            "truth_reliability": "reliability",
            "AnalysisResult": "analyses",
            "ArchitecturePerformance": "hyperparameter_selection",
            "AugmentationAccuracy": "training_strategies",
            "ConfigurationChoice": "hyperparameter_selection",
            "DifficultyPoint": "difficulty_correlations",
            "DifficultyTrend": "difficulty_correlations",
            "EvaluationTable": "evaluation_table",
            "FactorAnalysis": "factors",
            "MeanStd": "grouped_scores",
            "MeasureComparison": "_compare_measures",
            "RobustnessComparison": "robustness",
            "SAME_AS_PREFIX": "_compare_measures",
            "STATISTIC_LABELS": "_compare_measures",
            "StrategyGap": "training_strategies",
            "add_pretrained_accuracies": "pretrained_accuracies",
            "adjusted_correlations": "averaged_correlations",
            "augmentation_effects": "training_strategies",
            "average_correlations": "averaged_correlations",
            "best_configurations": "hyperparameter_selection",
            "compare_measures": "_compare_measures",
            "compare_with_reference": "robustness",
            "compare_with_truth": "comparison_with_truth",
            "correlate_with_error": "rank_correlation",
            "correlations_by_difficulty": "difficulty_correlations",
            "estimation_errors": "estimation_error",
            "factor_analysis": "factors",
            "fit_joint_regressions": "joint_regression",
            "run_analysis": "analyses",
            "signal_to_noise": "measure_noise",
            "table_factor_analysis": "factors",
            "training_strategy_gaps": "training_strategies",
        },
    )
