"""The charts of a page of invariance, each with how to read it and its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.assessment.result import points
from oodometer.neighborhood.results import ENTROPY_LIMIT, Invariance, Neighborhoods
from oodometer.report import _invariance_charts as charts
from oodometer.report._invariance_charts import Dot
from oodometer.report.assessment_figures import Figure, Table
from oodometer.report.histograms import labels
from oodometer.report.leaderboard import Standing, in_text

# More models than this are not told apart in a chart; the tables have them all.
MOST_DRAWN = 40


def order_figure(rows: Sequence[Standing], measure: str) -> Figure:
    """Every model's value with its interval, best first."""
    shown = rows[:MOST_DRAWN]
    names = labels([row.model for row in shown])
    dots = [Dot(n, row.value, row.low, row.high) for n, row in zip(names, shown, strict=True)]
    return Figure(
        key="order",
        title="The order of the models",
        caption=f"Each point is a model's {measure}, its line the 95 % interval of the luck of which "
        "examples there are. All models saw the same examples and the same draws, so that an order "
        "can be sure though intervals overlap: see how often each beats the next."
        f"{_rest(len(shown), len(rows))}",
        alt=f"{measure} of {len(shown)} models, from {shown[0].value:.3f} ({in_text(names[0])}) down "
        f"to {shown[-1].value:.3f} ({in_text(names[-1])}).",
        spec=charts.on_a_scale(dots, measure),
        wide=True,
    )


def measures_figure(row: Standing, found: Neighborhoods) -> Figure:
    """The measures of one model that lie between 0 and 1, with their intervals."""
    read = [(found.named(m), r) for m, r in row.readings.items() if m != "ne"]
    dots = [Dot(name, one.value, one.low, one.high) for name, one in read]
    return Figure(
        key="measures",
        title="Values",
        caption="Each point is the mean over examples, its line the 95 % interval of the luck of "
        "which examples there are. At 1 no draw moves any decision.",
        alt="; ".join(f"{name} {one.value:.3f}" for name, one in read) + ".",
        spec=charts.on_a_scale(dots, "mean over examples"),
        wide=True,
    )


def accuracy_figure(rows: Sequence[Standing]) -> Figure | None:
    """Known accuracies and those by the line through them, in the order of the measure."""
    told = [row for row in rows[:MOST_DRAWN] if row.known is not None or row.predicted is not None]
    if not told:
        return None
    dots = []
    for name, row in zip(labels([row.model for row in told]), told, strict=True):
        if row.predicted is not None:
            inside = 100 * min(max(row.predicted, 0.0), 1.0)
            dots.append(Dot(name, inside, series="by the line"))
        if row.known is not None:
            dots.append(Dot(name, 100 * row.known, series=charts.KNOWN))
    return Figure(
        key="accuracies",
        title="Accuracies",
        caption="The models in the same order. Where it is the right one, known accuracies fall "
        "from top to bottom.",
        alt=f"Accuracies of {len(told)} models in the order of the measure.",
        spec=charts.on_a_scale(dots, "accuracy, %"),
        wide=True,
    )


def entropy_figure(found: Neighborhoods, order: Sequence[str]) -> Figure | None:
    """How much the transform raises the entropy of each model's predictions, beside the limit."""
    rises = [(one, found[one].entropy_difference) for one in order]
    told = [(one, rise) for one, rise in rises if rise is not None][:MOST_DRAWN]
    if not told:
        return None
    names = labels([one for one, _ in told])
    dots = [Dot(name, rise) for name, (_, rise) in zip(names, told, strict=True)]
    most = max(rise for _, rise in told)
    return Figure(
        key="entropy",
        title=f"Entropy difference of {found.transform}",
        caption="How much less sure predictions are of draws than of the examples themselves. "
        f"Right of the limit of {ENTROPY_LIMIT} the transform may destroy the classes, and "
        "invariance under it fails to rank models.",
        alt=f"Entropy difference of {len(told)} models beside the limit of {ENTROPY_LIMIT}; the "
        f"largest is {most:.3f}.",
        spec=charts.on_a_scale(
            dots, "entropy difference, nats", (ENTROPY_LIMIT, f"limit {ENTROPY_LIMIT}")
        ),
        wide=True,
    )


def spread_figure(models: Sequence[Invariance], found: Neighborhoods, measure: str) -> Figure:
    """How many examples have which value, of the model shown and of one beside it."""
    bars = charts.bars_of([one.by_example(measure) for one in models])
    names = labels([one.model for one in models])
    rows = tuple(
        (some[0].value, *(f"{bar.share:.1f}" for bar in some)) for some in zip(*bars, strict=True)
    )
    whole = [
        f"{in_text(name)} {points(one.constant_share)} %"
        for name, one in zip(names, models, strict=True)
    ]
    named = found.named(measure)
    return Figure(
        key="spread",
        title="Examples by their value",
        caption=f"The share of examples at each {named}. Far right are those that hardly any draw "
        f"moves. Put in one class with all of their draws: {', '.join(whole)}.",
        alt=f"Distribution of {named} over examples. In one class with all draws: "
        f"{', '.join(whole)}.",
        spec=charts.spread(dict(zip(names, bars, strict=True)), f"{named} of an example"),
        table=Table((named, *(f"{name}, %" for name in names)), rows),
        wide=True,
    )


def _rest(shown: int, there: int) -> str:
    return "" if shown == there else f" The first {shown} of {there} models are drawn."
