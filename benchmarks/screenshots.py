"""Screenshots of two HTML reports for README and docs/reading.md; needs chromium.

Run `python -m benchmarks.screenshots`. It writes docs/images/assessment.png and docs/images/demo.png.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from oodometer import Predictions, estimate
from oodometer.report import assessment_page, comparison_page, write_page
from oodometer.studies.demo import DigitsSuite, compare_methods, make_digits_suite

FOLDER = Path(__file__).parents[1] / "docs" / "images"
WIDTH = 1280
MAX_BYTES = 150_000
# One shift per day, from the demo.
DAYS = (
    "no shift", "no shift", "speckled", "occluded", "thick strokes", "noisy", "smaller",
    "rotated 25°", "sheared", "bright", "no shift", "no shift",
)  # fmt: skip


def render_assessment(suite: DigitsSuite) -> str:
    """Return the report on a target with one estimate per day."""
    by_name = {target.name: target.predictions.probs for target in suite.targets}
    # Every day has a quarter of the digits, so that no row occurs on two days of the same shift.
    rows = [by_name[name][number % 4 :: 4] for number, name in enumerate(DAYS)]
    dates = np.datetime64("2026-03-02") + np.arange(len(DAYS))
    days = np.repeat(dates, [len(part) for part in rows])
    target = Predictions.from_probs(np.concatenate(rows))
    assessment = estimate(suite.source, target, segment_by=days)
    return assessment_page(
        replace(assessment, plan_arguments=("new_site.parquet",)),
        suite.source,
        target,
        title="New site: estimated accuracy without labels",
        reproduce={},
        date="2026-03-14",
        required=0.85,
    )


def render_demo(suite: DigitsSuite) -> str:
    """Return the report of `oodometer demo`."""
    title = "Shifted digits: what the tool said, and what was true"
    return comparison_page(compare_methods(suite), title=title)


def take_screenshot(page: str, path: Path, *, height: int) -> None:
    """Write the upper part of a page as a PNG file with few colors."""
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        html, raw = Path(folder) / "page.html", Path(folder) / "page.png"
        write_page(page, html)
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        window = browser.new_page(viewport={"width": WIDTH, "height": height})
        window.goto(html.as_uri())
        window.wait_for_function(
            "() => [...document.querySelectorAll('[data-chart]')].every((box) => "
            "box.closest('details:not([open])') || box.querySelector('svg'))"
        )
        window.screenshot(path=raw)
        browser.close()
        Image.open(raw).convert("RGB").quantize(256).save(path, optimize=True)


def main() -> int:
    """Write both screenshots; return 1 if one of them is too large."""
    FOLDER.mkdir(exist_ok=True)
    suite = make_digits_suite()
    pages = {"assessment": (render_assessment(suite), 1290), "demo": (render_demo(suite), 1020)}
    sizes = {}
    for name, (page, height) in pages.items():
        path = FOLDER / f"{name}.png"
        take_screenshot(page, path, height=height)
        sizes[path.name] = path.stat().st_size
        sys.stdout.write(f"{path.name}: {sizes[path.name] / 1000:.0f} kB\n")
    return int(max(sizes.values()) > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main())
