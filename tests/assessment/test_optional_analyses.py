"""Optional analyses: the same results as their functions, and reasons if not applicable."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.assessment._estimate import learn_source
from oodometer.assessment.additional_results import AdditionalResults
from oodometer.assessment.cbpe import METRIC_NAMES, expected_metrics
from oodometer.assessment.dis2 import lower_bound
from oodometer.assessment.noninferiority import noninferiority_test
from oodometer.assessment.optional_analyses import (
    AdditionalRequests,
    run_additional,
)
from oodometer.assessment.reference import Reference
from oodometer.core.predictions import Predictions
from oodometer.testing import toy_pair, toy_predictions


def test_nothing_is_computed_without_requests() -> None:
    source, target = toy_pair()
    assert run_additional(AdditionalRequests(), Reference(source), target) == AdditionalResults()


def test_results_equal_those_of_the_functions_at_the_temperature() -> None:
    source, target = toy_predictions(1000), toy_predictions(500, seed=1)
    result = run_additional(
        AdditionalRequests(metrics=METRIC_NAMES, bound=True, margin=0.1),
        Reference(source, temperature=2.0),
        target,
    )
    calibrated, unlabelled = source.at_temperature(2.0), target.without_labels().at_temperature(2.0)
    learned, _ = learn_source(source, 2.0, "auto", seed=0)
    assert result.metrics == expected_metrics(unlabelled, learned)
    assert result.bound == lower_bound(calibrated, unlabelled)
    assert result.verdict == noninferiority_test(calibrated, unlabelled, margin=0.1)
    accuracy, bound, verdict = result.sentences
    assert accuracy.startswith(f"Expected accuracy: {result.metrics[0].value:.2f} (")
    assert result.bound is not None
    assert f"at least {100 * result.bound.value:.1f} % (confidence 95 %)" in bound
    assert result.verdict is not None
    assert verdict.startswith(f"{result.verdict.decision}: a loss of 10.0 points or more is")
    assert result.to_dict()["suitability"]["verdict"] == result.verdict.decision


def test_metric_table_has_one_row_per_class() -> None:
    source, target = toy_pair()
    result = run_additional(AdditionalRequests(metrics=METRIC_NAMES), Reference(source), target)
    headings, rows = result.metric_table
    names = ("precision", "recall", "f1", "auroc", "average precision")
    assert headings[0] == "class"
    assert headings[1::2] == names
    assert headings[2::2] == tuple(f"{name} (source)" for name in names)
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "macro"]
    (recall,) = (
        metric for metric in result.metrics if (metric.metric, metric.scope) == ("recall", "2")
    )
    assert rows[2][4] == f"{recall.source_value:.2f}"
    assert rows[2][3] == f"{recall.value:.2f} ({recall.low:.2f}–{recall.high:.2f})"
    lacking = Predictions.from_probs(np.tile([[1.0, 0.0]], (5, 1)))
    known = Predictions.from_probs([[1.0, 0.0], [0.4, 0.6]], labels=[0, 1])
    requests = AdditionalRequests(metrics=METRIC_NAMES)
    reference = Reference(known, temperature=None, calibration="none")
    assert run_additional(requests, reference, lacking).metric_table[1][1][1] == "–"


def test_metrics_are_computed_for_each_segment() -> None:
    source, target = toy_predictions(1000), toy_predictions(600, seed=1)
    sites = np.array(["north", "south", "west"])
    result = run_additional(
        AdditionalRequests(metrics=("f1", "accuracy")),
        Reference(source, segment_by=sites[np.arange(1000) % 2]),
        target,
        segment_by=sites[np.arange(600) % 3],
    )
    assert [(s.value, s.n, s.n_source) for s in result.segment_metrics] == [
        ("north", 200, 500), ("south", 200, 500), ("west", 200, 0),
    ]  # fmt: skip
    for segment in result.segment_metrics:
        scopes = [(metric.metric, metric.scope) for metric in segment.metrics]
        assert scopes == [("accuracy", "all"), ("f1", "macro")]
        has_source = segment.n_source > 0
        assert all((m.source_value is not None) == has_source for m in segment.metrics)
    truth = float(source.correct[::2].mean())
    assert result.segment_metrics[0].metrics[0].source_value == pytest.approx(truth)
    headings, rows = result.segment_table
    assert headings == ("segment", "rows", "accuracy", "accuracy (source)", "f1", "f1 (source)")
    assert [row[:2] for row in rows] == [("north", "200"), ("south", "200"), ("west", "200")]
    assert result.segment_scope == "mean over classes"
    assert result.to_dict()["segment_metrics"][2]["metrics"][0]["source_value"] is None


def test_segments_of_two_classes_have_the_metrics_of_the_second_class() -> None:
    source, target = toy_predictions(500, 2), toy_predictions(400, 2, seed=1)
    requests = AdditionalRequests(metrics=("recall",))
    segment_by = np.arange(400) % 2
    result = run_additional(requests, Reference(source), target, segment_by=segment_by)
    assert [m.scope for s in result.segment_metrics for m in s.metrics] == ["1", "1"]
    assert result.segment_scope == "class 1"
    whole = run_additional(requests, Reference(source), target, segment_by=np.zeros(400))
    (metric,) = whole.segment_metrics[0].metrics
    assert metric.value == whole.metrics[1].value
    assert (metric.low, metric.high) == (whole.metrics[1].low, whole.metrics[1].high)


def test_calibration_is_that_of_the_assessment() -> None:
    source, target = toy_predictions(3000, 2), toy_predictions(1000, 2, seed=1)
    requests = AdditionalRequests(metrics=("accuracy",))
    values = {
        name: run_additional(requests, Reference(source, temperature=3.0, calibration=name), target)
        for name in ("none", "isotonic")
    }
    truth = float(target.correct.mean())
    (accuracy,) = values["isotonic"].metrics
    assert accuracy.value == pytest.approx(truth, abs=0.03)
    assert accuracy.source_value == pytest.approx(float(source.correct.mean()))
    assert "; on the source: " in values["none"].sentences[0]


def test_classes_are_matched_by_name() -> None:
    source, target = toy_pair()
    names = tuple("abcd")
    known = Predictions.from_probs(source.probs, labels=source.labels, class_names=names)
    reversed_classes = Predictions.from_probs(target.probs[:, ::-1], class_names=names[::-1])
    plain = Predictions.from_probs(target.probs, class_names=names)
    requests = AdditionalRequests(metrics=METRIC_NAMES)
    for metric, expected in zip(
        run_additional(requests, Reference(known), reversed_classes).metrics,
        run_additional(requests, Reference(known), plain).metrics,
        strict=True,
    ):
        assert (metric.metric, metric.scope) == (expected.metric, expected.scope)
        assert metric.value == pytest.approx(expected.value)


def test_inapplicable_analyses_have_a_reason() -> None:
    labels = np.arange(30) % 3
    source = Predictions.from_classes(labels, k=3, labels=labels)
    target = Predictions.from_classes(labels, k=3)
    result = run_additional(
        AdditionalRequests(metrics=METRIC_NAMES, bound=True, margin=0.05),
        Reference(source),
        target,
    )
    assert (result.metrics, result.bound, result.verdict) == ((), None, None)
    assert [reason.partition(":")[0] for reason in result.reasons] == [
        "metrics", "bound", "suitability",
    ]  # fmt: skip
    assert result.sentences == result.reasons
