"""Coverage of 95 % intervals in a simulation without shift, per method, rows, classes and accuracy.

Source and target are independent samples of one distribution with calibrated scores: the label of a
row is drawn from its class probabilities. An interval covers if it contains the share of correct
rows among those very target rows. Runs are computed in chunks, and every finished chunk is a JSON
file, so that an interrupted simulation continues where it stopped.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from oodometer import estimators
from oodometer.assessment._estimate import learn_source
from oodometer.assessment.bootstrap import EstimatorRun
from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions

ROW_COUNTS = (100, 300, 1000, 10_000)
CLASS_COUNTS = (2, 5, 50)
ACCURACIES = (0.6, 0.8, 0.9, 0.95, 0.99)
# Methods by group; the groups are simulated separately, because their CPU times differ.
METHODS = {
    "fast": ("ac", "doc", "atc-mc", "atc-ne", "im", "bbse", "atc-class"),
    "slow": ("mlls", "iw", "pape"),
    "cot": ("cot",),
    "cott": ("cott",),
    "leap": ("leap",),
}
ALL_METHODS = tuple(method for methods in METHODS.values() for method in methods)
REPLICATES = 200
# Standard deviation of the logits before the logit of one random class is raised.
LOGIT_DEVIATION = 1.5
TUNING_ROWS = 20_000
ROUNDING_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Cell:
    """One setting of the simulation: rows per side, classes, accuracy, and group of methods."""

    n: int
    k: int
    accuracy: float
    group: str

    @property
    def methods(self) -> tuple[str, ...]:
        """Return the methods of the group that give an interval with this many rows per class."""
        return tuple(
            method
            for method in METHODS[self.group]
            if self.n >= self.k * getattr(estimators.get(method), "min_rows_per_class", 0)
        )

    @property
    def chunk_runs(self) -> int:
        """Return the number of runs per chunk; a chunk takes from seconds to two minutes."""
        return max(10, min(200, 2_000_000 // (self.n * (10 + self.k))))


@dataclass(frozen=True)
class Chunk:
    """Runs `start` to `stop` of a cell."""

    cell: Cell
    start: int
    stop: int

    def path(self, folder: Path) -> Path:
        cell = self.cell
        name = f"{cell.group}-n{cell.n}-k{cell.k}-a{cell.accuracy:g}-{self.start}-{self.stop}.json"
        return folder / name


@dataclass
class Tally:
    """Sums over the runs of one method."""

    runs: int = 0
    intervals: int = 0
    covered: int = 0
    covered_before: int = 0
    error: float = 0.0
    absolute_error: float = 0.0
    width: float = 0.0

    def add(self, other: Tally) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def coverage(self) -> float | None:
        return self.covered / self.intervals if self.intervals else None

    @property
    def coverage_before(self) -> float | None:
        return self.covered_before / self.runs if self.runs else None

    @property
    def standard_error(self) -> float:
        """Return the Monte-Carlo standard error of a coverage of 95 % with these runs."""
        return math.sqrt(0.95 * 0.05 / max(self.intervals, 1))


@dataclass(frozen=True, eq=False)
class RecordingRun(EstimatorRun):
    """Estimator run that records its bootstrap replicates, for the interval of earlier versions."""

    recorded: list[Floats] = field(default_factory=list)

    def resample(self, total: Any) -> Floats:
        replicates = super().resample(total)
        self.recorded.append(replicates)
        return replicates


def draw_rows(rng: np.random.Generator, n: int, k: int, raised_logit: float) -> tuple[Floats, Ints]:
    """Return logits, and labels drawn from the probabilities of these logits."""
    logits = rng.normal(size=(n, k)) * LOGIT_DEVIATION
    logits[np.arange(n), rng.integers(0, k, n)] += raised_logit
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    labels = (rng.random((n, 1)) > probs.cumsum(axis=1)).sum(axis=1).clip(0, k - 1)
    return logits, labels


@cache
def raised_logit_for(k: int, accuracy: float) -> float:
    """Return the raised logit at which the model has this accuracy, found by bisection."""
    low, high = 0.0, 60.0
    for _ in range(25):
        middle = (low + high) / 2
        logits, labels = draw_rows(np.random.default_rng(0), TUNING_ROWS, k, middle)
        is_below = (logits.argmax(axis=1) == labels).mean() < accuracy
        low, high = (middle, high) if is_below else (low, middle)
    return middle


def run_once(cell: Cell, number: int) -> dict[str, Tally]:
    """Return the tallies of one run: estimate all methods of the cell's group, and compare."""
    rng = np.random.default_rng([number, cell.n, cell.k, round(1000 * cell.accuracy)])
    raised = raised_logit_for(cell.k, cell.accuracy)
    source, target = (
        Predictions.from_logits(logits, labels=labels)
        for logits, labels in (draw_rows(rng, cell.n, cell.k, raised) for _ in range(2))
    )
    truth = float(target.correct.mean())
    target = target.without_labels()
    learned, _ = learn_source(source, "fit", "auto", seed=number)
    rows = learned.prepare(target)
    tallies = {}
    for method in cell.methods:
        run = RecordingRun(estimators.get(method), learned, number, REPLICATES)
        try:
            estimate = run.run(rows)
        except NotApplicable:
            continue
        low, high = np.quantile(run.recorded[0], (0.025, 0.975))
        tally = Tally(runs=1, covered_before=int(_contains(low, high, truth)))
        tally.error, tally.absolute_error = estimate.value - truth, abs(estimate.value - truth)
        if estimate.low is not None and estimate.high is not None:
            tally.intervals = 1
            tally.covered = int(_contains(estimate.low, estimate.high, truth))
            tally.width = estimate.high - estimate.low
        tallies[method] = tally
    return tallies


