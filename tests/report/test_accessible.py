"""Accessibility of every page: keyboard, screen readers, contrast."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from oodometer.report.page import TEMPLATE_FOLDER
from tests.report.test_page import Attributes, Elements

STYLE = (TEMPLATE_FOLDER / "page.css").read_text()
# Minimum contrast of text, WCAG 2 level AA.
MIN_CONTRAST = 4.5
# All colours of texts and of their backgrounds.
TEXT = ("ink", "quiet", "green", "amber", "red", "source")
BACKGROUNDS = ("paper", "panel")
Color = tuple[float, ...]


def tags(page: str, *names: str) -> list[tuple[str, Attributes]]:
    return [(tag, attributes) for tag, attributes in Elements(page).tags if tag in names]


def test_heading_levels_are_in_order_under_one_title(page: str) -> None:
    levels = [int(tag[1]) for tag, _ in tags(page, "h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))


def test_page_has_landmarks_and_a_skip_link(page: str) -> None:
    for landmark in ("header", "main"):
        assert len(tags(page, landmark)) == 1
    (first, *_), (main,) = tags(page, "a", "button", "summary"), tags(page, "main")
    assert first[1]["href"] == f"#{main[1]['id']}"
    assert page.count("<section") == len(re.findall(r"<section[^>]* aria-label", page))


def test_tables_have_names_and_header_scopes(page: str) -> None:
    elements = tags(page, "table", "caption", "th")
    for index, (tag, attributes) in enumerate(elements):
        if tag == "table":
            named = {"aria-label", "aria-labelledby"} & set(attributes)
            assert named or elements[index + 1][0] == "caption", attributes
        if tag == "th":
            assert attributes.get("scope") in ("col", "row", "colgroup", "rowgroup"), attributes


def test_scroll_boxes_have_names_and_keyboard_access(page: str) -> None:
    boxes = [a for _, a in tags(page, "div") if a.get("class") == "scroll"]
    assert boxes
    for box in boxes:
        assert box.get("tabindex") == "0"
        assert box.get("role") == "region"
        assert {"aria-label", "aria-labelledby"} & set(box)


def test_focus_is_visible_and_motion_is_opt_in() -> None:
    assert ":focus-visible { outline: 3px" in STYLE
    parts = STYLE.split("@media (prefers-reduced-motion: no-preference)")
    assert len(parts) == 2
    assert not re.search(r"smooth|animation|transition", parts[0])


def colors(dark: bool) -> dict[str, Color]:
    """Return the colours of a scheme by name; dark ones override light ones."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, flags=re.DOTALL)
    named: dict[str, Color] = {}
    for block in blocks[: 2 if dark else 1]:
        for name, digits in re.findall(r"--(\w+): #([0-9a-f]{6});", block):
            named[name] = tuple(int(digits[j : j + 2], 16) / 255 for j in (0, 2, 4))
    return named


def luminance(color: Color) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Color, other: Color) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_matches_the_wcag_definition() -> None:
    assert contrast((0.0,) * 3, (1.0,) * 3) == pytest.approx(21.0)
    assert contrast((119 / 255,) * 3, (1.0,) * 3) == pytest.approx(4.48, abs=0.01)


def test_text_has_enough_contrast() -> None:
    low = [
        (text, background, "dark" if dark else "light")
        for dark in (False, True)
        for text in TEXT
        for background in BACKGROUNDS
        if contrast(colors(dark)[text], colors(dark)[background]) < MIN_CONTRAST
    ]
    assert not low


def test_text_has_enough_contrast_on_the_strongest_tint() -> None:
    low = []
    for dark in (False, True):
        named = colors(dark)
        for hue in ("source", "target"):
            pairs = zip(named[hue], named["paper"], strict=True)
            mixed = tuple(0.45 * over + 0.55 * under for over, under in pairs)
            if contrast(named["ink"], mixed) < MIN_CONTRAST:
                low.append((hue, "dark" if dark else "light"))
    assert not low
