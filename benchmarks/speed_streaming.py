"""Files larger than memory: an estimate of them against a bare scan of the same columns.

N rows of ten float32 probabilities are written as Parquet (snappy, row groups of 2²⁰ rows, as pyarrow
does by itself) and deleted afterwards. Each work is done by a process of its own, in turns; the
least CPU time and wall time of each counts, and the most memory. Run: make bench, or with fewer rows
python -m benchmarks.speed_streaming 5000000
"""

from __future__ import annotations

import json
import os
import resource
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

from benchmarks._results import machine_facts, markdown_table, write_results
from oodometer.arrays import Array
from oodometer.core import Staged

N, K, GROUP, ROUNDS = 100_000_000, 10, 1 << 20, 3
SOURCE_ROWS = 50_000


def rows(seed: int, n: int, lift: float) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, n)
    logits = rng.standard_normal((n, K), dtype=np.float32)
    logits[np.arange(n), labels] += np.float32(lift)
    probs = np.exp(2 * logits)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, labels


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
    """A bare scan, as pyarrow's Parquet reader does it, batch by batch."""
    with pq.ParquetFile(folder / "target.parquet") as file:
        return sum(batch.num_rows for batch in file.iter_batches(batch_size=1 << 18))


def _estimated(folder: Path, methods: list[str] | None) -> int:
    from oodometer.streaming import Asked, estimate_files

    paths = folder / "source.parquet", folder / "target.parquet"
    return estimate_files(*paths, asked=Asked(methods)).n_target


def summed(folder: Path) -> int:
    """All methods that read every row."""
    from oodometer import estimators

    members = [m for m in estimators.MEMBERS if isinstance(m, Staged) and m.streams]
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
    """Do one work, and say what it took."""
    if name in ("summed", "everything"):
        pass
    began, clock = time.process_time(), time.perf_counter()
    n = WORKS[name](folder)
    taken = {"cpu": time.process_time() - began, "wall": time.perf_counter() - clock, "n": n}
    taken["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(taken))


def measured(name: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.speed_streaming", name, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(n: int = N) -> int:
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
    best = {
        name: {
            "cpu": min(one["cpu"] for one in all_of),
            "wall": min(one["wall"] for one in all_of),
            "memory": max(one["memory"] for one in all_of),
        }
        for name, all_of in took.items()
    }
    assert all(one["n"] == n for all_of in took.values() for one in all_of)
    return told(best, n, size)


def told(best: dict[str, dict[str, float]], n: int, size: float) -> int:
    names = {
        "dataset": "bare scan, pyarrow.dataset",
        "reader": "bare scan, ParquetFile.iter_batches",
        "summed": "estimate_files, methods that read every row",
        "everything": "estimate_files, all methods",
    }
    cells = [
        (
            names[name],
            f"{one['cpu']:.2f}",
            f"{one['wall']:.2f}",
            f"{1e9 * one['cpu'] / n:.0f}",
            f"{one['memory']:.0f}",
        )
        for name, one in best.items()
    ]
    heads = ("what", "CPU s", "wall s", "CPU ns a row", "peak MB")
    ratios: list[tuple[str, float, float, bool]] = []
    for ours in ("summed", "everything"):
        for bare in ("dataset", "reader"):
            for unit in ("cpu", "wall"):
                value = best[bare][unit] / best[ours][unit]
                what = f"speed by {unit.upper() if unit == 'cpu' else unit} time: {names[bare]} / "
                ratios.append((what + names[ours], value, 0.5, True))
    memory = max(best["summed"]["memory"], best["everything"]["memory"])
    ratios.append(("peak memory in GB", memory / 1000, 1.0, False))
    good = [value >= bound if more else value <= bound for _, value, bound, more in ratios]
    lines = [
        (
            what,
            f"{value:.2f}",
            f"{'≥' if more else '≤'} {bound:g}",
            "yes" if kept else "NO",
        )
        for (what, value, bound, more), kept in zip(ratios, good, strict=True)
    ]
    text = (
        f"{n:,} rows of {K} float32 columns, {size:.2f} GB of Parquet (snappy), row groups of "
        f"{GROUP:,} rows; a source of {SOURCE_ROWS:,} rows.\n\n"
        f"{markdown_table(heads, cells)}\n\n"
        f"{markdown_table(('ratio', 'found', 'bound', 'kept'), lines)}\n\n"
        "There are two ways to scan with pyarrow alone, and the bound is held against both. Methods "
        "that read every row sum up in one pass. The others see a random sample of 100,000 rows, "
        "which costs some seconds whatever the number of rows: with few rows they weigh most.\n\n"
        f"{machine_facts()}"
    )
    write_results("speed_streaming", text)
    return 0 if all(good) else 1


if __name__ == "__main__":
    if len(sys.argv) == 3:
        child(sys.argv[1], Path(sys.argv[2]))
        sys.exit(0)
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else N))
