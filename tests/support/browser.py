"""Pages opened in Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, sync_playwright

from oodometer.report import write_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
DESK, PHONE = 1280, 400
# Variable with the folder for screenshots. Default: the test's folder, which is deleted.
SCREENSHOTS = "OODOMETER_SCREENSHOTS"

# Elements that overflow the window to the right, unless they are in a box that scrolls.
OVERFLOWING = """() => [...document.querySelectorAll('body *')].filter((element) => {
  if (element.closest('.scroll, pre, details:not([open])') || element.closest('svg')) return false;
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.right > document.documentElement.clientWidth + 1;
}).map((element) => element.outerHTML.slice(0, 120))"""

# Charts that have no mark with a size.
EMPTY_CHARTS = """() => [...document.querySelectorAll('[data-chart]')].filter((box) =>
  ![...box.querySelectorAll('svg .mark-rect, svg .mark-symbol, svg .mark-line, svg .mark-rule, '
    + 'svg .mark-area, svg .mark-arc, svg .mark-text, svg .mark-trail')].some((mark) =>
      [...mark.querySelectorAll('path, line, text')].some((part) => {
        const size = part.getBoundingClientRect();
        return size.width > 0 || size.height > 0;
      }))).map((box) => box.outerHTML.slice(0, 120))"""


@contextmanager
def open_page(
    text: str,
    folder: Path,
    *,
    name: str,
    width: int = DESK,
    scheme: Literal["light", "dark"] = "light",
    zone: str = "UTC",
    unfold: bool = True,
) -> Iterator[Page]:
    """Yield a page in a browser window after its charts are drawn.

    With `unfold`, parts of the page that are folded are opened first. Console messages, errors and requests fail the test. A screenshot of the whole page,
    `<name>-<width>-<scheme>.png`, is taken when the block ends.
    """
    path = folder / f"{name}.html"
    write_page(text, path)
    messages: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            window = browser.new_page(
                viewport={"width": width, "height": 900},
                color_scheme=scheme,
                reduced_motion="reduce",
                timezone_id=zone,
            )
            window.on("console", lambda message: messages.append(f"console: {message.text}"))
            window.on("pageerror", lambda error: messages.append(f"error: {error}"))
            window.on("request", lambda request: messages.append(f"request: {request.url}"))
            window.goto(path.as_uri())
            if unfold:
                window.evaluate(
                    "document.querySelectorAll('details.foldable').forEach((box) => { box.open = true; })"
                )
            window.wait_for_function(
                "() => [...document.querySelectorAll('[data-chart]')].every((box) => "
                "box.closest('details:not([open])') || box.querySelector('svg'))"
            )
            yield window
            shots = Path(os.environ.get(SCREENSHOTS, folder))
            shots.mkdir(parents=True, exist_ok=True)
            window.screenshot(path=shots / f"{name}-{width}-{scheme}.png", full_page=True)
        finally:
            browser.close()
    own = f"request: {path.as_uri()}"
    unexpected = [m for m in messages if m != own and not m.startswith("request: data:")]
    assert not unexpected, "; ".join(message[:200] for message in unexpected)


def scrolls_sideways(window: Page) -> bool:
    """Return whether the page is wider than the window."""
    wide: bool = window.evaluate("document.scrollingElement.scrollWidth > innerWidth")
    return wide


def overflowing(window: Page) -> list[str]:
    """Return elements that are wider than the window."""
    elements: list[str] = window.evaluate(OVERFLOWING)
    return elements


def empty_charts(window: Page) -> list[str]:
    """Return charts without a visible mark."""
    charts: list[str] = window.evaluate(EMPTY_CHARTS)
    return charts
