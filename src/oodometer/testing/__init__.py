"""Rules that every member of a family keeps, and toy data: for our tests and for others'.

from oodometer.testing import check_estimator, check_model, check_transform
check_estimator(MyEstimator())
check_transform(MyTransform())
check_model(my_model, some_inputs)
"""

from oodometer.testing.estimators import (
    ESTIMATOR_RULES,
    check_estimator,
    toy_pair,
    toy_predictions,
)
from oodometer.testing.models import MODEL_RULES, check_model
from oodometer.testing.transforms import TRANSFORM_RULES, check_transform, toy_inputs

__all__ = [
    "ESTIMATOR_RULES",
    "MODEL_RULES",
    "TRANSFORM_RULES",
    "check_estimator",
    "check_model",
    "check_transform",
    "toy_inputs",
    "toy_pair",
    "toy_predictions",
]
