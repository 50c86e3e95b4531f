"""Studies: evaluate many models on many test domains, and resume interrupted runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies._run import StudyRunResult, format_missing_models, run
    from oodometer.studies._status import StudyStatus, status
    from oodometer.studies.analysis import (
        MeasureComparison,
        RobustnessComparison,
        compare_measures,
        compare_with_reference,
    )
    from oodometer.studies.spec import Study

__all__ = [
    "MeasureComparison",
    "RobustnessComparison",
    "Study",
    "StudyRunResult",
    "StudyStatus",
    "compare_measures",
    "compare_with_reference",
    "format_missing_models",
    "run",
    "status",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "MeasureComparison": "analysis",
            "RobustnessComparison": "analysis",
            "Study": "spec",
            "StudyRunResult": "_run",
            "StudyStatus": "_status",
            "compare_measures": "analysis",
            "compare_with_reference": "analysis",
            "format_missing_models": "_run",
            "run": "_run",
            "status": "_status",
        },
    )
