"""The documentation site: it builds without warnings, is complete, searchable and works offline."""

from __future__ import annotations

import html
import http.server
import importlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import sync_playwright

from tests.support.browser import CHROMIUM, needs_browser
from tests.support.markdown_pages import ROOT
from tests.test_docstrings import FACES, package_name

REFERENCE = ROOT / "docs" / "reference"
# Attributes that make a browser load something; links to other sites are allowed.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video)\b[^>]*?\ssrc=["']?([^"'\s>]+)"""
    r"""|<link\b(?![^>]*rel=["']?(?:canonical|next|prev))[^>]*?\shref=["']?([^"'\s>]+)""",
    re.IGNORECASE,
)
LOADED_BY_STYLE = re.compile(r"""(?:@import\s+|url\()["']?(https?:|//)""")


def public_names() -> Iterator[tuple[str, str]]:
    """Yield each package face and each of its public names."""
    for folder in FACES:
        face = package_name(folder)
        for name in getattr(importlib.import_module(face), "__all__", []):
            yield face, name


def settings() -> dict[str, Any]:
    """Return mkdocs.yml; tags for Python objects are read as plain values."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        pass

    Loader.add_multi_constructor(
        "tag:yaml.org,2002:python/", lambda loader, suffix, node: loader.construct_mapping(node)
    )
    values: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)
    return values


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built without warnings."""
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed; the dependency group `docs` installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


# The settings -----------------------------------------------------------------------------------


def test_navigation_separates_tutorial_guides_reference_and_explanation() -> None:
    sections = [name for entry in settings()["nav"] for name in entry]
    assert sections == ["Home", "Tutorial", "How-to guides", "Reference", "Explanation"]


def test_settings_load_no_fonts_and_fail_on_broken_links() -> None:
    values = settings()
    assert values["theme"]["font"] is False
    assert values["strict"] is True
    assert set(values["validation"]["links"].values()) == {"warn"}
    assert values["validation"]["nav"]["omitted_files"] == "warn"


def test_every_package_face_has_a_directive() -> None:
    pages = "".join(page.read_text() for page in REFERENCE.glob("*.md"))
    directives = set(re.findall(r"^::: (\S+)$", pages, flags=re.MULTILINE))
    faces = {face for face, _ in public_names()}
    assert len(faces) > 15
    assert faces - directives == set()


def test_directives_name_existing_modules() -> None:
    pages = "".join(page.read_text() for page in REFERENCE.glob("*.md"))
    for name in re.findall(r"^::: (\S+)$", pages, flags=re.MULTILINE):
        assert find_spec(name) is not None, name


# The built pages --------------------------------------------------------------------------------


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = "".join(page.read_text() for page in site.glob("reference/*.html"))
    anchors = set(re.findall(r'\bid="?([\w.]+)', pages))
    names = {f"{face}.{name}" for face, name in public_names()}
    assert len(names) > 200
    assert names - anchors == set()


def test_numpydoc_sections_are_rendered(site: Path) -> None:
    page = html.unescape((site / "reference" / "assessment.html").read_text())
    assert "Parameters:" in page
    assert "Returns:" in page
    assert "Raises:" in page
    assert "----------" not in page


def test_pages_load_nothing_from_the_internet(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        for match in LOADED.finditer(page.read_text(encoding="utf-8")):
            address = match[1] or match[2]
            assert not address.startswith(("http:", "https:", "//")), f"{page.name}: {address}"
    for style in site.rglob("*.css"):
        assert not LOADED_BY_STYLE.search(style.read_text(encoding="utf-8")), style.name


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/a.js"></script>',
        "<link rel=stylesheet href=https://fonts.example/a.css>",
        '<img alt="" src="//images.example/a.png">',
    ],
)
def test_external_resources_are_recognized(text: str) -> None:
    match = LOADED.search(text)
    assert match is not None
    assert (match[1] or match[2]).startswith(("https:", "//"))


def test_search_index_has_every_page_but_no_source_files(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    pages = {entry["location"].partition("#")[0] for entry in index["docs"]}
    written = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert {str(path.with_suffix(".html")) for path in written} - pages == set()
    assert not [page for page in pages if page.startswith("repository/src")]


def test_files_of_the_repository_have_pages(site: Path) -> None:
    source = (site / "repository/src/oodometer/estimators/atc.py.html").read_text()
    assert "class ATC(" in re.sub("<[^>]+>", "", source)
    contributing = (site / "repository" / "CONTRIBUTING.html").read_text()
    assert 'href="../architecture.html"' in contributing
    assert (site / "repository" / "examples" / "own_estimator.html").is_file()


def test_data_flows_are_tables_without_scripts(site: Path) -> None:
    page = (site / "architecture.html").read_text()
    assert 'class="mermaid"' not in page
    assert page.count("<th>passes</th>") == 4
    assert "paths of small files" in page


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Yield the address of a server of the site."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Write nothing to standard error."""

    handler = partial(Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@needs_browser
def test_search_finds_pages_and_requests_stay_local(address: str) -> None:
    requests: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            window = browser.new_page(viewport={"width": 1280, "height": 900})
            window.on("request", lambda request: requests.append(request.url))
            window.goto(f"{address}/index.html")
            window.locator("input.md-search__input").click()
            window.locator("input.md-search__input").fill("neighborhood invariance")
            found = window.locator(".md-search-result__link")
            found.first.wait_for()
            assert found.count() >= 3
            window.goto(f"{address}/architecture.html")
            window.wait_for_load_state("networkidle")
        finally:
            browser.close()
    assert len(requests) > 5
    assert [url for url in requests if not url.startswith((address, "blob:", "data:"))] == []
