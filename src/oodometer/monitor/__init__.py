"""Monitoring of a model over time: batches, alarms with a bound on false alarms, audits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.monitor._monitor import LabelResult, Monitor
    from oodometer.monitor.audits import AuditRow
    from oodometer.monitor.baseline import Baseline
    from oodometer.monitor.status import (
        Alarm,
        AuditStatus,
        MonitoredBatch,
        MonitorStatus,
        SegmentStatus,
    )

__all__ = [
    "Alarm",
    "AuditRow",
    "AuditStatus",
    "Baseline",
    "LabelResult",
    "Monitor",
    "MonitorStatus",
    "MonitoredBatch",
    "SegmentStatus",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "Alarm": "status",
            "AuditRow": "audits",
            "AuditStatus": "status",
            "Baseline": "baseline",
            "LabelResult": "_monitor",
            "Monitor": "_monitor",
            "MonitorStatus": "status",
            "MonitoredBatch": "status",
            "SegmentStatus": "status",
        },
    )
