"""Text and JSON of an assessment."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import oodometer
from oodometer.assessment._estimate import _labels_needed
from oodometer.assessment.conformal_interval import History, ShiftInterval
from oodometer.assessment.labeling_plan import labels_for_accuracy
from oodometer.assessment.result import REGIME_ASSUMPTIONS, format_interval, format_percent
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
        f"method {best.method}",
        assessment.headline.why[1:],
        format_percent(assessment.source_accuracy),
        format_interval(best),
        assessment.typical_range_text,
    ):
        assert words in assessment.verdict
    assert "sampling error only, not violations of the method's assumption" in assessment.verdict
    assert "not a guarantee" in assessment.verdict


def test_verdict_names_the_worst_diagnostics(assessment: oodometer.Assessment) -> None:
    status, method = assessment.headline.status, assessment.headline.estimate.method
    worst = [d.name for d in assessment.diagnostics if d.status == status and d.concerns(method)]
    assert status != "ok"
    assert worst
    assert all(name in assessment.verdict for name in worst)
    others = [d.name for d in assessment.diagnostics if d.name not in worst]
    assert others
    assert not any(name in assessment.verdict for name in others)


def with_weights(assessment: oodometer.Assessment, *weights: float) -> oodometer.Assessment:
    names = ("weight_confidence", "weight_label_shift", "weight_transport")
    best = assessment.headline.estimate
    facts = {**best.facts, **dict(zip(names, weights, strict=True))}
    headline = replace(assessment.headline, estimate=replace(best, facts=facts))
    return replace(assessment, headline=headline)


def test_verdict_has_the_assumptions_of_the_regimes_with_a_weight(
    assessment: oodometer.Assessment,
) -> None:
    none, label, other = REGIME_ASSUMPTIONS.values()
    one = with_weights(assessment, 0.03, 0.05, 0.92).verdict
    assert f"assumes that {other}." in one
    assert label not in one
    two = with_weights(assessment, 0.15, 0.84, 0.01).verdict
    assert f"assume that {none} (15 %), or that {label} (84 %)." in two
    assert other not in two


def test_verdict_ends_with_the_next_step_unless_the_status_is_ok(
    assessment: oodometer.Assessment,
) -> None:
    large = replace(assessment, n_target=5000, labels_needed=1067)
    assert large.verdict.endswith(
        "label 1,067 rows of the target: oodometer plan TARGET --labels 1067 --output to_label.csv"
    )
    assert "label all 300 rows" in replace(assessment, n_target=300, labels_needed=300).verdict
    ok = replace(large, headline=replace(large.headline, status="ok"))
    assert "oodometer plan" not in ok.verdict
    assert "No diagnostic found a problem." in ok.verdict


@pytest.mark.parametrize(
    ("low", "high", "accuracy"), [(0.3, 0.7, 0.5), (0.7, 0.9, 0.7), (0.1, 0.2, 0.2)]
)
def test_labels_needed_suffice_for_any_accuracy_in_the_range(
    low: float, high: float, accuracy: float
) -> None:
    shift = ShiftInterval(low, high, 0.9, 0, False, 0.0, n_suites=3)
    needed = _labels_needed(Estimate(0.5, "regime"), shift, 100_000)
    assert needed == labels_for_accuracy(accuracy, 100_000)
    assert needed == max(
        labels_for_accuracy(each, 100_000) for each in np.linspace(low, high, 101).tolist()
    )


def test_labels_needed_without_a_range_suffice_for_any_accuracy() -> None:
    assert _labels_needed(Estimate(0.9, "doc"), None, 100_000) == labels_for_accuracy(0.5, 100_000)
    assert _labels_needed(Estimate(0.9, "ppi++"), None, 100_000) == labels_for_accuracy(
        0.9, 100_000
    )


def biased_history(bias: float) -> History:
    truths = np.linspace(0.5, 0.8, 12)
    return History(truths + bias + np.where(np.arange(12) % 2 == 0, 0.01, -0.01), truths)


@pytest.mark.parametrize("bias", [0.06, -0.05])
def test_consistent_bias_of_the_history_corrects_the_headline(bias: float) -> None:
    source, target = toy_pair()
    plain = oodometer.estimate(source, target)
    result = oodometer.estimate(source, target, history=biased_history(bias))
    best, original = result.headline.estimate, plain.headline.estimate
    assert result.shift is not None
    assert result.shift.correction == pytest.approx(-bias)
    assert best.value == pytest.approx(original.value - bias)
    assert best.low is not None
    assert original.low is not None
    assert best.low == pytest.approx(original.low - bias)
    assert result.shift.low <= best.value <= result.shift.high
    # The table of methods has the estimate without the correction.
    assert result["regime"] == original
    side = "high" if bias > 0 else "low"
    assert f"{format_percent(abs(bias))} points too {side} on average" in result.verdict
    assert f"corrected by {-100 * bias:+.1f} points" in result.verdict
    assert any(f"corrected by {-100 * bias:+.1f}" in note for note in result.notes_on(original))
    assert not plain.notes_on(original)


def test_inconsistent_history_does_not_correct_the_headline() -> None:
    source, target = toy_pair()
    truths = np.full(12, 0.6)
    history = History(truths + np.where(np.arange(12) % 2 == 0, 0.1, -0.09), truths)
    result = oodometer.estimate(source, target, history=history)
    assert result.headline.estimate == result["regime"]
    assert "corrected" not in result.verdict


def test_corrected_headline_is_within_0_and_1() -> None:
    source, target = toy_pair()
    truths = np.full(12, 0.99)
    history = History(truths - 0.6 + np.where(np.arange(12) % 2 == 0, 0.01, -0.01), truths)
    best = oodometer.estimate(source, target, history=history).headline.estimate
    assert best.value == best.high == 1.0


def test_verdict_mentions_that_similar_cases_were_mostly_too_high(
    assessment: oodometer.Assessment,
) -> None:
    assert assessment.shift is not None
    for share, is_mentioned in ((0.8, True), (0.6, False)):
        result = replace(assessment, shift=replace(assessment.shift, too_high_share=share))
        words = f"In reference cases like this one, {100 * share:.0f} % of the estimates"
        assert (words in result.verdict) == is_mentioned


def test_methods_without_reference_cases_have_no_typical_range() -> None:
    source, target = toy_pair()
    result = oodometer.estimate(source, target, temperature=None, calibration="none")
    assert result.headline.estimate.method == "atc-mc"
    assert result.shift is None
    assert "no reference cases for the method atc-mc" in result.typical_range_text
    assert "remains unknown without past domains" in result.verdict


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


def test_text_has_requested_metrics_and_short_lines() -> None:
    source, target = toy_pair()
    result = oodometer.estimate(
        source, target, metrics="f1", bound=True, margin=0.05, replicates=20
    )
    text = str(result)
    macro = next(each for each in result.metrics if (each.metric, each.scope) == ("f1", "macro"))
    assert f"Expected metrics, mean over classes: f1 {macro.value:.2f}" in text
    assert "The accuracy is at least" in text
    assert result.additional is not None
    assert len(result.additional.sentences) == 2
    assert all(sentence in " ".join(text.split()) for sentence in result.additional.sentences)
    assert max(len(line) for line in text.splitlines() if "plan_labels" not in line) <= 80


def test_text_says_that_target_labels_are_valid_under_any_shift() -> None:
    source, target = toy_pair()
    labels = (range(40), np.asarray(target.labels)[:40])
    with_labels = oodometer.estimate(source, target, target_labels=labels, replicates=20)
    without = oodometer.estimate(source, target, replicates=20)
    assert "Confidence interval (valid under any shift)" in str(with_labels)
    assert "sampling error only" not in str(with_labels)
    assert "sampling error only" not in with_labels._repr_html_()
    assert "Confidence interval (sampling error only)" in str(without)


def test_call_in_the_text_plans_the_labels(assessment: oodometer.Assessment) -> None:
    assert assessment.plan_call in str(assessment)
    assert "TARGET" not in str(assessment)
    _, target = toy_pair()
    call = assessment.plan_call.removesuffix('.to_csv("to_label.csv")')
    plan = eval(call, {"oodometer": oodometer, "target": target})
    assert len(plan.rows) == assessment.labels_needed


def test_to_dict_round_trips_through_json(assessment: oodometer.Assessment) -> None:
    plain = assessment.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["headline"]["status"] == assessment.headline.status
    assert plain["labels_needed"] == assessment.labels_needed > 0


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
