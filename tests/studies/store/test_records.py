"""What is kept of predictions comes back as it was, labelled."""

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
SAID = {
    "probs": store_records.PREDICTIONS,
    "logits": Predictions.from_logits(LOGITS),
    "named": Predictions.from_logits(LOGITS, class_names=["yes", "no"]),
    "numbered": Predictions.from_logits(LOGITS, class_names=["0", "1"]),
    "cooled": Predictions.from_logits(LOGITS).at_temperature(2.5),
    "classes": Predictions.from_classes([0, 1, 1, 1], k=2),
    "named classes": Predictions.from_classes(["no", "yes", "no", "no"], class_names=["yes", "no"]),
}


@pytest.mark.parametrize("kind", SAID)
def test_predictions_come_back(kind: str, tmp_path: Path) -> None:
    said = SAID[kind]
    with Store.open(tmp_path, "write") as store:
        store_records.fill(store, EvaluationOutcome("m", "d", said))
    with Store.open(tmp_path) as store:
        found = store.predictions("m", "d")
        assert store.predictions("m", "other") is None
    assert found is not None
    assert (found.score_type, found.k, found.class_names) == (
        said.score_type,
        said.k,
        said.class_names,
    )
    assert found.temperature == said.temperature
    assert np.array_equal(found.classes, said.classes)
    if said.has_probs:
        assert np.array_equal(found.probs, said.probs)
    named = said.class_names is not None and set(said.class_names) == set(store_records.CLASSES)
    names = said.class_names if named and said.class_names else store_records.CLASSES
    told = [names.index(store_records.CLASSES[label]) for label in store_records.LABELS]
    assert found.labels is not None
    assert found.labels.tolist() == told


def test_a_model_of_other_classes_is_refused() -> None:
    with pytest.raises(InputError, match="'bird' is not both the model's and the data's"):
        labels_for_model(store_records.LABELS, ("cat", "dog"), ("cat", "bird"))


@pytest.mark.parametrize(("value", "reason"), [(None, None), (0.5, "none")])
def test_a_result_has_a_value_or_a_reason(value: float | None, reason: str | None) -> None:
    with pytest.raises(InputError, match="has a value or a reason"):
        ResultRecord("m", "", "d", "b", "ac", "", value, reason=reason)
