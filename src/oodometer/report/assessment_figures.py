"""The charts of an assessment, each with how to read it and its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oodometer.assessment.result import Assessment, format_percent
from oodometer.core.calibration import calibration_error
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate
from oodometer.report import charts, histograms
from oodometer.report.histograms import ClassShare


@dataclass(frozen=True)
class FigureTable:
    """Numbers in rows, under their heads."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A chart, how to read it, what it shows in words, and its numbers if they stand nowhere else."""

    key: str
    title: str
    caption: str
    alt: str
    spec: charts.ChartSpec
    table: FigureTable | None = None
    wide: bool = False


@dataclass(frozen=True, eq=False)
class FigureInput:
    """What the figures are drawn from: predictions at the assessment's temperature."""

    assessment: Assessment
    source: Predictions
    target: Predictions

    @classmethod
    def from_assessment(
        cls, assessment: Assessment, source: Predictions, target: Predictions
    ) -> FigureInput:
        """The user's predictions, calibrated and ordered as the assessment had them."""
        target = target.reorder_classes(source.class_names)
        if assessment.temperature is not None:
            source = source.at_temperature(assessment.temperature)
            target = target.at_temperature(assessment.temperature)
        return cls(assessment, source, target)


def draw_assessment_figures(inputs: FigureInput) -> tuple[list[Figure], list[str]]:
    """Every figure that can be drawn, and a sentence for each that can't."""
    found, lacking = [], []
    for what, draw in FIGURE_BUILDERS.items():
        try:
            found.append(draw(inputs))
        except NotApplicable as reason:
            lacking.append(f"{what} are left out: {reason}.")
    return found, lacking


def estimate_in_percent(estimate: Estimate) -> tuple[float, float, float]:
    """Value, low and high end as they are drawn; one without an interval is a point."""
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    return round(100 * estimate.value, 2), round(100 * low, 2), round(100 * high, 2)


def _methods_figure(inputs: FigureInput) -> Figure:
    """All methods side by side."""
    of, main = inputs.assessment, inputs.assessment.headline.estimate.method
    marks = [
        charts.AccuracyMark(e.method, *estimate_in_percent(e), e.method == main)
        for e in of.estimates
    ]
    values = [e.value for e in of.estimates]
    return Figure(
        key="methods",
        title="All methods",
        caption=f"Each point is one method's estimate of the accuracy on the target, its line the "
        f"95 % interval of sampling; the diamond is the headline ({main}), the dashed rule the "
        f"accuracy on the source ({format_percent(of.source_accuracy)} %). Methods assume different "
        "things: the more they agree, the better.",
        alt=f"{len(marks)} estimates of the accuracy on the target, from {format_percent(min(values))} % "
        f"to {format_percent(max(values))} %, beside {format_percent(of.source_accuracy)} % on the source.",
        spec=charts.interval_chart(marks, round(100 * of.source_accuracy, 2)),
        wide=True,
    )


def _confidence_figure(inputs: FigureInput) -> Figure:
    """Confidence on source and target."""
    found = histograms.confidence_histogram(inputs.source, inputs.target)
    mean = [float(np.mean(rows.confidence)) for rows in (inputs.source, inputs.target)]
    threshold = _atc_threshold(inputs.assessment)
    cells = zip(found.edges, found.edges[1:], found.source, found.target, strict=False)
    return Figure(
        key="confidence",
        title="Confidence",
        caption="How sure the model is of its answers: the share of rows at each confidence. A "
        f"target that has moved left is one the model finds harder.{_threshold_caption(threshold)}",
        alt=f"Distributions of confidence; mean {mean[0]:.3f} on the source, {mean[1]:.3f} on the "
        "target.",
        spec=charts.confidence_chart(found, threshold),
        table=FigureTable(
            ("confidence", "source, %", "target, %"),
            tuple(
                (f"{a:.3f}–{b:.3f}", format_percent(s), format_percent(t)) for a, b, s, t in cells
            ),
        ),
    )


def _atc_threshold(assessment: Assessment) -> float | None:
    """The confidence that ATC-MC cuts at, if it was asked and could tell."""
    facts = (e.facts for e in assessment.estimates if e.method == "atc-mc")
    return next((float(f["threshold"]) for f in facts if "threshold" in f), None)


def _threshold_caption(threshold: float | None) -> str:
    """How to read the rule of the threshold, if it is drawn."""
    if threshold is None:
        return ""
    return (
        f" Of the source, as many rows lie left of the threshold ({threshold:.3f}) as it has "
        "errors; the share of the target right of it is the estimate of atc-mc."
    )


def _reliability_figure(inputs: FigureInput) -> Figure:
    """Whether confidence means what it says, on the source."""
    bins = histograms.reliability_bins(inputs.source)
    error = format_percent(calibration_error(inputs.source))
    rows = [
        (
            str(b.n),
            f"{b.confidence:.3f}",
            format_percent(b.accuracy),
            f"{format_percent(b.low)}–{format_percent(b.high)}",
        )
        for b in bins
    ]
    return Figure(
        key="reliability",
        title="Reliability on the source",
        caption="Rows of the source grouped by confidence, with 95 % intervals; larger points are "
        "more rows. On the dashed line, confidence is accuracy; below it the model is too sure. "
        f"The mean gap is {error} points.",
        alt=f"Accuracy against confidence on the source; the mean gap is {error} points.",
        spec=charts.reliability_chart(bins),
        table=FigureTable(
            ("rows", "mean confidence", "accuracy, %", "95 % interval, %"), tuple(rows)
        ),
    )


def _classes_figure(inputs: FigureInput) -> Figure:
    """Which classes are predicted."""
    if "signals" in (inputs.source.score_type, inputs.target.score_type):
        raise NotApplicable("from confidences alone it is not known which they are")
    shares = histograms.class_shares(inputs.source, inputs.target)
    moved = max(shares, key=lambda one: abs(one.target - one.source))
    drawn, rest = _drop_dominant_other(shares)
    return Figure(
        key="classes",
        title="Predicted classes",
        caption="How often each class is predicted. Bars of unequal length: the class has become "
        f"more or less frequent, or others are now taken for it.{rest}",
        alt=f"Shares of the predicted classes; the largest change is in {moved.name}, from "
        f"{format_percent(moved.source)} % of the source to {format_percent(moved.target)} % of the target.",
        spec=charts.class_share_chart(drawn),
        table=FigureTable(
            ("class", "source, %", "target, %"),
            tuple(
                (one.name, format_percent(one.source), format_percent(one.target)) for one in shares
            ),
        ),
        wide=True,
    )


def _drop_dominant_other(shares: list[ClassShare]) -> tuple[list[ClassShare], str]:
    """The classes to draw and what to say of the others, which drawn may dwarf all bars."""
    most = histograms.MAX_CLASSES
    if len(shares) <= most:
        return shares, ""
    other, longest = shares[-1], max(max(one.source, one.target) for one in shares[:-1])
    said = (
        f" The {most} most predicted are shown; {other.name} are {format_percent(other.source)} % of the "
        f"source and {format_percent(other.target)} % of the target."
    )
    return (shares[:-1] if max(other.source, other.target) > 2 * longest else shares), said


FIGURE_BUILDERS: dict[str, Callable[[FigureInput], Figure]] = {
    "All methods": _methods_figure,
    "The distributions of confidence": _confidence_figure,
    "The bins of the reliability diagram": _reliability_figure,
    "The predicted classes": _classes_figure,
}
