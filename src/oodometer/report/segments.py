"""Chart and table of the estimates of each segment, for the HTML page of an assessment.

Segments that are dates are shown as a time series; of others, those with the lowest estimates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from oodometer.assessment.result import Assessment, Segment
from oodometer.report import charts, histograms
from oodometer.report.assessment_figures import (
    accuracy_chart,
    accuracy_rules,
    estimate_in_percent,
)
from oodometer.report.charts import Figure, IntervalPoint

# More points or dates cannot be distinguished in a chart, nobody reads a longer table, and all of
# them make a page larger.
MAX_DRAWN_SEGMENTS = 40
MAX_LISTED_SEGMENTS = 200
MAX_DATES = 400

_DATE_PATTERN = re.compile(r"(19|20)\d\d(-\d\d(-\d\d(T\d\d)?)?)?")


def is_time_series(segments: Sequence[Segment]) -> bool:
    """Return whether there are at least two segments and all are years, months, days or hours.

    >>> is_time_series([Segment("2026-03", 5, None), Segment("2026-04", 5, None)])
    True
    >>> is_time_series([Segment("2026-03", 5, None), Segment("2026-31", 5, None)])
    False
    """
    return len(segments) > 1 and all(_is_date(segment.value) for segment in segments)


def _is_date(text: str) -> bool:
    if not _DATE_PATTERN.fullmatch(text):
        return False
    try:
        return not np.isnat(np.datetime64(text))
    except ValueError:
        return False


def select_table_segments(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments for the table: the latest ones if segments are dates, else the lowest ones."""
    if is_time_series(segments):
        return list(segments[-MAX_DATES:])
    return lowest_segments(segments, MAX_LISTED_SEGMENTS)


def lowest_segments(segments: Sequence[Segment], max_segments: int) -> list[Segment]:
    """Return the segments with the lowest estimates, in their original order."""

    def value(index: int) -> float:
        estimate = segments[index].estimate
        return 2.0 if estimate is None else estimate.value

    lowest = sorted(range(len(segments)), key=value)[:max_segments]
    return [segments[j] for j in sorted(lowest)]


def segment_figure(assessment: Assessment, *, required: float | None = None) -> Figure | None:
    """Draw the estimates of all segments; return None if there are none."""
    if all(segment.estimate is None for segment in assessment.segments):
        return None
    if is_time_series(assessment.segments):
        return _timeline_figure(assessment, required)
    return _comparison_figure(assessment, required)


def _comparison_figure(assessment: Assessment, required: float | None) -> Figure:
    segments = assessment.segments
    estimates = [
        (segment.value, segment.estimate)
        for segment in lowest_segments(segments, MAX_DRAWN_SEGMENTS)
        if segment.estimate
    ]
    names = histograms.unique_labels([name for name, _ in estimates])
    points = [
        IntervalPoint(name, *estimate_in_percent(estimate))
        for name, (_, estimate) in zip(names, estimates, strict=True)
    ]
    lowest = min(points, key=lambda point: point.value)
    omission = ""
    if len(points) < len(segments):
        omission = (
            f" {len(points)} of {len(segments):,} segments are drawn, those with the lowest "
            "estimates."
        )
    return Figure(
        key="segments",
        title="Estimates by segment",
        caption="Estimate for each segment of the target, with its "
        "95 % confidence interval (sampling error only); small segments have wide intervals. "
        f"Differences smaller than the intervals mean little.{omission}",
        alt=f"Estimates of {len(points)} segments; the lowest is {lowest.value:.1f} %, for "
        f"{lowest.name}.",
        spec=accuracy_chart(points, accuracy_rules(assessment.source_accuracy, required)),
        wide=True,
    )


def _timeline_figure(assessment: Assessment, required: float | None) -> Figure:
    segments = assessment.segments
    drawn = segments[-MAX_DATES:]
    points = [
        IntervalPoint(segment.value, *estimate_in_percent(segment.estimate))
        for segment in drawn
        if segment.estimate
    ]
    lowest = min(points, key=lambda point: point.value)
    omission = ""
    if len(drawn) < len(segments):
        omission = f" The last {len(drawn)} of {len(segments)} dates are drawn."
    return Figure(
        key="segments",
        title="Estimates over time",
        caption=f"Estimate for each {_date_unit([segment.value for segment in drawn])}; "
        "the band is the 95 % confidence interval (sampling error only) and is wide where there "
        "are few rows. The blue dashed line is the accuracy on the source"
        f"{'' if required is None else ', the other one the required accuracy'}. Changes smaller "
        f"than the band mean little.{omission}",
        alt=f"Estimates from {drawn[0].value} to {drawn[-1].value}; the lowest is "
        f"{lowest.value:.1f} %, for {lowest.name}, the last {points[-1].value:.1f} %.",
        spec=charts.timeline_chart(
            points,
            accuracy_rules(assessment.source_accuracy, required),
            gaps=[segment.value for segment in drawn if segment.estimate is None],
        ),
        wide=True,
    )


def _date_unit(names: Sequence[str]) -> str:
    """Return whether dates are years, months, weeks, days or hours.

    >>> [_date_unit(names) for names in (["2026-03"], ["2026-03-02", "2026-03-16"])]
    ['month', 'week']
    """
    unit = {4: "year", 7: "month", 13: "hour"}.get(len(names[0]), "day")
    if unit == "day" and len(names) > 1:
        days = np.array(names, dtype="datetime64[D]").astype(np.int64)
        # Weeks are named by their Monday; day 0, 1970-01-01, was a Thursday.
        if not ((days + 3) % 7).any():
            return "week"
    return unit
