"""Short verdict on an assessment: what was found, whether to rely on it, the required accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from oodometer.assessment.headline import kind_of_shift
from oodometer.assessment.result import Assessment, Segment, format_percent
from oodometer.core.format import pluralize
from oodometer.core.results import STATUSES_WORST_FIRST, Diagnostic

RequiredResult = Literal["met", "missed", "uncertain"]
# Shapes of the results, which differ from those of a status.
REQUIRED_SHAPES: dict[RequiredResult, str] = {"met": "✓", "missed": "✗", "uncertain": "?"}


def short_verdict(assessment: Assessment, *, required: float | None = None) -> tuple[str, ...]:
    """Return two sentences, and a third one if an accuracy is required."""
    sentences = (assessment.summary, _reliability(assessment))
    if required is None:
        return sentences
    return (*sentences, compare_with_required(assessment, required))


def headline_problems(assessment: Assessment) -> list[Diagnostic]:
    """Return the diagnostics that are not ok and concern the headline, worst first.

    Diagnostics of shift do not concern an estimate from target labels.
    """
    if assessment.uses_target_labels:
        return []
    method = assessment.headline.estimate.method
    problems = [d for d in assessment.diagnostics if d.status != "ok" and d.concerns(method)]
    return sorted(problems, key=lambda problem: STATUSES_WORST_FIRST.index(problem.status))


def _reliability(assessment: Assessment) -> str:
    """Return whether the estimate can be relied on, and which kind of shift was found."""
    if assessment.uses_target_labels:
        return "Its confidence interval is valid under any shift, because it uses target labels."
    status = assessment.headline.status
    found = kind_of_shift(assessment.headline.estimate)
    if status == "ok":
        return f"No diagnostic found a problem{f'; {found}' if found else ''}."
    n = sum(problem.status == status for problem in headline_problems(assessment))
    verb = "is" if n == 1 else "are"
    reason = f"{pluralize(n, 'diagnostic')} {verb} critical"
    advice = "Do not rely on it yet"
    if status == "warning":
        reason = f"{pluralize(n, 'diagnostic')} {'gives' if n == 1 else 'give'} a warning"
        advice = "Read it with caution"
    return f"{advice}: {f'{found}, and ' if found else ''}{reason}."


def required_result(assessment: Assessment, required: float) -> RequiredResult:
    """Return whether the required accuracy is met.

    The result is "met" or "missed" if the estimate and all its intervals agree, else "uncertain".
    """
    low, high = _extremes(assessment)
    if low >= required:
        return "met"
    return "missed" if high < required else "uncertain"


def compare_with_required(assessment: Assessment, required: float) -> str:
    """Return whether the estimate and its intervals are above or below the required accuracy."""
    intervals = _intervals(assessment)
    level = f"the required {format_percent(required)} %"
    result = required_result(assessment, required)
    if result != "uncertain":
        included = "both intervals" if len(intervals) > 1 else "".join(intervals)
        side = "Above" if result == "met" else "Below"
        return f"{side} {level}, including {included}." if included else f"{side} {level}."
    is_below = assessment.accuracy < required
    reaching = [
        name
        for name, (low, high) in intervals.items()
        if (high >= required if is_below else low < required)
    ]
    subject = "both intervals" if len(reaching) > 1 else reaching[0]
    if is_below:
        verb = "reach" if len(reaching) > 1 else "reaches"
        return f"The estimate is below {level}, but {subject} {verb} it."
    verb = "include" if len(reaching) > 1 else "includes"
    return f"The estimate meets {level}, but {subject} {verb} lower values."


def is_below_required(segment: Segment, required: float | None) -> bool:
    """Return whether the estimate of a segment is below the required accuracy.

    >>> from oodometer.core.results import Estimate
    >>> segment = Segment("a", 10, Estimate(0.8))
    >>> [is_below_required(segment, required) for required in (None, 0.8, 0.9)]
    [False, False, True]
    """
    return (
        required is not None and segment.estimate is not None and segment.estimate.value < required
    )


def _intervals(assessment: Assessment) -> dict[str, tuple[float, float]]:
    """Return the bounds of the confidence interval and of the typical range, if they are known."""
    intervals = {
        "the confidence interval": assessment.interval,
        "the typical range": assessment.typical_range,
    }
    return {name: bounds for name, bounds in intervals.items() if bounds is not None}


def _extremes(assessment: Assessment) -> tuple[float, float]:
    """Return the lowest and the highest value of the estimate and its intervals."""
    ends = [assessment.accuracy]
    for bounds in _intervals(assessment).values():
        ends += bounds
    return min(ends), max(ends)


def worst_segments(segments: Sequence[Segment], max_segments: int) -> list[Segment]:
    """Return the segments with the lowest estimates, lowest first."""
    estimated = [
        (segment.estimate.value, number)
        for number, segment in enumerate(segments)
        if segment.estimate is not None
    ]
    return [segments[number] for _, number in sorted(estimated)[:max_segments]]
