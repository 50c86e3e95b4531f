"""Records and outcomes of made-up models, for stores."""

from __future__ import annotations

from typing import Any

import numpy as np

from oodometer.core.predictions import Predictions
from oodometer.studies.store import (
    DatasetRecord,
    EvaluationOutcome,
    ModelRecord,
    ResultRecord,
    Store,
)

CLASSES = ("no", "yes")
LABELS = np.array([0, 1, 1, 0])
PREDICTIONS = Predictions.from_probs([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])


def model(key: str = "m", **given: Any) -> ModelRecord:
    made = {"seed": 3, "lr": 0.5, "group": "toy", "settings": {"width": 8}, **given}
    return ModelRecord(key, f"model {key}", "mlp", ("a", "b"), made, {"converged": True})


def dataset(key: str = "d") -> DatasetRecord:
    return DatasetRecord(key, f"rows {key}", LABELS, CLASSES)


def result(measure: str = "accuracy", value: float | None = 0.75, **given: Any) -> ResultRecord:
    settled: dict[str, Any] = {
        "model": "m", "source": "", "dataset": "d", "tested_on": "b", "measure": measure,
        "settings": "", "value": value, **given,
    }  # fmt: skip
    return ResultRecord(**settled)


def outcome(*results: ResultRecord, predictions: Predictions | None = None) -> EvaluationOutcome:
    some = results or (result(), result("ac", 0.7, source="s", settings="AC()"))
    return EvaluationOutcome(some[0].model, some[0].dataset, predictions, some)


def fill(store: Store, *outcomes: EvaluationOutcome) -> None:
    """Add outcomes to a store, with the models and datasets that they name."""
    models = dict.fromkeys(one.model for one in outcomes)
    datasets = dict.fromkeys(one.dataset for one in outcomes)
    store.add_models_and_datasets(
        [model(key) for key in models], [dataset(key) for key in datasets]
    )
    store.add_outcomes(outcomes)
