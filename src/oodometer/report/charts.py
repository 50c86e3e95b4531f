"""Builders of the Vega-Lite charts on HTML pages: intervals, histograms, bars, reliability diagram.

The colors are those of Okabe and Ito, which color-blind readers can distinguish. Charts refer to
them by CSS variables and draw text in the text color of the page. The same chart is therefore
legible in the light theme, in the dark theme and in print.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from oodometer.core.optional_imports import require
from oodometer.report.histograms import (
    ClassShare,
    ConfidenceHistogram,
    HistogramBar,
    ReliabilityBin,
)

ChartSpec = dict[str, Any]
ChartRow = dict[str, Any]

SOURCE_COLOR = "var(--source, #0072B2)"
TARGET_COLOR = "var(--target, #D55E00)"
SIDE_COLORS = {"source": SOURCE_COLOR, "target": TARGET_COLOR}
TEXT_COLOR = "currentColor"
# Size in pixels and text color of charts in notebooks, which have a white background.
NOTEBOOK_WIDTH = 480
NOTEBOOK_HEIGHT = 300
NOTEBOOK_TEXT_COLOR = "#333333"
PAPER_COLOR = "var(--paper, #FFFFFF)"
# Names of the series whose points are drawn differently from all others.
KNOWN_SERIES = "known"
TRUTH_SERIES = "truth"
HEADLINE_SERIES = "headline"
MAX_DATE_TICKS = 8
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
    # Keep labels centered under their ticks: if the first and the last label were moved inwards,
    # they would overlap their neighbors.
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
class FigureTable:
    """Table of the numbers that a chart shows."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Chart with title, caption and alternative text.

    `table` holds the numbers of the chart; None if another table of the page contains them.
    """

    key: str
    title: str
    caption: str
    alt: str
    spec: ChartSpec
    table: FigureTable | None = None
    wide: bool = False


@dataclass(frozen=True)
class IntervalPoint:
    """Named value with the ends of its interval; both ends are None without an interval."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    series: str = ""


@dataclass(frozen=True)
class NamedValue:
    """Value of a bar with its name; `series` distinguishes the bars of one name."""

    name: str
    value: float
    series: str = ""


@dataclass(frozen=True)
class TruthEstimatePair:
    """True accuracy and its estimate under one shift, in percent."""

    name: str
    truth: float
    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Rule:
    """Dashed line at a value, with a label."""

    at: float
    label: str
    color: str = TEXT_COLOR


def interval_chart(
    points: Sequence[IntervalPoint],
    title: str,
    *,
    domain: Sequence[float],
    rules: Sequence[Rule] = (),
    digits: int = 3,
) -> ChartSpec:
    """Return a chart with one row per point, which shows its value and its interval."""
    alt = altair()
    scale = alt.Scale(domain=list(domain), nice=False, zero=False)
    axis = _number_axis()
    names = alt.Y("name:N", sort=None, title=None, axis=alt.Axis(grid=True, ticks=False))
    base = alt.Chart(_inline_data(_point_rows(points))).encode(y=names)
    tooltip = _point_tooltip(points, title, digits)
    series = list(dict.fromkeys(point.series for point in points))
    legend = alt.Legend() if set(series) - {"", HEADLINE_SERIES} else None
    dots = base.mark_point(filled=True, opacity=1).encode(
        x=alt.X("value:Q", scale=scale, title=title, axis=axis),
        color=_series_encoding(
            alt.Color,
            series,
            {KNOWN_SERIES: SOURCE_COLOR, TRUTH_SERIES: SOURCE_COLOR},
            TARGET_COLOR,
            legend,
        ),
        shape=_series_encoding(
            alt.Shape,
            series,
            {KNOWN_SERIES: "square", TRUTH_SERIES: "square", HEADLINE_SERIES: "diamond"},
            "circle",
            legend,
        ),
        size=alt.condition(f"datum.series === '{HEADLINE_SERIES}'", alt.value(170), alt.value(70)),
        tooltip=tooltip,
    )
    layers = [dots]
    if any(point.low is not None for point in points):
        bars = base.mark_rule(color=TARGET_COLOR, strokeWidth=2.5, opacity=0.65)
        low = alt.X("low:Q", scale=scale, title=title, axis=axis)
        layers.insert(0, bars.encode(x=low, x2="high:Q", tooltip=tooltip))
    lines = [
        layer
        for row, rule in enumerate(rules)
        for layer in _vertical_rule(rule, domain, label_row=row)
    ]
    n_names = len({point.name for point in points})
    return to_spec(alt.layer(*lines, *layers), max(28 * n_names, 44))


