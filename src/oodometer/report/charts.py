"""Charts as Vega-Lite dictionaries.

Colours are Okabe and Ito's, which the colour-blind can tell apart. They are named, not fixed, and
text has the colour of the page's text, so that one drawing serves light, dark and paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

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
