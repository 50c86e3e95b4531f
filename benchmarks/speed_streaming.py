"""Files larger than memory: an estimate of them against a bare scan of the same columns.

N rows of ten float32 probabilities are written as Parquet (snappy, row groups of 2²⁰ rows, as pyarrow
does by itself) and deleted afterwards. Each work is done by a process of its own, in turns; the
least CPU time and wall time of each counts, and the most memory.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from benchmarks._results import Bound, Section, markdown_table
from benchmarks._simulated_outputs import simulate_probs
from benchmarks.peers._timing import peak_memory_mb
from oodometer.core.array_types import Array
from oodometer.core.protocols import StreamingEstimator

N, K, GROUP, ROUNDS = 100_000_000, 10, 1 << 20, 3
SOURCE_ROWS = 50_000
LEAST = 0.5


def rows(seed: int, n: int, lift: float) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, n)
    return simulate_probs(rng, labels, K, lift), labels


def table(probs: Array, **more: Array) -> Any:
    columns = {f"prob_{j}": np.ascontiguousarray(probs[:, j]) for j in range(K)}
    return pa.table(columns | more)


def write(folder: Path, n: int) -> None:
    probs, labels = rows(0, SOURCE_ROWS, 2.2)
    pq.write_table(table(probs, label=labels), folder / "source.parquet")
    schema = table(probs[:1]).schema
    with pq.ParquetWriter(folder / "target.parquet", schema) as file:
        for start in range(0, n, GROUP):
            probs, _ = rows(1 + start, min(GROUP, n - start), 1.5)
            file.write_table(table(probs), row_group_size=GROUP)


# What is done, each in a process of its own ------------------------------------------------------


def scanned(folder: Path) -> int:
    """A bare scan, as pyarrow's data sets do it."""
    found = pyarrow.dataset.dataset(folder / "target.parquet")
    return sum(batch.num_rows for batch in found.to_batches())


def iterated(folder: Path) -> int:
    """A bare scan, as pyarrow's Parquet reader does it at its leanest, batch by batch."""
    with pq.ParquetFile(folder / "target.parquet", pre_buffer=False) as file:
        return sum(batch.num_rows for batch in file.iter_batches(batch_size=1 << 18))


def _estimated(folder: Path, methods: list[str] | None) -> int:
    from oodometer.assessment.streaming import EstimateOptions, estimate_files

    paths = folder / "source.parquet", folder / "target.parquet"
    return estimate_files(*paths, options=EstimateOptions(methods)).n_target


def summed(folder: Path) -> int:
    """All methods that read every row."""
    from oodometer import estimators

    members = [
        m for m in estimators.MEMBERS if isinstance(m, StreamingEstimator) and m.is_mergeable
    ]
    return _estimated(folder, [m.name for m in members if m.name != "gde"])


def everything(folder: Path) -> int:
    """All methods, those that see a sample too."""
    return _estimated(folder, None)


WORKS: dict[str, Callable[[Path], int]] = {
    "dataset": scanned,
    "reader": iterated,
    "summed": summed,
    "everything": everything,
}


def child(name: str, folder: Path) -> None:
    """Do one work, and say what it took; imports are not counted."""
    from oodometer import estimators  # noqa: F401
    from oodometer.assessment import streaming  # noqa: F401

    began, clock = time.process_time(), time.perf_counter()
    n = WORKS[name](folder)
    taken = {"cpu": time.process_time() - began, "wall": time.perf_counter() - clock, "n": n}
    taken["memory"] = peak_memory_mb()
    print(json.dumps(taken))


def measured(name: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.speed_streaming", name, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def section(n: int = N) -> Section:
    folder = Path(tempfile.mkdtemp(prefix="oodometer-", dir=os.environ.get("OODOMETER_SCRATCH")))
    try:
        write(folder, n)
        size = (folder / "target.parquet").stat().st_size / 1e9
        took: dict[str, list[dict[str, float]]] = {name: [] for name in WORKS}
        for _ in range(ROUNDS):  # in turns, so that a busy spell hits all
            for name in WORKS:
                took[name].append(measured(name, folder))
    finally:
        shutil.rmtree(folder)
    assert all(one["n"] == n for all_of in took.values() for one in all_of)
    best = {
        name: {
            "cpu": min(one["cpu"] for one in all_of),
            "wall": min(one["wall"] for one in all_of),
            "memory": max(one["memory"] for one in all_of),
        }
        for name, all_of in took.items()
    }
    return told(best, n, size)


NAMES = {
    "dataset": "bare scan, pyarrow.dataset",
    "reader": "bare scan, ParquetFile, not buffered",
    "summed": "estimate_files, methods that read every row",
    "everything": "estimate_files, all methods",
}


def told(best: dict[str, dict[str, float]], n: int, size: float) -> Section:
    cells = [
        (NAMES[name], f"{one['cpu']:.1f}", f"{one['wall']:.1f}", f"{1e9 * one['cpu'] / n:.0f}",
         f"{1e9 * one['wall'] / n:.0f}", f"{one['memory']:.0f}")
        for name, one in best.items()
    ]  # fmt: skip
    heads = ("what", "CPU s", "wall s", "CPU ns a row", "wall ns a row", "peak MB")
    bounds = [
        Bound(f"rows a second of {unit} time: {NAMES[ours]} / {NAMES['dataset']}",
              best["dataset"][key] / best[ours][key], LEAST)
        for ours in ("summed", "everything")
        for key, unit in (("wall", "wall"), ("cpu", "CPU"))
    ]  # fmt: skip
    memory = max(best["summed"]["memory"], best["everything"]["memory"])
    bounds.append(
        Bound("peak resident memory of estimate_files, GB", memory / 1000, 1.0, least=False)
    )
    text = (
        f"{n:,} rows of {K} float32 columns, {size:.2f} GB of Parquet (snappy, row groups of "
        f"{GROUP:,} rows), written for this and deleted; a source of {SOURCE_ROWS:,} rows. Each work "
        f"by a process of its own, {ROUNDS} times in turns, the least time of each.\n\n"
        f"{markdown_table(heads, cells)}\n\n"
        "A scan is what pyarrow calls so: the batches of a data set. Its reader of a single file, "
        f"not buffered, is leaner; of its speed `estimate_files` has {best['reader']['wall'] / best['summed']['wall']:.2f} by "
        f"wall time and {best['reader']['cpu'] / best['summed']['cpu']:.2f} by CPU time. A logarithm and an "
        f"exponential a score, which a temperature takes, are {transcendental(K):.0f} ns a row in numpy "
        "alone, about as much as that reader. "
        "Methods that read every row sum up in one pass; the others see a random sample of 100,000 "
        "rows, which costs some seconds whatever the number of rows."
    )
    return Section("Files larger than memory", bounds, text)


def transcendental(k: int, rows: int = 8192, rounds: int = 300) -> float:
    """Nanoseconds that log and exp of k float32 numbers a row take, of a block that is in cache."""
    block = np.random.default_rng(0).random((k, rows), dtype=np.float32)
    room, best = np.empty_like(block), np.inf
    for _ in range(5):
        began = time.process_time()
        for _ in range(rounds):
            np.log(block, out=room)
            np.exp(room, out=room)
        best = min(best, time.process_time() - began)
    return best / rounds / rows * 1e9


if __name__ == "__main__":
    child(sys.argv[1], Path(sys.argv[2]))
