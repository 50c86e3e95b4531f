"""Every page in a real browser, desktop and phone: drawn, no console messages, no requests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page

from oodometer.report._invariance_page import invariance_page
from tests.report.conftest import HOSTILE
from tests.support import invariance_runs
from tests.support.browser import (
    DESK,
    PHONE,
    SCREENSHOTS,
    empty_charts,
    needs_browser,
    open_page,
    overflowing,
    scrolls_sideways,
)

pytestmark = needs_browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_every_chart_is_drawn_without_overflow(
    page: str,
    width: int,
    scheme: Literal["light", "dark"],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    kind = request.node.callspec.params["page"]
    with open_page(page, tmp_path, name=kind, width=width, scheme=scheme) as window:
        assert window.locator("[data-chart]").count() == page.count("<div data-chart=")
        assert empty_charts(window) == []
        assert overflowing(window) == []
        assert not scrolls_sideways(window)
        assert window.locator(".vega-actions").count() == 0


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_folded_page_does_not_scroll_sideways(page: str, width: int, tmp_path: Path) -> None:
    with open_page(page, tmp_path, name="folded", width=width, unfold=False) as window:
        assert not scrolls_sideways(window)
        assert overflowing(window) == []


def test_folded_charts_are_drawn_when_their_box_is_opened(assessed: str, tmp_path: Path) -> None:
    with open_page(assessed, tmp_path, name="unfolded", unfold=False) as window:
        chart = window.locator("[data-chart=methods-spec]")
        assert chart.locator("svg").count() == 0
        window.locator("nav a[href='#methods']").click()
        chart.locator("svg").wait_for(state="visible")
        box = chart.bounding_box()
        assert box is not None
        assert box["width"] > 600
        # Boxes of other parts stay closed.
        assert window.locator("[data-chart=classes-spec] svg").count() == 0


def test_printed_page_hides_nothing(
    page: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    printed = kept(tmp_path) / f"{request.node.callspec.params['page']}.pdf"
    with open_page(page, tmp_path, name="printed") as window:
        window.pdf(path=printed, format="A4")
        window.emulate_media(media="print")
        # Printable area of A4.
        window.set_viewport_size({"width": 680, "height": 1000})
        assert cut(window) == []
        assert window.locator("h1").is_visible()
        assert not window.locator(".skip").is_visible()
    assert printed.read_bytes().startswith(b"%PDF-")


CUT = """() => [...document.querySelectorAll('.scroll, .chart')].filter((box) =>
  box.checkVisibility() && box.getBoundingClientRect().width > 0
  && getComputedStyle(box).overflowX !== 'visible' && box.scrollWidth > box.clientWidth + 1
).map((box) => box.outerHTML.slice(0, 120))"""


def cut(window: Page) -> list[str]:
    """Return boxes that hide part of their content, which cannot be scrolled on paper."""
    boxes: list[str] = window.evaluate(CUT)
    return boxes


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_tooltips_show_names_as_text(
    assessed: str, scheme: Literal["light", "dark"], tmp_path: Path
) -> None:
    with open_page(assessed, tmp_path, name="pointed", scheme=scheme) as window:
        tooltip = window.locator("#vg-tooltip-element")
        bars = window.locator("[data-chart=classes-spec] svg .mark-rect path")
        bars.first.hover()
        tooltip.wait_for(state="visible")
        words = tooltip.inner_text()
        assert HOSTILE[0] in words
        assert "source" in words
        assert tooltip.locator("script, img").count() == 0
        ground = window.evaluate("getComputedStyle(document.body).backgroundColor")
        style = "(element) => getComputedStyle(element).backgroundColor"
        assert tooltip.evaluate(style) == ground
        # Forced, because the rectangles of the bins are invisible.
        window.locator("[data-chart=confidence-spec] svg .mark-rect path").nth(30).hover(force=True)
        assert "confidence" in tooltip.inner_text()
        assert "target, %" in tooltip.inner_text()


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Pacific/Auckland"])
def test_dates_do_not_depend_on_the_time_zone(timed: str, zone: str, tmp_path: Path) -> None:
    with open_page(timed, tmp_path, name="timed", zone=zone) as window:
        labels = window.locator("[data-chart=segments-spec] svg .role-axis-label text")
        shown = [text for text in labels.all_text_contents() if text.startswith("2026-")]
        rows = window.locator("table[aria-labelledby=segments] tbody th").all_inner_texts()
        assert shown
        assert set(shown) <= set(rows)
        dots = window.locator("[data-chart=segments-spec] svg .mark-symbol path")
        assert dots.count() == len(rows)
        dots.first.hover()
        assert rows[0] in window.locator("#vg-tooltip-element").inner_text()


def test_first_tab_stop_skips_to_the_content(assessed: str, tmp_path: Path) -> None:
    with open_page(assessed, tmp_path, name="keys") as window:
        window.keyboard.press("Tab")
        link = window.locator(":focus")
        assert link.inner_text() == "Skip to the content"
        box = link.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        window.keyboard.press("Enter")
        assert window.evaluate("document.activeElement.id") == "content"
        window.keyboard.press("Tab")
        focused = window.locator(":focus")
        assert focused.evaluate("(element) => getComputedStyle(element).outlineWidth") == "3px"


def kept(folder: Path) -> Path:
    """Return the folder for files that a person may inspect."""
    return Path(os.environ.get(SCREENSHOTS, folder))


def test_checks_detect_a_broken_page(tmp_path: Path) -> None:
    text = (
        "<body><div data-chart><svg></svg></div><p style='width: 3000px'>wide</p>"
        "<script>console.log('hm')</script><img src='https://example.invalid/x.png'></body>"
    )
    seen: dict[str, Any] = {}
    with suppress_complaints() as complaints, open_page(text, tmp_path, name="broken") as window:
        seen = {"empty": empty_charts(window), "wide": overflowing(window)}
        seen["sideways"] = scrolls_sideways(window)
    assert len(seen["empty"]) == 1
    assert seen["sideways"]
    assert ["wide" in one for one in seen["wide"]] == [True]
    assert "hm" in complaints[0]
    assert "example.invalid" in complaints[0]


@contextmanager
def suppress_complaints() -> Iterator[list[str]]:
    """Collect the message of the assertion that must fail."""
    messages: list[str] = []
    try:
        yield messages
    except AssertionError as error:
        messages.append(str(error))
    assert messages


def test_long_texts_scroll_in_their_own_box(tmp_path: Path) -> None:
    run = invariance_runs.run_invariance(["a word and another " * 9 + str(i) for i in range(12)])
    text = invariance_page(run.found, run.show, title="t", reproduce={})
    with open_page(text, tmp_path, name="long-texts", width=PHONE) as window:
        window.set_viewport_size({"width": PHONE, "height": 150})
        boxes = window.locator(".scroll:has(.words)")
        assert 100 < height(boxes.first) <= 106
        window.emulate_media(media="print")
        assert height(boxes.first) > 150


def height(box: Locator) -> float:
    bounds = box.bounding_box()
    assert bounds is not None
    return bounds["height"]
