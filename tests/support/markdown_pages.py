"""Code blocks of Markdown pages, run in order, in one folder per page.

A block whose first line is a comment with a file name (`# sites.toml: two domains`) is written to
that file. Other Python blocks are run, each in a namespace of its own. In sh blocks every line that
starts with `oodometer` is run; other lines must start with one of NOT_RUN.
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
# Commands that install something or do not end; they are tested elsewhere.
NOT_RUN = ("make ", "pip ", "dask ", "git ")
# Slow command on several pages, run once.
DEMO = "oodometer demo --save example"


@dataclass(frozen=True)
class Block:
    """Language and content of a code block."""

    language: str
    content: str

    @property
    def file(self) -> str | None:
        """Return the file name in the first line, or None."""
        first, *_ = self.content.splitlines() or [""]
        match = _FILE.fullmatch(first) if self.language in ("python", "toml", "csv") else None
        return None if match is None else match[1]


def blocks(page: Path) -> list[Block]:
    """Return all blocks of a page, in order."""
    return [Block(*match) for match in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def commands(page: Path) -> list[str]:
    """Return all commands of a page that are run, in order."""
    shells = [block for block in blocks(page) if block.language == "sh"]
    return [line for block in shells for line in _lines(block.content)]


def run_page(page: Path, folder: Path, replacements: Mapping[str, str] | None = None) -> list[str]:
    """Return the output of every command and every Python block, in order.

    `replacements` are words of the page to replace before the run, such as an address.
    """
    to_run = blocks(page)
    for word, other in (replacements or {}).items():
        to_run = [Block(block.language, block.content.replace(word, other)) for block in to_run]
    with contextlib.chdir(folder), _importable(folder):
        return [output for block in to_run for output in _run_block(block, folder)]


def _run_block(block: Block, folder: Path) -> Iterator[str]:
    if block.file is not None:
        # CSV has no comments.
        plain = block.content.partition("\n")[2] if block.language == "csv" else block.content
        (folder / block.file).write_text(plain, encoding="utf-8")
    elif block.language == "python":
        yield _run_python(block.content)
    elif block.language == "sh":
        yield from (_run_line(line, folder) for line in _lines(block.content))
    elif block.language == "json":
        json.loads(block.content)
    else:
        assert block.language in ("text", "yaml", "mermaid"), f"cannot run {block}"


def _run_python(code: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "page", "exec"), {"__name__": "__main__"})
    return output.getvalue()


def _lines(content: str) -> Iterator[str]:
    for line in content.splitlines():
        if line.startswith("oodometer "):
            yield line
        else:
            assert not line or line.startswith(NOT_RUN), f"cannot run {line!r}"


def _run_line(line: str, folder: Path) -> str:
    if line == DEMO:
        shutil.copytree(_demo() / "example", folder / "example", dirs_exist_ok=True)
        return (_demo() / "output.txt").read_text()
    words = [name for word in shlex.split(line, comments=True) for name in _expand(word)]
    result = run(folder, *words[1:])
    assert result.returncode == 0, f"{line}: {result.stderr}"
    assert result.stdout or result.stderr, f"{line} has no output"
    return result.stdout


def _expand(word: str) -> list[str]:
    """Expand a pattern as a shell does."""
    return sorted(glob.glob(word)) if "*" in word else [word]


@cache
def _demo() -> Path:
    folder = Path(mkdtemp(prefix="oodometer-demo-"))
    atexit.register(shutil.rmtree, folder)
    result = run(folder, *shlex.split(DEMO)[1:])
    assert result.returncode == 0, result.stderr
    (folder / "output.txt").write_text(result.stdout)
    return folder


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Make the modules of a folder importable in the block, and forget them after it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
