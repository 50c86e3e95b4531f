"""Stored predictions round-trip with labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.studies.store import EvaluationOutcome, ResultRecord, Store
from oodometer.studies.store.records import labels_for_model
from tests.support import store_records

LOGITS = np.array([[0.1, 2.0], [3.0, -1.0], [0.0, 0.5], [1.0, 1.5]], dtype=np.float32)
PREDICTIONS = {
    "probs": store_records.PREDICTIONS,
    "logits": Predictions.from_logits(LOGITS),
    "named": Predictions.from_logits(LOGITS, class_names=["yes", "no"]),
    "numbered": Predictions.from_logits(LOGITS, class_names=["0", "1"]),
    "cooled": Predictions.from_logits(LOGITS).at_temperature(2.5),
    "classes": Predictions.from_classes([0, 1, 1, 1], k=2),
    "named classes": Predictions.from_classes(["no", "yes", "no", "no"], class_names=["yes", "no"]),
}


@pytest.mark.parametrize("kind", PREDICTIONS)
def test_predictions_round_trip(kind: str, tmp_path: Path) -> None:
    stored = PREDICTIONS[kind]
    with Store.open(tmp_path, "write") as store:
        store_records.fill(store, EvaluationOutcome("m", "d", stored))
    with Store.open(tmp_path) as store:
        found = store.predictions("m", "d")
        assert store.predictions("m", "other") is None
    assert found is not None
    assert (found.score_type, found.k, found.class_names) == (
        stored.score_type,
        stored.k,
        stored.class_names,
    )
    assert found.temperature == stored.temperature
    assert np.array_equal(found.classes, stored.classes)
    if stored.has_probs:
        assert np.array_equal(found.probs, stored.probs)
    named = stored.class_names is not None and set(stored.class_names) == set(store_records.CLASSES)
    names = stored.class_names if named and stored.class_names else store_records.CLASSES
    labels = [names.index(store_records.CLASSES[label]) for label in store_records.LABELS]
    assert found.labels is not None
    assert found.labels.tolist() == labels


def test_model_with_other_classes_raises() -> None:
    with pytest.raises(InputError, match="'bird' is not a class of both the model and the data"):
        labels_for_model(store_records.LABELS, ("cat", "dog"), ("cat", "bird"))


@pytest.mark.parametrize(("value", "reason"), [(None, None), (0.5, "none")])
def test_result_needs_a_value_or_a_reason(value: float | None, reason: str | None) -> None:
    with pytest.raises(InputError, match="has a value or a reason"):
        ResultRecord("m", "", "d", "b", "ac", "", value, reason=reason)
