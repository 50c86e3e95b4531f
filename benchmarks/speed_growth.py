"""How the CPU time of every estimator of outputs grows with rows and with classes: a · n^b, a · k^b.

Each is run alone on fresh predictions, learning and 200 replicates included, the least of some times.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence

import numpy as np

from benchmarks._results import Bound, Section, markdown_table
from oodometer import estimators
from oodometer.arrays import Array
from oodometer.core import Estimator
from oodometer.errors import NoAnswer
from oodometer.predictions import Predictions
from oodometer.tasks import tasks_of
from oodometer.threads import one_thread

ROWS = tuple(62_500 * 2**j for j in range(5))
CLASSES = tuple(10 * 2**j for j in range(5))
ROWS_OF_CLASSES, CLASSES_OF_ROWS = 100_000, 10
HEAT, ROUNDS, MOST = 1.1, 3, 1.1
# They compare several models' outputs, which is other work, or features.
OTHERS = ("gde", "aline-s", "aline-d", "atc-near")
Sides = tuple[Array, Array, Array]


def made(n: int, k: int) -> Sides:
    """Probabilities of the source, its labels, probabilities of the target."""
    found = []
    for seed, lift in ((1, 2.2), (2, 1.5)):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, k, n)
        logits = rng.standard_normal((n, k), dtype=np.float32)
        # With more classes there are more rivals; so the accuracy stays about the same.
        logits[np.arange(n), labels] += np.float32(lift + 0.35 * np.log2(k / 10))
        np.exp(2 * logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        found.append((logits, labels))
    return found[0][0], found[0][1], found[1][0]


def fresh(sides: Sides) -> tuple[Predictions, Predictions]:
    source, labels, target = sides
    known = Predictions.from_probs(source, labels=labels).at_temperature(HEAT)
    return known, Predictions.from_probs(target).at_temperature(HEAT)


def run(member: Estimator, sides: Sides) -> float:
    """CPU seconds of one run."""
    source, target = fresh(sides)
    task = tasks_of([member], source, HEAT, seed=0, replicates=200)[member.name]
    began = time.process_time()
    task.run(target)
    return time.process_time() - began


def peak(member: Estimator, sides: Sides) -> float:
    """Megabytes that one run takes at most, without its input."""
    source, target = fresh(sides)
    task = tasks_of([member], source, HEAT, seed=0, replicates=200)[member.name]
    tracemalloc.start()
    task.run(target)
    found = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return found


def members() -> list[Estimator]:
    return [member for member in estimators.MEMBERS if member.name not in OTHERS]


def times(shapes: Sequence[tuple[int, int]]) -> dict[str, list[float]]:
    """The least seconds of every estimator at every shape."""
    found: dict[str, list[float]] = {member.name: [] for member in members()}
    for n, k in shapes:
        sides = made(n, k)
        for member in members():
            try:
                least = min(run(member, sides) for _ in range(ROUNDS))
            except NoAnswer:
                least = np.nan
            found[member.name].append(least)
    return found


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """b of a · size^b, by least squares of logarithms."""
    x, y = np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(seconds))
    known = np.isfinite(y)
    return float(np.polyfit(x[known], y[known], 1)[0])


@one_thread()
def section() -> Section:
    by_rows = times([(n, CLASSES_OF_ROWS) for n in ROWS])
    by_classes = times([(ROWS_OF_CLASSES, k) for k in CLASSES])
    sides = made(ROWS[-1], CLASSES_OF_ROWS)
    target = sides[2]
    bare = min(_bare(target) for _ in range(ROUNDS))
    rows, worst_n, worst_k = [], ("", -np.inf), ("", -np.inf)
    for member in members():
        name = member.name
        in_n, in_k = exponent(ROWS, by_rows[name]), exponent(CLASSES, by_classes[name])
        worst_n, worst_k = (
            max(worst_n, (name, in_n), key=_second),
            max(worst_k, (name, in_k), key=_second),
        )
        last, wide = by_rows[name][-1], by_classes[name][-1]
        rows.append((name, f"{last:.3f}", f"{last / bare:.1f}", f"{peak(member, sides):.0f}",
                     f"{in_n:.2f}", f"{wide:.2f}", f"{in_k:.2f}"))  # fmt: skip
    heads = ("method", "CPU s", "bare passes", "peak MB", "b in n",
             f"CPU s at {ROWS_OF_CLASSES // 1000}k × {CLASSES[-1]}", "b in k")  # fmt: skip
    bounds = [
        Bound(f"largest b of a · n^b, that of {worst_n[0]}", worst_n[1], MOST, least=False),
        Bound(f"largest b of a · k^b, that of {worst_k[0]}", worst_k[1], MOST, least=False),
    ]
    text = (
        f"Each method alone at {ROWS[-1]:,} × {CLASSES_OF_ROWS} float32 a side, from probabilities "
        "that are checked already, with a temperature and 200 replicates; peak memory without the "
        f"input. A bare pass takes {bare * 1e3:.0f} ms. Fitted over {ROWS[0]:,} … {ROWS[-1]:,} rows "
        f"of {CLASSES_OF_ROWS} classes, and over {CLASSES[0]} … {CLASSES[-1]} classes of "
        f"{ROWS_OF_CLASSES:,} rows.\n\n{markdown_table(heads, rows)}"
    )
    return Section("Growth with rows and classes", bounds, text)


def _bare(target: Array) -> float:
    began = time.process_time()
    target.max(axis=1)
    np.log(target)
    return time.process_time() - began


def _second(pair: tuple[str, float]) -> float:
    return pair[1]
