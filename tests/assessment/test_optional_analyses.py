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


def test_what_is_not_asked_for_is_not_made() -> None:
    source, target = toy_pair()
    assert run_additional(AdditionalRequests(), source, target) == AdditionalResults()


def test_it_is_what_the_functions_say_at_the_temperature() -> None:
    source, target = toy_predictions(1000), toy_predictions(500, seed=1)
    found = run_additional(
        AdditionalRequests(metrics=METRIC_NAMES, bound=True, margin=0.1),
        source,
        target,
        temperature=2.0,
    )
    cooler, hidden = source.at_temperature(2.0), target.without_labels().at_temperature(2.0)
    assert found.metrics == expected_metrics(hidden)
    assert found.bound == lower_bound(cooler, hidden)
    assert found.verdict == noninferiority_test(cooler, hidden, margin=0.1)
    accuracy, bound, verdict = found.sentences
    assert accuracy.startswith(f"Accuracy to be expected: {found.metrics[0].value:.2f} (")
    assert found.bound is not None
    assert f"At least {100 * found.bound.value:.1f} % (95 %)" in bound
    assert found.verdict is not None
    assert verdict.startswith(f"{found.verdict.decision}: that 10.0 points or more are lost is")
    assert found.to_dict()["suitability"]["verdict"] == found.verdict.decision


def test_metrics_stand_by_class_in_a_grid() -> None:
    source, target = toy_pair()
    found = run_additional(AdditionalRequests(metrics=METRIC_NAMES), source, target)
    heads, rows = found.metric_table
    assert heads == ("class", "precision", "recall", "f1", "auroc", "average precision")
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "macro"]
    (recall,) = (one for one in found.metrics if (one.metric, one.scope) == ("recall", "2"))
    assert rows[2][2] == f"{recall.value:.2f} ({recall.low:.2f}–{recall.high:.2f})"
    lacking = Predictions.from_probs(np.tile([[1.0, 0.0]], (5, 1)))
    known = Predictions.from_probs([[1.0, 0.0], [0.4, 0.6]], labels=[0, 1])
    assert (
        run_additional(AdditionalRequests(metrics=METRIC_NAMES), known, lacking).metric_table[1][1][
            1
        ]
        == "–"
    )


def test_classes_in_another_order_are_put_right() -> None:
    source, target = toy_pair()
    names = tuple("abcd")
    known = Predictions.from_probs(source.probs, labels=source.labels, class_names=names)
    turned = Predictions.from_probs(target.probs[:, ::-1], class_names=names[::-1])
    plain = Predictions.from_probs(target.probs, class_names=names)
    asked = AdditionalRequests(metrics=METRIC_NAMES)
    for one, other in zip(
        run_additional(asked, known, turned).metrics,
        run_additional(asked, known, plain).metrics,
        strict=True,
    ):
        assert (one.metric, one.scope) == (other.metric, other.scope)
        assert one.value == pytest.approx(other.value)


def test_what_has_no_answer_has_a_reason() -> None:
    labels = np.arange(30) % 3
    source = Predictions.from_classes(labels, k=3, labels=labels)
    target = Predictions.from_classes(labels, k=3)
    found = run_additional(
        AdditionalRequests(metrics=METRIC_NAMES, bound=True, margin=0.05), source, target
    )
    assert (found.metrics, found.bound, found.verdict) == ((), None, None)
    assert [reason.partition(":")[0] for reason in found.reasons] == [
        "metrics", "bound", "suitability",
    ]  # fmt: skip
    assert found.sentences == found.reasons
