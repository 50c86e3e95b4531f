"""Studies: models × test domains × measures, resumable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies._run import Ran, missing_models, run
    from oodometer.studies._status import Standing, status
    from oodometer.studies.spec import Study

__all__ = [
    "Ran",
    "Standing",
    "Study",
    "missing_models",
    "run",
    "status",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Ran": "_run",
        "Standing": "_status",
        "Study": "spec",
        "missing_models": "_run",
        "run": "_run",
        "status": "_status",
    },
)
