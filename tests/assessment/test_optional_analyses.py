"""Optional analyses: the same results as their functions, and reasons if not applicable."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.assessment.cbpe import METRIC_NAMES, expected_metrics
from oodometer.assessment.dis2 import lower_bound
from oodometer.assessment.noninferiority import noninferiority_test
from oodometer.assessment.optional_analyses import (
    AdditionalRequests,
    AdditionalResults,
    run_additional,
)
from oodometer.core.predictions import Predictions
from oodometer.testing import toy_pair, toy_predictions


def test_nothing_is_computed_without_requests() -> None:
    source, target = toy_pair()
    assert run_additional(AdditionalRequests(), source, target) == AdditionalResults()


def test_results_equal_those_of_the_functions_at_the_temperature() -> None:
    source, target = toy_predictions(1000), toy_predictions(500, seed=1)
    result = run_additional(
        AdditionalRequests(metrics=METRIC_NAMES, bound=True, margin=0.1),
        source,
        target,
        temperature=2.0,
    )
    calibrated, unlabelled = source.at_temperature(2.0), target.without_labels().at_temperature(2.0)
    assert result.metrics == expected_metrics(unlabelled)
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
    result = run_additional(AdditionalRequests(metrics=METRIC_NAMES), source, target)
    headings, rows = result.metric_table
    assert headings == ("class", "precision", "recall", "f1", "auroc", "average precision")
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "macro"]
    (recall,) = (
        metric for metric in result.metrics if (metric.metric, metric.scope) == ("recall", "2")
    )
    assert rows[2][2] == f"{recall.value:.2f} ({recall.low:.2f}–{recall.high:.2f})"
    lacking = Predictions.from_probs(np.tile([[1.0, 0.0]], (5, 1)))
    known = Predictions.from_probs([[1.0, 0.0], [0.4, 0.6]], labels=[0, 1])
    assert (
        run_additional(AdditionalRequests(metrics=METRIC_NAMES), known, lacking).metric_table[1][1][
            1
        ]
        == "–"
    )


def test_classes_are_matched_by_name() -> None:
    source, target = toy_pair()
    names = tuple("abcd")
    known = Predictions.from_probs(source.probs, labels=source.labels, class_names=names)
    reversed_classes = Predictions.from_probs(target.probs[:, ::-1], class_names=names[::-1])
    plain = Predictions.from_probs(target.probs, class_names=names)
    requests = AdditionalRequests(metrics=METRIC_NAMES)
    for metric, expected in zip(
        run_additional(requests, known, reversed_classes).metrics,
        run_additional(requests, known, plain).metrics,
        strict=True,
    ):
        assert (metric.metric, metric.scope) == (expected.metric, expected.scope)
        assert metric.value == pytest.approx(expected.value)


def test_inapplicable_analyses_have_a_reason() -> None:
    labels = np.arange(30) % 3
    source = Predictions.from_classes(labels, k=3, labels=labels)
    target = Predictions.from_classes(labels, k=3)
    result = run_additional(
        AdditionalRequests(metrics=METRIC_NAMES, bound=True, margin=0.05), source, target
    )
    assert (result.metrics, result.bound, result.verdict) == ((), None, None)
    assert [reason.partition(":")[0] for reason in result.reasons] == [
        "metrics", "bound", "suitability",
    ]  # fmt: skip
    assert result.sentences == result.reasons
