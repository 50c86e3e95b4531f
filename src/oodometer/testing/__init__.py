"""Conformance checks for estimators, measures, metrics, transforms and models, and toy data.

Each check raises AssertionError with a message that names the violated rule:

    check_estimator(MyEstimator())
    check_measure(MyMeasure())
    check_metric(MyMetric())
    check_transform(MyTransform())
    check_model(my_model, inputs)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.testing.estimators import (
        ESTIMATOR_RULES,
        check_estimator,
        toy_pair,
        toy_predictions,
        with_other_toy_models,
    )
    from oodometer.testing.measures import MEASURE_RULES, check_measure, toy_subject
    from oodometer.testing.metrics import METRIC_RULES, check_metric
    from oodometer.testing.models import MODEL_RULES, check_model
    from oodometer.testing.transforms import TRANSFORM_RULES, check_transform, toy_inputs

__all__ = [
    "ESTIMATOR_RULES",
    "MEASURE_RULES",
    "METRIC_RULES",
    "MODEL_RULES",
    "TRANSFORM_RULES",
    "check_estimator",
    "check_measure",
    "check_metric",
    "check_model",
    "check_transform",
    "toy_inputs",
    "toy_pair",
    "toy_predictions",
    "toy_subject",
    "with_other_toy_models",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "ESTIMATOR_RULES": "estimators",
            "MEASURE_RULES": "measures",
            "METRIC_RULES": "metrics",
            "MODEL_RULES": "models",
            "TRANSFORM_RULES": "transforms",
            "check_estimator": "estimators",
            "check_measure": "measures",
            "check_metric": "metrics",
            "check_model": "models",
            "check_transform": "transforms",
            "toy_inputs": "transforms",
            "toy_pair": "estimators",
            "toy_predictions": "estimators",
            "toy_subject": "measures",
            "with_other_toy_models": "estimators",
        },
    )
