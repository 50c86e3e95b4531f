"""Estimate the accuracy of a classifier on unlabelled data under distribution shift.

>>> import oodometer
>>> source = oodometer.Predictions.from_probs([[0.9, 0.1], [0.6, 0.4]], labels=[0, 1])
>>> target = oodometer.Predictions.from_probs([[0.8, 0.2], [0.5, 0.5]])
>>> oodometer.estimate(source, target, methods=["doc"], temperature=None)["doc"].value
0.4
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.errors import (
    InputError,
    MissingExtra,
    NotApplicable,
    OodometerError,
    UnknownName,
)
from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.assessment import (
        Assessment,
        History,
        LabelingPlan,
        Reference,
        estimate,
        estimate_files,
        plan_labels,
    )
    from oodometer.core.predictions import Predictions
    from oodometer.core.results import Estimate, Score
    from oodometer.data import as_dataset, read_predictions
    from oodometer.measures import Measurements, measure
    from oodometer.metrics import Evaluation, evaluate
    from oodometer.models import as_model
    from oodometer.monitor import Monitor
    from oodometer.neighborhood import (
        InvarianceResult,
        Ranking,
        TransformSuitability,
        invariance,
        rank,
        suggest_transforms,
    )

__version__ = "0.1.0"

__all__ = [
    "Assessment",
    "Estimate",
    "Evaluation",
    "History",
    "InputError",
    "InvarianceResult",
    "LabelingPlan",
    "Measurements",
    "MissingExtra",
    "Monitor",
    "NotApplicable",
    "OodometerError",
    "Predictions",
    "Ranking",
    "Reference",
    "Score",
    "TransformSuitability",
    "UnknownName",
    "__version__",
    "as_dataset",
    "as_model",
    "estimate",
    "estimate_files",
    "evaluate",
    "invariance",
    "measure",
    "plan_labels",
    "rank",
    "read_predictions",
    "suggest_transforms",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "Assessment": "assessment",
            "Estimate": "core.results",
            "Evaluation": "metrics",
            "History": "assessment",
            "InvarianceResult": "neighborhood",
            "LabelingPlan": "assessment",
            "Measurements": "measures",
            "Monitor": "monitor",
            "Predictions": "core.predictions",
            "Ranking": "neighborhood",
            "Reference": "assessment",
            "Score": "core.results",
            "TransformSuitability": "neighborhood",
            "as_dataset": "data",
            "as_model": "models",
            "estimate": "assessment",
            "estimate_files": "assessment",
            "evaluate": "metrics",
            "invariance": "neighborhood",
            "measure": "measures",
            "plan_labels": "assessment",
            "rank": "neighborhood",
            "read_predictions": "data",
            "suggest_transforms": "neighborhood",
        },
    )
