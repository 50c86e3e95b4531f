"""Page of a monitor: status, gaps, labels, hostile names, and a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from oodometer import Monitor, Predictions
from oodometer.monitor.page import monitor_page
from tests.monitor.conftest import draw
from tests.support.browser import (
    DESK,
    PHONE,
    empty_charts,
    needs_browser,
    open_page,
    overflowing,
    scrolls_sideways,
)

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of twenty days, of which two are missing, with an alarm and labels."""
    source = draw(3000, 1, labelled=True)
    names = [HOSTILE, "south"] * 1500
    monitor = Monitor.create(tmp_path_factory.mktemp("page"), source, segment_by=names)
    for day in range(1, 21):
        if day not in (5, 6):
            rows = draw(300, day, shift=0.0 if day < 14 else 2.0, labelled=True)
            groups = [HOSTILE, "south"] * 150
            monitor.add(rows, time=f"2026-01-{day:02d}", segment_by=groups)
            if day < 8:
                assert rows.labels is not None
                labels = {str(row): int(rows.labels[row]) for row in range(60)}
                monitor.label(labels, batch=rows)
    assert monitor.status().state == "alarm"
    return monitor_page(monitor, title="Watch", required=0.8, reproduce={"Seed": "0"})


def test_page_has_status_alarms_segments_and_promise(page: str) -> None:
    assert page.index("Alarm: ") < page.index('id="time"') < page.index('id="alarms"')
    for part in ("Latest batch", "2026-01-20", "required 80.0", "at most 1", "Worst segments"):
        assert part in page
    assert HOSTILE not in page
    assert '"at":"2026-01-05"' in page  # a missing day is a row without an estimate
    assert "label_estimate" in page
    assert "typical_low" in page


def test_empty_monitor_has_a_page(monitor: Monitor) -> None:
    text = monitor_page(monitor)
    assert "No batch was added." in text
    assert "Cannot tell: " in text


def test_batches_without_times_are_numbered(source: Predictions, tmp_path: Path) -> None:
    monitor = Monitor.create(tmp_path, source)
    for seed in range(3):
        monitor.add(draw(50, seed), name="same name")
    text = monitor_page(monitor)
    assert '"at":3' in text


@needs_browser
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_charts_are_drawn_in_a_browser(page: str, width: int, tmp_path: Path) -> None:
    with open_page(page, tmp_path, name="monitor", width=width) as window:
        assert window.locator("[data-chart]").count() == 2
        assert empty_charts(window) == []
        assert overflowing(window) == []
        assert not scrolls_sideways(window)
        # One line at the batch of each alarm, beside the lines of the levels.
        assert window.locator("[data-chart=accuracy-spec] svg .mark-rule line").count() >= 3
        assert window.locator("h1").inner_text() == "Watch"
