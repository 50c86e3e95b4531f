"""Analyses of `oodometer study --analysis`: run one by name on a table, and format the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oodometer.core.errors import UnknownName
from oodometer.core.jsonable import to_jsonable
from oodometer.studies.analysis.averaged_correlations import (
    RESIDUAL_LABEL,
    AveragedCorrelations,
    adjusted_correlations,
    average_correlations,
)
from oodometer.studies.analysis.comparison_with_truth import compare_with_truth
from oodometer.studies.analysis.estimation_error import estimation_errors, select_estimates
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.factors import table_factor_analysis
from oodometer.studies.analysis.joint_regression import (
    ALL_MEASURES,
    BEST_ONE,
    fit_joint_regressions,
)
from oodometer.studies.analysis.measure_noise import signal_to_noise
from oodometer.studies.analysis.rank_correlation import correlate_with_error
from oodometer.studies.analysis.text_tables import TextTable, format_cell

SUBSET_LABELS = {"one": "best measure", "two": "best two measures", "all": "all measures"}
ROTATION = "varimax"


@dataclass(frozen=True)
class AnalysisResult:
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

    title: str
    values: Any
    table: TextTable
    notes: tuple[str, ...] = ()


def run_analysis(table: EvaluationTable, name: str) -> AnalysisResult:
    """Run one analysis of a table of evaluations.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains.
    name : str
        Name of the analysis, one of `ANALYSES`.

    Returns
    -------
    AnalysisResult
        All values, for JSON, and a table of the main values.

    Raises
    ------
    UnknownName
        If there is no analysis of this name.
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
    return _RUNNERS[name](table)


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
        average_correlations(table), "OOD error", "Averaged correlations with OOD error"
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


def _factors(table: EvaluationTable) -> AnalysisResult:
    analysis = table_factor_analysis(table)
    loadings = analysis.rotations[ROTATION]
    shares = analysis.explained_variance_ratio(ROTATION)
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
        f"Loadings after {ROTATION}, {analysis.n_rows} models; {analysis.left_out} models with "
        "missing values are left out.",
        f"Eigenvalues: {', '.join(f'{value:.2f}' for value in analysis.eigenvalues[:12])}.",
    ]
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


_RUNNERS: Mapping[str, Callable[[EvaluationTable], AnalysisResult]] = {
    "joint": _joint,
    "averaged": _averaged,
    "adjusted": _adjusted,
    "noise": _noise,
    "factors": _factors,
    "rank": _rank,
    "truth": _truth,
    "errors": _errors,
}
# Names of the analyses, in the order in which they are shown.
ANALYSES = tuple(_RUNNERS)
