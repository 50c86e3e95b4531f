"""The charts of a page of invariance, each with how to read it and its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.assessment.result import format_percent
from oodometer.neighborhood.results import ENTROPY_LIMIT, InvarianceResult, ModelInvariance
from oodometer.report import charts as charts
from oodometer.report.assessment_figures import Figure, FigureTable
from oodometer.report.charts import IntervalPoint
from oodometer.report.histograms import unique_labels
from oodometer.report.leaderboard import LeaderboardRow, format_inline_name

# More models than this are not told apart in a chart; the tables have them all.
MAX_DRAWN_MODELS = 40


def order_figure(rows: Sequence[LeaderboardRow], measure: str) -> Figure:
    """Every model's value with its interval, best first."""
    shown = rows[:MAX_DRAWN_MODELS]
    names = unique_labels([row.model for row in shown])
    dots = [
        IntervalPoint(n, row.value, row.low, row.high) for n, row in zip(names, shown, strict=True)
    ]
    return Figure(
        key="order",
        title="The order of the models",
        caption=f"Each point is a model's {measure}, its line the 95 % interval of the luck of which "
        "examples there are. All models saw the same examples and the same draws, so that an order "
        "can be sure though intervals overlap: see how often each beats the next."
        f"{_omission_note(len(shown), len(rows))}",
        alt=f"{measure} of {len(shown)} models, from {shown[0].value:.3f} ({format_inline_name(names[0])}) down "
        f"to {shown[-1].value:.3f} ({format_inline_name(names[-1])}).",
        spec=charts.dot_chart(dots, measure),
        wide=True,
    )


def measures_figure(row: LeaderboardRow, neighborhoods: InvarianceResult) -> Figure:
    """The measures of one model that lie between 0 and 1, with their intervals."""
    read = [(neighborhoods.measure_label(m), r) for m, r in row.readings.items() if m != "ne"]
    dots = [IntervalPoint(name, one.value, one.low, one.high) for name, one in read]
    return Figure(
        key="measures",
        title="Values",
        caption="Each point is the mean over examples, its line the 95 % interval of the luck of "
        "which examples there are. At 1 no draw moves any decision.",
        alt="; ".join(f"{name} {one.value:.3f}" for name, one in read) + ".",
        spec=charts.dot_chart(dots, "mean over examples"),
        wide=True,
    )


def accuracy_figure(rows: Sequence[LeaderboardRow]) -> Figure | None:
    """Known accuracies and those by the line through them, in the order of the measure."""
    told = [
        row
        for row in rows[:MAX_DRAWN_MODELS]
        if row.known_accuracy is not None or row.predicted_accuracy is not None
    ]
    if not told:
        return None
    dots = []
    for name, row in zip(unique_labels([row.model for row in told]), told, strict=True):
        if row.predicted_accuracy is not None:
            inside = 100 * min(max(row.predicted_accuracy, 0.0), 1.0)
            dots.append(IntervalPoint(name, inside, series="by the line"))
        if row.known_accuracy is not None:
            dots.append(IntervalPoint(name, 100 * row.known_accuracy, series=charts.KNOWN_SERIES))
    return Figure(
        key="accuracies",
        title="Accuracies",
        caption="The models in the same order. Where it is the right one, known accuracies fall "
        "from top to bottom.",
        alt=f"Accuracies of {len(told)} models in the order of the measure.",
        spec=charts.dot_chart(dots, "accuracy, %"),
        wide=True,
    )


def entropy_figure(neighborhoods: InvarianceResult, order: Sequence[str]) -> Figure | None:
    """How much the transform raises the entropy of each model's predictions, beside the limit."""
    rises = [(one, neighborhoods[one].entropy_difference) for one in order]
    told = [(one, rise) for one, rise in rises if rise is not None][:MAX_DRAWN_MODELS]
    if not told:
        return None
    names = unique_labels([one for one, _ in told])
    dots = [IntervalPoint(name, rise) for name, (_, rise) in zip(names, told, strict=True)]
    most = max(rise for _, rise in told)
    return Figure(
        key="entropy",
        title=f"Entropy difference of {neighborhoods.transform}",
        caption="How much less sure predictions are of draws than of the examples themselves. "
        f"Right of the limit of {ENTROPY_LIMIT} the transform may destroy the classes, and "
        "invariance under it fails to rank models.",
        alt=f"Entropy difference of {len(told)} models beside the limit of {ENTROPY_LIMIT}; the "
        f"largest is {most:.3f}.",
        spec=charts.dot_chart(
            dots, "entropy difference, nats", (ENTROPY_LIMIT, f"limit {ENTROPY_LIMIT}")
        ),
        wide=True,
    )


def distribution_figure(
    models: Sequence[ModelInvariance], neighborhoods: InvarianceResult, measure: str
) -> Figure:
    """How many examples have which value, of the model shown and of one beside it."""
    bars = charts.histogram_bars([one.by_example(measure) for one in models])
    names = unique_labels([one.model for one in models])
    rows = tuple(
        (some[0].value, *(f"{bar.share:.1f}" for bar in some)) for some in zip(*bars, strict=True)
    )
    whole = [
        f"{format_inline_name(name)} {format_percent(one.constant_share)} %"
        for name, one in zip(names, models, strict=True)
    ]
    named = neighborhoods.measure_label(measure)
    return Figure(
        key="spread",
        title="Examples by their value",
        caption=f"The share of examples at each {named}. Far right are those that hardly any draw "
        f"moves. Put in one class with all of their draws: {', '.join(whole)}.",
        alt=f"Distribution of {named} over examples. In one class with all draws: "
        f"{', '.join(whole)}.",
        spec=charts.distribution_chart(
            dict(zip(names, bars, strict=True)), f"{named} of an example"
        ),
        table=FigureTable((named, *(f"{name}, %" for name in names)), rows),
        wide=True,
    )


def _omission_note(n_shown: int, n_models: int) -> str:
    return "" if n_shown == n_models else f" The first {n_shown} of {n_models} models are drawn."
