"""Which measures say the same: the map of their rank correlations, in the order of a clustering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.report.assessment_figures import Figure
from oodometer.report.assessment_figures import FigureTable as Numbers
from oodometer.report.charts import ChartRow
from oodometer.report.histograms import unique_labels
from oodometer.studies.analysis import MeasureComparison
from oodometer.studies.analysis.clustering import DEFAULT_CUT_DISTANCE, Clustering, cluster_measures
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.rank_correlation import measure_directions
from oodometer.studies.report import charts
from oodometer.studies.report.tables import most_informative_measures

TRUE_ACCURACY = "true accuracy"
# What a name begins with whose values were turned round.
NEGATED_PREFIX = "− "


@dataclass(frozen=True)
class CorrelationSection:
    """The map, groups of several that were found in it, the others, and who is not in it."""

    figure: Figure
    groups: tuple[tuple[str, ...], ...]
    ungrouped: tuple[str, ...]
    remarks: tuple[str, ...]


def build_correlation_section(comparison: MeasureComparison) -> CorrelationSection:
    """Spearman's ρ of measures and accuracy over all evaluations outside of training."""
    names = most_informative_measures(comparison)
    if len(names) == 1:
        raise NotApplicable("there is just one measure, and none to compare it with")
    table, reasons = orient_measures(comparison.table, names)
    found = cluster_measures(table)
    numbered = _numbered_labels(found)
    left_out = {**found.distances.left_out, **reasons}
    remarks = [f"{name} is left out: {why}." for name, why in left_out.items()]
    if len(names) < len(comparison.table.measures):
        remarks.append(f"Of {len(comparison.table.measures)} measures {len(names)} are shown: those whose "
                       "order goes most with accuracy, or most against it.")  # fmt: skip
    every = [tuple(numbered[name] for name in group) for group in found.groups()]
    groups = tuple(group for group in every if len(group) > 1)
    alone = tuple(group[0] for group in every if len(group) == 1)
    return CorrelationSection(
        _correlation_figure(found, numbered, groups), groups, alone, tuple(remarks)
    )


def orient_measures(
    table: EvaluationTable, names: Sequence[str]
) -> tuple[EvaluationTable, dict[str, str]]:
    """The measures and accuracy itself, each turned so that it rises with accuracy.

    Also why a measure has no direction; such are left out.

    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"], "tested_on": ["b", "b"],
    ...                     "accuracy": [0.9, 0.7], "ni": [0.8, 0.6], "ece": [0.1, 0.2]})
    >>> {name: values.tolist() for name, values in orient_measures(table, ["ni", "ece"])[0].measures.items()}
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
    """Names in the order of the leaves, each with its number."""
    shown = unique_labels(clustering.order)
    return {
        name: f"{j} · {label}"
        for j, (name, label) in enumerate(zip(clustering.order, shown, strict=True), 1)
    }


def _correlation_figure(
    clustering: Clustering, numbered: dict[str, str], groups: Sequence[tuple[str, ...]]
) -> Figure:
    place = [clustering.distances.names.index(name) for name in clustering.order]
    values = 1.0 - clustering.distances.values[np.ix_(place, place)]
    rows, columns = list(numbered.values()), [str(j) for j in range(1, len(place) + 1)]
    return Figure(
        key="related",
        title="Rank correlations among measures",
        caption="Spearman's ρ over all evaluations on domains that the model was not trained on. "
        "Vermilion: the two order evaluations alike; blue: in opposite ways; the fuller, the more "
        f"so. A measure with a − was turned round, so that all rise with accuracy. Boxes are groups "
        f"whose measures are joined at ρ ≥ {1 - DEFAULT_CUT_DISTANCE:g} in the mean.",
        alt=f"Correlations of {pluralize(len(rows) - 1, 'measure')} and accuracy; "
        f"{pluralize(len(groups), 'group')} of several that say much the same.",
        spec=charts.heatmap_chart(values, rows, columns, _group_boxes(groups, rows, columns)),
        table=_correlation_table(values, rows, columns),
        wide=True,
    )


def _group_boxes(
    groups: Sequence[tuple[str, ...]], rows: list[str], columns: list[str]
) -> list[ChartRow]:
    found = []
    for group in groups:
        first, last = rows.index(group[0]), rows.index(group[-1])
        found.append({"x": columns[first], "x2": columns[last], "y": rows[first], "y2": rows[last]})
    return found


def _correlation_table(values: Floats, rows: Sequence[str], columns: Sequence[str]) -> Numbers:
    cells = (
        (name, *(format_number(float(one), 2) for one in line))
        for name, line in zip(rows, values, strict=True)
    )
    return Numbers(("measure", *columns), tuple(cells))
