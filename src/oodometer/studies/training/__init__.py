"""Pools: many models trained in many ways on many domains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies.training._run import Ran, run
    from oodometer.studies.training._status import Standing, status
    from oodometer.studies.training.spec import Spec

__all__ = [
    "Ran",
    "Spec",
    "Standing",
    "run",
    "status",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Ran": "_run",
        "Spec": "spec",
        "Standing": "_status",
        "run": "_run",
        "status": "_status",
    },
)
