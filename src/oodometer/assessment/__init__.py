"""Accuracy estimation: `estimate`, `Reference`, `estimate_files`, diagnostics and labelling plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.assessment._estimate import FittedEstimators, estimates
    from oodometer.assessment.conformal_interval import History
    from oodometer.assessment.labeling_plan import LabelingPlan, plan_labels
    from oodometer.assessment.reference import (
        EstimateOptions,
        Reference,
        estimate,
        estimate_files,
    )
    from oodometer.assessment.result import Assessment

__all__ = [
    "Assessment",
    "EstimateOptions",
    "FittedEstimators",
    "History",
    "LabelingPlan",
    "Reference",
    "estimate",
    "estimate_files",
    "estimates",
    "plan_labels",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "Assessment": "result",
            "EstimateOptions": "reference",
            "FittedEstimators": "_estimate",
            "History": "conformal_interval",
            "LabelingPlan": "labeling_plan",
            "Reference": "reference",
            "estimate": "reference",
            "estimate_files": "reference",
            "estimates": "_estimate",
            "plan_labels": "labeling_plan",
        },
    )
