"""What choosing a model by a measure costs: the regret of each, beside chance and source accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.report.assessment_figures import Figure
from oodometer.report.assessment_figures import FigureTable as Numbers
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
    """The chart and what it says."""

    figure: Figure
    summary: str


def build_regret_section(comparison: MeasureComparison) -> RegretSection:
    """The regret of choosing the first by each measure on every test domain, in points."""
    names = most_informative_measures(comparison)
    table = replace(
        comparison.table, measures={name: comparison.table.measures[name] for name in names}
    )
    directions, _ = measure_directions(table)
    turned = {name for name, sign in directions.items() if sign.value > 0}
    found = evaluate_selection(table, signs=directions).values()
    known = sorted((one for one in found if one.regret.mean is not None), key=_regret_points)
    if all(one.criterion in BASELINES for one in known):
        raise NotApplicable("on no domain has a measure an answer for two models or more")
    written = unique_labels(
        [
            f"{NEGATED_PREFIX}{one.criterion}" if one.criterion in turned else one.criterion
            for one in known
        ]
    )
    shown = {one.criterion: label for one, label in zip(known, written, strict=True)}
    return RegretSection(_regret_figure(known, shown), regret_summary(known, turned))


def regret_summary(selections: Sequence[SelectionRegret], negated: set[str]) -> str:
    """The least regret of a measure, of those that choose on enough domains, beside the others."""
    fair = label_free_measures(
        one.criterion for one in selections if one.criterion not in BASELINES
    )
    measures = [one for one in selections if one.criterion in fair]
    most = max(one.regret.groups for one in measures)
    best = next(one for one in measures if one.regret.groups >= MIN_GROUP_SHARE * most)
    beside = [
        f"{format_number(_regret_points(one), 1)} {one.criterion}"
        for one in selections
        if one.criterion in BASELINES
    ]
    return "; ".join(
        [
            f"Choosing the model of {'lowest' if best.criterion in negated else 'highest'} "
            f"{truncate_name(best.criterion)} costs {format_number(_regret_points(best), 1)} points against the best model, "
            f"mean over {pluralize(best.regret.groups, 'test domain')}",
            *([f"choosing otherwise, {' and '.join(beside)}"] if beside else []),
        ]
    )


def _regret_figure(
    selections: Sequence[SelectionRegret], display_names: Mapping[str, str]
) -> Figure:
    spans = [_regret_span(display_names[one.criterion], one.regret) for one in selections]
    rules = [
        (one.criterion, round(_regret_points(one), 2))
        for one in selections
        if one.criterion in BASELINES
    ]
    return Figure(
        key="regret",
        title="Regret by what is chosen by",
        caption="How many points of accuracy the chosen model lies below the best one: the mean over "
        "test domains, and one standard deviation over them. Dashed lines are a choice at random "
        "and one by accuracy on the model's own domains, where that is known.",
        alt=f"Mean regrets, from {spans[0].value} points by {spans[0].name} to "
        f"{spans[-1].value} by {spans[-1].name}.",
        spec=charts.span_chart(spans, title="regret, points", rules=rules),
        table=Numbers(
            ("chosen by", "regret, points", "sd", "domains", "ρ with accuracy"),
            tuple((display_names[one.criterion], *_table_row(one)) for one in selections),
        ),
        wide=True,
    )


def _regret_points(selection: SelectionRegret) -> float:
    return 100 * (selection.regret.mean or 0.0)


def _regret_span(name: str, regret: MeanStd) -> charts.ValueSpan:
    mean, sd = 100 * (regret.mean or 0.0), 100 * (regret.sd or 0.0)
    # A regret is never below 0, whatever its deviation.
    ends = (max(mean - sd, 0.0), mean + sd)
    return charts.ValueSpan(name, round(mean, 2), *(round(end, 2) for end in ends))


def _table_row(selection: SelectionRegret) -> tuple[str, ...]:
    sd = None if selection.regret.sd is None else 100 * selection.regret.sd
    return (
        format_number(_regret_points(selection), 2),
        format_number(sd, 2),
        f"{selection.regret.groups:,}",
        format_number(selection.rho.mean, 2),
    )
