"""Charts as Vega-Lite dictionaries.

Colours are Okabe and Ito's, which the colour-blind can tell apart. They are named, not fixed, and
text has the colour of the page's text, so that one drawing serves light, dark and paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from oodometer.core.optional_imports import require
from oodometer.report.histograms import ClassShare, Confidences, ReliabilityBin

Spec = dict[str, Any]
Row = dict[str, Any]

SOURCE, TARGET = "var(--source, #0072B2)", "var(--target, #D55E00)"
SIDES = {"source": SOURCE, "target": TARGET}
INK = "currentColor"
CONFIG: Spec = {
    "background": "transparent",
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 150,
        "labelPadding": 5,
        "domainColor": INK,
        "domainOpacity": 0.4,
        "tickColor": INK,
        "tickOpacity": 0.4,
        "gridColor": INK,
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
        "labelColor": INK,
        "labelFontSize": 12,
        "symbolType": "square",
        "symbolOpacity": 1,
    },
    "text": {"color": INK, "fontSize": 12},
}


@dataclass(frozen=True)
class Mark:
    """An accuracy with its interval, under a name, all in points."""

    name: str
    value: float
    low: float
    high: float
    main: bool = False


@dataclass(frozen=True)
class Pair:
    """A true accuracy and an estimate of it, under a name, all in points."""

    name: str
    truth: float
    estimate: float
    low: float
    high: float


def intervals(marks: Sequence[Mark], reference: float) -> Spec:
    """Names down the side, each with a point and an interval; a dashed rule for the source."""
    alt = _altair()
    ends = [reference, *(m.low for m in marks), *(m.high for m in marks)]
    scale = alt.Scale(domain=around(ends), nice=False, zero=False)
    names = alt.Y("name:N", sort=None, title=None, axis=alt.Axis(grid=True, ticks=False))
    base = alt.Chart(_data(asdict(m) for m in marks)).encode(y=names)
    shown = _tooltip()
    bars = base.mark_rule(color=TARGET, strokeWidth=2.5, opacity=0.65).encode(
        x=alt.X("low:Q", scale=scale, title="accuracy, %"), x2="high:Q", tooltip=shown
    )
    dots = base.mark_point(color=TARGET, fill=TARGET, opacity=1).encode(
        x=alt.X("value:Q", scale=scale),
        shape=alt.condition("datum.main", alt.value("diamond"), alt.value("circle")),
        size=alt.condition("datum.main", alt.value(170), alt.value(55)),
        tooltip=shown,
    )
    low, high = scale.domain
    label = Label("source", flip=reference > (low + high) / 2)
    return _spec(alt.layer(*_rule(reference, SOURCE, label), bars, dots), 28 * len(marks))


def timeline(marks: Sequence[Mark], reference: float, *, gaps: Sequence[str] = ()) -> Spec:
    """A line through dates in a band of intervals, broken at gaps; a dashed rule for the source."""
    alt = _altair()
    rows = [asdict(m) for m in marks] + [{"name": name, "value": None} for name in gaps]
    # Dates without an hour are of universal time; in a clock of its own a reader may be a day off.
    rows = [{**row, "at": row["name"]} for row in sorted(rows, key=lambda row: str(row["name"]))]
    ends = [reference, *(m.low for m in marks), *(m.high for m in marks)]
    scale = alt.Scale(domain=around(ends), nice=False, zero=False)
    form = {4: "%Y", 7: "%Y-%m"}.get(len(marks[0].name), "%Y-%m-%d")
    axis = alt.Axis(grid=False, format=form, labelOverlap="greedy", labelSeparation=12)
    when = alt.X("at:T", scale=alt.Scale(type="utc"), title=None, axis=axis)
    base = alt.Chart(_data(rows)).encode(x=when)
    band = base.mark_area(color=TARGET, opacity=0.25).encode(
        y=alt.Y("low:Q", scale=scale, title="accuracy, %"), y2="high:Q"
    )
    value = alt.Y("value:Q", scale=scale)
    line = base.mark_line(color=TARGET, strokeWidth=2).encode(y=value)
    dots = base.mark_point(color=TARGET, fill=TARGET, opacity=1, size=30, shape="circle").encode(
        y=value, tooltip=_tooltip()
    )
    home = alt.Chart(_data([{"accuracy": reference, "text": "source"}])).encode(y="accuracy:Q")
    rule = home.mark_rule(color=SOURCE, strokeDash=[5, 4], strokeWidth=1.5)
    word = home.mark_text(color=SOURCE, align="right", baseline="bottom", dy=-3)
    layers = alt.layer(rule, band, line, dots, word.encode(text="text:N", x=alt.value("width")))
    return _spec(layers, 240)


def confidence(found: Confidences, threshold: float | None) -> Spec:
    """The distributions of confidence over one another, and the threshold of ATC."""
    alt = _altair()
    rows = [
        # A step needs the right end of its last bin too.
        {"at": round(float(at), 4), "share": round(100 * float(share), 3), "side": side}
        for side, shares in (("source", found.source), ("target", found.target))
        for at, share in zip(found.edges, [*shares, shares[-1]], strict=True)
    ]
    scale = alt.Scale(domain=[round(float(found.edges[0]), 4), 1.0], nice=False, zero=False)
    # Most rows of most models are very sure; on a square root the others are seen beside them.
    root = alt.Scale(type="sqrt")
    area = (
        alt.Chart(_data(rows))
        .mark_area(interpolate="step-after", opacity=0.3, line={"strokeWidth": 2})
        .encode(
            x=alt.X("at:Q", scale=scale, title="confidence"),
            y=alt.Y("share:Q", stack=None, scale=root, title="rows, % (square-root scale)"),
            color=_sides(),
        )
    )
    layers = [area]
    if threshold is not None:
        flip = threshold > (1 + float(found.edges[0])) / 2
        layers += _rule(threshold, INK, Label("threshold of atc-mc", flip))
    return _spec(alt.layer(*layers, _bins(found)), 240)


def _bins(found: Confidences) -> Any:
    """What a pointer over a bin is told; itself it is not seen."""
    alt = _altair()
    cells = zip(found.edges, found.edges[1:], found.source, found.target, strict=False)
    rows = [
        {"from": round(float(a), 4), "to": round(float(b), 4), "bin": f"{a:.3f}–{b:.3f}",
         "source": round(100 * float(s), 2), "target": round(100 * float(t), 2)}
        for a, b, s, t in cells
    ]  # fmt: skip
    return (
        alt.Chart(_data(rows))
        .mark_rect(opacity=0)
        .encode(
            x="from:Q",
            x2="to:Q",
            tooltip=[
                alt.Tooltip("bin:N", title="confidence"),
                *(alt.Tooltip(f"{side}:Q", title=f"{side}, %") for side in SIDES),
            ],
        )
    )


def reliability(bins: Sequence[ReliabilityBin]) -> Spec:
    """Accuracy against confidence on the source, beside the line where they are equal."""
    alt = _altair()
    rows = [{name: round(value, 4) for name, value in asdict(one).items()} for one in bins]
    base = alt.Chart(_data(rows)).encode(x=alt.X("confidence:Q", title="mean confidence"))
    bars = base.mark_rule(color=SOURCE, strokeWidth=2, opacity=0.65).encode(
        y=alt.Y("low:Q", title="accuracy"), y2="high:Q"
    )
    dots = base.mark_point(color=SOURCE, fill=SOURCE, opacity=1, shape="circle").encode(
        y="accuracy:Q",
        size=alt.Size("n:Q", legend=None, scale=alt.Scale(range=[25, 250])),
        tooltip=["n:Q", "confidence:Q", "accuracy:Q"],
    )
    return _spec(alt.layer(_diagonal(0.0, 1.0), bars, dots), 240)


def classes(shares: Sequence[ClassShare]) -> Spec:
    """How often each class is predicted, source and target side by side."""
    alt = _altair()
    rows = [
        {"name": one.name, "share": round(100 * share, 3), "side": side}
        for one in shares
        for side, share in (("source", one.source), ("target", one.target))
    ]
    names = alt.Y("name:N", sort=None, title=None, scale=alt.Scale(paddingInner=0.25))
    bars = (
        alt.Chart(_data(rows))
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="rows predicted, %"),
            y=names,
            yOffset=alt.YOffset("side:N", scale=alt.Scale(domain=list(SIDES))),
            color=_sides(),
            tooltip=["name:N", "side:N", alt.Tooltip("share:Q", format=".1f")],
        )
    )
    return _spec(bars, 26 * len(shares))


def scatter(pairs: Sequence[Pair], domain: Sequence[float]) -> Spec:
    """Estimated against true accuracy, beside the line where they are equal."""
    alt = _altair()
    scale, few = alt.Scale(domain=list(domain), nice=False, zero=False), alt.Axis(tickCount=4)
    base = alt.Chart(_data(asdict(pair) for pair in pairs)).encode(
        x=alt.X("truth:Q", scale=scale, title="true accuracy, %", axis=few)
    )
    bars = base.mark_rule(color=TARGET, strokeWidth=1.5, opacity=0.5, clip=True).encode(
        y=alt.Y("low:Q", scale=scale, title="estimated, %", axis=few), y2="high:Q"
    )
    dots = base.mark_point(color=TARGET, fill=TARGET, opacity=1, size=45, shape="circle").encode(
        y=alt.Y("estimate:Q", scale=scale),
        tooltip=["name:N", *(alt.Tooltip(f"{f}:Q", format=".1f") for f in ("truth", "estimate"))],
    )
    return _spec(alt.layer(_diagonal(*domain), bars, dots), "container")


def around(values: Sequence[float]) -> list[float]:
    """A stretch of points that holds all values with some air, inside 0 to 100.

    >>> around([80.0, 90.0])
    [79.0, 91.0]
    """
    air = max((max(values) - min(values)) / 10, 0.5)
    return [round(max(min(values) - air, 0.0), 1), round(min(max(values) + air, 100.0), 1)]


@dataclass(frozen=True)
class Label:
    """A word at the top of a rule, written to its left where it would leave the chart."""

    text: str
    flip: bool


def _altair() -> Any:
    """The chart library, which is an extra."""
    return require("altair", extra="report", purpose="The HTML report")


def _tooltip() -> list[Any]:
    """A mark's name and its numbers."""
    alt = _altair()
    shown = {"value": "accuracy, %", "low": "from", "high": "to"}
    return [
        alt.Tooltip("name:N"),
        *(alt.Tooltip(f"{field}:Q", format=".1f", title=title) for field, title in shown.items()),
    ]


