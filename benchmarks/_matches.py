"""Two that do the same work, each in a process of its own, and the row of a table about them."""

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
PEERS = ROOT / ".venv-peers" / "bin" / "python"
ABSENT, FAILED = "not installed: make bench-peers", "failed"
PATIENCE = 1800  # seconds
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
HEAD = ("what (ours / theirs)", "arrays", "ours CPU s", "theirs CPU s", "ratio (theirs / ours)", "bound",
        "kept", "ours peak MB", "theirs peak MB", "values (ours, theirs)")  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A work in a process of its own: which, on what arrays, how often, with how many threads."""

    module: str
    arrays: str
    more: tuple[str, ...] = ()
    rounds: int = 3
    # Of linear algebra; None leaves it to numpy.
    threads: int | None = None

    @property
    def interpreter(self) -> Path:
        """Peers have one of their own."""
        return PEERS if self.module.startswith("benchmarks.peers.") else Path(sys.executable)

    @property
    def environment(self) -> dict[str, str]:
        """That of this process; but peers find nothing of ours, and threads are as many as asked."""
        hidden = {"PYTHONPATH"} if self.interpreter == PEERS else set()
        given = {name: value for name, value in os.environ.items() if name not in hidden}
        return given if self.threads is None else given | dict.fromkeys(THREADS, str(self.threads))


@dataclass(frozen=True)
class Took:
    """What came out of a run, CPU and wall seconds, megabytes, and the version of who did it."""

    value: Any
    cpu: float
    wall: float
    memory: float
    version: str


@dataclass(frozen=True)
class Match:
    """Ours and theirs; how many times less CPU time ours must take, and how near the answers are."""

    what: str
    ours: Run
    theirs: Run
    bound: float | None = None
    within: float | None = None


@dataclass(frozen=True)
class Row:
    """A match and what both took; of theirs, in a word, why there is nothing where there is not."""

    match: Match
    ours: Took
    theirs: Took | str

    @property
    def ratio(self) -> float | None:
        return None if isinstance(self.theirs, str) else self.theirs.cpu / self.ours.cpu

    @property
    def apart(self) -> float | None:
        """The largest difference of both answers."""
        if isinstance(self.theirs, str):
            return None
        return float(np.abs(np.subtract(self.ours.value, self.theirs.value)).max())

    @property
    def kept(self) -> bool | None:
        """Whether all bounds are; None where there is none, or no number."""
        held: list[bool] = []
        if self.ratio is not None and self.match.bound is not None:
            held.append(self.ratio >= self.match.bound)
        if self.apart is not None and self.match.within is not None:
            held.append(self.apart <= self.match.within)
        return all(held) if held else None

    @property
    def bounds(self) -> str:
        said = [] if self.match.bound is None else [f"≥ {self.match.bound:g}"]
        if self.match.within is not None:
            said.append(f"values within {self.match.within:g}")
        return ", ".join(said) or "–"

    def cells(self) -> tuple[str, ...]:
        """As in HEAD."""
        mine, kept = self.ours, {True: "yes", False: "NO", None: "–"}[self.kept]
        cpu, ratio, memory, value = (
            self.theirs if isinstance(self.theirs, str) else "",
            "–",
            "–",
            "",
        )
        if isinstance(self.theirs, Took):
            cpu, ratio = f"{self.theirs.cpu:.3f}", f"{self.ratio:,.1f}"
            memory, value = f"{self.theirs.memory:,.0f}", f", {shown(self.theirs.value)}"
        value = shown(mine.value) + value
        if isinstance(mine.value, list) and self.apart is not None:
            value = f"{len(mine.value)} shares, at most {self.apart:.0e} apart"
        return (self.match.what, self.match.ours.arrays, f"{mine.cpu:.3f}", cpu, ratio, self.bounds,
                kept, f"{mine.memory:,.0f}", memory, value)  # fmt: skip


def shown(value: Any) -> str:
    return f"{len(value)} shares" if isinstance(value, list) else f"{value:.4g}"


def read(said: str) -> Took:
    """What a process said of its work, in the last line of its output."""
    return Took(**json.loads(said.strip().splitlines()[-1]))


def path_of(folder: Path, arrays: str) -> Path:
    """The file of some arrays."""
    return folder / f"{arrays.replace(' ', '').replace(',', '')}.npz"


def done(run: Run, folder: Path) -> Took | str:
    """One run, or in a word why there is none."""
    if not run.interpreter.exists():
        return ABSENT
    given = str(path_of(folder, run.arrays)), *run.more
    command = [str(run.interpreter), "-W", "ignore", "-m", run.module, *given]
    try:
        found = subprocess.run(
            command,
            cwd=ROOT,
            env=run.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{run.module}: {error}\n{error.stderr!s}", file=sys.stderr)
        return FAILED
    return read(found.stdout)


def best(runs: Sequence[Took | str]) -> Took | str:
    """The run of least CPU time, with the most memory of all; the reason where one has none."""
    good = [one for one in runs if isinstance(one, Took)]
    if len(good) < len(runs):
        return next(one for one in runs if isinstance(one, str))
    return replace(min(good, key=lambda one: one.cpu), memory=max(one.memory for one in good))


def taken(runs: Sequence[Run], folder: Path) -> dict[Run, Took | str]:
    """What each run took, done in turns so that a busy spell hits all."""
    found: dict[Run, list[Took | str]] = {run: [] for run in runs}
    for turn in range(max(run.rounds for run in found)):
        for run, before in found.items():
            if turn < run.rounds:
                before.append(done(run, folder))
    return {run: best(several) for run, several in found.items()}
