"""Draw the diagrams of the documentation: `python docs/images/draw.py` writes the SVG files.

The colours follow the reader's colour scheme. Each picture has its own background, so it is also
readable on a page whose colour scheme is another one.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
STYLE = """<style>
svg { --paper: #ffffff; --ink: #1f2430; --soft: #5b6475; --line: #b8c0cc;
  --a: #3f51b5; --b: #b45309; --c: #0f766e; --fill: #eef1f8; }
@media (prefers-color-scheme: dark) { svg { --paper: #1e2129; --ink: #e8eaf0; --soft: #a9b1c1;
  --line: #4b5468; --a: #9fa8ff; --b: #f5b45f; --c: #5fd0c0; --fill: #2a2f3b; } }
text { font: 14px system-ui, sans-serif; fill: var(--ink); }
.soft { fill: var(--soft); font-size: 13px; } .bold { font-weight: 600; }
.paper { fill: var(--paper); } .box { fill: var(--fill); stroke: var(--line); }
.line { stroke: var(--line); } .arrow { stroke: var(--soft); stroke-width: 1.5; fill: none; }
.a { fill: var(--a); } .b { fill: var(--b); } .c { fill: var(--c); }
</style>"""
ARROW_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0L8 4L0 8z" style="fill: var(--soft)"/></marker></defs>'
)


def picture(width: int, height: int, description: str, parts: list[str]) -> str:
    """Return an SVG image with a background and a description for screen readers."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        f"<title>{escape(description)}</title>",
        STYLE,
        ARROW_HEAD,
        f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
        *parts,
        "</svg>\n",
    ])  # fmt: skip


def text(x: float, y: float, content: str, style: str = "", anchor: str = "start") -> str:
    """Return one line of text."""
    return (
        f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{escape(content)}</text>'
    )


def box(x: float, y: float, width: float, lines: list[str], color: str = "") -> str:
    """Return a box whose first line is bold; `color` marks its left side."""
    height = 18 + 20 * len(lines)
    parts = [f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>']
    if color:
        parts.append(f'<rect class="{color}" x="{x}" y="{y}" width="5" height="{height}" rx="2"/>')
    for row, line in enumerate(lines):
        parts.append(text(x + 16, y + 26 + 20 * row, line, "soft" if row else "bold"))
    return "\n".join(parts)


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a straight arrow."""
    return f'<path class="arrow" d="M{x1:g} {y1:g}L{x2:g} {y2:g}" marker-end="url(#head)"/>'


def bar(left: float, right: float, y: float, color: str) -> str:
    """Return the bar of an interval."""
    return (
        f'<rect class="{color}" x="{left:g}" y="{y:g}" width="{right - left:g}" height="9" rx="3"/>'
    )


def draw_overview() -> str:
    """Draw what goes into an estimate and what comes out of it."""
    return picture(840, 250, "Inputs and results of an estimate", [
        box(20, 30, 230, ["Source", "outputs of the model", "with labels"], "a"),
        box(20, 140, 230, ["Target", "outputs of the model", "without labels"], "b"),
        arrow(252, 69, 306, 105), arrow(252, 179, 306, 143),
        box(310, 66, 200, ["oodometer estimate", "estimators, each with", "its assumption;", "diagnostics"]),
        arrow(512, 115, 566, 115),
        box(570, 46, 250, [
            "Result", "estimated accuracy", "confidence interval", "typical range under shift",
            "status and warnings", "next step, such as labelling",
        ], "c"),
    ])  # fmt: skip


def draw_two_intervals() -> str:
    """Draw how both intervals change with more rows and with labels of the target."""
    left, right, top, step = 300, 800, 88, 84

    def place(accuracy: float) -> float:
        return left + (right - left) * (accuracy - 60) / 40

    cases = [
        ("500 target rows, no labels", "both intervals are wide", (81, 89), (70, 97)),
        ("50,000 target rows, no labels", "only sampling error shrinks", (84.6, 85.4), (72, 95)),
        ("300 of the rows labelled", "valid under any shift", (74, 82), None),
    ]
    parts = [
        bar(left, left + 30, 22, "a"), text(left + 38, 31, "confidence interval: sampling error"),
        bar(left, left + 30, 44, "b"), text(left + 38, 53, "typical range: also the error of the shift"),
    ]  # fmt: skip
    for accuracy in range(60, 101, 10):
        x = place(accuracy)
        parts.append(f'<path class="line" d="M{x:g} 72V326"/>')
        parts.append(text(x, 346, f"{accuracy} %", "soft", "middle"))
    parts.append(
        f'<path d="M{place(78):g} 72V326" style="stroke: var(--c)" stroke-width="2" stroke-dasharray="5 4"/>'
    )
    parts.append(text(place(78), 366, "true accuracy", "", "middle"))
    for row, (name, remark, interval, typical) in enumerate(cases):
        y = top + step * row
        parts += [text(20, y + 18, name, "bold"), text(20, y + 39, remark, "soft")]
        parts.append(bar(place(interval[0]), place(interval[1]), y + 12, "a"))
        if typical:
            parts.append(bar(place(typical[0]), place(typical[1]), y + 32, "b"))
    return picture(840, 384, "Confidence interval and typical range in three cases", parts)


def draw_regimes() -> str:
    """Draw which question leads to which regime, and the estimate of each."""
    note = (
        "The answers are weights between 0 and 1; the estimate is the weighted mean of all three."
    )
    return picture(840, 340, "Questions that lead to the three regimes", [
        box(20, 24, 350, ["1. Do the model's outputs differ?", "Can a classifier tell target rows", "from source rows?"]),
        box(20, 168, 350, ["2. Do class frequencies explain it?", "Source reweighted to the class shares", "estimated on the target, compared again"]),
        arrow(195, 104, 195, 164), text(205, 138, "yes"),
        arrow(372, 62, 496, 48), text(404, 40, "no"),
        arrow(372, 200, 496, 150), text(400, 164, "yes"),
        arrow(372, 222, 496, 246), text(400, 256, "no"),
        box(500, 18, 320, ["No shift", "mean calibrated confidence (AC)"], "c"),
        box(500, 110, 320, ["Label shift", "confidence adjusted to the new", "class frequencies, AC(q)"], "a"),
        box(500, 206, 320, ["Other shift", "the lower of AC and optimal transport", "(COT); AC if COT does not apply"], "b"),
        text(20, 320, note, "soft"),
    ])  # fmt: skip


PICTURES: dict[str, Callable[[], str]] = {
    "overview.svg": draw_overview,
    "two_intervals.svg": draw_two_intervals,
    "regimes.svg": draw_regimes,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
