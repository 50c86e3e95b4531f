"""Every page in a real browser: drawn, silent, without a request, at a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from tests.report.browser import DESK, PHONE, empty_charts, needs_browser, opened, overflowing

pytestmark = needs_browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_every_chart_is_drawn_and_nothing_sticks_out(
    page: str, width: int, scheme: Literal["light", "dark"], tmp_path: Path
) -> None:
    with opened(page, tmp_path, name="page", width=width, scheme=scheme) as window:
        assert window.locator("[data-chart]").count() == page.count("<div data-chart=")
        assert empty_charts(window) == []
        assert overflowing(window) == []
        assert window.locator(".vega-actions").count() == 0


def test_a_broken_page_is_found_out(tmp_path: Path) -> None:
    text = (
        "<body><div data-chart><svg></svg></div><p style='width: 3000px'>wide</p>"
        "<script>console.log('hm')</script><img src='https://example.invalid/x.png'></body>"
    )
    seen = {}
    with suppress_complaints() as complaints, opened(text, tmp_path, name="broken") as window:
        seen = {"empty": empty_charts(window), "wide": overflowing(window)}
    assert len(seen["empty"]) == 1
    assert ["wide" in one for one in seen["wide"]] == [True]
    assert "hm" in complaints[0]
    assert "example.invalid" in complaints[0]


@contextmanager
def suppress_complaints() -> Iterator[list[str]]:
    """What the assertion said, which must come."""
    said: list[str] = []
    try:
        yield said
    except AssertionError as error:
        said.append(str(error))
    assert said
