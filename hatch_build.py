"""Metadata hook of the build: URLs of the project, and links of the README that work elsewhere.

The repository does not name its own address, so that a copy of it needs no change. The address is
read from the environment when a package is built: `OODOMETER_REPOSITORY_URL`, or the variables
that a workflow of GitHub sets. Without an address, the package has no URLs, and its description is
README.md as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

URL_VARIABLE = "OODOMETER_REPOSITORY_URL"
# Files with these extensions are shown by the address of their content, others by that of a page.
IMAGE_EXTENSIONS = (".gif", ".jpeg", ".jpg", ".png", ".svg", ".webp")
# Code, which is not changed; or the target of a link `](…)`, of `src="…"` or of `href="…"`.
_CODE_OR_TARGET = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]*`)|(?P<before>\]\(|\b(?:src|href)=\")(?P<target>[^)\s\"]+)",
    flags=re.DOTALL | re.MULTILINE,
)
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", flags=re.IGNORECASE)


def repository_url(environment: Mapping[str, str]) -> str | None:
    """Return the address of the repository that the environment names; None if there is none.

    >>> repository_url({"OODOMETER_REPOSITORY_URL": "https://example.org/oodometer.git"})
    'https://example.org/oodometer'
    >>> repository_url({"GITHUB_SERVER_URL": "https://example.org", "GITHUB_REPOSITORY": "a/b"})
    'https://example.org/a/b'
    """
    url = environment.get(URL_VARIABLE, "")
    server, name = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
    if not url and server and name:
        url = f"{server.rstrip('/')}/{name}"
    if url and not url.startswith(("https://", "http://")):
        raise ValueError(f"{URL_VARIABLE} must begin with https:// or http://; got {url!r}.")
    return url.rstrip("/").removesuffix(".git") or None


def project_urls(url: str, tag: str) -> dict[str, str]:
    """Return the URLs that a package registry shows."""
    return {
        "Source": url,
        "Documentation": f"{url}/blob/{tag}/docs/index.md",
        "Changelog": f"{url}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }


def relative_targets(text: str) -> list[str]:
    """Return the targets of links and images that are relative paths.

    >>> relative_targets('[a](docs/a.md#b) ![c](c.png) [d](#d) [e](https://e.org) `[f](f.md)`')
    ['docs/a.md#b', 'c.png']
    """
    targets = [match["target"] for match in _CODE_OR_TARGET.finditer(text)]
    return [target for target in targets if target and not _ABSOLUTE.match(target)]


def absolute_links(text: str, url: str, tag: str) -> str:
    """Return a text in which relative links and images are addresses of files of the repository.

    >>> absolute_links("[a](docs/a.md#b) ![c](c.png)", "https://example.org/x", "v1")
    '[a](https://example.org/x/blob/v1/docs/a.md#b) ![c](https://example.org/x/raw/v1/c.png)'
    """

    def replace(match: re.Match[str]) -> str:
        target = match["target"]
        if target is None or _ABSOLUTE.match(target):
            return match[0]
        is_image = target.partition("#")[0].lower().endswith(IMAGE_EXTENSIONS)
        return f"{match['before']}{url}/{'raw' if is_image else 'blob'}/{tag}/{target}"

    return _CODE_OR_TARGET.sub(replace, text)


def get_metadata_hook() -> Any:
    """Return the class that hatchling calls to fill in `readme` and `urls`."""
    from hatchling.metadata.plugin.interface import MetadataHookInterface

    class RepositoryLinks(MetadataHookInterface):
        def update(self, metadata: dict[str, Any]) -> None:
            """Set the fields; a source distribution already has those it was built with."""
            url, tag = repository_url(os.environ), f"v{metadata['version']}"
            if "readme" not in metadata:
                text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
                if url is not None:
                    text = absolute_links(text, url, tag)
                metadata["readme"] = {"content-type": "text/markdown", "text": text}
            if "urls" not in metadata:
                metadata["urls"] = {} if url is None else project_urls(url, tag)

    return RepositoryLinks
