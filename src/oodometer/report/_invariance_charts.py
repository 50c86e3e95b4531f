"""Charts of invariance as Vega-Lite dictionaries: models on a scale, and examples by their value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from oodometer.core.optional_imports import require
from oodometer.core.softmax_kernels import Floats
from oodometer.report.charts import (
    SOURCE_COLOR,
    TARGET_COLOR,
    TEXT_COLOR,
    VEGA_CONFIG,
    ChartRow,
    ChartSpec,
)

# Up to so many different values have a bar each; more are put into so many bins.
MAX_BARS = 24
# The series of values that are known and not estimated.
KNOWN_SERIES = "known"


@dataclass(frozen=True)
class IntervalPoint:
    """A value under a name, with the ends of its interval where it has one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    series: str = ""


@dataclass(frozen=True)
class HistogramBar:
    """The share of examples, in percent, with values from `left` to `right`, and how that is said."""

    value: str
    left: float
    right: float
    share: float


def dot_chart(
    dots: Sequence[IntervalPoint], title: str, limit: tuple[float, str] | None = None
) -> ChartSpec:
    """Names down the side, each with a point and its interval; a dashed rule for a limit.

    Dots of the series of known values are squares of another colour.
    """
    alt = _altair()
    ends = [end for dot in dots for end in (dot.value, dot.low, dot.high) if end is not None]
    # A limit is one of a distance from 0, which is then in the chart as well.
    scale = alt.Scale(domain=padded_range([*ends, *([0.0, limit[0]] if limit else [])]), nice=False)
    x = alt.X("value:Q", scale=scale, title=title, axis=_number_axis())
    names = alt.Y("name:N", sort=None, title=None, axis=alt.Axis(grid=True, ticks=False))
    base = alt.Chart(_inline_data(_dot_rows(dots))).encode(y=names)
    bars = base.mark_rule(strokeWidth=2.5, opacity=0.65, color=TARGET_COLOR).encode(
        x=alt.X("low:Q", scale=scale, title=title, axis=_number_axis()), x2="high:Q"
    )
    series = list(dict.fromkeys(dot.series for dot in dots))
    legend = None if series == [""] else alt.Legend()
    shown = alt.Scale(
        domain=series,
        range=[SOURCE_COLOR if one == KNOWN_SERIES else TARGET_COLOR for one in series],
    )
    shapes = alt.Scale(
        domain=series, range=["square" if s == KNOWN_SERIES else "circle" for s in series]
    )
    points = base.mark_point(filled=True, opacity=1, size=70).encode(
        x=x,
        color=alt.Color("series:N", scale=shown, legend=legend, title=None),
        shape=alt.Shape("series:N", scale=shapes, legend=legend, title=None),
        tooltip=["name:N", *_dot_tooltips(dots)],
    )
    layers = [bars, points] if any(dot.low is not None for dot in dots) else [points]
    rules = _limit_rule(limit, scale) if limit else []
    rows = len({dot.name for dot in dots})
    return _to_spec(alt.layer(*rules, *layers), max(28 * rows, 44))


def distribution_chart(bars: dict[str, Sequence[HistogramBar]], title: str) -> ChartSpec:
    """The share of examples at every value, of one or two models side by side."""
    alt = _altair()
    rows = [
        {"name": name, **asdict(_split_bar(bar, place, len(bars)))}
        for place, (name, some) in enumerate(bars.items())
        for bar in some
    ]
    shown = alt.Scale(domain=list(bars), range=[TARGET_COLOR, SOURCE_COLOR][: len(bars)])
    legend = None if len(bars) == 1 else alt.Legend()
    chart = (
        alt.Chart(_inline_data(rows))
        .mark_rect()
        .encode(
            x=alt.X("left:Q", title=title, scale=_bar_scale(rows), axis=_number_axis()),
            x2="right:Q",
            y=alt.Y("share:Q", title="examples, %", scale=alt.Scale(zero=True)),
            y2=alt.datum(0),
            color=alt.Color("name:N", scale=shown, legend=legend, title=None),
            tooltip=["name:N", "value:N", alt.Tooltip("share:Q", format=".1f")],
        )
    )
    return _to_spec(chart, 240)


