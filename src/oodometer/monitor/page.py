"""HTML page of a monitor: latest status first, then accuracy, evidence, alarms and segments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oodometer.monitor._monitor import Monitor
from oodometer.monitor.status import MonitoredBatch, MonitorStatus
from oodometer.report.charts import (
    SOURCE_COLOR,
    TARGET_COLOR,
    TEXT_COLOR,
    Figure,
    FigureTable,
    altair,
    padded_percent_range,
    padded_range,
    to_spec,
)
from oodometer.report.page import render

# Batches that the charts show, the latest ones; more points would overlap.
MAX_SHOWN_BATCHES = 2000
MAX_TABLE_ROWS = 200
MAX_SEGMENTS = 20
ALARM_COLOR = "var(--critical, #B3261E)"
# Units of numpy by the length of a time: month, day, hour, minute and second.
TIME_UNITS = {7: "M", 10: "D", 13: "h", 16: "m", 19: "s"}
CHART_HEIGHT = 260


def monitor_page(
    monitor: Monitor,
    *,
    title: str = "Accuracy over time",
    date: str | None = None,
    required: float | None = None,
    reproduce: Mapping[str, str] | None = None,
) -> str:
    """Return a monitor as a complete HTML page.

    Parameters
    ----------
    monitor : Monitor
        Monitor to show.
    title : str
        Title of the page.
    date : str, optional
        Date below the title.
    required : float, optional
        Required accuracy, as a fraction, which is drawn as a line.
    reproduce : mapping of str to str, optional
        Facts for reproducing the page, by name.

    Returns
    -------
    str
        HTML page without external resources.
    """
    status = monitor.status()
    batches = monitor.batches()
    shown = batches[-MAX_SHOWN_BATCHES:]
    figures = []
    if shown:
        figures = [
            _accuracy_figure(shown, status, required),
            _evidence_figure(shown, status),
        ]
    return render(
        "monitor_page.html",
        {
            "title": title,
            "date": date,
            "status": status,
            "light_name": {"quiet": "ok", "alarm": "critical"}.get(status.state, "warning"),
            "verdict": f"{status.state.capitalize()}: {status.reason}.",
            "required": required,
            "figures": figures,
            "segments": status.segments[:MAX_SEGMENTS],
            "n_hidden": len(batches) - len(shown),
            "batches": list(reversed(batches))[:MAX_TABLE_ROWS],
            "labels": _labels({batch.number: batch for batch in batches}),
            "reproduce": dict(reproduce or {}),
        },
    )


def _labels(batches: Mapping[int, MonitoredBatch]) -> dict[int, str]:
    """Return the time, the name or the number of each batch."""
    return {number: _label(batch) for number, batch in batches.items()}


def _label(batch: MonitoredBatch) -> str:
    return batch.time or batch.name or f"batch {batch.number}"


def missing_times(times: Sequence[str]) -> list[str]:
    """Return the periods between the first and the last time that have no batch.

    Times are regular if they have the same length and their most frequent step is one unit.

    >>> missing_times(["2026-01", "2026-02", "2026-04"])
    ['2026-03']
    >>> missing_times(["2026-01-01", "2026-01-08", "2026-01-15"])
    []
    """
    unit = TIME_UNITS.get(len(times[0])) if len({len(time) for time in times}) == 1 else None
    if unit is None:
        return []
    known = np.unique(np.array(times, dtype=f"datetime64[{unit}]"))
    steps = np.diff(known).astype(np.int64)
    if not len(steps) or steps.sum() > 10 * len(known) or np.bincount(steps).argmax() != 1:
        return []
    every = np.arange(known[0], known[-1], dtype=known.dtype)
    return [str(time) for time in np.setdiff1d(every, known)]


def _rows(batches: Sequence[MonitoredBatch]) -> tuple[list[dict[str, Any]], Any]:
    """Return a row per batch with its place on the axis, rows of missing periods, and the axis."""
    alt = altair()
    is_timed = all(batch.time is not None for batch in batches)
    rows: list[dict[str, Any]] = []
    for position, batch in enumerate(batches, start=1):
        rows.append(
            {
                "at": _utc(batch.time or "") if is_timed else position,
                "batch": _label(batch),
                "number": batch.number,
                "rows": batch.n,
                **_percents(batch),
                "evidence": round(math.log10(max(batch.evidence, 1e-300)), 4),
            }
        )
    if not is_timed:
        axis = alt.Axis(grid=False, tickMinStep=1, format="d")
        return rows, alt.X("at:Q", title="batch", axis=axis, scale=alt.Scale(nice=False))
    gaps = missing_times([str(batch.time) for batch in batches])
    rows += [{"at": _utc(time), "batch": time} for time in gaps]
    rows.sort(key=lambda row: row["at"])
    axis = alt.Axis(grid=False, labelOverlap="greedy", labelSeparation=12)
    return rows, alt.X("at:T", title=None, axis=axis, scale=alt.Scale(type="utc"))


def _percents(batch: MonitoredBatch) -> dict[str, float]:
    names = (
        "estimate", "low", "high", "typical_low", "typical_high", "label_estimate", "label_low",
        "label_high",
    )  # fmt: skip
    values = {name: getattr(batch, name) for name in names}
    return {name: round(100 * value, 3) for name, value in values.items() if value is not None}


def _utc(time: str) -> str:
    """Return a time as text that JavaScript reads as UTC."""
    if "T" not in time:
        return time
    return f"{time}:00Z" if len(time) == 13 else f"{time}Z"


def _alarm_rules(rows: Sequence[dict[str, Any]], status: MonitorStatus, x: Any) -> Any:
    """Return vertical lines at the batches of alarms; None if there are none."""
    alt = altair()
    alarms = {alarm.batch for alarm in status.alarms}
    marked = [row for row in rows if row.get("number") in alarms]
    if not marked:
        return None
    data = alt.InlineData(values=[{"at": row["at"], "batch": row["batch"]} for row in marked])
    return (
        alt.Chart(data)
        .mark_rule(color=ALARM_COLOR, strokeWidth=2)
        .encode(x=x, tooltip=[alt.Tooltip("batch:N", title="alarm")])
    )


def _level_rule(value: float, label: str, color: str, align: str) -> list[Any]:
    """Return a horizontal line with its label at the right or left end."""
    alt = altair()
    base = alt.Chart(alt.InlineData(values=[{"level": value, "text": label}])).encode(y="level:Q")
    return [
        base.mark_rule(color=color, strokeDash=[5, 4], strokeWidth=1.5),
        base.mark_text(align=align, baseline="bottom", dy=-3, color=color).encode(
            text="text:N", x=alt.value("width" if align == "right" else 0)
        ),
    ]


def _accuracy_figure(
    batches: Sequence[MonitoredBatch], status: MonitorStatus, required: float | None
) -> Figure:
    alt = altair()
    rows, x = _rows(batches)
    levels = [100 * status.source_accuracy] + ([] if required is None else [100 * required])
    ends = [
        value
        for row in rows
        for name, value in row.items()
        if name not in ("at", "batch", "number", "rows", "evidence")
    ]
    scale = alt.Scale(domain=padded_percent_range([*levels, *ends]), nice=False, zero=False)
    y = alt.Y("estimate:Q", scale=scale, title="accuracy, %")
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x)
    tooltip = [
        alt.Tooltip("batch:N"), alt.Tooltip("estimate:Q", title="accuracy, %", format=".1f"),
        alt.Tooltip("low:Q", format=".1f"), alt.Tooltip("high:Q", format=".1f"),
        alt.Tooltip("rows:Q", format=","),
    ]  # fmt: skip
    layers = [*_level_rule(100 * status.source_accuracy, "source", SOURCE_COLOR, "right")]
    if required is not None:
        layers += _level_rule(100 * required, "required", TEXT_COLOR, "left")
    if any("typical_low" in row for row in rows):
        layers.append(
            base.mark_area(color=TARGET_COLOR, opacity=0.12).encode(
                y=alt.Y("typical_low:Q", scale=scale, title="accuracy, %"), y2="typical_high:Q"
            )
        )
    layers += [
        base.mark_area(color=TARGET_COLOR, opacity=0.3).encode(
            y=alt.Y("low:Q", scale=scale, title="accuracy, %"), y2="high:Q"
        ),
        base.mark_line(color=TARGET_COLOR, strokeWidth=2).encode(y=y),
        base.mark_circle(color=TARGET_COLOR, size=30, opacity=1).encode(y=y, tooltip=tooltip),
    ]
    if any("label_estimate" in row for row in rows):
        layers += [
            base.mark_rule(color=SOURCE_COLOR).encode(
                y=alt.Y("label_low:Q", scale=scale), y2="label_high:Q"
            ),
            base.mark_point(color=SOURCE_COLOR, shape="diamond", size=60, filled=True).encode(
                y=alt.Y("label_estimate:Q", scale=scale)
            ),
        ]
    alarms = _alarm_rules(rows, status, x)
    if alarms is not None:
        layers.append(alarms)
    return Figure(
        key="accuracy",
        title="Estimated accuracy",
        caption="Line: estimate per batch. Dark band: 95 % confidence interval (sampling error only). "
        "Light band: typical range, once at least five batches have labels. Diamonds: accuracy from "
        "labels. Vertical lines: alarms. The line is interrupted where a period has no batch.",
        alt=f"Estimated accuracy of {len(batches)} batches; the latest is "
        f"{100 * batches[-1].estimate:.1f} %.",
        spec=to_spec(alt.layer(*layers), CHART_HEIGHT),
        wide=True,
    )


def _evidence_figure(batches: Sequence[MonitoredBatch], status: MonitorStatus) -> Figure:
    alt = altair()
    rows, x = _rows(batches)
    limit = math.log10(status.limit)
    values = [row["evidence"] for row in rows if "evidence" in row]
    scale = alt.Scale(domain=padded_range([*values, limit, 0.0]), nice=False, zero=False)
    y = alt.Y("evidence:Q", scale=scale, title="log₁₀ of the evidence")
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y)
    tooltip = [alt.Tooltip("batch:N"), alt.Tooltip("evidence:Q", title="log₁₀ M", format=".2f")]
    layers = [
        *_level_rule(limit, "alarm", ALARM_COLOR, "left"),
        base.mark_line(color=TARGET_COLOR, strokeWidth=2),
        base.mark_circle(color=TARGET_COLOR, size=30, opacity=1).encode(tooltip=tooltip),
    ]
    alarms = _alarm_rules(rows, status, x)
    if alarms is not None:
        layers.append(alarms)
    table = FigureTable(
        ("batch", "evidence"),
        tuple((_label(batch), f"{batch.evidence:.3g}") for batch in batches[-MAX_TABLE_ROWS:]),
    )
    return Figure(
        key="evidence",
        title="Evidence that the mean score is below the level",
        caption="An alarm is raised when the evidence reaches the dashed line. Without a change, it "
        "stays near or below 1, whose logarithm is 0. After an alarm is acknowledged, it restarts at 1.",
        alt=f"Evidence after {len(batches)} batches; it is {status.evidence:.3g}, and the limit is "
        f"{status.limit:.3g}.",
        spec=to_spec(alt.layer(*layers), 180),
        table=table,
        wide=True,
    )
