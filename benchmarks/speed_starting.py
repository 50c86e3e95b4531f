"""Size of the core installation and start-up time compared with a bare Python.

The package without extras is installed in a temporary environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._results import Bound, Section, markdown_table

ROOT = Path(__file__).parent.parent
ROUNDS = 9
# Names are imported on first use, so one is used.
USED = "import oodometer; oodometer.estimate"


def seconds(command: list[str]) -> float:
    """Return the least wall time of several runs of a command."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return min(times)


def megabytes(folder: Path) -> float:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


def installed(folder: Path) -> Path:
    """Create an environment with the core installation; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    before = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1")
    install = [str(python), "-m", "pip", "install", "--quiet", "--constraint",
               str(ROOT / "constraints.txt"), str(ROOT)]  # fmt: skip
    subprocess.run(install, check=True, env=before)
    return python


def section() -> Section:
    with tempfile.TemporaryDirectory(prefix="oodometer-") as scratch:
        folder = Path(scratch) / "core"
        python = installed(folder)
        size = megabytes(folder)
        works = {
            "python -c pass": [str(python), "-c", "pass"],
            "python -c 'import numpy'": [str(python), "-c", "import numpy"],
            f"python -c '{USED}'": [str(python), "-c", USED],
            "oodometer --help": [str(folder / "bin" / "oodometer"), "--help"],
        }
        took = {name: seconds(command) for name, command in works.items()}
    bare, _, imported, helped = took.values()
    bounds = [
        Bound("size of an environment with the core only, MB", size, 700.0, least=False),
        Bound("seconds of `oodometer --help`", helped, 0.5, least=False),
        Bound(f"seconds of `{USED}`", imported, 0.3, least=False),
    ]
    rows = [(f"`{name}`", f"{1e3 * one:.0f}", f"{one / bare:.1f}") for name, one in took.items()]
    text = markdown_table(("command", "ms", "bare starts"), rows)
    note = f"Minimum of {ROUNDS} runs each."
    return Section("Installation size and start-up time", bounds, f"{text}\n\n{note}")
