"""Every chart is drawn by a real browser, where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from oodometer.report import write_page

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=10000",
    "--enable-logging=stderr",
    "--dump-dom",
)


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_every_chart_is_drawn_and_nothing_complains(page: str, tmp_path: Path) -> None:
    write_page(page, tmp_path / "page.html")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    address = (tmp_path / "page.html").as_uri()
    command = [str(CHROMIUM), *FLAGS, profile, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    boxes = re.findall(r"<div data-chart=[^>]*>(<svg)?", done.stdout)
    assert len(boxes) == page.count("<div data-chart=")
    assert all(boxes)
    assert 'class="vega-actions' not in done.stdout
    assert "CONSOLE" not in done.stderr
