"""Metrics: scores of a model on labelled data.

To add a metric, write a new file in this package with a frozen dataclass that has the attributes of
`oodometer.core.protocols.Metric`, and add an instance of it to `MEMBERS` in `registry.py`. Test it
with `oodometer.testing.check_metric`, and add a row for it to the table in `docs/methods.md`. Other
packages can register metrics by an entry point of the group `oodometer.metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.metrics._evaluate import Evaluation, evaluate, evaluate_metric
    from oodometer.metrics.registry import (
        F1,
        MEMBERS,
        AdversarialError,
        Auroc,
        BalancedAccuracy,
        CalibrationError,
        DemographicDisparity,
        Error,
        NegativeLogLikelihood,
        available,
        get,
    )

__all__ = [
    "F1",
    "MEMBERS",
    "AdversarialError",
    "Auroc",
    "BalancedAccuracy",
    "CalibrationError",
    "DemographicDisparity",
    "Error",
    "Evaluation",
    "NegativeLogLikelihood",
    "available",
    "evaluate",
    "evaluate_metric",
    "get",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "AdversarialError": "registry",
            "Auroc": "registry",
            "BalancedAccuracy": "registry",
            "CalibrationError": "registry",
            "DemographicDisparity": "registry",
            "Error": "registry",
            "Evaluation": "_evaluate",
            "F1": "registry",
            "MEMBERS": "registry",
            "NegativeLogLikelihood": "registry",
            "available": "registry",
            "evaluate": "_evaluate",
            "evaluate_metric": "_evaluate",
            "get": "registry",
        },
    )
