"""Short verdict on an assessment: what was found, whether to rely on it, the required accuracy."""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.assessment.conformal_interval import ShiftInterval
from oodometer.assessment.headline import kind_of_shift
from oodometer.assessment.result import Assessment, Segment, format_percent
from oodometer.core.format import pluralize
from oodometer.core.results import STATUSES_WORST_FIRST, Diagnostic, Estimate


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


def compare_with_required(assessment: Assessment, required: float) -> str:
    """Return whether the estimate and its intervals are above or below the required accuracy."""
    estimate = assessment.headline.estimate
    parts = [f"the estimate {'meets' if estimate.value >= required else 'is below'} it"]
    intervals: dict[str, Estimate | ShiftInterval | None] = {
        "the confidence interval": estimate,
        "the typical range": assessment.shift,
    }
    for name, interval in intervals.items():
        if interval is not None and interval.low is not None and interval.high is not None:
            parts.append(f"{name} {_position(interval.low, interval.high, required)} it")
    listed = ", ".join(parts[:-1])
    sentence = f"{listed} and {parts[-1]}" if listed else parts[-1]
    return f"The required accuracy is {format_percent(required)} %: {sentence}."


def _position(low: float, high: float, required: float) -> str:
    """Return where an interval is.

    >>> [_position(*ends, 0.8) for ends in ((0.8, 0.9), (0.7, 0.9), (0.6, 0.7))]
    ['is above', 'includes', 'is below']
    """
    if low >= required:
        return "is above"
    return "is below" if high < required else "includes"


def worst_segments(segments: Sequence[Segment], max_segments: int) -> list[Segment]:
    """Return the segments with the lowest estimates, lowest first."""
    estimated = [
        (segment.estimate.value, number)
        for number, segment in enumerate(segments)
        if segment.estimate is not None
    ]
    return [segments[number] for _, number in sorted(estimated)[:max_segments]]
