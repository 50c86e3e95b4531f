"""MMD-Gaussian compared with the direct formula in float64 torch tensors, 10,000 × 512 each.

Each runs in a fresh process: CPU time of all threads, and peak resident memory minus the memory
before (Python, numpy, torch and the features). Exits with 1 if a bound is missed.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks._results import machine_facts, markdown_table, write_results
from oodometer.core.array_types import Floats
from oodometer.measures._mmd_kernels import GAMMAS, gaussian_mmd, random_feature_mmd

N, D, DIRECTIONS = 10_000, 512, 1024
FASTER, SMALLER, OFF = 8.0, 5.0, 1e-4


def gaussian(n: int, scale: float, seed: int) -> Floats:
    found = np.empty((n, D))
    np.random.default_rng(seed).standard_normal(out=found)
    found *= scale
    found += 0.02 * scale * seed
    return found


def rectified(n: int, scale: float, seed: int) -> Floats:
    """Return features like those of a last layer: rank 32, half of the values are 0."""
    rng, found = np.random.default_rng(seed), np.empty((n, D))
    np.matmul(rng.normal(size=(n, 32)), np.random.default_rng(9).normal(size=(32, D)), out=found)
    found *= scale / np.sqrt(32)
    found += 0.02 * scale * seed
    return np.maximum(found, 0, out=found)


# Name, generator, scale. Squared distances are about 1000, 0.4, and 2 … 7.
SETS: tuple[tuple[str, Callable[[int, float, int], Floats], float], ...] = (
    ("gaussian, σ = 1", gaussian, 1.0),
    ("gaussian, σ = 0.02", gaussian, 0.02),
    ("rectified, σ = 0.1", rectified, 0.1),
)


def by_cdist(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return mean_kernel(torch.cdist(a, b) ** 2)


def by_products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    lengths = (a**2).sum(1)[:, None] + (b**2).sum(1)[None]
    return mean_kernel((lengths - 2 * a @ b.T).clamp(min=0))


def mean_kernel(distances: torch.Tensor) -> torch.Tensor:
    total = torch.exp(-GAMMAS[0] * distances)
    for γ in GAMMAS[1:]:
        total = total + torch.exp(-γ * distances)
    return total.mean()


def direct(first: Floats, second: Floats, form: str, threads: int) -> float:
    """Return the MMD by the three mean kernels, written directly."""
    torch.set_num_threads(threads)
    mean = {"cdist": by_cdist, "products": by_products}[form]
    a, b = torch.from_numpy(first), torch.from_numpy(second)
    return float(mean(a, a) + mean(b, b) - 2 * mean(a, b))


class Run(NamedTuple):
    """Value, CPU seconds, system CPU seconds, memory in MB."""

    value: float
    seconds: float
    system: float
    megabytes: float


def measured(place: int, n: int, form: str | None, threads: int = 1) -> Run:
    """Measure one run after a warm-up; `form` None means our implementation."""
    _, make, scale = SETS[place]
    work: Callable[[Floats, Floats], float] = (
        gaussian_mmd if form is None else lambda a, b: direct(a, b, form, threads)
    )
    first, second = make(n, scale, 0), make(n, scale, 1)
    work(first[:100], second[:100])
    before = resource.getrusage(resource.RUSAGE_SELF)
    value = work(first, second)
    after = resource.getrusage(resource.RUSAGE_SELF)
    system = after.ru_stime - before.ru_stime
    seconds = after.ru_utime - before.ru_utime + system
    # Linux counts memory in kilobytes.
    return Run(value, seconds, system, (after.ru_maxrss - before.ru_maxrss) / 1024)


def alone(work: Callable[..., Run], *given: Any) -> Run:
    """Run in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *given).result()


def cheapest() -> tuple[str, int]:
    """Return the form of the direct formula and the threads with the least CPU time at 2,000 rows."""
    ways = [(form, threads) for form in ("cdist", "products") for threads in (1, torch.get_num_threads())]  # fmt: skip
    return min(ways, key=lambda way: alone(measured, 0, 2000, *way).seconds)


def approximate() -> str:
    """Return a sentence on the random-feature approximation."""
    _, make, scale = SETS[0]
    first, second = make(N, scale, 0), make(N, scale, 1)
    began = time.process_time()
    value, error = random_feature_mmd(first, second, rng=np.random.default_rng(0), count=DIRECTIONS)
    return (
        f"The approximation with {DIRECTIONS:,} random features took "
        f"{time.process_time() - began:.1f} s and gave {value:.3e} ± {error:.0e} (standard error) on "
        "the first set."
    )


HEAD = ("features", "MMD²", "CPU, ours / direct", "ratio", "additional memory, ours / direct", "ratio", "relative error", "kept")  # fmt: skip


def compared(ours: Run, theirs: Run) -> tuple[tuple[str, ...], bool]:
    """Return the cells of the table and whether all bounds are kept."""
    faster, smaller = theirs.seconds / ours.seconds, theirs.megabytes / ours.megabytes
    error = abs(ours.value / theirs.value - 1)
    kept = faster >= FASTER and smaller >= SMALLER and error <= OFF
    cells = (f"{ours.value:.3e}", f"{ours.seconds:.1f} / {theirs.seconds:.1f} s", f"{faster:.1f}",
             f"{ours.megabytes:,.0f} / {theirs.megabytes:,.0f} MB", f"{smaller:.0f}", f"{error:.0e}", "yes" if kept else "NO")  # fmt: skip
    return cells, kept


def main() -> int:
    form, threads = cheapest()
    runs = [
        (alone(measured, place, N, None), alone(measured, place, N, form, threads))
        for place in range(len(SETS))
    ]
    found = [compared(*pair) for pair in runs]
    bare = [(theirs.seconds - theirs.system) / ours.seconds for ours, theirs in runs]
    note = (
        f"Bounds: {FASTER:g} times less CPU time, {SMALLER:g} times less memory, relative error at "
        f"most {OFF:g}. The direct formula creates {N:,} × {N:,} matrices of float64 torch tensors, by "
        f"{form} on {threads} thread{'s' if threads > 1 else ''}, the cheapest of two forms and two "
        "numbers of threads. Much of its CPU time is spent by the system on allocating memory; without "
        f"that, the smallest ratio is {min(bare):.1f}. "
        f"{approximate()}"
    )
    rows = [(name, *cells) for (name, _, _), (cells, _) in zip(SETS, found, strict=True)]
    write_results("speed_mmd", f"{markdown_table(HEAD, rows)}\n\n{note}\n\n{machine_facts()}")
    return 0 if all(kept for _, kept in found) else 1


if __name__ == "__main__":
    sys.exit(main())
