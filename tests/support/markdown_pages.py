"""Code blocks of Markdown pages, run as a reader would: in order, in one folder a page.

A block whose first line is a comment with a file's name (`# sites.toml: two domains`) is written to
that file. Other blocks of Python are run, each with names of its own; of blocks of sh every line
that begins with `oodometer`. Nothing else may stand in a block, but for the lines of OUTSIDE.
"""

from __future__ import annotations

import atexit
import contextlib
import glob
import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.support.command_line import run

ROOT = Path(__file__).parent.parent.parent
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (\S+\.(?:toml|py|csv))(?::.*)?")
# Commands that install, or that wait for ever; what they do is tested elsewhere.
OUTSIDE = ("make ", "pip ", "dask ", "git ")
# What takes long and is on several pages is run once.
DEMO = "oodometer demo --save example"


@dataclass(frozen=True)
class Block:
    """The language of a block, and what stands in it."""

    language: str
    content: str

    @property
    def file(self) -> str | None:
        """The file that it is, if it says so."""
        first, *_ = self.content.splitlines() or [""]
        named = _FILE.fullmatch(first) if self.language in ("python", "toml", "csv") else None
        return None if named is None else named[1]


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    return [Block(*found) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def commands(page: Path) -> list[str]:
    """All commands of a page that are run, in order."""
    shells = [block for block in blocks(page) if block.language == "sh"]
    return [line for block in shells for line in _lines(block.content)]


def run_page(page: Path, folder: Path, spelled: Mapping[str, str] | None = None) -> list[str]:
    """What every command and every block of Python said, in order.

    `spelled` has words of the page that stand for something else here, such as an address.
    """
    found = blocks(page)
    for word, other in (spelled or {}).items():
        found = [Block(block.language, block.content.replace(word, other)) for block in found]
    with contextlib.chdir(folder), _modules_of(folder):
        return [said for block in found for said in _ran(block, folder)]


def _ran(block: Block, folder: Path) -> Iterator[str]:
    if block.file is not None:
        # A table has no comments.
        plain = block.content.partition("\n")[2] if block.language == "csv" else block.content
        (folder / block.file).write_text(plain, encoding="utf-8")
    elif block.language == "python":
        yield _executed(block.content)
    elif block.language == "sh":
        yield from (_commanded(line, folder) for line in _lines(block.content))
    elif block.language == "json":
        json.loads(block.content)
    else:
        assert block.language in ("text", "yaml", "mermaid"), f"no one knows how to run {block}"


def _executed(code: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "page", "exec"), {"__name__": "__main__"})
    return said.getvalue()


def _lines(content: str) -> Iterator[str]:
    for line in content.splitlines():
        if line.startswith("oodometer "):
            yield line
        else:
            assert not line or line.startswith(OUTSIDE), f"no one knows how to run {line!r}"


def _commanded(line: str, folder: Path) -> str:
    if line == DEMO:
        shutil.copytree(_demo() / "example", folder / "example", dirs_exist_ok=True)
        return (_demo() / "said").read_text()
    words = [name for word in shlex.split(line, comments=True) for name in _expanded(word)]
    done = run(folder, *words[1:])
    assert done.returncode == 0, f"{line}: {done.stderr}"
    assert done.stdout or done.stderr, f"{line} says nothing"
    return done.stdout


def _expanded(word: str) -> list[str]:
    """As a shell does it."""
    return sorted(glob.glob(word)) if "*" in word else [word]


@cache
def _demo() -> Path:
    folder = Path(mkdtemp(prefix="oodometer-demo-"))
    atexit.register(shutil.rmtree, folder)
    done = run(folder, *shlex.split(DEMO)[1:])
    assert done.returncode == 0, done.stderr
    (folder / "said").write_text(done.stdout)
    return folder


@contextlib.contextmanager
def _modules_of(folder: Path) -> Iterator[None]:
    """A page's own modules can be imported while it runs, and are forgotten after it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
