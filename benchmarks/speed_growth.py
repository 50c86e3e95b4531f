"""Growth of the CPU time of every estimator with rows and classes: a · n^b, a · k^b.

Each estimator runs alone on predictions without cached values, with learning and 200 replicates;
the least of several times counts.
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
from oodometer.assessment.bootstrap import LearnedSource, make_runs
from oodometer.core.array_types import Array
from oodometer.core.calibration import Calibration
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator
from oodometer.parallel.runners import limit_to_one_thread

ROWS = tuple(62_500 * 2**j for j in range(5))
CLASSES = tuple(10 * 2**j for j in range(5))
ROWS_OF_CLASSES, CLASSES_OF_ROWS = 100_000, 10
TEMPERATURE, ROUNDS, MOST = 1.1, 3, 1.1
# Needs features, which are not outputs.
EXCLUDED = ("atc-near",)
# Number of other models, for methods that compare several.
OTHER_MODELS = 2


@dataclass(frozen=True, eq=False)
class Sides:
    """Outputs of several models on source and target, and the labels of the source."""

    source: list[Array]
    labels: Array
    target: list[Array]

    def fresh(self) -> tuple[Predictions, Predictions]:
        """Return source and target at a temperature, without cached values."""
        source = Predictions.from_probs(self.source[0], labels=self.labels)
        target = Predictions.from_probs(self.target[0])
        return (
            _with_other_models(source, self.source[1:]),
            _with_other_models(target, self.target[1:]),
        )


def _with_other_models(rows: Predictions, outputs: Sequence[Array]) -> Predictions:
    others = [Predictions.from_probs(probs).at_temperature(TEMPERATURE) for probs in outputs]
    return rows.at_temperature(TEMPERATURE).with_other_models(*others)


def simulate(n: int, k: int) -> Sides:
    """Simulate models whose accuracy does not depend on k."""
    rng = np.random.default_rng(0)
    sides = []
    for lift in (2.2, 1.5):
        labels = rng.integers(0, k, n)
        high = lift + 0.35 * float(np.log2(k / 10))
        models = [simulate_probs(rng, labels, k, high) for _ in range(1 + OTHER_MODELS)]
        sides.append((labels, models))
    (labels, source), (_, target) = sides
    return Sides(source, labels, target)


def learned(source: Predictions) -> LearnedSource:
    return LearnedSource(source, TEMPERATURE, Calibration("temperature", None, source))


def run(member: Estimator, sides: Sides) -> float:
    """Return the CPU seconds of one run."""
    source, target = sides.fresh()
    task = make_runs([member], learned(source), seed=0, replicates=200)[member.name]
    began = time.process_time()
    task.run(target)
    return time.process_time() - began


def peak(member: Estimator, sides: Sides) -> float:
    """Return the peak memory of one run in MB, without its input."""
    source, target = sides.fresh()
    task = make_runs([member], learned(source), seed=0, replicates=200)[member.name]
    tracemalloc.start()
    task.run(target)
    found = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return found


def members() -> list[Estimator]:
    return [member for member in estimators.MEMBERS if member.name not in EXCLUDED]


def times(shapes: Sequence[tuple[int, int]]) -> dict[str, list[float]]:
    """Return the least CPU time of every estimator at every shape."""
    found: dict[str, list[float]] = {member.name: [] for member in members()}
    for n, k in shapes:
        sides = simulate(n, k)
        for member in members():
            found[member.name].append(min(run(member, sides) for _ in range(ROUNDS)))
    return found


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return b of a · size^b, fitted by least squares of logarithms."""
    return float(np.polyfit(np.log(np.asarray(sizes, dtype=float)), np.log(seconds), 1)[0])


@limit_to_one_thread()
def section() -> Section:
    by_rows = times([(n, CLASSES_OF_ROWS) for n in ROWS])
    by_classes = times([(ROWS_OF_CLASSES, k) for k in CLASSES])
    sides = simulate(ROWS[-1], CLASSES_OF_ROWS)
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
        Bound(f"largest b of a · n^b ({worst_n[0]})", worst_n[1], MOST, least=False),
        Bound(f"largest b of a · k^b ({worst_k[0]})", worst_k[1], MOST, least=False),
    ]
    text = (
        f"Each method alone at {ROWS[-1]:,} × {CLASSES_OF_ROWS} float32 for source and target, from "
        "validated probabilities, with a temperature and 200 replicates; peak memory without the "
        "input; `gde` and `aline` have two other models. A bare pass takes "
        f"{bare * 1e3:.0f} ms. Exponents are fitted over {ROWS[0]:,} … {ROWS[-1]:,} rows with "
        f"{CLASSES_OF_ROWS} classes, and over {CLASSES[0]} … {CLASSES[-1]} classes with "
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
