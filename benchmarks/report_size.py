"""Size and loading time of the HTML report for a million rows and a thousand classes.

The target has 1,000,000 rows of 1,000 classes with long names and is assessed per day over a year;
the source has 50,000 labelled rows. Bounds: the page has less than 2 MB and at most 5,000 values in
its charts, and opens in Chromium in less than 3 s of CPU time of the page's process until the last
chart is drawn (median of three). The script exits with 1 if a bound is missed. Run: make bench
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import oodometer
from benchmarks._digit_classifiers import one_thread
from benchmarks._results import machine_facts, markdown_table, write_results
from oodometer import Predictions
from oodometer.report import assessment_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROWS, CLASSES, SOURCE, BLOCK, DAYS = 1_000_000, 1_000, 50_000, 10_000, 365
BYTES, VALUES, SECONDS = 2_000_000, 5_000, 3.0
DRAWN = "() => [...document.querySelectorAll('[data-chart]')].every((box) => box.querySelector('svg path'))"


def rows(n: int, *, sureness: float, seed: int) -> Predictions:
    """Return logits that favour the true class; blocks share their noise and differ in confidence."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(BLOCK, CLASSES)).astype(np.float32)
    labels = rng.integers(CLASSES, size=n)
    logits = np.empty((n, CLASSES), dtype=np.float32)
    for start in range(0, n, BLOCK):
        block = logits[start : start + BLOCK]
        block[:] = noise[: len(block)]
        places = np.arange(len(block)), labels[start : start + BLOCK]
        block[places] += np.float32(rng.normal(sureness, 0.3))
    names = [f"class {j:04d} with a name as long as those of ImageNet" for j in range(CLASSES)]
    return Predictions.from_logits(logits, labels=labels, class_names=names)


def page_of(source: Predictions, target: Predictions) -> tuple[str, float, float]:
    """Return the page and the CPU seconds of the estimates and of the page."""
    day = np.datetime64("2025-01-01") + np.arange(target.n) * DAYS // target.n
    began = time.process_time()
    methods = ["ac", "doc", "atc-mc", "im"]
    found = oodometer.estimate(source, target, segment_by=day, methods=methods, replicates=20)
    estimated = time.process_time()
    text = assessment_page(found, source, target, title="A million rows", reproduce={})
    return text, estimated - began, time.process_time() - estimated


def values_in(page: str) -> int:
    """Return the number of values in the charts of a page."""
    specs = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page)
    tables = [rows for spec in specs for rows in json.loads(spec)["datasets"].values()]
    return sum(len(row) for rows in tables for row in rows)


def opening(page: str) -> tuple[float, float]:
    """Return CPU and wall seconds until the last chart is drawn, medians of three."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "report.html"
        path.write_text(page)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        taken = [_opened(browser, path.as_uri()) for _ in range(3)]
        browser.close()
    busy, clock = zip(*taken, strict=True)
    return statistics.median(busy), statistics.median(clock)


def _opened(browser: Browser, address: str) -> tuple[float, float]:
    """Open the page once in a new window."""
    window = browser.new_page()
    meter = window.context.new_cdp_session(window)
    meter.send("Performance.enable")
    began = time.perf_counter()
    window.goto(address)
    window.wait_for_function(DRAWN)
    clock = time.perf_counter() - began
    metrics = meter.send("Performance.getMetrics")["metrics"]
    window.close()
    return next(one["value"] for one in metrics if one["name"] == "ProcessTime"), clock


def main() -> int:
    with one_thread():
        source, target = (rows(n, sureness=s, seed=n) for n, s in ((SOURCE, 6.0), (ROWS, 5.0)))
        page, estimating, making = page_of(source, target)
    size, drawn, (busy, clock) = len(page.encode()), values_in(page), opening(page)
    held = size < BYTES, drawn <= VALUES, busy < SECONDS
    table = [
        ("size of the page, MB", f"{size / 1e6:.2f}", f"{BYTES / 1e6:g}", _held(held[0])),
        ("values in its charts", f"{drawn:,}", f"{VALUES:,}", _held(held[1])),
        ("opening it, CPU s", f"{busy:.2f}", f"{SECONDS:g}", _held(held[2])),
    ]
    text = (
        f"A target of {ROWS:,} rows × {CLASSES:,} classes over {DAYS} days, a source of "
        f"{SOURCE:,} rows.\n\n{markdown_table(('quantity', 'measured', 'bound', ''), table)}\n\n"
        f"The page opened in {clock:.1f} s of wall time at a load of {os.getloadavg()[0]:.0f} "
        f"processes. The estimates took {estimating:.0f} s of CPU time and the page "
        f"{making:.0f} s, on one thread.\n\n{machine_facts()}"
    )
    write_results("report_size", text)
    return 0 if all(held) else 1


def _held(held: bool) -> str:
    return "kept" if held else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
