"""Charts on the HTML page of an assessment: estimates, confidence, reliability, predicted classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from oodometer.assessment.result import Assessment, format_percent
from oodometer.core.calibration import calibration_error
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate
from oodometer.report import charts, histograms
from oodometer.report.charts import Figure, FigureTable, IntervalPoint, Rule
from oodometer.report.histograms import ClassShare

# Names of the kinds of figures in sentences.
FIGURE_NAMES = {
    "confidence": "confidence",
    "reliability": "reliability diagram",
    "classes": "predicted classes",
}


def draw_assessment_figures(
    assessment: Assessment,
    source: Predictions,
    target: Predictions,
    *,
    required: float | None = None,
) -> tuple[list[Figure], list[str]]:
    """Return the figures that can be drawn, and a sentence with the reason for each other one."""
    builders = prediction_figures(assessment, source, target)
    figures = [methods_figure(assessment, required)]
    omissions = []
    for kind, build in builders.items():
        try:
            figures.append(build())
        except NotApplicable as reason:
            omissions.append(f"Figure not shown ({FIGURE_NAMES[kind]}): {reason}.")
    return figures, omissions


def prediction_figures(
    assessment: Assessment, source: Predictions, target: Predictions
) -> dict[str, Callable[[], Figure]]:
    """Return functions that draw the figures that need predictions, by kind."""
    source, target = as_assessed(assessment, source, target)
    return {
        "confidence": partial(_confidence_figure, assessment, source, target),
        "reliability": partial(_reliability_figure, source),
        "classes": partial(_classes_figure, source, target),
    }


def as_assessed(
    assessment: Assessment, source: Predictions, target: Predictions
) -> tuple[Predictions, Predictions]:
    """Return source and target with the temperature and class order that the assessment used."""
    target = target.reorder_classes(source.class_names)
    if assessment.temperature is None:
        return source, target
    return (
        source.at_temperature(assessment.temperature),
        target.at_temperature(assessment.temperature),
    )


def estimate_in_percent(estimate: Estimate) -> tuple[float, float, float]:
    """Return value, low and high in percent; without an interval, all three are the value."""
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    return round(100 * estimate.value, 2), round(100 * low, 2), round(100 * high, 2)


def accuracy_rules(source_accuracy: float, required: float | None) -> list[Rule]:
    """Return lines at the accuracy on the source and at the required accuracy, if there is one."""
    rules = [Rule(round(100 * source_accuracy, 2), "source", charts.SOURCE_COLOR)]
    if required is not None:
        rules.append(Rule(round(100 * required, 2), f"required: {format_percent(required)} %"))
    return rules


def accuracy_chart(points: list[IntervalPoint], rules: list[Rule]) -> charts.ChartSpec:
    """Return a chart of accuracies in percent with intervals, and lines at other accuracies."""
    ends = [end for point in points for end in (point.low, point.high) if end is not None]
    return charts.interval_chart(
        points,
        "accuracy, %",
        domain=charts.padded_percent_range([*(rule.at for rule in rules), *ends]),
        rules=rules,
        digits=1,
    )


def methods_figure(assessment: Assessment, required: float | None = None) -> Figure:
    """Draw the estimate of each method with its interval."""
    headline = assessment.headline.estimate.method
    corrected = assessment.shift is not None and assessment.shift.correction != 0.0
    points = [
        IntervalPoint(
            estimate.method,
            *estimate_in_percent(estimate),
            series=charts.HEADLINE_SERIES if estimate.method == headline else "",
        )
        for estimate in assessment.estimates
    ]
    values = [estimate.value for estimate in assessment.estimates]
    return Figure(
        key="methods",
        title="Estimates of all methods",
        caption="Each point is the estimate of one method; its line is the 95 % confidence "
        f"interval (sampling error only). The diamond is the headline "
        f"({headline}{', before its correction by the history' if corrected else ''}); the dashed "
        f"line labelled “source” is the accuracy on the source "
        f"({format_percent(assessment.source_accuracy)} %). The "
        "methods have different assumptions, so estimates that agree are more credible.",
        alt=f"Estimates of {len(points)} methods between {format_percent(min(values))} and "
        f"{format_percent(max(values))} %; the accuracy on the source is "
        f"{format_percent(assessment.source_accuracy)} %.",
        spec=accuracy_chart(points, accuracy_rules(assessment.source_accuracy, required)),
        wide=True,
    )


def _confidence_figure(assessment: Assessment, source: Predictions, target: Predictions) -> Figure:
    histogram = histograms.confidence_histogram(source, target)
    source_mean = float(np.mean(source.confidence))
    target_mean = float(np.mean(target.confidence))
    threshold = _atc_threshold(assessment)
    caption = (
        "Share of rows by the confidence of the prediction. If the target lies further left than "
        "the source, the model is less confident on the target."
    )
    if threshold is not None:
        caption += (
            f" The share of source rows below the threshold ({threshold:.3f}) equals the source "
            "error; the share of target rows above the threshold is the estimate of atc-mc."
        )
    return Figure(
        key="confidence",
        title="Confidence",
        caption=caption,
        alt=f"Distributions of confidence; the mean is {source_mean:.3f} on the source and "
        f"{target_mean:.3f} on the target.",
        spec=charts.confidence_chart(histogram, threshold),
        table=FigureTable(
            ("confidence", "source, %", "target, %"),
            tuple(
                (f"{low:.3f}–{high:.3f}", format_percent(share), format_percent(target_share))
                for low, high, share, target_share in histogram.bins()
            ),
        ),
    )


def _atc_threshold(assessment: Assessment) -> float | None:
    """Return the confidence threshold of atc-mc; None if atc-mc has no estimate."""
    for estimate in assessment.estimates:
        if estimate.method == "atc-mc" and "threshold" in estimate.facts:
            return float(estimate.facts["threshold"])
    return None


def _reliability_figure(source: Predictions) -> Figure:
    bins = histograms.reliability_bins(source)
    error = format_percent(calibration_error(source))
    rows = [
        (
            str(cell.n),
            f"{cell.confidence:.3f}",
            format_percent(cell.accuracy),
            f"{format_percent(cell.low)}–{format_percent(cell.high)}",
        )
        for cell in bins
    ]
    return Figure(
        key="reliability",
        title="Reliability on the source",
        caption="Source rows grouped by confidence, with 95 % intervals; larger points have more "
        "rows. On the dashed line confidence equals accuracy; below it the model is overconfident. "
        f"The expected calibration error is {error} points.",
        alt="Accuracy against confidence on the source; the expected calibration error is "
        f"{error} points.",
        spec=charts.reliability_chart(bins),
        table=FigureTable(
            ("rows", "mean confidence", "accuracy, %", "95 % interval, %"), tuple(rows)
        ),
    )


def _classes_figure(source: Predictions, target: Predictions) -> Figure:
    if "signals" in (source.score_type, target.score_type):
        raise NotApplicable("the predicted classes are unknown, only confidences were given")
    shares = histograms.class_shares(source, target)
    most_changed = max(shares, key=lambda row: abs(row.target - row.source))
    drawn, remark = _drop_dominant_other(shares)
    return Figure(
        key="classes",
        title="Predicted classes",
        caption="Share of rows predicted as each class. Bars of different length mean that the "
        f"class frequency changed or that classes are confused differently.{remark}",
        alt=f"Shares of predicted classes; {most_changed.name} changes most, from "
        f"{format_percent(most_changed.source)} % of the source to "
        f"{format_percent(most_changed.target)} % of the target.",
        spec=charts.class_share_chart(drawn),
        table=FigureTable(
            ("class", "source, %", "target, %"),
            tuple(
                (row.name, format_percent(row.source), format_percent(row.target)) for row in shares
            ),
        ),
        wide=True,
    )


def _drop_dominant_other(shares: list[ClassShare]) -> tuple[list[ClassShare], str]:
    """Return the shares to draw and a remark; leave out other classes if their bar is too long."""
    limit = histograms.MAX_CLASSES
    if len(shares) <= limit:
        return shares, ""
    other = shares[-1]
    longest = max(max(row.source, row.target) for row in shares[:-1])
    remark = (
        f" The {limit} most frequent classes are shown; {other.name} have "
        f"{format_percent(other.source)} % of the source and {format_percent(other.target)} % of "
        "the target."
    )
    return (shares[:-1] if max(other.source, other.target) > 2 * longest else shares), remark
