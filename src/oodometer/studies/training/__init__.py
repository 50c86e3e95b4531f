"""Pools: sets of models that are trained on different domains with different settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies.training._run import PoolRunResult, run
    from oodometer.studies.training._status import PoolStatus, status
    from oodometer.studies.training.head_training import train_heads
    from oodometer.studies.training.spec import PoolSpec

__all__ = [
    "PoolRunResult",
    "PoolSpec",
    "PoolStatus",
    "run",
    "status",
    "train_heads",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "PoolRunResult": "_run",
            "PoolSpec": "spec",
            "PoolStatus": "_status",
            "run": "_run",
            "status": "_status",
            "train_heads": "head_training",
        },
    )
