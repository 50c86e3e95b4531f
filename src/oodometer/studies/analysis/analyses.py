"""Analyses of a study table (option --analysis): run one by name on a table, and format the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from oodometer.core.errors import NotApplicable, UnknownName
from oodometer.core.jsonable import to_jsonable
from oodometer.core.result_views import ResultViews, TableRows
from oodometer.studies.analysis.averaged_correlations import (
    RESIDUAL_LABEL,
    AveragedCorrelationMatrix,
    AveragedCorrelations,
    adjusted_correlations,
    average_correlations,
)
from oodometer.studies.analysis.comparison_with_truth import compare_with_truth
from oodometer.studies.analysis.difficulty_correlations import correlations_by_difficulty
from oodometer.studies.analysis.estimation_error import estimation_errors, select_estimates
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.factors import (
    DEFAULT_ROTATION,
    Rotation,
    check_rotation,
    table_factor_analysis,
)
from oodometer.studies.analysis.hyperparameter_selection import best_configurations
from oodometer.studies.analysis.joint_regression import (
    ALL_MEASURES,
    BEST_ONE,
    fit_joint_regressions,
)
from oodometer.studies.analysis.measure_noise import signal_to_noise
from oodometer.studies.analysis.rank_correlation import correlate_with_error
from oodometer.studies.analysis.text_tables import MISSING_CELL, TextTable, format_cell
from oodometer.studies.analysis.training_strategies import (
    augmentation_effects,
    sort_augmentations,
    training_strategy_gaps,
)

SUBSET_LABELS = {"one": "best measure", "two": "best two measures", "all": "all measures"}
FACTORS = "factors"
# Variable with which the tables of correlations show the coefficients.
OOD_ERROR = "OOD error"
STRATEGY_NOTE = (
    "Mean ± standard error over datasets, in percent. An ID dataset is a training set, an OOD "
    "dataset a training set with another domain of the task."
)


@dataclass(frozen=True, repr=False)
class AnalysisResult(ResultViews):
    """Result of one named analysis.

    Parameters
    ----------
    title : str
        Heading of the table.
    values : object
        All values, for JSON.
    table : TextTable
        The main values, formatted for readers.
    notes : tuple of str
        Sentences below the table. They state units, what was left out, and why.
    """

    renderer: ClassVar[str] = "oodometer.studies.report.analysis_views"

    title: str
    values: Any
    table: TextTable
    notes: tuple[str, ...] = ()

    def key_values(self) -> dict[str, Any]:
        return {"title": self.title, "rows": len(self.table.rows)}

    def tables(self) -> dict[str, TableRows]:
        """Return the table `values`, with numbers instead of text where cells are numbers."""
        return {"values": self.table.to_records()}

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "values": to_jsonable(self.values), "notes": list(self.notes)}


def run_analysis(table: Any, name: str, *, rotation: Rotation = DEFAULT_ROTATION) -> AnalysisResult:
    """Run one analysis of a table of evaluations.

    Parameters
    ----------
    table : EvaluationTable, path, data frame or mapping of columns
        Evaluations of models on domains; see `compare_measures`.
    name : str
        Name of the analysis, one of `ANALYSES`.
    rotation : {"equamax", "varimax", "quartimax"}
        Rotation of the factors; only the analysis ``factors`` uses it.

    Returns
    -------
    AnalysisResult
        All values, for JSON, and a table of the main values.

    Raises
    ------
    UnknownName
        If there is no analysis or rotation of this name.
    NotApplicable
        If the table lacks what the analysis needs; the message is the reason.
    InputError
        If a column of the table cannot be used.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": ["l", "m", "n"], "trained_on": ["a"] * 3,
    ...     "tested_on": ["b"] * 3, "accuracy": [0.9, 0.8, 0.7], "doc": [0.8, 0.7, 0.6]})
    >>> result = run_analysis(table, "truth")
    >>> result.table.header[:3], result.table.rows[0][:3]
    (('estimator', 'MAE', 'bias'), ('doc', '10.00', '-10.00'))
    """
    if name not in _RUNNERS:
        raise UnknownName("analysis", name, _RUNNERS)
    check_rotation(rotation)
    table = EvaluationTable.open(table)
    return _factors(table, rotation) if name == FACTORS else _RUNNERS[name](table)


def _joint(table: EvaluationTable) -> AnalysisResult:
    result = fit_joint_regressions(table)
    rows = []
    for subset, regression in result.regressions.items():
        r2, spearman, mae = (regression.mean(name) for name in ("r2", "spearman", "mae"))
        gain = None if subset == BEST_ONE else result.gain("mae", subset=subset).mean
        rows.append(
            (
                SUBSET_LABELS[subset],
                format_cell(r2.mean, r2.sd, 3),
                format_cell(spearman.mean, spearman.sd, 3),
                format_cell(mae.mean, mae.sd, 2),
                format_cell(gain, None, 2),
                format_cell(regression.pooled.r2, None, 3),
                format_cell(regression.pooled.spearman, None, 3),
                "all" if subset == ALL_MEASURES else ", ".join(regression.pooled.weights),
            )
        )
    header = ("regression on", "R2", "Spearman", "MAE", "gain in MAE", "R2, pooled",
              "Spearman, pooled", "measures, pooled")  # fmt: skip
    notes = [
        f"Mean ± standard deviation over {len(result.regressions[BEST_ONE].environments)} "
        "environments; each is tested with a fit on the others. The pooled columns are fitted and "
        "tested on all environments. MAE is in points.",
        f"{result.n_evaluations} evaluations used, {result.n_incomplete} lack a measure.",
        *(f"{name} is left out: {reason}." for name, reason in result.left_out.items()),
    ]
    return AnalysisResult(
        "Joint regression of target error on measures",
        result.to_dict(),
        TextTable(header, tuple(rows)),
        tuple(notes),
    )


def _averaged(table: EvaluationTable) -> AnalysisResult:
    return _correlation_result(
        average_correlations(table), OOD_ERROR, f"Averaged correlations with {OOD_ERROR}"
    )


def _tasks(table: EvaluationTable) -> AnalysisResult:
    matrices = average_correlations(table).tasks
    if not matrices:
        raise NotApplicable("no task is known. Name the tasks in a column 'task'")
    return _grouped_correlation_result(matrices, "task")


def _shifts(table: EvaluationTable) -> AnalysisResult:
    matrices = average_correlations(table).shifts
    if not matrices:
        raise NotApplicable(
            "no type of shift is known. Name the types, such as 'real → artificial', in a column "
            "'shift'"
        )
    return _grouped_correlation_result(matrices, "type of shift")


def _grouped_correlation_result(
    matrices: Mapping[str, AveragedCorrelationMatrix], label: str
) -> AnalysisResult:
    """Return the correlations with OOD error, with one column per group of pairs."""
    rows = []
    for name in next(iter(matrices.values())).first:
        cells = [matrix.score(name, OOD_ERROR) for matrix in matrices.values()]
        if name != OOD_ERROR and any(cell["value"] is not None for cell in cells):
            rows.append((name, *(format_cell(cell["value"], cell["sd"], 3) for cell in cells)))
    pairs = (f"{name}: {int(matrix.pairs.max(initial=0))}" for name, matrix in matrices.items())
    return AnalysisResult(
        f"Averaged correlations with {OOD_ERROR} by {label}",
        {name: matrix.to_dict() for name, matrix in matrices.items()},
        TextTable(("variable", *matrices), tuple(rows)),
        (
            "Each value is Spearman's ρ per pair of domains: mean ± standard deviation over pairs.",
            f"Number of pairs: {', '.join(pairs)}.",
        ),
    )


def _adjusted(table: EvaluationTable) -> AnalysisResult:
    return _correlation_result(
        adjusted_correlations(table),
        RESIDUAL_LABEL,
        "Averaged correlations with the OOD error that ID error does not explain",
    )


def _correlation_result(
    correlations: AveragedCorrelations, target: str, title: str
) -> AnalysisResult:
    """Return the correlations with one variable, without variables that have no coefficient."""
    matrix = correlations.overall
    cells = [matrix.score(name, target) for name in matrix.first if name != target]
    known = [cell for cell in cells if cell["value"] is not None]
    rows = [
        (
            cell["first"],
            format_cell(cell["value"], cell["sd"], 3),
            str(cell["pairs"]),
            str(cell["left_out"]),
            str(cell["models"]),
        )
        for cell in known
    ]
    notes = [
        "Each value is Spearman's ρ per pair of domains: mean ± standard deviation over pairs."
    ]
    if len(known) < len(cells):
        names = ", ".join(cell["first"] for cell in cells if cell["value"] is None)
        notes.append(f"No coefficient: {names}.")
    notes += [f"{count} rows left out: {why}." for why, count in correlations.left_out.items()]
    header = ("variable", "ρ", "pairs", "undefined", "models")
    return AnalysisResult(
        title, correlations.to_dict(), TextTable(header, tuple(rows)), tuple(notes)
    )


def _noise(table: EvaluationTable) -> AnalysisResult:
    ratios = signal_to_noise(table)
    rows = [
        (
            name,
            format_cell(ratio.mean, ratio.sd, 2),
            str(ratio.groups),
            str(sum(ratio.left_out.values())),
        )
        for name, ratio in ratios.items()
    ]
    reasons = sorted({reason for ratio in ratios.values() for reason in ratio.left_out})
    return AnalysisResult(
        "Signal-to-noise ratio over replicates",
        to_jsonable(ratios),
        TextTable(("measure", "|mean| / sd", "sets", "undefined"), tuple(rows)),
        ("A set holds the replicates of one model on one domain.",
         *(f"Sets without a ratio: {reason}." for reason in reasons)),
    )  # fmt: skip


def _factors(table: EvaluationTable, rotation: Rotation = DEFAULT_ROTATION) -> AnalysisResult:
    analysis = table_factor_analysis(table, rotation=rotation)
    loadings = analysis.rotated_loadings
    shares = analysis.explained_variance_ratio(rotation)
    rows = [
        (
            name,
            *(format_cell(float(value), None, 2) for value in loadings[j]),
            format_cell(float(analysis.communalities[j]), None, 2),
        )
        for j, name in enumerate(analysis.names)
    ]
    total = ("share of variance", *(f"{share:.2f}" for share in shares), f"{shares.sum():.2f}")
    notes = [
        f"Loadings after {rotation}, {analysis.n_rows} models; {analysis.left_out} models with "
        "missing values are left out.",
        f"Eigenvalues: {', '.join(f'{value:.2f}' for value in analysis.eigenvalues[:16])}.",
    ]
    if analysis.few_shot_models:
        notes.append(
            f"{analysis.few_shot_models} models trained on a few rows per class are left out."
        )
    if analysis.empty_columns:
        notes.append(f"No values: {', '.join(analysis.empty_columns)}.")
    factors = (f"factor {j}" for j in range(1, loadings.shape[1] + 1))
    return AnalysisResult(
        "Factor analysis of models × metrics",
        analysis.to_dict(),
        TextTable(("column", *factors, "communality"), (*rows, total)),
        tuple(notes),
    )


def _rank(table: EvaluationTable) -> AnalysisResult:
    correlations = correlate_with_error(table)
    rows = []
    for name, correlation in correlations.items():
        mean = correlation.mean
        rows.append(
            (
                name,
                format_cell(mean.mean, mean.sd, 3),
                str(mean.groups),
                str(sum(mean.left_out.values())),
                format_cell(correlation.joint.value, None, 3),
                str(correlation.joint.n),
            )
        )
    header = (
        "measure", "ρ", "environments", "undefined", "ρ, pooled", "evaluations",
    )  # fmt: skip
    return AnalysisResult(
        "Rank correlation of measures with target error",
        to_jsonable(correlations),
        TextTable(header, tuple(rows)),
        ("Each value is Spearman's ρ per test domain: mean ± standard deviation over domains.",),
    )


def _truth(table: EvaluationTable) -> AnalysisResult:
    comparisons = [compare_with_truth(table, name) for name in select_estimates(table)]
    rows = [
        (
            comparison.estimator,
            format_cell(comparison.mae, None, 2),
            format_cell(comparison.bias, None, 2),
            format_cell(comparison.r2, None, 3),
            format_cell(comparison.line.slope if comparison.line else None, None, 2),
            format_cell(comparison.line.intercept if comparison.line else None, None, 2),
            str(len(comparison.points)),
            str(comparison.lacking),
        )
        for comparison in comparisons
    ]
    header = ("estimator", "MAE", "bias", "R2", "slope", "intercept", "points", "missing")
    return AnalysisResult(
        "Estimated against true accuracy",
        to_jsonable(comparisons),
        TextTable(header, tuple(rows)),
        (
            "MAE and bias (estimated minus true) are in points. "
            "The line is Siegel's repeated median.",
        ),
    )


def _errors(table: EvaluationTable) -> AnalysisResult:
    result = estimation_errors(table)
    rows = [
        (
            cell.dataset,
            cell.shift,
            cell.architecture,
            cell.estimator,
            cell.calibration,
            format_cell(cell.mae.mean, cell.mae.sd, 2),
            str(cell.targets),
            str(cell.n),
            str(cell.lacking),
        )
        for cell in result.cells
    ]
    header = ("dataset", "shift", "architecture", "estimator", "calibration", "MAE", "targets",
              "evaluations", "missing")  # fmt: skip
    return AnalysisResult(
        "Estimation error by type of shift",
        result.to_dict(),
        TextTable(header, tuple(rows)),
        (f"MAE is in points: mean ± standard deviation over {result.sd_over}s.",),
    )


def _strategies(table: EvaluationTable) -> AnalysisResult:
    gaps = training_strategy_gaps(table)
    rows = [
        (
            gap.task,
            gap.size,
            gap.role,
            _format_percent(gap.whole, gap.whole_se),
            _format_percent(gap.head, gap.head_se),
            _format_percent(gap.gap, gap.gap_se),
            str(gap.datasets),
            str(gap.left_out),
        )
        for gap in gaps
    ]
    header = ("task", "training rows", "data", "whole model", "head only", "normalized gap",
              "datasets", "left out")  # fmt: skip
    return AnalysisResult(
        "Accuracy of models trained as a whole and of trained heads",
        to_jsonable(gaps),
        TextTable(header, tuple(rows)),
        (STRATEGY_NOTE, "The normalized gap is (whole model − head only) / whole model."),
    )


def _augmentation(table: EvaluationTable) -> AnalysisResult:
    effects = augmentation_effects(table)
    cells = {
        (mean.task, mean.size, mean.role, mean.augmentation): _format_percent(
            mean.accuracy, mean.se
        )
        for mean in effects
    }
    counts = {(mean.task, mean.size, mean.role): str(mean.datasets) for mean in effects}
    used = sort_augmentations(mean.augmentation for mean in effects)
    rows = [
        (*key, *(cells.get((*key, name), MISSING_CELL) for name in used), count)
        for key, count in counts.items()
    ]
    return AnalysisResult(
        "Accuracy by augmentation",
        to_jsonable(effects),
        TextTable(("task", "training rows", "data", *used, "datasets"), tuple(rows)),
        (STRATEGY_NOTE,),
    )


def _difficulty(table: EvaluationTable) -> AnalysisResult:
    trends = correlations_by_difficulty(table)
    tasks = dict(
        sorted(
            {point.task: point.difficulty for trend in trends for point in trend.points}.items(),
            key=lambda item: item[1],
        )
    )
    rows = []
    for trend in trends:
        values = {point.task: point.correlation for point in trend.points}
        line = trend.line
        rows.append(
            (
                trend.metric,
                *(format_cell(values.get(task), None, 3) for task in tasks),
                format_cell(line.slope if line else None, None, 3),
                format_cell(line.intercept if line else None, None, 3),
            )
        )
    heads = (f"{task} ({difficulty:.2f})" for task, difficulty in tasks.items())
    return AnalysisResult(
        "Correlation of ID metrics with OOD error by task difficulty",
        to_jsonable(trends),
        TextTable(("metric", *heads, "slope", "intercept"), tuple(rows)),
        (
            "Each value is the averaged Spearman's ρ of a task. In parentheses is the difficulty: "
            "the normalized gap (ID − OOD) / ID of the accuracies, scaled to 0…1. The line is "
            "fitted by least squares to at least three tasks.",
        ),
    )


def _models(table: EvaluationTable) -> AnalysisResult:
    results = best_configurations(table)
    rows = [
        (
            result.architecture,
            result.task,
            result.size,
            _format_error(result.id_error, result.id_error_se),
            _format_error(result.ood_error, result.ood_error_se),
            _format_error(result.gap, result.gap_se),
            str(len(result.choices)),
        )
        for result in results
    ]
    header = ("architecture", "task", "training rows", "ID error", "OOD error", "OOD − ID",
              "training sets")  # fmt: skip
    notes = [
        "Hyperparameters are chosen per training set by the error on held-out ID data "
        "(source-error). Mean ± standard error over training sets.",
    ]
    n_left_out = sum(result.left_out for result in results)
    if n_left_out:
        notes.append(f"{n_left_out} models are left out because an error is missing.")
    return AnalysisResult(
        "Errors with the best hyperparameters by ID validation",
        to_jsonable(results),
        TextTable(header, tuple(rows)),
        tuple(notes),
    )


def _format_percent(value: float | None, se: float | None) -> str:
    percent = None if value is None else 100 * value
    return format_cell(percent, None if se is None else 100 * se, 1)


def _format_error(value: float, se: float | None) -> str:
    return format_cell(value, se, 3)


_RUNNERS: Mapping[str, Callable[[EvaluationTable], AnalysisResult]] = {
    "joint": _joint,
    "averaged": _averaged,
    "adjusted": _adjusted,
    "tasks": _tasks,
    "shifts": _shifts,
    "difficulty": _difficulty,
    "strategies": _strategies,
    "augmentation": _augmentation,
    "models": _models,
    "noise": _noise,
    FACTORS: _factors,
    "rank": _rank,
    "truth": _truth,
    "errors": _errors,
}
# Names of the analyses, in the order in which they are shown.
ANALYSES = tuple(_RUNNERS)
