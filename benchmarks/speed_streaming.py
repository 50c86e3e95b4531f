"""Estimates of files larger than memory compared with a bare scan of the same columns.

N rows of ten float32 probabilities are written as Parquet (snappy, row groups of 2²⁰ rows, pyarrow's
defaults) and deleted afterwards. Each computation runs in a process of its own, in turns; the least
CPU and wall time and the largest memory count.
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


# Computations, each in a process of its own ------------------------------------------------------


def scanned(folder: Path) -> int:
    """Scan the file with pyarrow.dataset."""
    found = pyarrow.dataset.dataset(folder / "target.parquet")
    return sum(batch.num_rows for batch in found.to_batches())


def iterated(folder: Path) -> int:
    """Scan the file with pyarrow's ParquetFile, unbuffered, batch by batch."""
    with pq.ParquetFile(folder / "target.parquet", pre_buffer=False) as file:
        return sum(batch.num_rows for batch in file.iter_batches(batch_size=1 << 18))


def _estimated(folder: Path, methods: list[str] | None) -> int:
    from oodometer.assessment.reference import EstimateOptions, estimate_files

    paths = folder / "source.parquet", folder / "target.parquet"
    return estimate_files(*paths, options=EstimateOptions(methods)).n_target


def summed(folder: Path) -> int:
    """Run all methods that use every row."""
    from oodometer import estimators

    members = [
        m for m in estimators.MEMBERS if isinstance(m, StreamingEstimator) and m.is_mergeable
    ]
    return _estimated(folder, [m.name for m in members if m.name != "gde"])


def everything(folder: Path) -> int:
    """Run all methods, including those that use a sample."""
    return _estimated(folder, None)


WORKS: dict[str, Callable[[Path], int]] = {
    "dataset": scanned,
    "reader": iterated,
    "summed": summed,
    "everything": everything,
}


def child(name: str, folder: Path) -> None:
    """Run one computation and print its time and memory; imports are not timed."""
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
        for _ in range(ROUNDS):  # in turns, so that other load affects all
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
    return describe(best, n, size)


NAMES = {
    "dataset": "bare scan, pyarrow.dataset",
    "reader": "bare scan, ParquetFile, unbuffered",
    "summed": "estimate_files, methods that use every row",
    "everything": "estimate_files, all methods",
}


def describe(best: dict[str, dict[str, float]], n: int, size: float) -> Section:
    cells = [
        (NAMES[name], f"{one['cpu']:.1f}", f"{one['wall']:.1f}", f"{1e9 * one['cpu'] / n:.0f}",
         f"{1e9 * one['wall'] / n:.0f}", f"{one['memory']:.0f}")
        for name, one in best.items()
    ]  # fmt: skip
    heads = ("computation", "CPU s", "wall s", "CPU ns per row", "wall ns per row", "peak MB")
    bounds = [
        Bound(f"rows per second of {unit} time: {NAMES[ours]} / {NAMES['dataset']}",
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
        f"{GROUP:,} rows); a source of {SOURCE_ROWS:,} rows. Each computation runs in a process of its "
        f"own, {ROUNDS} times in turns; the minimum counts.\n\n"
        f"{markdown_table(heads, cells)}\n\n"
        "The bounds compare with a scan by `pyarrow.dataset`. The unbuffered reader of a single file is "
        "faster; `estimate_files` reaches "
        f"{best['reader']['wall'] / best['summed']['wall']:.2f} of its speed in wall time and "
        f"{best['reader']['cpu'] / best['summed']['cpu']:.2f} in CPU time. The logarithm and the exponential "
        f"of each score, which temperature scaling requires, take {transcendental(K):.0f} ns per row in "
        "numpy, about as much as that reader. Methods that use every row add partial sums in one pass; "
        "the others use a random sample of 100,000 rows, which takes some seconds for any number of rows."
    )
    return Section("Files larger than memory", bounds, text)


def transcendental(k: int, rows: int = 8192, rounds: int = 300) -> float:
    """Return the nanoseconds per row of log and exp of k float32 values in a cached block."""
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
