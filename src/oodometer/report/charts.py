"""Charts as Vega-Lite dictionaries.

Colours are Okabe and Ito's, which the colour-blind can tell apart. They are named, not fixed, and
text has the colour of the page's text, so that one drawing serves light, dark and paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.optional_imports import require
from oodometer.report.histograms import ClassShare, ConfidenceHistogram, ReliabilityBin

ChartSpec = dict[str, Any]
ChartRow = dict[str, Any]

SOURCE_COLOR, TARGET_COLOR = "var(--source, #0072B2)", "var(--target, #D55E00)"
SIDE_COLORS = {"source": SOURCE_COLOR, "target": TARGET_COLOR}
TEXT_COLOR = "currentColor"
VEGA_CONFIG: ChartSpec = {
    "background": "transparent",
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": TEXT_COLOR,
        "titleColor": TEXT_COLOR,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 150,
        "labelPadding": 5,
        "domainColor": TEXT_COLOR,
        "domainOpacity": 0.4,
        "tickColor": TEXT_COLOR,
        "tickOpacity": 0.4,
        "gridColor": TEXT_COLOR,
        "gridOpacity": 0.12,
    },
    # Numbers stand under their ticks: moved inwards, the first and the last run into the next.
    "axisQuantitative": {
        "format": "~f",
        "tickCount": 8,
        "labelFlush": False,
        "labelSeparation": 4,
    },
    "legend": {
        "orient": "top",
        "title": None,
        "labelColor": TEXT_COLOR,
        "labelFontSize": 12,
        "symbolType": "square",
        "symbolOpacity": 1,
    },
    "text": {"color": TEXT_COLOR, "fontSize": 12},
}


@dataclass(frozen=True)
class AccuracyMark:
    """An accuracy with its interval, under a name, all in points."""

    name: str
    value: float
    low: float
    high: float
    main: bool = False


@dataclass(frozen=True)
class TruthEstimatePair:
    """A true accuracy and an estimate of it, under a name, all in points."""

    name: str
    truth: float
    estimate: float
    low: float
    high: float


def interval_chart(marks: Sequence[AccuracyMark], reference: float) -> ChartSpec:
    """Names down the side, each with a point and an interval; a dashed rule for the source."""
    alt = _altair()
    ends = [reference, *(m.low for m in marks), *(m.high for m in marks)]
    scale = alt.Scale(domain=padded_percent_range(ends), nice=False, zero=False)
    names = alt.Y("name:N", sort=None, title=None, axis=alt.Axis(grid=True, ticks=False))
    base = alt.Chart(_inline_data(asdict(m) for m in marks)).encode(y=names)
    shown = _mark_tooltip()
    bars = base.mark_rule(color=TARGET_COLOR, strokeWidth=2.5, opacity=0.65).encode(
        x=alt.X("low:Q", scale=scale, title="accuracy, %"), x2="high:Q", tooltip=shown
    )
    dots = base.mark_point(color=TARGET_COLOR, fill=TARGET_COLOR, opacity=1).encode(
        x=alt.X("value:Q", scale=scale),
        shape=alt.condition("datum.main", alt.value("diamond"), alt.value("circle")),
        size=alt.condition("datum.main", alt.value(170), alt.value(55)),
        tooltip=shown,
    )
    low, high = scale.domain
    label = RuleLabel("source", left_of_rule=reference > (low + high) / 2)
    return _to_spec(
        alt.layer(*_vertical_rule(reference, SOURCE_COLOR, label), bars, dots), 28 * len(marks)
    )


def timeline_chart(
    marks: Sequence[AccuracyMark], reference: float, *, gaps: Sequence[str] = ()
) -> ChartSpec:
    """A line through dates in a band of intervals, broken at gaps; a dashed rule for the source."""
    alt = _altair()
    rows = [asdict(m) for m in marks] + [{"name": name, "value": None} for name in gaps]
    # Dates without an hour are of universal time; in a clock of its own a reader may be a day off.
    rows = [{**row, "at": row["name"]} for row in sorted(rows, key=lambda row: str(row["name"]))]
    ends = [reference, *(m.low for m in marks), *(m.high for m in marks)]
    scale = alt.Scale(domain=padded_percent_range(ends), nice=False, zero=False)
    form = {4: "%Y", 7: "%Y-%m"}.get(len(marks[0].name), "%Y-%m-%d")
    axis = alt.Axis(grid=False, format=form, labelOverlap="greedy", labelSeparation=12)
    when = alt.X("at:T", scale=alt.Scale(type="utc"), title=None, axis=axis)
    base = alt.Chart(_inline_data(rows)).encode(x=when)
    band = base.mark_area(color=TARGET_COLOR, opacity=0.25).encode(
        y=alt.Y("low:Q", scale=scale, title="accuracy, %"), y2="high:Q"
    )
    value = alt.Y("value:Q", scale=scale)
    line = base.mark_line(color=TARGET_COLOR, strokeWidth=2).encode(y=value)
    dots = base.mark_point(
        color=TARGET_COLOR, fill=TARGET_COLOR, opacity=1, size=30, shape="circle"
    ).encode(y=value, tooltip=_mark_tooltip())
    home = alt.Chart(_inline_data([{"accuracy": reference, "text": "source"}])).encode(
        y="accuracy:Q"
    )
    rule = home.mark_rule(color=SOURCE_COLOR, strokeDash=[5, 4], strokeWidth=1.5)
    word = home.mark_text(color=SOURCE_COLOR, align="right", baseline="bottom", dy=-3)
    layers = alt.layer(rule, band, line, dots, word.encode(text="text:N", x=alt.value("width")))
    return _to_spec(layers, 240)


def confidence_chart(histogram: ConfidenceHistogram, threshold: float | None) -> ChartSpec:
    """The distributions of confidence over one another, and the threshold of ATC."""
    alt = _altair()
    rows = [
        # A step needs the right end of its last bin too.
        {"at": round(float(at), 4), "share": round(100 * float(share), 3), "side": side}
        for side, shares in (("source", histogram.source), ("target", histogram.target))
        for at, share in zip(histogram.edges, [*shares, shares[-1]], strict=True)
    ]
    scale = alt.Scale(domain=[round(float(histogram.edges[0]), 4), 1.0], nice=False, zero=False)
    # Most rows of most models are very sure; on a square root the others are seen beside them.
    root = alt.Scale(type="sqrt")
    area = (
        alt.Chart(_inline_data(rows))
        .mark_area(interpolate="step-after", opacity=0.3, line={"strokeWidth": 2})
        .encode(
            x=alt.X("at:Q", scale=scale, title="confidence"),
            y=alt.Y("share:Q", stack=None, scale=root, title="rows, % (square-root scale)"),
            color=_side_color(),
        )
    )
    layers = [area]
    if threshold is not None:
        flip = threshold > (1 + float(histogram.edges[0])) / 2
        layers += _vertical_rule(threshold, TEXT_COLOR, RuleLabel("threshold of atc-mc", flip))
    return _to_spec(alt.layer(*layers, _bin_tooltips(histogram)), 240)


def _bin_tooltips(histogram: ConfidenceHistogram) -> Any:
    """What a pointer over a bin is told; itself it is not seen."""
    alt = _altair()
    cells = zip(
        histogram.edges, histogram.edges[1:], histogram.source, histogram.target, strict=False
    )
    rows = [
        {"from": round(float(a), 4), "to": round(float(b), 4), "bin": f"{a:.3f}–{b:.3f}",
         "source": round(100 * float(s), 2), "target": round(100 * float(t), 2)}
        for a, b, s, t in cells
    ]  # fmt: skip
    return (
        alt.Chart(_inline_data(rows))
        .mark_rect(opacity=0)
        .encode(
            x="from:Q",
            x2="to:Q",
            tooltip=[
                alt.Tooltip("bin:N", title="confidence"),
                *(alt.Tooltip(f"{side}:Q", title=f"{side}, %") for side in SIDE_COLORS),
            ],
        )
    )


def reliability_chart(bins: Sequence[ReliabilityBin]) -> ChartSpec:
    """Accuracy against confidence on the source, beside the line where they are equal."""
    alt = _altair()
    rows = [{name: round(value, 4) for name, value in asdict(one).items()} for one in bins]
    base = alt.Chart(_inline_data(rows)).encode(x=alt.X("confidence:Q", title="mean confidence"))
    bars = base.mark_rule(color=SOURCE_COLOR, strokeWidth=2, opacity=0.65).encode(
        y=alt.Y("low:Q", title="accuracy"), y2="high:Q"
    )
    dots = base.mark_point(color=SOURCE_COLOR, fill=SOURCE_COLOR, opacity=1, shape="circle").encode(
        y="accuracy:Q",
        size=alt.Size("n:Q", legend=None, scale=alt.Scale(range=[25, 250])),
        tooltip=["n:Q", "confidence:Q", "accuracy:Q"],
    )
    return _to_spec(alt.layer(_diagonal(0.0, 1.0), bars, dots), 240)


def class_share_chart(shares: Sequence[ClassShare]) -> ChartSpec:
    """How often each class is predicted, source and target side by side."""
    alt = _altair()
    rows = [
        {"name": one.name, "share": round(100 * share, 3), "side": side}
        for one in shares
        for side, share in (("source", one.source), ("target", one.target))
    ]
    names = alt.Y("name:N", sort=None, title=None, scale=alt.Scale(paddingInner=0.25))
    bars = (
        alt.Chart(_inline_data(rows))
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="rows predicted, %"),
            y=names,
            yOffset=alt.YOffset("side:N", scale=alt.Scale(domain=list(SIDE_COLORS))),
            color=_side_color(),
            tooltip=["name:N", "side:N", alt.Tooltip("share:Q", format=".1f")],
        )
    )
    return _to_spec(bars, 26 * len(shares))


def estimate_scatter_chart(
    pairs: Sequence[TruthEstimatePair], domain: Sequence[float]
) -> ChartSpec:
    """Estimated against true accuracy, beside the line where they are equal."""
    alt = _altair()
    scale, few = alt.Scale(domain=list(domain), nice=False, zero=False), alt.Axis(tickCount=4)
    base = alt.Chart(_inline_data(asdict(pair) for pair in pairs)).encode(
        x=alt.X("truth:Q", scale=scale, title="true accuracy, %", axis=few)
    )
    bars = base.mark_rule(color=TARGET_COLOR, strokeWidth=1.5, opacity=0.5, clip=True).encode(
        y=alt.Y("low:Q", scale=scale, title="estimated, %", axis=few), y2="high:Q"
    )
    dots = base.mark_point(
        color=TARGET_COLOR, fill=TARGET_COLOR, opacity=1, size=45, shape="circle"
    ).encode(
        y=alt.Y("estimate:Q", scale=scale),
        tooltip=["name:N", *(alt.Tooltip(f"{f}:Q", format=".1f") for f in ("truth", "estimate"))],
    )
    return _to_spec(alt.layer(_diagonal(*domain), bars, dots), "container")


def padded_percent_range(values: Sequence[float]) -> list[float]:
    """A stretch of points that holds all values with some air, inside 0 to 100.

    >>> padded_percent_range([80.0, 90.0])
    [79.0, 91.0]
    """
    air = max((max(values) - min(values)) / 10, 0.5)
    return [round(max(min(values) - air, 0.0), 1), round(min(max(values) + air, 100.0), 1)]


@dataclass(frozen=True)
class RuleLabel:
    """A word at the top of a rule, written to its left where it would leave the chart."""

    text: str
    left_of_rule: bool


def _altair() -> Any:
    """The chart library, which is an extra."""
    return require("altair", extra="report", purpose="The HTML report")


def _mark_tooltip() -> list[Any]:
    """A mark's name and its numbers."""
    alt = _altair()
    shown = {"value": "accuracy, %", "low": "from", "high": "to"}
    return [
        alt.Tooltip("name:N"),
        *(alt.Tooltip(f"{field}:Q", format=".1f", title=title) for field, title in shown.items()),
    ]