def timeline_chart(
    points: Sequence[IntervalPoint], rules: Sequence[Rule], *, gaps: Sequence[str] = ()
) -> ChartSpec:
    """Return a line chart over dates with a band of intervals; both are interrupted at `gaps`.

    The label of the first rule is at the right end, that of a second rule at the left end.
    """
    alt = altair()
    rows = [asdict(point) for point in points] + [{"name": name, "value": None} for name in gaps]
    # JavaScript reads dates without a time as UTC. Shown in local time, they could be a day off.
    ordered = sorted(rows, key=lambda row: str(row["name"]))
    rows = [{**row, "at": _utc_time(str(row["name"]))} for row in ordered]
    ends = [end for point in points for end in (point.low, point.high) if end is not None]
    domain = padded_percent_range([*(rule.at for rule in rules), *ends])
    scale = alt.Scale(domain=domain, nice=False, zero=False)
    formats = {4: "%Y", 7: "%Y-%m", 13: "%m-%d %H:00"}
    date_format = formats.get(len(points[0].name), "%Y-%m-%d")
    axis = alt.Axis(
        grid=False,
        format=date_format,
        values=_date_ticks([row["name"] for row in ordered]),
        labelOverlap="greedy",
        labelSeparation=12,
    )
    dates = alt.X("at:T", scale=alt.Scale(type="utc"), title=None, axis=axis)
    base = alt.Chart(_inline_data(rows)).encode(x=dates)
    band = base.mark_area(color=TARGET_COLOR, opacity=0.25).encode(
        y=alt.Y("low:Q", scale=scale, title="accuracy, %"), y2="high:Q"
    )
    value = alt.Y("value:Q", scale=scale)
    line = base.mark_line(color=TARGET_COLOR, strokeWidth=2).encode(y=value)
    dots = _circles(base, TARGET_COLOR, size=30).encode(
        y=value, tooltip=_point_tooltip(points, "accuracy, %", 1)
    )
    lines, labels = [], []
    for rule, (align, x) in zip(rules, (("right", "width"), ("left", 0)), strict=False):
        level = alt.Chart(_inline_data([{"accuracy": rule.at, "text": rule.label}])).encode(
            y="accuracy:Q"
        )
        lines.append(level.mark_rule(color=rule.color, strokeDash=[5, 4], strokeWidth=1.5))
        # The outline in the color of the page keeps the label legible on a line.
        for style in ({"stroke": PAPER_COLOR, "strokeWidth": 4}, {"color": rule.color}):
            label = level.mark_text(align=align, baseline="bottom", dy=-3, **style)
            labels.append(label.encode(text="text:N", x=alt.value(x)))
    return to_spec(alt.layer(*lines, band, line, dots, *labels), 240)