def _data(rows: Any) -> Any:
    """Rows as they are put into the page."""
    return _altair().InlineData(values=list(rows))


def _sides() -> Any:
    """Blue for the source and vermilion for the target, with a legend."""
    alt = _altair()
    scale = alt.Scale(domain=list(SIDES), range=list(SIDES.values()))
    return alt.Color("side:N", scale=scale, title=None)


def _rule(at: float, color: str, label: Label) -> list[Any]:
    """A dashed vertical rule with a word above it."""
    alt = _altair()
    base = alt.Chart(_data([{"at": at, "text": label.text}])).encode(x="at:Q")
    side = {"align": "right", "dx": -4} if label.flip else {"align": "left", "dx": 4}
    word = base.mark_text(color=color, baseline="bottom", dy=-3, **side)
    return [
        base.mark_rule(color=color, strokeDash=[5, 4], strokeWidth=1.5),
        word.encode(text="text:N", y=alt.value(0)),
    ]


def _diagonal(low: float, high: float) -> Any:
    """The line y = x."""
    ends = _data([{"x": low, "y": low}, {"x": high, "y": high}])
    line = _altair().Chart(ends).mark_line(color=INK, opacity=0.5, strokeDash=[5, 4], strokeWidth=1)
    return line.encode(x="x:Q", y="y:Q")


def _spec(chart: Any, height: int | Literal["container"]) -> Spec:
    """The chart as a dictionary, as wide as its box, in our colours whatever theme is set."""
    spec: Spec = chart.to_dict()
    fit = {"type": "fit" if height == "container" else "fit-x", "contains": "padding"}
    return {**spec, "width": "container", "height": height, "autosize": fit, "config": CONFIG}
