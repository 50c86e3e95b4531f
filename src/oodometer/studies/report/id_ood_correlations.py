"""Section of a study page on averaged correlations of metrics, overall, by task and by shift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.report.charts import ChartRow, Figure
from oodometer.report.charts import FigureTable as Numbers
from oodometer.report.histograms import truncate_name, unique_labels
from oodometer.studies.analysis import MeasureComparison, average_correlations
from oodometer.studies.analysis.averaged_correlations import (
    PRETRAINED_ROLE,
    AveragedCorrelationMatrix,
    AveragedCorrelations,
)
from oodometer.studies.analysis.evaluation_table import PRETRAINED_PREFIX, EvaluationTable
from oodometer.studies.analysis.factors import ATTACK_METRICS, MEAN_ATTACK_METRIC, factor_metrics
from oodometer.studies.report import charts
from oodometer.studies.report.tables import most_informative_measures

OOD_ERROR = "OOD error"
# Maximum number of metrics besides the error. Each metric adds up to four rows and columns.
MAX_METRICS = 5
# Averaging takes about 5 ms per pair and five metrics, so more pairs would delay the page.
MAX_PAIRS = 1000
# Maximum number of matrices by task, and by type of shift.
MAX_GROUP_MATRICES = 10
# Abbreviations in the labels of rows, which have little room.
ABBREVIATIONS = {
    "ID corrupted": "ID corr.",
    "held-out OOD": "held-out",
    "demographic_disparity": "disparity",
    "adversarial_error_": "adv. ",
    "adversarial_error": "adv. error",
    f"{PRETRAINED_ROLE} ": "",
}


@dataclass(frozen=True)
class IdOodCorrelationSection:
    """Matrix over all pairs, matrices by task and by type of shift, and remarks.

    The reasons state why there are no matrices by task or by type of shift; they may be empty.
    """

    figure: Figure
    tasks: tuple[Figure, ...]
    shifts: tuple[Figure, ...]
    task_reason: str
    shift_reason: str
    remarks: tuple[str, ...]


def build_id_ood_correlation_section(comparison: MeasureComparison) -> IdOodCorrelationSection:
    """Average the correlations of metrics in all domain roles over pairs of domains."""
    table = comparison.table
    n_pairs = _count_pairs(table)
    if n_pairs > MAX_PAIRS:
        raise NotApplicable(
            f"the table has {n_pairs:,} pairs of domains, more than {MAX_PAIRS:,}. Run the analysis "
            "'averaged' instead"
        )
    metrics = _correlated_metrics(comparison)
    correlations = average_correlations(table, metrics=metrics)
    shown = _defined_variables(correlations.overall)
    if len(shown) < 2:
        raise NotApplicable("no two metrics have different values for three models of a pair")
    numbers = {name: j for j, name in enumerate(shown, 1)}
    tasks, task_reason = _task_figures(correlations, numbers)
    shifts, shift_reason = _shift_figures(correlations, numbers)
    return IdOodCorrelationSection(
        figure=_overall_figure(correlations.overall, numbers),
        tasks=tasks,
        shifts=shifts,
        task_reason=task_reason,
        shift_reason=shift_reason,
        remarks=tuple(_remarks(comparison, metrics, correlations)),
    )


def _count_pairs(table: EvaluationTable) -> int:
    outside = ~table.in_distribution
    codes = table.trained_on[outside] * len(table.domains) + table.tested_on[outside]
    return len(np.unique(codes))


def _correlated_metrics(comparison: MeasureComparison) -> tuple[str, ...]:
    """Return the metrics of Wenzel et al. if the table has them, otherwise informative measures.

    The paper's matrices have the mean over both sizes of the attack.
    """
    measures = comparison.table.measures
    metrics = factor_metrics(comparison.table)
    if MEAN_ATTACK_METRIC in measures and set(metrics) & set(ATTACK_METRICS):
        kept = [name for name in metrics if name not in (*ATTACK_METRICS, MEAN_ATTACK_METRIC)]
        metrics = (*kept, MEAN_ATTACK_METRIC)
    if len(metrics) > MAX_METRICS:
        return tuple(most_informative_measures(comparison, MAX_METRICS))
    return metrics


def _defined_variables(matrix: AveragedCorrelationMatrix) -> list[str]:
    """Return the variables that have a coefficient with another variable."""
    others = ~np.eye(len(matrix.first), dtype=np.bool_)
    defined = np.asarray((~np.isnan(matrix.values) & others).any(axis=1))
    return [name for name, has in zip(matrix.first, defined, strict=True) if has]


def _matrix_values(matrix: AveragedCorrelationMatrix, names: list[str]) -> Floats:
    index = [matrix.first.index(name) for name in names]
    return np.asarray(matrix.values[np.ix_(index, index)])


def _overall_figure(matrix: AveragedCorrelationMatrix, numbers: Mapping[str, int]) -> Figure:
    names = list(numbers)
    labels = unique_labels([_abbreviate(name) for name in names])
    rows = [f"{number} · {label}" for number, label in zip(numbers.values(), labels, strict=True)]
    columns = [str(number) for number in numbers.values()]
    values = _matrix_values(matrix, names)
    n_pairs = int(matrix.pairs.max())
    return Figure(
        key="averaged",
        title="Averaged correlations of metrics",
        caption=f"Spearman's ρ over the models of a pair, averaged over {pluralize(n_pairs, 'pair')}"
        " so that every task has the same weight. Positive correlations are vermilion, negative "
        "ones blue. The box marks the correlations with OOD error. Corr. stands for corrupted, "
        "held-out for held-out OOD, and adv. for adversarial.",
        alt=f"Averaged correlations of {len(names)} metrics over {pluralize(n_pairs, 'pair')}.",
        spec=charts.heatmap_chart(values, rows, columns, _ood_error_box(names, rows, columns)),
        table=_numbers_table(values, numbers, names),
        wide=True,
    )


def _ood_error_box(names: list[str], rows: list[str], columns: list[str]) -> list[ChartRow]:
    if OOD_ERROR not in names:
        return []
    row = rows[names.index(OOD_ERROR)]
    return [{"x": columns[0], "x2": columns[-1], "y": row, "y2": row}]


def _abbreviate(name: str) -> str:
    for text, short in ABBREVIATIONS.items():
        name = name.replace(text, short)
    return name


def _numbers_table(values: Floats, numbers: Mapping[str, int], names: list[str]) -> Numbers:
    cells = (
        (
            f"{numbers[name]} · {truncate_name(name)}",
            *(format_number(float(value), 2) for value in line),
        )
        for name, line in zip(names, values, strict=True)
    )
    return Numbers(("metric", *(str(numbers[name]) for name in names)), tuple(cells))


def _task_figures(
    correlations: AveragedCorrelations, numbers: Mapping[str, int]
) -> tuple[tuple[Figure, ...], str]:
    if not correlations.tasks:
        return (), "no task is known. Name the tasks in a column 'task'"
    if len(correlations.tasks) == 1:
        return (), f"the only task is {next(iter(correlations.tasks))}"
    return _group_figures("task", correlations.tasks, numbers), ""


def _shift_figures(
    correlations: AveragedCorrelations, numbers: Mapping[str, int]
) -> tuple[tuple[Figure, ...], str]:
    if not correlations.shifts:
        return (), (
            "no type of shift is known. Name the types, such as 'real → artificial', in a column "
            "'shift'"
        )
    return _group_figures("shift", correlations.shifts, numbers), ""


def _group_figures(
    kind: str, matrices: Mapping[str, AveragedCorrelationMatrix], numbers: Mapping[str, int]
) -> tuple[Figure, ...]:
    shown = list(matrices.items())[:MAX_GROUP_MATRICES]
    return tuple(
        _group_figure(f"{kind}-{j}", label, matrix, numbers)
        for j, (label, matrix) in enumerate(shown)
    )


def _group_figure(
    key: str, label: str, matrix: AveragedCorrelationMatrix, numbers: Mapping[str, int]
) -> Figure:
    defined = set(_defined_variables(matrix))
    names = [name for name in numbers if name in defined]
    columns = [str(numbers[name]) for name in names]
    values = _matrix_values(matrix, names)
    n_pairs = pluralize(int(matrix.pairs.max(initial=0)), "pair")
    rho = matrix.score("ID error", OOD_ERROR)["value"] if names else None
    title = truncate_name(label)
    return Figure(
        key=key,
        title=title,
        caption=f"{n_pairs}; ρ of ID error with OOD error: {format_number(rho, 2)}.",
        alt=f"Averaged correlations of {len(names)} metrics, {title}: {n_pairs}.",
        spec=charts.heatmap_chart(
            values, columns, columns, _ood_error_box(names, columns, columns)
        ),
        table=_numbers_table(values, numbers, names),
    )


def _remarks(
    comparison: MeasureComparison, metrics: tuple[str, ...], correlations: AveragedCorrelations
) -> list[str]:
    table = comparison.table
    remarks = []
    undefined = set(correlations.overall.first) - set(_defined_variables(correlations.overall))
    if undefined:
        names = [name for name in correlations.overall.first if name in undefined]
        remarks.append(f"No coefficient: {', '.join(map(truncate_name, names))}.")
    if len(metrics) < len(table.measures):
        names = [truncate_name(name) for name in metrics]
        remarks.append(
            f"{len(metrics)} of {len(table.measures)} measures are shown: {', '.join(names)}."
        )
    if not any(name.startswith(PRETRAINED_PREFIX) for name in table.columns):
        remarks.append(
            "Accuracies of the pretrained networks are not shown: the table has no columns "
            f"'{PRETRAINED_PREFIX}…'."
        )
    for kind, groups in (("tasks", correlations.tasks), ("types of shift", correlations.shifts)):
        if len(groups) > MAX_GROUP_MATRICES:
            remarks.append(f"{MAX_GROUP_MATRICES} of {len(groups)} {kind} are shown.")
    return remarks
