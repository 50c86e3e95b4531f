"""Text and JSON of an assessment."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import oodometer
from oodometer.assessment.result import format_interval, format_percent
from oodometer.core.results import Estimate
from oodometer.testing import toy_pair


@pytest.fixture(scope="module")
def assessment() -> oodometer.Assessment:
    source, target = toy_pair()
    return oodometer.estimate(source, target, segment_by=np.arange(target.n) % 2)


def test_verdict_has_estimate_method_assumption_and_limits(
    assessment: oodometer.Assessment,
) -> None:
    best = assessment.headline.estimate
    for words in (
        format_percent(best.value),
        best.method,
        best.assumes,
        format_percent(assessment.source_accuracy),
    ):
        assert words in assessment.verdict
    assert "sampling error only, not violations of the method's assumption" in assessment.verdict


def test_verdict_names_the_worst_diagnostics(assessment: oodometer.Assessment) -> None:
    worst = [d.name for d in assessment.diagnostics if d.status == assessment.headline.status]
    assert assessment.headline.status != "ok"
    assert all(name in assessment.verdict for name in worst)
    others = [d.name for d in assessment.diagnostics if d.name not in worst]
    assert others
    assert not any(name in assessment.verdict for name in others)


def test_text_has_methods_diagnostics_and_segments(assessment: oodometer.Assessment) -> None:
    lines = str(assessment).splitlines()
    for estimate in assessment.estimates:
        assert any(
            line.startswith(estimate.method) and format_percent(estimate.value) in line
            for line in lines
        )
    for diagnostic in assessment.diagnostics:
        assert any(diagnostic.name in line and diagnostic.status in line for line in lines)
    assert any(line.startswith("segment") for line in lines)


def test_to_dict_round_trips_through_json(assessment: oodometer.Assessment) -> None:
    plain = assessment.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["headline"]["status"] == assessment.headline.status


def test_missing_interval_is_shown_as_unknown() -> None:
    assert format_interval(Estimate(0.5)) == "unknown"
    assert format_interval(Estimate(0.5, low=0.4, high=0.612)) == "40.0–61.2"


def test_accuracy_interval_range_and_status_are_those_of_the_headline(
    assessment: oodometer.Assessment,
) -> None:
    best, shift = assessment.headline.estimate, assessment.shift
    assert shift is not None
    values = {
        "accuracy": best.value,
        "interval": (best.low, best.high),
        "typical_range": (shift.low, shift.high),
        "status": assessment.headline.status,
    }
    assert {name: getattr(assessment, name) for name in values} == values
    plain = assessment.to_dict()
    assert list(plain)[:4] == list(values)
    assert plain["interval"] == [best.low, best.high]
    assert plain["typical_range"] == [shift.low, shift.high]
    assert plain["headline"]["value"] == plain["accuracy"]
    assert (plain["headline"]["status"], plain["shift"]["low"]) == (plain["status"], shift.low)
    assert json.loads(json.dumps(plain)) == plain


def test_missing_interval_and_range_are_none() -> None:
    source, target = toy_pair()
    result = oodometer.estimate(source, target, methods="cot", replicates=20)
    bare = replace(
        result, shift=None, headline=replace(result.headline, estimate=Estimate(0.5, "cot"))
    )
    assert (bare.accuracy, bare.interval, bare.typical_range) == (0.5, None, None)
    assert (bare.to_dict()["interval"], bare.to_dict()["typical_range"]) == (None, None)
    assert "50.0 % estimated accuracy" in bare._repr_html_()


def test_tables_have_methods_segments_and_diagnostics(assessment: oodometer.Assessment) -> None:
    methods = assessment.to_frame()
    assert list(methods.method) == [estimate.method for estimate in assessment.estimates]
    assert list(methods.method[methods.headline]) == [assessment.headline.estimate.method]
    segments = assessment.to_frame("segments")
    assert list(segments.segment) == ["0", "1"]
    assert list(segments.n) == [segment.n for segment in assessment.segments]
    diagnostics = assessment.to_frame("diagnostics")
    assert list(diagnostics.name) == [check.name for check in assessment.diagnostics]
