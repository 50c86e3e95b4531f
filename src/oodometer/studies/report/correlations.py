"""Which measures say the same: the map of their rank correlations, in the order of a clustering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oodometer.core.errors import NoAnswer
from oodometer.core.format import counted, number
from oodometer.core.softmax_kernels import Floats
from oodometer.report.assessment_figures import Figure
from oodometer.report.assessment_figures import Table as Numbers
from oodometer.report.charts import Row
from oodometer.report.histograms import labels
from oodometer.studies.analysis import Judgement
from oodometer.studies.analysis.clustering import CUT, Clustering, cluster
from oodometer.studies.analysis.evaluation_table import Table
from oodometer.studies.analysis.rank_correlation import signs
from oodometer.studies.report import charts
from oodometer.studies.report.tables import most_telling

TRUTH = "true accuracy"
# What a name begins with whose values were turned round.
TURNED = "− "


@dataclass(frozen=True)
class Related:
    """The map, groups of several that were found in it, the others, and who is not in it."""

    figure: Figure
    groups: tuple[tuple[str, ...], ...]
    alone: tuple[str, ...]
    remarks: tuple[str, ...]


def related(judged: Judgement) -> Related:
    """Spearman's ρ of measures and accuracy over all evaluations outside of training."""
    names = most_telling(judged)
    if len(names) == 1:
        raise NoAnswer("there is just one measure, and none to compare it with")
    table, reasons = turned(judged.table, names)
    found = cluster(table)
    numbered = _numbered(found)
    left_out = {**found.distances.left_out, **reasons}
    remarks = [f"{name} is left out: {why}." for name, why in left_out.items()]
    if len(names) < len(judged.table.measures):
        remarks.append(f"Of {len(judged.table.measures)} measures {len(names)} are shown: those whose "
                       "order goes most with accuracy, or most against it.")  # fmt: skip
    every = [tuple(numbered[name] for name in group) for group in found.groups()]
    groups = tuple(group for group in every if len(group) > 1)
    alone = tuple(group[0] for group in every if len(group) == 1)
    return Related(_figure(found, numbered, groups), groups, alone, tuple(remarks))


def turned(table: Table, names: Sequence[str]) -> tuple[Table, dict[str, str]]:
    """The measures and accuracy itself, each turned so that it rises with accuracy.

    Also why a measure has no direction; such are left out.

    >>> table = Table.read({"model": ["m", "n"], "trained_on": ["a", "a"], "tested_on": ["b", "b"],
    ...                     "accuracy": [0.9, 0.7], "ni": [0.8, 0.6], "ece": [0.1, 0.2]})
    >>> {name: values.tolist() for name, values in turned(table, ["ni", "ece"])[0].measures.items()}
    {'true accuracy': [0.9, 0.7], 'ni': [0.8, 0.6], '− ece': [-0.1, -0.2]}
    """
    table = replace(table, measures={name: table.measures[name] for name in names})
    directions, reasons = signs(table)
    measures = {TRUTH: table.accuracy}
    for name, sign in directions.items():
        measures[f"{TURNED}{name}" if sign.value > 0 else name] = -sign.value * table.measures[name]
    return replace(table, measures=measures), reasons


def _numbered(found: Clustering) -> dict[str, str]:
    """Names in the order of the leaves, each with its number."""
    shown = labels(found.order)
    return {
        name: f"{j} · {label}"
        for j, (name, label) in enumerate(zip(found.order, shown, strict=True), 1)
    }


def _figure(
    found: Clustering, numbered: dict[str, str], groups: Sequence[tuple[str, ...]]
) -> Figure:
    place = [found.distances.names.index(name) for name in found.order]
    values = 1.0 - found.distances.values[np.ix_(place, place)]
    rows, columns = list(numbered.values()), [str(j) for j in range(1, len(place) + 1)]
    return Figure(
        key="related",
        title="Rank correlations among measures",
        caption="Spearman's ρ over all evaluations on domains that the model was not trained on. "
        "Vermilion: the two order evaluations alike; blue: in opposite ways; the fuller, the more "
        f"so. A measure with a − was turned round, so that all rise with accuracy. Boxes are groups "
        f"whose measures are joined at ρ ≥ {1 - CUT:g} in the mean.",
        alt=f"Correlations of {counted(len(rows) - 1, 'measure')} and accuracy; "
        f"{counted(len(groups), 'group')} of several that say much the same.",
        spec=charts.heat(values, rows, columns, _boxes(groups, rows, columns)),
        table=_table(values, rows, columns),
        wide=True,
    )


def _boxes(groups: Sequence[tuple[str, ...]], rows: list[str], columns: list[str]) -> list[Row]:
    found = []
    for group in groups:
        first, last = rows.index(group[0]), rows.index(group[-1])
        found.append({"x": columns[first], "x2": columns[last], "y": rows[first], "y2": rows[last]})
    return found


def _table(values: Floats, rows: Sequence[str], columns: Sequence[str]) -> Numbers:
    cells = (
        (name, *(number(float(one), 2) for one in line))
        for name, line in zip(rows, values, strict=True)
    )
    return Numbers(("measure", *columns), tuple(cells))
