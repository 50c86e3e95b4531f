"""Short verdict: two sentences, the problems of the headline, and the required accuracy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oodometer
from oodometer import Assessment
from oodometer.assessment.result import Segment
from oodometer.core.results import Diagnostic, Estimate, Status
from oodometer.report.verdict import (
    compare_with_required,
    headline_problems,
    required_result,
    short_verdict,
    worst_segments,
)
from oodometer.testing import toy_pair, toy_predictions


@pytest.fixture(scope="module")
def assessment() -> Assessment:
    source, target = toy_pair()
    return oodometer.estimate(source, target, replicates=20)


def with_status(assessment: Assessment, *statuses: Status) -> Assessment:
    """Return the assessment with these diagnostics, and the headline with the worst of them."""
    checks = [Diagnostic(f"d{j}", 1.0, status, "m", "act") for j, status in enumerate(statuses)]
    worst = next(s for s in ("critical", "warning", "ok") if s in (*statuses, "ok"))
    headline = replace(assessment.headline, status=worst)
    return replace(assessment, diagnostics=tuple(checks), headline=headline)


@pytest.mark.parametrize(
    ("statuses", "start", "end"),
    [
        (("ok", "ok"), "No diagnostic found a problem; ", "."),
        (("ok", "warning"), "Read it with caution: ", ", and 1 diagnostic gives a warning."),
        (("critical", "warning"), "Do not rely on it yet: ", ", and 1 diagnostic is critical."),
        (("critical", "critical"), "Do not rely on it yet: ", ", and 2 diagnostics are critical."),
    ],
)
def test_second_sentence_says_whether_to_rely_on_the_estimate(
    assessment: Assessment, statuses: tuple[Status, ...], start: str, end: str
) -> None:
    first, second = short_verdict(with_status(assessment, *statuses))
    assert first == assessment.summary
    assert second.startswith(start)
    assert second.endswith(end)
    assert second.count(". ") == 0


def test_problems_are_those_of_the_headline_worst_first(assessment: Assessment) -> None:
    changed = with_status(assessment, "warning", "ok", "critical")
    other = Diagnostic("other", 1.0, "critical", "m", "act", methods=("im",))
    changed = replace(changed, diagnostics=(*changed.diagnostics, other))
    assert [problem.name for problem in headline_problems(changed)] == ["d2", "d0"]


def test_target_labels_make_the_interval_valid_and_leave_no_problem() -> None:
    source, target = toy_predictions(400), toy_predictions(400, sharpness=0.5, seed=1)
    assert target.labels is not None
    labels = [int(label) if j < 150 else None for j, label in enumerate(target.labels)]
    result = oodometer.estimate(source, target, target_labels=labels, replicates=20)
    assert result.uses_target_labels
    assert "valid under any shift" in short_verdict(result)[1]
    assert headline_problems(result) == []


def test_required_accuracy_is_compared_with_estimate_and_intervals(assessment: Assessment) -> None:
    estimate = replace(assessment.headline.estimate, value=0.8, low=0.75, high=0.85)
    assert assessment.shift is not None
    result = replace(
        assessment,
        headline=replace(assessment.headline, estimate=estimate),
        shift=replace(assessment.shift, low=0.6, high=0.9),
    )
    both = "including both intervals."
    expected = {
        0.5: ("met", f"Above the required 50.0 %, {both}"),
        0.7: ("uncertain", "The estimate meets the required 70.0 %, but the typical range includes "
              "lower values."),
        0.8: ("uncertain", "The estimate meets the required 80.0 %, but both intervals include "
              "lower values."),
        0.82: ("uncertain", "The estimate is below the required 82.0 %, but both intervals reach "
               "it."),
        0.88: ("uncertain", "The estimate is below the required 88.0 %, but the typical range "
               "reaches it."),
        0.95: ("missed", f"Below the required 95.0 %, {both}"),
    }  # fmt: skip
    for required, (outcome, sentence) in expected.items():
        assert compare_with_required(result, required) == sentence
        assert required_result(result, required) == outcome
    assert len(short_verdict(result, required=0.7)) == 3
    alone = replace(result, shift=None)
    assert compare_with_required(alone, 0.9).endswith("90.0 %, including the confidence interval.")
    bare = replace(alone, headline=replace(
        result.headline, estimate=replace(estimate, low=None, high=None)))  # fmt: skip
    assert compare_with_required(bare, 0.9) == "Below the required 90.0 %."


def test_worst_segments_are_sorted_and_have_an_estimate() -> None:
    values = np.array([0.9, 0.5, 0.7])
    segments = [Segment(str(j), 10, Estimate(float(value))) for j, value in enumerate(values)]
    segments.append(Segment("none", 1, None, "too few rows"))
    assert [segment.value for segment in worst_segments(segments, 2)] == ["1", "2"]
    assert [segment.value for segment in worst_segments(segments, 9)] == ["1", "2", "0"]