def _inline_data(rows: Any) -> Any:
    """Rows as they are put into the page."""
    return _altair().InlineData(values=list(rows))


def _side_color() -> Any:
    """Blue for the source and vermilion for the target, with a legend."""
    alt = _altair()
    scale = alt.Scale(domain=list(SIDE_COLORS), range=list(SIDE_COLORS.values()))
    return alt.Color("side:N", scale=scale, title=None)


def _vertical_rule(position: float, color: str, label: RuleLabel) -> list[Any]:
    """A dashed vertical rule with a word above it."""
    alt = _altair()
    base = alt.Chart(_inline_data([{"at": position, "text": label.text}])).encode(x="at:Q")
    side = {"align": "right", "dx": -4} if label.left_of_rule else {"align": "left", "dx": 4}
    word = base.mark_text(color=color, baseline="bottom", dy=-3, **side)
    return [
        base.mark_rule(color=color, strokeDash=[5, 4], strokeWidth=1.5),
        word.encode(text="text:N", y=alt.value(0)),
    ]


def _diagonal(low: float, high: float) -> Any:
    """The line y = x."""
    ends = _inline_data([{"x": low, "y": low}, {"x": high, "y": high}])
    line = (
        _altair()
        .Chart(ends)
        .mark_line(color=TEXT_COLOR, opacity=0.5, strokeDash=[5, 4], strokeWidth=1)
    )
    return line.encode(x="x:Q", y="y:Q")


def _to_spec(chart: Any, height: int | Literal["container"]) -> ChartSpec:
    """The chart as a dictionary, as wide as its box, in our colours whatever theme is set."""
    spec: ChartSpec = chart.to_dict()
    fit = {"type": "fit" if height == "container" else "fit-x", "contains": "padding"}
    return {**spec, "width": "container", "height": height, "autosize": fit, "config": VEGA_CONFIG}


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
