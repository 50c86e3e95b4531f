"""Heat map of the rank correlations among measures, for the study page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.report.charts import ChartRow, Figure
from oodometer.report.charts import FigureTable as Numbers
from oodometer.report.histograms import unique_labels
from oodometer.studies.analysis import MeasureComparison
from oodometer.studies.analysis.clustering import DEFAULT_CUT_DISTANCE, Clustering, cluster_measures
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.rank_correlation import measure_directions
from oodometer.studies.report import charts
from oodometer.studies.report.tables import most_informative_measures

TRUE_ACCURACY = "true accuracy"
# Prefix in the name of a measure whose sign is flipped.
NEGATED_PREFIX = "− "


@dataclass(frozen=True)
class CorrelationSection:
    """Heat map of correlations, groups of similar measures, measures in no group, and remarks."""

    figure: Figure
    groups: tuple[tuple[str, ...], ...]
    ungrouped: tuple[str, ...]
    remarks: tuple[str, ...]


def build_correlation_section(comparison: MeasureComparison) -> CorrelationSection:
    """Correlate measures and accuracy (Spearman's ρ) over all out-of-distribution evaluations."""
    names = most_informative_measures(comparison)
    if len(names) == 1:
        raise NotApplicable("there is only one measure")
    table, reasons = orient_measures(comparison.table, names)
    clustering = cluster_measures(table)
    labels = _numbered_labels(clustering)
    left_out = {**clustering.distances.left_out, **reasons}
    remarks = [f"{name} is left out: {reason}." for name, reason in left_out.items()]
    n_measures = len(comparison.table.measures)
    if len(names) < n_measures:
        remarks.append(
            f"{len(names)} of {n_measures} measures are shown: those with the strongest rank "
            "correlation with accuracy, positive or negative."
        )
    labelled = [tuple(labels[name] for name in group) for group in clustering.groups()]
    groups = tuple(group for group in labelled if len(group) > 1)
    return CorrelationSection(
        figure=_correlation_figure(clustering, labels, groups),
        groups=groups,
        ungrouped=tuple(group[0] for group in labelled if len(group) == 1),
        remarks=tuple(remarks),
    )


def orient_measures(
    table: EvaluationTable, names: Sequence[str]
) -> tuple[EvaluationTable, dict[str, str]]:
    """Flip the signs of measures so that all increase with accuracy.

    Return a table whose measures are the true accuracy and the oriented measures, and the reason
    for each measure that is left out because it neither increases nor decreases.

    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"],
    ...     "tested_on": ["b", "b"], "accuracy": [0.9, 0.7], "ni": [0.8, 0.6], "ece": [0.1, 0.2]})
    >>> oriented, _ = orient_measures(table, ["ni", "ece"])
    >>> {name: values.tolist() for name, values in oriented.measures.items()}
    {'true accuracy': [0.9, 0.7], 'ni': [0.8, 0.6], '− ece': [-0.1, -0.2]}
    """
    table = replace(table, measures={name: table.measures[name] for name in names})
    directions, reasons = measure_directions(table)
    measures = {TRUE_ACCURACY: table.accuracy}
    for name, sign in directions.items():
        measures[f"{NEGATED_PREFIX}{name}" if sign.value > 0 else name] = (
            -sign.value * table.measures[name]
        )
    return replace(table, measures=measures), reasons


def _numbered_labels(clustering: Clustering) -> dict[str, str]:
    """Return numbered labels of the measures, in the order of the leaves."""
    labels = unique_labels(clustering.order)
    return {
        name: f"{j} · {label}"
        for j, (name, label) in enumerate(zip(clustering.order, labels, strict=True), 1)
    }


def _correlation_figure(
    clustering: Clustering, labels: dict[str, str], groups: Sequence[tuple[str, ...]]
) -> Figure:
    leaves = [clustering.distances.names.index(name) for name in clustering.order]
    values = 1.0 - clustering.distances.values[np.ix_(leaves, leaves)]
    rows = list(labels.values())
    columns = [str(j) for j in range(1, len(leaves) + 1)]
    return Figure(
        key="related",
        title="Rank correlations among measures",
        caption="Spearman's ρ over all evaluations on domains that the model was not trained on. "
        "Positive correlations are vermilion, negative ones blue; a stronger color means a "
        "stronger correlation. The sign of a measure with − is flipped, so that all increase with "
        "accuracy. Boxes mark groups of measures that were joined at a mean ρ ≥ "
        f"{1 - DEFAULT_CUT_DISTANCE:g}.",
        alt=f"Correlations of {pluralize(len(rows) - 1, 'measure')} and accuracy; "
        f"{pluralize(len(groups), 'group')} of several similar measures.",
        spec=charts.heatmap_chart(values, rows, columns, _group_boxes(groups, rows, columns)),
        table=_correlation_table(values, rows, columns),
        wide=True,
    )


def _group_boxes(
    groups: Sequence[tuple[str, ...]], rows: list[str], columns: list[str]
) -> list[ChartRow]:
    boxes = []
    for group in groups:
        first, last = rows.index(group[0]), rows.index(group[-1])
        boxes.append({"x": columns[first], "x2": columns[last], "y": rows[first], "y2": rows[last]})
    return boxes


def _correlation_table(values: Floats, rows: Sequence[str], columns: Sequence[str]) -> Numbers:
    cells = (
        (name, *(format_number(float(value), 2) for value in row))
        for name, row in zip(rows, values, strict=True)
    )
    return Numbers(("measure", *columns), tuple(cells))
