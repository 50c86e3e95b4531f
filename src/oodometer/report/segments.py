"""Estimates for parts of the target: the lowest parts side by side, or days in a line."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from oodometer.assessment.result import Assessment, Segment
from oodometer.report import charts, histograms
from oodometer.report.assessment_figures import Figure, estimate_in_percent

# More marks are not told apart, more rows of a table not read, and both would make a page heavy.
MAX_DRAWN_SEGMENTS = 40
MAX_LISTED_SEGMENTS = 200
MAX_DATES = 400

_DATE_PATTERN = re.compile(r"(19|20)\d\d(-\d\d(-\d\d)?)?")


def is_time_series(segments: Sequence[Segment]) -> bool:
    """Whether all segments, and at least two, are years, months or days.

    >>> is_time_series([Segment("2026-03", 5, None), Segment("2026-04", 5, None)])
    True
    >>> is_time_series([Segment("2026-03", 5, None), Segment("2026-31", 5, None)])
    False
    """
    return len(segments) > 1 and all(_is_date(one.value) for one in segments)


def _is_date(text: str) -> bool:
    if not _DATE_PATTERN.fullmatch(text):
        return False
    try:
        return not np.isnat(np.datetime64(text))
    except ValueError:
        return False


def lowest_segments(segments: Sequence[Segment], max_segments: int) -> list[Segment]:
    """The segments with the lowest estimates, in the order they came in; those without come last."""
    ranks = sorted(
        range(len(segments)),
        key=lambda j: 2.0 if (found := segments[j].estimate) is None else found.value,
    )
    return [segments[j] for j in sorted(ranks[:max_segments])]


def select_table_segments(segments: Sequence[Segment]) -> list[Segment]:
    """Those that a table shows: the last days, or the lowest parts."""
    if is_time_series(segments):
        return list(segments[-MAX_DATES:])
    return lowest_segments(segments, MAX_LISTED_SEGMENTS)


def _segment_method(segments: Sequence[Segment]) -> str:
    """By which all parts with an answer were estimated."""
    return next(one.estimate.method for one in segments if one.estimate)


def segment_figure(assessment: Assessment) -> Figure | None:
    """One method on each part of the target; None where it has no answer for any."""
    if all(one.estimate is None for one in assessment.segments):
        return None
    draw = _timeline_figure if is_time_series(assessment.segments) else _comparison_figure
    return draw(assessment)


def _comparison_figure(assessment: Assessment) -> Figure:
    """A row a segment."""
    every, method = assessment.segments, _segment_method(assessment.segments)
    pairs = [
        (s.value, s.estimate) for s in lowest_segments(every, MAX_DRAWN_SEGMENTS) if s.estimate
    ]
    names = histograms.unique_labels([name for name, _ in pairs])
    marks = [
        charts.AccuracyMark(name, *estimate_in_percent(found))
        for name, (_, found) in zip(names, pairs, strict=True)
    ]
    least = min(marks, key=lambda mark: mark.value)
    rest = f" Of {len(every):,} segments {len(pairs)} are shown, the lowest with an answer."
    return Figure(
        key="segments",
        title="Estimates by segment",
        caption=f"The estimate of {method} for each part of the target, with its 95 % interval of "
        "sampling; small parts have wide ones. Differences smaller than the intervals mean "
        f"little.{rest if len(pairs) < len(every) else ''}",
        alt=f"Estimates for {len(marks)} segments; the lowest is {least.value:.1f} %, of "
        f"{least.name}.",
        spec=charts.interval_chart(marks, round(100 * assessment.source_accuracy, 2)),
        wide=True,
    )


def _timeline_figure(assessment: Assessment) -> Figure:
    """A line through the days."""
    every, method = assessment.segments, _segment_method(assessment.segments)
    shown = every[-MAX_DATES:]
    known = [
        charts.AccuracyMark(s.value, *estimate_in_percent(s.estimate)) for s in shown if s.estimate
    ]
    least, last = min(known, key=lambda mark: mark.value), known[-1]
    rest = f" Of {len(every)} the last {len(shown)} are shown."
    return Figure(
        key="segments",
        title="Estimates over time",
        caption=f"The estimate of {method} for each {_date_unit(shown[0].value)}, in a band of its 95 % "
        "interval of sampling, wide where there are few rows; the dashed rule is the accuracy on "
        "the source. Changes smaller than the band mean little."
        f"{rest if len(shown) < len(every) else ''}",
        alt=f"Estimates from {shown[0].value} to {shown[-1].value}; the lowest is "
        f"{least.value:.1f} %, of {least.name}, the last {last.value:.1f} %.",
        spec=charts.timeline_chart(
            known,
            round(100 * assessment.source_accuracy, 2),
            gaps=[s.value for s in shown if s.estimate is None],
        ),
        wide=True,
    )


def _date_unit(name: str) -> str:
    """What a date of this length is.

    >>> [_date_unit(name) for name in ("2026", "2026-03", "2026-03-01")]
    ['year', 'month', 'day']
    """
    return {4: "year", 7: "month"}.get(len(name), "day")