def histogram_bars(values_per_model: Sequence[Floats]) -> list[list[HistogramBar]]:
    """The shares of examples by value, of several models on the same bars.

    >>> [(bar.value, bar.share) for bar in histogram_bars([np.array([0.5, 1.0, 1.0, 1.0])])[0]]
    [('0.500', 25.0), ('1.000', 75.0)]
    """
    levels = np.unique(np.round(np.concatenate(values_per_model), 9))
    if len(levels) <= MAX_BARS:
        half = 0.45 * float(np.diff(levels).min()) if len(levels) > 1 else 0.02
        ends = [(level - half, level + half) for level in levels.tolist()]
        said = [_format_value(level) for level in levels.tolist()]
        counted = [
            [int((np.round(one, 9) == level).sum()) for level in levels] for one in values_per_model
        ]
    else:
        edges = np.linspace(levels[0], levels[-1], MAX_BARS + 1)
        ends = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
        said = [f"{_format_value(low)} to {_format_value(high)}" for low, high in ends]
        counted = [np.histogram(one, edges)[0].tolist() for one in values_per_model]
    return [
        [
            HistogramBar(value, round(left, 5), round(right, 5), round(100 * count / len(one), 3))
            for value, (left, right), count in zip(said, ends, counts, strict=True)
        ]
        for one, counts in zip(values_per_model, counted, strict=True)
    ]


def _split_bar(bar: HistogramBar, index: int, n_models: int) -> HistogramBar:
    """The share of a bar's width that is one model's."""
    wide = (bar.right - bar.left) / n_models
    left = bar.left + index * wide
    return replace(bar, left=round(left, 5), right=round(left + wide, 5))


def _bar_scale(rows: Sequence[ChartRow]) -> Any:
    """The stretch that bars take, and no more: no example lies beyond it."""
    ends = [min(row["left"] for row in rows), max(row["right"] for row in rows)]
    return _altair().Scale(domain=ends, nice=False, zero=False)


def _number_axis() -> Any:
    """Numbers along an axis, fewer where there is no room for all."""
    return _altair().Axis(labelOverlap="greedy", labelSeparation=8, labelBound=True)


def padded_range(values: Sequence[float]) -> list[float]:
    """A stretch that holds all values with some air.

    >>> padded_range([0.0, 1.0])
    [-0.08, 1.08]
    """
    air = max(0.08 * (max(values) - min(values)), 0.005)
    return [round(min(values) - air, 4), round(max(values) + air, 4)]


def _format_value(value: float) -> str:
    return f"{value:z.3f}".replace("-", "−")


def _dot_rows(dots: Iterable[IntervalPoint]) -> list[ChartRow]:
    """Dots as rows, without what they do not have."""
    return [
        {
            key: round(value, 5) if isinstance(value, float) else value
            for key, value in asdict(dot).items()
            if value is not None
        }
        for dot in dots
    ]


def _dot_tooltips(dots: Sequence[IntervalPoint]) -> list[Any]:
    """What a point says when it is pointed at."""
    alt = _altair()
    have = ["value", *(["low", "high"] if dots[0].low is not None else [])]
    words = ["series:N"] if dots[0].series else []
    return [*words, *(alt.Tooltip(f"{name}:Q", format=".3f") for name in have)]


def _limit_rule(limit: tuple[float, str], scale: Any) -> list[Any]:
    """A dashed vertical rule with a word above it, to the left of it where that has more room."""
    alt = _altair()
    at, text = limit
    low, high = scale.domain
    side = {"align": "right", "dx": -4} if at > (low + high) / 2 else {"align": "left", "dx": 4}
    base = alt.Chart(_inline_data([{"at": at, "text": text}])).encode(x=alt.X("at:Q", scale=scale))
    return [
        base.mark_rule(color=TEXT_COLOR, strokeDash=[5, 4], strokeWidth=1.5),
        base.mark_text(baseline="bottom", dy=-3, **side).encode(text="text:N", y=alt.value(0)),
    ]


def _inline_data(rows: Iterable[ChartRow]) -> Any:
    return _altair().InlineData(values=list(rows))


def _altair() -> Any:
    return require("altair", extra="report", purpose="The HTML report")


def _to_spec(chart: Any, height: int) -> ChartSpec:
    spec: ChartSpec = chart.to_dict()
    fit = {"type": "fit-x", "contains": "padding"}
    return {**spec, "width": "container", "height": height, "autosize": fit, "config": VEGA_CONFIG}
