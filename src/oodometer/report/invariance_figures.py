"""Charts on the HTML pages of invariance and rankings: values, intervals, distributions.

They show the order of the models, the accuracies, the suitability of the transform, and the
distribution of a measure over examples.
"""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.assessment.result import format_percent
from oodometer.neighborhood.results import ENTROPY_LIMIT, InvarianceResult, ModelInvariance
from oodometer.report import charts
from oodometer.report.charts import Figure, FigureTable, IntervalPoint
from oodometer.report.histograms import histogram_bars, unique_labels
from oodometer.report.leaderboard import LeaderboardRow, format_inline_name

# Maximum number of models in a chart: more cannot be distinguished. Tables list more models.
MAX_DRAWN_MODELS = 40


def order_figure(rows: Sequence[LeaderboardRow], measure: str) -> Figure:
    """Draw the value of each model with its interval, best first."""
    drawn = rows[:MAX_DRAWN_MODELS]
    names = unique_labels([row.model for row in drawn])
    points = [
        IntervalPoint(name, row.value, row.low, row.high)
        for name, row in zip(names, drawn, strict=True)
    ]
    omission = "" if len(drawn) == len(rows) else f" {len(drawn)} of {len(rows)} models are drawn."
    return Figure(
        key="order",
        title="Order of the models",
        caption=f"Each point is the {measure} of a model; its line is the 95 % confidence interval "
        "(sampling of the examples only). All models classified the same examples and draws, so "
        "the order can be certain even if intervals overlap; see the share of resamples in which "
        f"the value is higher than that of the next model.{omission}",
        alt=f"{measure} of {len(drawn)} models, from {drawn[0].value:.3f} "
        f"({format_inline_name(names[0])}) to {drawn[-1].value:.3f} "
        f"({format_inline_name(names[-1])}).",
        spec=_value_chart(points, measure),
        wide=True,
    )


def measures_figure(row: LeaderboardRow, neighborhoods: InvarianceResult) -> Figure:
    """Draw the measures of one model that lie between 0 and 1, with their intervals."""
    means = {
        neighborhoods.measure_label(name): mean
        for name, mean in row.readings.items()
        if name != "ne"
    }
    points = [IntervalPoint(name, mean.value, mean.low, mean.high) for name, mean in means.items()]
    return Figure(
        key="measures",
        title="Values",
        caption="Each point is the mean over examples; its line is the 95 % confidence interval "
        "(sampling of the examples only). A value of 1 means that no draw changes any decision.",
        alt="; ".join(f"{name} {mean.value:.3f}" for name, mean in means.items()) + ".",
        spec=_value_chart(points, "mean over examples"),
        wide=True,
    )


def accuracy_figure(rows: Sequence[LeaderboardRow]) -> Figure | None:
    """Draw known and predicted accuracies of the models, in the order of the measure."""
    drawn = [
        row
        for row in rows[:MAX_DRAWN_MODELS]
        if row.known_accuracy is not None or row.predicted_accuracy is not None
    ]
    if not drawn:
        return None
    points = []
    for name, row in zip(unique_labels([row.model for row in drawn]), drawn, strict=True):
        if row.predicted_accuracy is not None:
            clipped = 100 * min(max(row.predicted_accuracy, 0.0), 1.0)
            points.append(IntervalPoint(name, clipped, series="predicted by the line"))
        if row.known_accuracy is not None:
            points.append(IntervalPoint(name, 100 * row.known_accuracy, series=charts.KNOWN_SERIES))
    return Figure(
        key="accuracies",
        title="Accuracies",
        caption="The models are in the same order as above. If the order is right, known "
        "accuracies decrease from top to bottom.",
        alt=f"Accuracies of {len(drawn)} models in the order of the measure.",
        spec=_value_chart(points, "accuracy, %"),
        wide=True,
    )


def entropy_figure(neighborhoods: InvarianceResult, order: Sequence[str]) -> Figure | None:
    """Draw how much the transform raises the entropy of each model's predictions."""
    increases = {name: neighborhoods[name].entropy_difference for name in order}
    known = [(name, value) for name, value in increases.items() if value is not None]
    drawn = known[:MAX_DRAWN_MODELS]
    if not drawn:
        return None
    names = unique_labels([name for name, _ in drawn])
    points = [IntervalPoint(name, value) for name, (_, value) in zip(names, drawn, strict=True)]
    values = [value for _, value in drawn]
    return Figure(
        key="entropy",
        title=f"Entropy difference of {neighborhoods.transform}",
        caption="Mean increase of the entropy of predictions from the examples to their draws. "
        f"Above the limit of {ENTROPY_LIMIT} the transform may destroy the classes, and "
        "invariance does not rank models reliably.",
        alt=f"Entropy difference of {len(drawn)} models and the limit of {ENTROPY_LIMIT}; the "
        f"largest is {max(values):.3f}.",
        spec=charts.interval_chart(
            points,
            "entropy difference, nats",
            domain=charts.padded_range([*values, 0.0, ENTROPY_LIMIT]),
            rules=[charts.Rule(ENTROPY_LIMIT, f"limit {ENTROPY_LIMIT}")],
        ),
        wide=True,
    )


def distribution_figure(
    models: Sequence[ModelInvariance], neighborhoods: InvarianceResult, measure: str
) -> Figure:
    """Draw the distribution of a measure over the examples, for one or two models."""
    bars = histogram_bars([model.by_example(measure) for model in models])
    names = unique_labels([model.model for model in models])
    rows = tuple(
        (cells[0].value, *(f"{bar.share:.1f}" for bar in cells))
        for cells in zip(*bars, strict=True)
    )
    constant = ", ".join(
        f"{format_inline_name(name)} {format_percent(model.constant_share)} %"
        for name, model in zip(names, models, strict=True)
    )
    label = neighborhoods.measure_label(measure)
    return Figure(
        key="spread",
        title="Distribution over examples",
        caption=f"Share of examples by {label}. For examples at the right end, hardly any draw "
        f"changes the decision. Examples for which no draw changes it: {constant}.",
        alt=f"Distribution of {label} over examples. Examples for which no draw changes the "
        f"decision: {constant}.",
        spec=charts.distribution_chart(
            dict(zip(names, bars, strict=True)), f"{label} of an example"
        ),
        table=FigureTable((label, *(f"{name}, %" for name in names)), rows),
        wide=True,
    )


def _value_chart(points: Sequence[IntervalPoint], title: str) -> charts.ChartSpec:
    ends = [
        end for point in points for end in (point.value, point.low, point.high) if end is not None
    ]
    return charts.interval_chart(points, title, domain=charts.padded_range(ends))
