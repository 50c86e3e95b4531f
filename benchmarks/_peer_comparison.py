"""Comparisons of two programs that compute the same quantity, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
PEER_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
NOT_INSTALLED, FAILED = "not installed: make bench-peers", "failed"
TIMEOUT_SECONDS = 1800
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
HEAD = ("comparison (ours / theirs)", "arrays", "ours CPU s", "theirs CPU s", "ratio (theirs / ours)", "bound",
        "kept", "ours peak MB", "theirs peak MB", "values (ours, theirs)")  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One program: its module, the name of its arrays, its arguments, repetitions and threads."""

    module: str
    arrays: str
    arguments: tuple[str, ...] = ()
    rounds: int = 3
    # Threads of linear algebra; None: numpy's default.
    threads: int | None = None

    @property
    def interpreter(self) -> Path:
        """Return the Python of this environment, or that of the peers."""
        return PEER_PYTHON if self.module.startswith("benchmarks.peers.") else Path(sys.executable)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables, without this package's path for peers."""
        hidden = {"PYTHONPATH"} if self.interpreter == PEER_PYTHON else set()
        variables = {name: value for name, value in os.environ.items() if name not in hidden}
        if self.threads is None:
            return variables
        return variables | dict.fromkeys(THREAD_VARIABLES, str(self.threads))


@dataclass(frozen=True)
class RunResult:
    """Value of a run, CPU and wall time in seconds, peak memory in MB, version of the program."""

    value: Any
    cpu: float
    wall: float
    memory: float
    version: str


@dataclass(frozen=True)
class Comparison:
    """Two runs with the smallest allowed ratio of CPU times and the tolerance of their values."""

    title: str
    ours: Run
    theirs: Run
    min_ratio: float | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class Row:
    """A comparison with both results; `theirs` is the reason if the peer has no result."""

    comparison: Comparison
    ours: RunResult
    theirs: RunResult | str

    @property
    def ratio(self) -> float | None:
        return None if isinstance(self.theirs, str) else self.theirs.cpu / self.ours.cpu

    @property
    def difference(self) -> float | None:
        """Return the largest absolute difference of the two values."""
        if isinstance(self.theirs, str):
            return None
        return float(np.abs(np.subtract(self.ours.value, self.theirs.value)).max())

    @property
    def is_kept(self) -> bool | None:
        """Return whether all bounds are kept; None if there is no bound or no number."""
        checks: list[bool] = []
        if self.ratio is not None and self.comparison.min_ratio is not None:
            checks.append(self.ratio >= self.comparison.min_ratio)
        if self.difference is not None and self.comparison.tolerance is not None:
            checks.append(self.difference <= self.comparison.tolerance)
        return all(checks) if checks else None

    @property
    def bounds(self) -> str:
        parts = []
        if self.comparison.min_ratio is not None:
            parts.append(f"≥ {self.comparison.min_ratio:g}")
        if self.comparison.tolerance is not None:
            parts.append(f"values within {self.comparison.tolerance:g}")
        return ", ".join(parts) or "–"

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a table with the columns `HEAD`."""
        cpu, ratio, memory = (self.theirs if isinstance(self.theirs, str) else ""), "–", "–"
        values = format_value(self.ours.value)
        if isinstance(self.theirs, RunResult):
            cpu, ratio = f"{self.theirs.cpu:.3f}", f"{self.ratio:,.1f}"
            memory = f"{self.theirs.memory:,.0f}"
            values += f", {format_value(self.theirs.value)}"
        if isinstance(self.ours.value, list) and self.difference is not None:
            values = f"{len(self.ours.value)} shares, at most {self.difference:.0e} apart"
        kept = {True: "yes", False: "NO", None: "–"}[self.is_kept]
        return (self.comparison.title, self.comparison.ours.arrays, f"{self.ours.cpu:.3f}", cpu, ratio,
                self.bounds, kept, f"{self.ours.memory:,.0f}", memory, values)  # fmt: skip


def format_value(value: Any) -> str:
    return f"{len(value)} shares" if isinstance(value, list) else f"{value:.4g}"


def parse_result(output: str) -> RunResult:
    """Parse the last line that a run printed."""
    return RunResult(**json.loads(output.strip().splitlines()[-1]))


def array_path(folder: Path, arrays: str) -> Path:
    """Return the .npz file of a named set of arrays."""
    return folder / f"{arrays.replace(' ', '').replace(',', '')}.npz"


def run_process(run: Run, folder: Path) -> RunResult | str:
    """Run a program once; return the reason if it is not installed or fails."""
    if not run.interpreter.exists():
        return NOT_INSTALLED
    arguments = str(array_path(folder, run.arrays)), *run.arguments
    command = [str(run.interpreter), "-W", "ignore", "-m", run.module, *arguments]
    try:
        process = subprocess.run(
            command,
            cwd=ROOT,
            env=run.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{run.module}: {error}\n{error.stderr!s}", file=sys.stderr)
        return FAILED
    return parse_result(process.stdout)


def best_result(results: Sequence[RunResult | str]) -> RunResult | str:
    """Return the result with the least CPU time and the largest memory, or the first reason."""
    numbers = [result for result in results if isinstance(result, RunResult)]
    if len(numbers) < len(results):
        return next(result for result in results if isinstance(result, str))
    fastest = min(numbers, key=lambda result: result.cpu)
    return replace(fastest, memory=max(result.memory for result in numbers))


def run_in_turns(runs: Sequence[Run], folder: Path) -> dict[Run, RunResult | str]:
    """Repeat all runs in turns, so that other load on the machine affects all of them."""
    results: dict[Run, list[RunResult | str]] = {run: [] for run in runs}
    for turn in range(max(run.rounds for run in results)):
        for run, previous in results.items():
            if turn < run.rounds:
                previous.append(run_process(run, folder))
    return {run: best_result(several) for run, several in results.items()}