def _contains(low: float, high: float, truth: float) -> bool:
    return bool(low - ROUNDING_TOLERANCE <= truth <= high + ROUNDING_TOLERANCE)


def run_chunk(task: tuple[Chunk, Path]) -> tuple[Chunk, float]:
    """Compute the runs of a chunk, and write their tallies as JSON; return the CPU time."""
    chunk, folder = task
    begin = time.process_time()
    totals = {method: Tally() for method in chunk.cell.methods}
    for number in range(chunk.start, chunk.stop):
        for method, tally in run_once(chunk.cell, number).items():
            totals[method].add(tally)
    seconds = time.process_time() - begin
    content = {
        "cpu_seconds": seconds,
        "methods": {method: vars(tally) for method, tally in totals.items()},
    }
    path = chunk.path(folder)
    temporary = path.with_suffix(f".{os.getpid()}.part")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)
    return chunk, seconds


def chunks_of(cell: Cell, runs: int) -> Iterator[Chunk]:
    step = cell.chunk_runs
    for start in range(0, runs, step):
        yield Chunk(cell, start, min(start + step, runs))


def compute(chunks: Iterable[Chunk], folder: Path, processes: int) -> None:
    """Compute all chunks that are not finished yet, and show the progress."""
    folder.mkdir(parents=True, exist_ok=True)
    pending = [chunk for chunk in chunks if not chunk.path(folder).exists()]
    begin = time.perf_counter()
    context = multiprocessing.get_context("fork")
    with context.Pool(processes) as pool:
        tasks = [(chunk, folder) for chunk in pending]
        for done, (chunk, seconds) in enumerate(pool.imap_unordered(run_chunk, tasks), 1):
            print(
                f"{done}/{len(pending)} chunks, {time.perf_counter() - begin:.0f} s: "
                f"{chunk.path(folder).stem}, {seconds:.1f} CPU s",
                flush=True,
            )


def load_tallies(chunks: Sequence[Chunk], folder: Path) -> dict[tuple[Cell, str], Tally]:
    """Return the tallies of finished chunks by cell and method."""
    tallies: dict[tuple[Cell, str], Tally] = {}
    for chunk in chunks:
        if not chunk.path(folder).exists():
            continue
        content = json.loads(chunk.path(folder).read_text())
        for method in chunk.cell.methods:
            numbers = content["methods"][method]
            tallies.setdefault((chunk.cell, method), Tally()).add(Tally(**numbers))
    return tallies
