"""How the CPU time of every estimator of outputs grows with rows and with classes: a · n^b, a · k^b.

Each is run alone on fresh predictions, learning and 200 replicates included, the least of some times.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks._results import Bound, Section, markdown_table
from benchmarks._simulated_outputs import simulate_probs
from oodometer import estimators
from oodometer.assessment.bootstrap import make_runs
from oodometer.core.array_types import Array
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator
from oodometer.parallel.runners import limit_to_one_thread

ROWS = tuple(62_500 * 2**j for j in range(5))
CLASSES = tuple(10 * 2**j for j in range(5))
ROWS_OF_CLASSES, CLASSES_OF_ROWS = 100_000, 10
HEAT, ROUNDS, MOST = 1.1, 3, 1.1
# It looks at features, which are no outputs.
OTHERS = ("atc-near",)
# Models beside the first, for methods that compare several.
PEERS = 2


@dataclass(frozen=True, eq=False)
class Sides:
    """What models say of both sides, the one that is judged first, and the source's labels."""

    source: list[Array]
    labels: Array
    target: list[Array]

    def fresh(self) -> tuple[Predictions, Predictions]:
        """Both sides at a temperature, of which nothing is computed yet."""
        known = Predictions.from_probs(self.source[0], labels=self.labels)
        new = Predictions.from_probs(self.target[0])
        return _beside(known, self.source[1:]), _beside(new, self.target[1:])


def _beside(rows: Predictions, peers: Sequence[Array]) -> Predictions:
    others = [Predictions.from_probs(peer).at_temperature(HEAT) for peer in peers]
    return rows.at_temperature(HEAT).with_other_models(*others)


def made(n: int, k: int) -> Sides:
    """Models that are right as often whatever k: with more classes there are more rivals."""
    rng = np.random.default_rng(0)
    found = []
    for lift in (2.2, 1.5):
        labels = rng.integers(0, k, n)
        high = lift + 0.35 * float(np.log2(k / 10))
        found.append((labels, [simulate_probs(rng, labels, k, high) for _ in range(1 + PEERS)]))
    (known, source), (_, target) = found
    return Sides(source, known, target)


def run(member: Estimator, sides: Sides) -> float:
    """CPU seconds of one run."""
    source, target = sides.fresh()
    task = make_runs([member], source, HEAT, seed=0, replicates=200)[member.name]
    began = time.process_time()
    task.run(target)
    return time.process_time() - began


def peak(member: Estimator, sides: Sides) -> float:
    """Megabytes that one run takes at most, without its input."""
    source, target = sides.fresh()
    task = make_runs([member], source, HEAT, seed=0, replicates=200)[member.name]
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
            found[member.name].append(min(run(member, sides) for _ in range(ROUNDS)))
    return found


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """b of a · size^b, by least squares of logarithms."""
    return float(np.polyfit(np.log(np.asarray(sizes, dtype=float)), np.log(seconds), 1)[0])


@limit_to_one_thread()
def section() -> Section:
    by_rows = times([(n, CLASSES_OF_ROWS) for n in ROWS])
    by_classes = times([(ROWS_OF_CLASSES, k) for k in CLASSES])
    sides = made(ROWS[-1], CLASSES_OF_ROWS)
    target = sides.target[0]
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
        f"input; `gde` and `aline` have two models more. A bare pass takes {bare * 1e3:.0f} ms. Fitted over {ROWS[0]:,} … {ROWS[-1]:,} rows "
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
