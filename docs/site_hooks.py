"""MkDocs hooks: pages for files of the repository, and data-flow diagrams without scripts.

Pages of docs/ link to files outside of docs/, such as ../CONTRIBUTING.md or a source file. Each of
these files becomes a page under repository/, so that the links also work on the site. Diagrams in
Mermaid become tables, because a browser would have to load Mermaid from the internet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NODE = re.compile(r'(\w+)\["([^"]+)"\]')
EDGE = re.compile(r"^\s*(\w+) -->(?:\|([^|]+)\|)? ?(\w+)", re.MULTILINE)
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "bash"}
# Pages of the navigation to which no page needs to link.
ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file of the repository to which a page links."""
    pending = [ROOT / name for name in ALWAYS]
    pending += [path for page in DOCS.rglob("*.md") for path in _linked_files(page)]
    added: set[Path] = set()
    while pending:
        path = pending.pop()
        if path not in added:
            added.add(path)
            files.append(File.generated(config, _site_path(path), content=_content(path)))
            pending += _linked_files(path) if path.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the pages of the site, and write diagrams as tables."""
    path = _repository_path(page.file.src_uri)

    def relocate(match: re.Match[str]) -> str:
        target = _target(path, match[0])
        if target is None:
            return match[0]
        return os.path.relpath(_site_path(target), Path(page.file.src_uri).parent)

    return MERMAID.sub(_flow_table, LINK.sub(relocate, markdown))


def _linked_files(page: Path) -> Iterator[Path]:
    """Yield the files and folders outside of docs/ to which a page links."""
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        target = _target(page, link)
        if target is not None and not target.is_relative_to(DOCS):
            yield target


def _target(page: Path, link: str) -> Path | None:
    """Return the file of the repository to which a relative link points, or None."""
    target = Path(os.path.normpath(page.parent / link))
    exists = ":" not in link and target.is_relative_to(ROOT) and target.exists()
    return target if exists else None


def _site_path(path: Path) -> str:
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    return f"repository/{name}" if path.suffix == ".md" else f"repository/{name}.md"


def _repository_path(site_path: str) -> Path:
    name = site_path.removeprefix("repository/")
    return (DOCS if name == site_path else ROOT) / name


def _content(path: Path) -> str:
    """Return the page of a Markdown file, a source file or a folder of source files."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    sources = sorted(path.iterdir()) if path.is_dir() else [path]
    blocks = [
        f"`````{LANGUAGES.get(source.suffix, 'text')} title={str(source.relative_to(ROOT))!r}\n"
        f"{source.read_text(encoding='utf-8')}`````\n"
        for source in sources
        if source.is_file()
    ]
    # Source files would hide the documentation in the results of a search.
    front = f"---\ntitle: {path.relative_to(ROOT)}\nsearch:\n  exclude: true\n---\n"
    return f"{front}# {path.relative_to(ROOT)}\n\n" + "\n".join(blocks)


def _flow_table(match: re.Match[str]) -> str:
    """Return the edges of a Mermaid flowchart as the rows of a table."""
    names = {key: _node(label) for key, label in NODE.findall(match[1])}
    edges = EDGE.findall(NODE.sub(r"\1", match[1]))
    rows = [f"| {names[start]} | {data} | {names[end]} |" for start, data, end in edges]
    return "\n".join(["| from | passes | to |", "| --- | --- | --- |", *rows])


def _node(label: str) -> str:
    file, _, functions = label.partition("<br/>")
    return f"`{file}`" + (f"<br/>{functions}" if functions else "")
