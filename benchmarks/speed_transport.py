"""COT by its dual (one variable per class) compared with N × N transport, at 100,000 × 100.

The N × N transport (scipy's assignment of rows to labels) is timed at feasible sizes and extrapolated
to 100,000 rows by a power law. Exits with 1 if a bound is missed.
"""

from __future__ import annotations

import sys
import time
import tracemalloc

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks._results import machine_facts, markdown_table, write_results
from oodometer.core.array_types import Floats, Ints
from oodometer.core.predictions import Predictions
from oodometer.estimators.cot import COT

N, K = 100_000, 100
SIZES = (500, 1000, 2000, 4000)
FASTER, MEMORY, OFF = 20.0, 3.0, 1e-3


def made(n: int, seed: int) -> tuple[Floats, Ints]:
    """Return probabilities of a simulated model with an accuracy of about 75 %, and the classes."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, K, n)
    scores = rng.normal(size=(n, K)).astype(np.float32)
    scores[np.arange(n), classes] += 3.5
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores, classes


def direct(probs: Floats, classes: Ints) -> float:
    """Return one minus the cost of assigning a label to each row, with cost 1 − p(label)."""
    cost = 1 - probs[:, classes]
    return 1 - float(cost[linear_sum_assignment(cost)].mean())


def ours(probs: Floats, source: Predictions) -> float:
    return COT().estimate(source, Predictions.from_probs(probs)).value


def seconds(work: object, *given: object) -> tuple[float, float]:
    start = time.process_time()
    value = work(*given)  # type: ignore[operator]
    return time.process_time() - start, value


def main() -> int:
    times, gaps = [], []
    for n in SIZES:
        probs, classes = made(n, seed=n)
        known = Predictions.from_probs(probs, labels=classes)
        spent, value = seconds(direct, probs, classes)
        times.append(spent)
        gaps.append(abs(value - ours(probs, known)))
    power, factor = np.polyfit(np.log(SIZES), np.log(times), 1)
    theirs = float(np.exp(factor) * N**power)

    probs, classes = made(N, seed=0)
    source = Predictions.from_probs(probs[:10_000], labels=classes[:10_000])
    spent, _ = seconds(ours, probs, source)
    tracemalloc.start()
    tracemalloc.reset_peak()
    ours(probs, source)
    peak = tracemalloc.get_traced_memory()[1] / probs.nbytes + 1
    tracemalloc.stop()
    rows = [
        ("CPU time at 100,000 × 100: N × N transport, extrapolated / ours", f"{theirs / spent:,.0f}",
         f"≥ {FASTER:g}", theirs / spent >= FASTER),
        ("peak memory, input included / input", f"{peak:.2f}", f"≤ {MEMORY:g}", peak <= MEMORY),
        ("largest difference of the two estimates, N up to 4,000", f"{max(gaps):.1e}", f"≤ {OFF:g}",
         max(gaps) <= OFF),
    ]  # fmt: skip
    text = (
        f"{markdown_table(('quantity', 'measured', 'bound', 'kept'), [(*r[:3], 'yes' if r[3] else 'NO') for r in rows])}"
        f"\n\nThe dual took {spent:.2f} s of CPU time. The N × N transport took "
        f"{', '.join(f'{one:.2f} s at {n:,}' for one, n in zip(times, SIZES, strict=True))}: it grows "
        f"with exponent {power:.2f}, which extrapolates to {theirs / 3600:,.1f} hours at 100,000, where "
        f"its cost matrix alone would take {N * N * 8 / 1e9:.0f} GB.\n\n{machine_facts()}"
    )
    write_results("speed_transport", text)
    return 0 if all(row[3] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
