"""Section of a study page on model selection, with the regret of each measure.

The baselines are a random choice and selection by source accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.report.charts import Figure
from oodometer.report.charts import FigureTable as Numbers
from oodometer.report.histograms import truncate_name, unique_labels
from oodometer.studies.analysis import MeasureComparison
from oodometer.studies.analysis.grouped_scores import MeanStd
from oodometer.studies.analysis.model_selection import (
    AT_RANDOM,
    BY_SOURCE,
    SelectionRegret,
    evaluate_selection,
)
from oodometer.studies.analysis.rank_correlation import measure_directions
from oodometer.studies.report import charts
from oodometer.studies.report.correlations import NEGATED_PREFIX
from oodometer.studies.report.tables import (
    MIN_GROUP_SHARE,
    label_free_measures,
    most_informative_measures,
)

BASELINES = (AT_RANDOM, BY_SOURCE)


@dataclass(frozen=True)
class RegretSection:
    """Chart of regrets, and a sentence that names the measure with the lowest regret."""

    figure: Figure
    summary: str


def build_regret_section(comparison: MeasureComparison) -> RegretSection:
    """Compute the regret of selecting the best model by each measure, in percentage points."""
    names = most_informative_measures(comparison)
    table = replace(
        comparison.table, measures={name: comparison.table.measures[name] for name in names}
    )
    directions, _ = measure_directions(table)
    negated = {name for name, sign in directions.items() if sign.value > 0}
    selections = sorted(
        (
            selection
            for selection in evaluate_selection(table, signs=directions).values()
            if selection.regret.mean is not None
        ),
        key=_regret_points,
    )
    criteria = [selection.criterion for selection in selections]
    if all(criterion in BASELINES for criterion in criteria):
        raise NotApplicable("no measure has values for two models on the same domain")
    labels = unique_labels(
        [f"{NEGATED_PREFIX}{name}" if name in negated else name for name in criteria]
    )
    display_names = dict(zip(criteria, labels, strict=True))
    return RegretSection(
        _regret_figure(selections, display_names), regret_summary(selections, negated)
    )


def regret_summary(selections: Sequence[SelectionRegret], negated: set[str]) -> str:
    """Return a sentence with the lowest regret of any measure and the regrets of the baselines.

    Only measures that need no target labels and select a model on enough domains are considered.
    """
    label_free = label_free_measures(
        selection.criterion for selection in selections if selection.criterion not in BASELINES
    )
    candidates = [selection for selection in selections if selection.criterion in label_free]
    most = max(selection.regret.groups for selection in candidates)
    best = next(
        candidate for candidate in candidates if candidate.regret.groups >= MIN_GROUP_SHARE * most
    )
    baselines = [
        f"{format_number(_regret_points(selection), 1)} {selection.criterion}"
        for selection in selections
        if selection.criterion in BASELINES
    ]
    return "; ".join(
        [
            f"Selecting the model with the {'lowest' if best.criterion in negated else 'highest'} "
            f"{truncate_name(best.criterion)} loses {format_number(_regret_points(best), 1)} "
            "points against the best model, mean over "
            f"{pluralize(best.regret.groups, 'test domain')}",
            *([f"selecting otherwise loses {' and '.join(baselines)}"] if baselines else []),
        ]
    )


def _regret_figure(
    selections: Sequence[SelectionRegret], display_names: Mapping[str, str]
) -> Figure:
    spans = [
        _regret_span(display_names[selection.criterion], selection.regret)
        for selection in selections
    ]
    rules = [
        (selection.criterion, round(_regret_points(selection), 2))
        for selection in selections
        if selection.criterion in BASELINES
    ]
    return Figure(
        key="regret",
        title="Regret by selection criterion",
        caption="Accuracy of the best model minus that of the selected one, in points: mean over "
        "test domains ± one standard deviation. Dashed lines are the regrets of a random choice "
        "and, if known, of the choice by accuracy on the training domains.",
        alt=f"Mean regrets, from {spans[0].value} points by {spans[0].name} to "
        f"{spans[-1].value} by {spans[-1].name}.",
        spec=charts.span_chart(spans, title="regret, points", rules=rules),
        table=Numbers(
            ("selected by", "regret, points", "sd", "domains", "ρ with accuracy"),
            tuple(
                (display_names[selection.criterion], *_table_row(selection))
                for selection in selections
            ),
        ),
        wide=True,
    )


def _regret_points(selection: SelectionRegret) -> float:
    return 100 * (selection.regret.mean or 0.0)


def _regret_span(name: str, regret: MeanStd) -> charts.ValueSpan:
    mean = 100 * (regret.mean or 0.0)
    sd = 100 * (regret.sd or 0.0)
    # A regret is never negative, so the interval is cut off at 0.
    return charts.ValueSpan(
        name, round(mean, 2), low=round(max(mean - sd, 0.0), 2), high=round(mean + sd, 2)
    )


def _table_row(selection: SelectionRegret) -> tuple[str, ...]:
    sd = None if selection.regret.sd is None else 100 * selection.regret.sd
    return (
        format_number(_regret_points(selection), 2),
        format_number(sd, 2),
        f"{selection.regret.groups:,}",
        format_number(selection.rho.mean, 2),
    )