def _date_ticks(names: Sequence[str]) -> list[Any]:
    """Return at most `MAX_DATE_TICKS` dates in equal steps."""
    step = -(-len(names) // MAX_DATE_TICKS)
    ticks = []
    for name in names[::step]:
        # Parts that are missing, such as the day of a month, have their smallest value.
        complete = name + "0000-01-01T00"[len(name) :]
        year, month, day, hour = map(int, re.split("[-T]", complete))
        date = altair().DateTime(year=year, month=month, date=day, hours=hour, utc=True)
        ticks.append(date)
    return ticks


def _utc_time(name: str) -> str:
    """Return a year, month, day or hour as text that JavaScript reads as a time in UTC.

    >>> _utc_time("2026-03"), _utc_time("2026-03-01T05")
    ('2026-03', '2026-03-01T05:00Z')
    """
    return f"{name}:00Z" if "T" in name else name


def confidence_chart(histogram: ConfidenceHistogram, threshold: float | None) -> ChartSpec:
    """Return a chart of the confidences on source and target, optionally with ATC's threshold."""
    alt = altair()
    rows = [
        # A step chart needs one more point, at the right end of the last bin.
        {"at": round(float(at), 4), "share": round(100 * float(share), 3), "side": side}
        for side, shares in (("source", histogram.source), ("target", histogram.target))
        for at, share in zip(histogram.edges, [*shares, shares[-1]], strict=True)
    ]
    domain = [round(float(histogram.edges[0]), 4), 1.0]
    scale = alt.Scale(domain=domain, nice=False, zero=False)
    # Most models have a high confidence on most rows. On a square-root scale, bins with few rows
    # are visible as well.
    share = alt.Y(
        "share:Q", stack=None, scale=alt.Scale(type="sqrt"), title="rows, % (square-root scale)"
    )
    area = alt.Chart(_inline_data(rows)).mark_area(
        interpolate="step-after", opacity=0.3, line={"strokeWidth": 2}
    )
    confidence = alt.X("at:Q", scale=scale, title="confidence")
    layers = [area.encode(x=confidence, y=share, color=_side_color())]
    if threshold is not None:
        layers += _vertical_rule(Rule(threshold, "threshold of atc-mc"), domain)
    return to_spec(alt.layer(*layers, _bin_tooltips(histogram)), 240)


def _bin_tooltips(histogram: ConfidenceHistogram) -> Any:
    """Return one invisible rectangle per bin, which shows the tooltip of the bin."""
    alt = altair()
    rows = [
        {
            "from": round(float(low), 4),
            "to": round(float(high), 4),
            "bin": f"{low:.3f}–{high:.3f}",
            "source": round(100 * float(source), 2),
            "target": round(100 * float(target), 2),
        }
        for low, high, source, target in histogram.bins()
    ]
    tooltip = [
        alt.Tooltip("bin:N", title="confidence"),
        *(alt.Tooltip(f"{side}:Q", title=f"{side}, %") for side in SIDE_COLORS),
    ]
    rectangles = alt.Chart(_inline_data(rows)).mark_rect(opacity=0)
    return rectangles.encode(x="from:Q", x2="to:Q", tooltip=tooltip)


def reliability_chart(bins: Sequence[ReliabilityBin]) -> ChartSpec:
    """Return a chart of accuracy against confidence on the source, with the diagonal."""
    alt = altair()
    rows = [{name: round(value, 4) for name, value in asdict(cell).items()} for cell in bins]
    base = alt.Chart(_inline_data(rows)).encode(x=alt.X("confidence:Q", title="mean confidence"))
    bars = base.mark_rule(color=SOURCE_COLOR, strokeWidth=2, opacity=0.65).encode(
        y=alt.Y("low:Q", title="accuracy"), y2="high:Q"
    )
    dots = _circles(base, SOURCE_COLOR).encode(
        y="accuracy:Q",
        size=alt.Size("n:Q", legend=None, scale=alt.Scale(range=[25, 250])),
        tooltip=[alt.Tooltip("n:Q", title="rows"), "confidence:Q", "accuracy:Q"],
    )
    return to_spec(alt.layer(_diagonal(0.0, 1.0), bars, dots), 240)


def class_share_chart(shares: Sequence[ClassShare]) -> ChartSpec:
    """Return a bar chart of the share of source and target rows predicted as each class."""
    alt = altair()
    rows = [
        {"name": row.name, "share": round(100 * share, 3), "side": side}
        for row in shares
        for side, share in (("source", row.source), ("target", row.target))
    ]
    bars = alt.Chart(_inline_data(rows)).mark_bar()
    bars = bars.encode(
        x=alt.X("share:Q", title="predicted rows, %"),
        y=alt.Y("name:N", sort=None, title=None, scale=alt.Scale(paddingInner=0.25)),
        yOffset=alt.YOffset("side:N", scale=alt.Scale(domain=list(SIDE_COLORS))),
        color=_side_color(),
        tooltip=["name:N", "side:N", alt.Tooltip("share:Q", format=".1f", title="rows, %")],
    )
    return to_spec(bars, 26 * len(shares))


def estimate_scatter_chart(
    pairs: Sequence[TruthEstimatePair], domain: Sequence[float]
) -> ChartSpec:
    """Return a chart of estimated against true accuracy, with the diagonal."""
    alt = altair()
    scale = alt.Scale(domain=list(domain), nice=False, zero=False)
    axis = alt.Axis(tickCount=4)
    base = alt.Chart(_inline_data(asdict(pair) for pair in pairs)).encode(
        x=alt.X("truth:Q", scale=scale, title="true accuracy, %", axis=axis)
    )
    bars = base.mark_rule(color=TARGET_COLOR, strokeWidth=1.5, opacity=0.5, clip=True).encode(
        y=alt.Y("low:Q", scale=scale, title="estimated, %", axis=axis), y2="high:Q"
    )
    numbers = [alt.Tooltip(f"{name}:Q", format=".1f") for name in ("truth", "estimate")]
    dots = _circles(base, TARGET_COLOR, size=45).encode(
        y=alt.Y("estimate:Q", scale=scale), tooltip=["name:N", *numbers]
    )
    return to_spec(alt.layer(_diagonal(*domain), bars, dots), "container")


def distribution_chart(bars: Mapping[str, Sequence[HistogramBar]], title: str) -> ChartSpec:
    """Return a histogram of values over examples for each model, side by side."""
    alt = altair()
    rows = []
    for index, (name, model_bars) in enumerate(bars.items()):
        for bar in model_bars:
            width = (bar.right - bar.left) / len(bars)
            left = bar.left + index * width
            ends = {"left": round(left, 5), "right": round(left + width, 5)}
            rows.append({"name": name, **asdict(bar), **ends})
    domain = [min(row["left"] for row in rows), max(row["right"] for row in rows)]
    values = alt.Scale(domain=domain, nice=False, zero=False)
    colors = alt.Scale(domain=list(bars), range=[TARGET_COLOR, SOURCE_COLOR][: len(bars)])
    legend = None if len(bars) == 1 else alt.Legend()
    rectangles = alt.Chart(_inline_data(rows)).mark_rect()
    chart = rectangles.encode(
        x=alt.X("left:Q", title=title, scale=values, axis=_number_axis()),
        x2="right:Q",
        y=alt.Y("share:Q", title="examples, %", scale=alt.Scale(zero=True)),
        y2=alt.datum(0),
        color=alt.Color("name:N", scale=colors, legend=legend, title=None),
        tooltip=["name:N", "value:N", alt.Tooltip("share:Q", format=".1f", title="examples, %")],
    )
    return to_spec(chart, 240)


def bar_chart(
    bars: Sequence[NamedValue], title: str, *, scale: Literal["linear", "symlog"] = "linear"
) -> ChartSpec:
    """Return a chart with one bar per name, or with one bar per series and name."""
    alt = altair()
    rows = [asdict(bar) for bar in bars]
    series = list(dict.fromkeys(bar.series for bar in bars))
    chart = alt.Chart(_inline_data(rows)).encode(
        x=alt.X("value:Q", title=title, scale=alt.Scale(type=scale), axis=_number_axis()),
        y=alt.Y("name:N", sort=None, title=None, scale=alt.Scale(paddingInner=0.25)),
        tooltip=["name:N", *(["series:N"] if len(series) > 1 else []), "value:Q"],
    )
    n_rows = len({bar.name for bar in bars})
    if len(series) == 1:
        return to_spec(chart.mark_bar(color=TARGET_COLOR), max(24 * n_rows, 44))
    grouped = chart.mark_bar().encode(
        yOffset=alt.YOffset("series:N", sort=None),
        color=alt.Color("series:N", sort=None, title=None),
    )
    return to_spec(grouped, max((8 + 12 * len(series)) * n_rows, 44))


def padded_percent_range(values: Sequence[float]) -> list[float]:
    """Return a range that contains all values with a margin, within 0 to 100.

    >>> padded_percent_range([80.0, 90.0])
    [79.0, 91.0]
    """
    margin = max((max(values) - min(values)) / 10, 0.5)
    return [round(max(min(values) - margin, 0.0), 1), round(min(max(values) + margin, 100.0), 1)]


def padded_range(values: Sequence[float]) -> list[float]:
    """Return a range that contains all values with a margin.

    >>> padded_range([0.0, 1.0])
    [-0.08, 1.08]
    """
    margin = max(0.08 * (max(values) - min(values)), 0.005)
    return [round(min(values) - margin, 4), round(max(values) + margin, 4)]


def altair() -> Any:
    """Import and return Altair, which is optional."""
    return require("altair", extra="report", purpose="The HTML report")


def to_spec(chart: Any, height: int | Literal["container"]) -> ChartSpec:
    """Return a chart as a dictionary, with our font and colors and the width of its container."""
    spec: ChartSpec = chart.to_dict()
    fit = {"type": "fit" if height == "container" else "fit-x", "contains": "padding"}
    return {**spec, "width": "container", "height": height, "autosize": fit, "config": VEGA_CONFIG}


def to_altair(figure: Figure) -> Any:
    """Return a figure as an Altair chart for notebooks.

    Notebooks draw on a canvas, which knows neither the CSS variables of our pages nor the width of
    a container, so the chart has fixed colors and a fixed size.
    """
    text = re.sub(r"var\(--\w+, (#[0-9A-Fa-f]{6})\)", r"\1", json.dumps(figure.spec))
    spec: ChartSpec = json.loads(text.replace(TEXT_COLOR, NOTEBOOK_TEXT_COLOR))
    height = spec["height"] if isinstance(spec["height"], int) else NOTEBOOK_HEIGHT
    spec |= {"title": figure.title, "width": NOTEBOOK_WIDTH, "height": height}
    spec["config"] = {**spec["config"], "background": "white"}
    del spec["autosize"]
    return altair().Chart.from_dict(spec)


def _inline_data(rows: Iterable[ChartRow]) -> Any:
    return altair().InlineData(values=list(rows))


def _point_rows(points: Iterable[IntervalPoint]) -> list[ChartRow]:
    """Return each point as a dictionary without the fields that are None."""
    return [
        {
            key: round(value, 5) if isinstance(value, float) else value
            for key, value in asdict(point).items()
            if value is not None
        }
        for point in points
    ]


def _point_tooltip(points: Sequence[IntervalPoint], title: str, digits: int) -> list[Any]:
    """Return the tooltip of a point: name, series, value, and interval if there is one."""
    alt = altair()
    columns = {"value": title}
    if points[0].low is not None:
        columns |= {"low": "from", "high": "to"}
    has_series = any(point.series not in ("", HEADLINE_SERIES) for point in points)
    return [
        "name:N",
        *(["series:N"] if has_series else []),
        *(
            alt.Tooltip(f"{key}:Q", format=f".{digits}f", title=text)
            for key, text in columns.items()
        ),
    ]


def _series_encoding(
    channel: Any, series: Sequence[str], special: Mapping[str, Any], default: Any, legend: Any
) -> Any:
    """Return an encoding that maps each series to its value in `special`, or to the default."""
    values = [special.get(name, default) for name in series]
    scale = altair().Scale(domain=list(series), range=values)
    return channel("series:N", scale=scale, legend=legend, title=None)


def _side_color() -> Any:
    """Return the color encoding of source and target, with a legend."""
    alt = altair()
    scale = alt.Scale(domain=list(SIDE_COLORS), range=list(SIDE_COLORS.values()))
    return alt.Color("side:N", scale=scale, title=None)


def _circles(chart: Any, color: str, **options: Any) -> Any:
    return chart.mark_point(color=color, fill=color, opacity=1, shape="circle", **options)


def _vertical_rule(rule: Rule, domain: Sequence[float], *, label_row: int = 0) -> list[Any]:
    """Return a dashed vertical line with a label above it, on the side with more room.

    Labels in different rows do not overlap.
    """
    alt = altair()
    base = alt.Chart(_inline_data([{"at": rule.at, "text": rule.label}])).encode(x="at:Q")
    is_right = rule.at > (domain[0] + domain[1]) / 2
    side = {"align": "right", "dx": -4} if is_right else {"align": "left", "dx": 4}
    label = base.mark_text(color=rule.color, baseline="bottom", dy=-3 - 15 * label_row, **side)
    return [
        base.mark_rule(color=rule.color, strokeDash=[5, 4], strokeWidth=1.5),
        label.encode(text="text:N", y=alt.value(0)),
    ]


def _diagonal(low: float, high: float) -> Any:
    ends = _inline_data([{"x": low, "y": low}, {"x": high, "y": high}])
    line = altair().Chart(ends)
    line = line.mark_line(color=TEXT_COLOR, opacity=0.5, strokeDash=[5, 4], strokeWidth=1)
    return line.encode(x="x:Q", y="y:Q")


def _number_axis() -> Any:
    """Return an axis that omits labels where there is no room."""
    return altair().Axis(labelOverlap="greedy", labelSeparation=8, labelBound=True)
