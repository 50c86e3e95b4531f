"""Properties of every page: only our scripts run, nothing is fetched, and pages are small."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from oodometer.core.errors import MissingExtra
from oodometer.report import check_available

Attributes = dict[str, str | None]


class Elements(HTMLParser):
    """Start tags of a page with their attributes, its scripts, and all other text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, Attributes]] = []
        self.scripts: list[tuple[Attributes, str]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data
        else:
            self.text += data

    def having(self, name: str) -> list[Attributes]:
        """Return the elements with an attribute."""
        return [attributes for _, attributes in self.tags if name in attributes]


def specs(page: str) -> list[Any]:
    """Return the charts of a page."""
    scripts = Elements(page).scripts
    return [json.loads(text) for attributes, text in scripts if "type" in attributes]


def test_page_contains_only_our_scripts(page: str) -> None:
    scripts = Elements(page).scripts
    code = [text for attributes, text in scripts if not attributes]
    data = [text for attributes, text in scripts if attributes.get("type") == "application/json"]
    assert len(code) == 2
    assert "vegaEmbed" in code[1]
    assert len(code) + len(data) == len(scripts)
    assert not any(character in text for text in data for character in "<>&\u2028\u2029")


def test_hostile_names_create_no_elements_or_handlers(page: str) -> None:
    elements = Elements(page)
    # Pictures inside the page are ours.
    foreign = [
        tag for tag, a in elements.tags if not (a.get("src") or "").startswith("data:image/png")
    ]
    assert "img" not in foreign
    assert not [name for _, attributes in elements.tags for name in attributes if name[:2] == "on"]
    assert "<img src='https://example.org/x' onerror=alert(2)>" in elements.text


def test_names_reach_the_charts_unchanged(page: str) -> None:
    names = {row.get("name") for spec in specs(page) for rows in spec["datasets"].values()
             for row in rows}  # fmt: skip
    assert "</script><script>alert(1)</script>" in names


def test_policy_allows_only_our_scripts(page: str) -> None:
    elements = Elements(page)
    (policy,) = elements.having("http-equiv")
    hashes = re.findall(r"'sha256-([^']+)'", policy["content"] or "")
    code = [text for attributes, text in elements.scripts if not attributes]
    assert [base64.b64decode(h) for h in hashes] == [
        hashlib.sha256(text.encode()).digest() for text in code
    ]
    assert (policy["content"] or "").startswith("default-src 'none'; style-src 'unsafe-inline'; ")
    assert "unsafe-eval" not in page.split("</head>")[0]


def test_page_fetches_nothing(page: str) -> None:
    elements = Elements(page)
    assert all(
        (a["src"] or "").startswith("data:image/png;base64,") for a in elements.having("src")
    )
    places = {f"#{a['id']}" for a in elements.having("id")}
    assert {a["href"] for a in elements.having("href")} <= places
    style = page.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert not [spec for spec in specs(page) if '"url"' in json.dumps(spec)]


def test_page_is_under_2_mb(page: str) -> None:
    assert len(page.encode()) < 2_000_000


def test_charts_have_text_alternatives(page: str) -> None:
    elements = Elements(page)
    assert ("html", {"lang": "en"}) in elements.tags
    charts = [a for _, a in elements.tags if a.get("class") == "chart"]
    assert len(charts) == len(specs(page)) == len(elements.having("data-chart"))
    assert all(chart["role"] == "img" and chart["aria-label"] for chart in charts)


def test_ids_are_unique_and_referenced(page: str) -> None:
    elements = Elements(page)
    ids = [a["id"] for a in elements.having("id")]
    assert len(set(ids)) == len(ids)
    assert {a["data-chart"] for a in elements.having("data-chart")} < set(ids)


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_missing_package_names_the_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(MissingExtra, match=rf"The HTML report .*'{missing}'.*oodometer\[report\]"):
        check_available()
