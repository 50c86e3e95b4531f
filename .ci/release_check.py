"""Check that a tag can be released: `python .ci/release_check.py v0.2.0`.

The tag, pyproject.toml, `oodometer.__version__`, CITATION.cff and a heading of CHANGELOG.md must
name the same version, and the environment must name the address of the repository, from which
hatch_build.py makes the URLs and links that a registry shows.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOOK = runpy.run_path(str(ROOT / "hatch_build.py"))


def versions(root: Path) -> dict[str, str]:
    """Return the version that each file names; empty if it names none."""
    patterns = {
        "src/oodometer/__init__.py": r'^__version__ = "(.+)"$',
        "CITATION.cff": r"^version: (\S+)$",
    }
    found = {"pyproject.toml": str(_project(root)["version"])}
    for name, pattern in patterns.items():
        match = re.search(pattern, (root / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
        found[name] = match[1] if match else ""
    return found


def problems(root: Path, tag: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield one sentence per reason not to release the tag."""
    version = tag.removeprefix("v")
    for name, named in versions(root).items():
        if named != version:
            yield f"{name} names the version {named or 'none'}, the tag {tag}; change one of them."
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(
        rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", changelog, flags=re.MULTILINE
    ):
        yield f"CHANGELOG.md has no heading '## {version} - YEAR-MONTH-DAY'; rename 'Unreleased'."
    if HOOK["repository_url"](environment) is None:
        yield (
            f"The environment names no repository, so that the package would have no URLs; set "
            f"{HOOK['URL_VARIABLE']} to its address."
        )


def _project(root: Path) -> dict[str, object]:
    table: dict[str, object] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return table


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python .ci/release_check.py TAG")
    found = list(problems(ROOT, sys.argv[1], os.environ))
    if found:
        sys.exit("\n".join(found))
    print(f"{sys.argv[1]} can be released.")
