"""What choosing a model by a measure costs: the regret of each, beside chance and source accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from oodometer.core.errors import NoAnswer
from oodometer.core.format import counted, number
from oodometer.report.assessment_figures import Figure
from oodometer.report.assessment_figures import Table as Numbers
from oodometer.report.histograms import labels, shortened
from oodometer.studies.analysis import Judgement
from oodometer.studies.analysis._mean_std import Spread
from oodometer.studies.analysis.model_selection import AT_RANDOM, BY_SOURCE, Selected, select
from oodometer.studies.analysis.rank_correlation import signs
from oodometer.studies.report import charts
from oodometer.studies.report.correlations import TURNED
from oodometer.studies.report.tables import ENOUGH, most_telling, unlabelled

OTHERS = (AT_RANDOM, BY_SOURCE)


@dataclass(frozen=True)
class Regrets:
    """The chart and what it says."""

    figure: Figure
    reading: str


def regrets(judged: Judgement) -> Regrets:
    """The regret of choosing the first by each measure on every test domain, in points."""
    names = most_telling(judged)
    table = replace(judged.table, measures={name: judged.table.measures[name] for name in names})
    directions, _ = signs(table)
    turned = {name for name, sign in directions.items() if sign.value > 0}
    found = select(table, signs=directions).values()
    known = sorted((one for one in found if one.regret.mean is not None), key=_points)
    if all(one.by in OTHERS for one in known):
        raise NoAnswer("on no domain has a measure an answer for two models or more")
    written = labels([f"{TURNED}{one.by}" if one.by in turned else one.by for one in known])
    shown = {one.by: label for one, label in zip(known, written, strict=True)}
    return Regrets(_figure(known, shown), reading(known, turned))


def reading(known: Sequence[Selected], turned: set[str]) -> str:
    """The least regret of a measure, of those that choose on enough domains, beside the others."""
    fair = unlabelled(one.by for one in known if one.by not in OTHERS)
    measures = [one for one in known if one.by in fair]
    most = max(one.regret.groups for one in measures)
    best = next(one for one in measures if one.regret.groups >= ENOUGH * most)
    beside = [f"{number(_points(one), 1)} {one.by}" for one in known if one.by in OTHERS]
    return "; ".join(
        [
            f"Choosing the model of {'lowest' if best.by in turned else 'highest'} "
            f"{shortened(best.by)} costs {number(_points(best), 1)} points against the best model, "
            f"mean over {counted(best.regret.groups, 'test domain')}",
            *([f"choosing otherwise, {' and '.join(beside)}"] if beside else []),
        ]
    )


def _figure(known: Sequence[Selected], shown: Mapping[str, str]) -> Figure:
    spans = [_span(shown[one.by], one.regret) for one in known]
    rules = [(one.by, round(_points(one), 2)) for one in known if one.by in OTHERS]
    return Figure(
        key="regret",
        title="Regret by what is chosen by",
        caption="How many points of accuracy the chosen model lies below the best one: the mean over "
        "test domains, and one standard deviation over them. Dashed lines are a choice at random "
        "and one by accuracy on the model's own domains, where that is known.",
        alt=f"Mean regrets, from {spans[0].value} points by {spans[0].name} to "
        f"{spans[-1].value} by {spans[-1].name}.",
        spec=charts.spans(spans, title="regret, points", rules=rules),
        table=Numbers(
            ("chosen by", "regret, points", "sd", "domains", "ρ with accuracy"),
            tuple((shown[one.by], *_line(one)) for one in known),
        ),
        wide=True,
    )


def _points(one: Selected) -> float:
    return 100 * (one.regret.mean or 0.0)


def _span(name: str, regret: Spread) -> charts.Span:
    mean, sd = 100 * (regret.mean or 0.0), 100 * (regret.sd or 0.0)
    # A regret is never below 0, whatever its deviation.
    ends = (max(mean - sd, 0.0), mean + sd)
    return charts.Span(name, round(mean, 2), *(round(end, 2) for end in ends))


def _line(one: Selected) -> tuple[str, ...]:
    sd = None if one.regret.sd is None else 100 * one.regret.sd
    return (
        number(_points(one), 2),
        number(sd, 2),
        f"{one.regret.groups:,}",
        number(one.rho.mean, 2),
    )
