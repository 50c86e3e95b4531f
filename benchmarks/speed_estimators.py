"""CPU time and memory of the estimators at 1M x 10 float32, as ratios measured in one run."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import oodometer
from benchmarks._results import Bound, Section
from oodometer.core.array_types import Array, Bools, Floats
from oodometer.core.predictions import Predictions
from oodometer.estimators import ATC
from oodometer.estimators.atc import threshold_value

N, K, SEED = 1_000_000, 10, 0


def made(seed: int, lift: float) -> tuple[Array, Array]:
    """Return float32 probabilities and labels of a simulated classifier."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, N)
    logits = rng.normal(size=(N, K)).astype(np.float32)
    logits[np.arange(N), labels] += np.float32(lift)
    probs = np.exp(2 * logits)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, labels


def cpu(*works: Callable[[], Any], rounds: int = 5) -> list[float]:
    """Return the least CPU time of each computation; they run in turns, so that load affects all."""
    times = [[0.0] * rounds for _ in works]
    for turn in range(rounds):
        for place, work in enumerate(works):
            began = time.process_time()
            work()
            times[place][turn] = time.process_time() - began
    return [min(taken) for taken in times]


def looped_threshold(scores: Floats, correct: Bools) -> float:
    """Return the threshold by the loop over rows that the paper describes."""
    order = np.argsort(scores)
    ranked, right = scores[order], correct[order]
    above_but_wrong, below_but_right = int(np.sum(~correct)), 0
    best, best_gap = -np.inf, above_but_wrong
    for place in range(len(ranked)):
        if right[place]:
            below_but_right += 1
        else:
            above_but_wrong -= 1
        gap = np.abs(above_but_wrong - below_but_right)
        if gap < best_gap:
            best, best_gap = ranked[place], gap
    return float(best)


def looped_atc(source: Array, labels: Array, target: Array) -> float:
    confidence, classes = source.max(axis=1), source.argmax(axis=1)
    cut = looped_threshold(confidence, classes == labels)
    return float((target.max(axis=1) >= cut).mean())


def our_atc(source: Array, labels: Array, target: Array) -> float:
    known = Predictions.from_probs(source, labels=labels)
    return ATC("mc").estimate(known, Predictions.from_probs(target)).value


def peak_over_input(source: Array, labels: Array, target: Array) -> float:
    """Return the peak memory, input included, divided by the size of the input."""
    size = source.nbytes + target.nbytes + labels.nbytes
    tracemalloc.start()
    known, new = Predictions.from_probs(source, labels=labels), Predictions.from_probs(target)
    oodometer.estimate(known, new, seed=SEED)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (size + peak) / size


def section() -> Section:
    source, labels = made(1, 2.2)
    target, _ = made(2, 1.5)
    known = Predictions.from_probs(source, labels=labels)
    scores, errors = known.confidence, int((~known.correct).sum())

    def everything() -> None:
        rows = Predictions.from_probs(source, labels=labels), Predictions.from_probs(target)
        oodometer.estimate(*rows, seed=SEED)

    everything()
    ours, looped = cpu(
        lambda: our_atc(source, labels, target), lambda: looped_atc(source, labels, target)
    )
    search, loop = cpu(
        lambda: threshold_value(scores, errors), lambda: looped_threshold(scores, known.correct)
    )
    bare, whole = cpu(lambda: (target.max(axis=1), np.log(target)), everything)
    memory = peak_over_input(source, labels, target)
    bounds = [
        Bound("ATC-MC from raw arrays: published loop / ours", looped / ours, 10.0),
        Bound("its threshold search only: published loop / ours", loop / search, 100.0),
        Bound("estimate(), 200 replicates, in bare numpy passes", whole / bare, 60.0, least=False),
        Bound("peak memory of estimate() / size of the input", memory, 3.0, least=False),
    ]
    note = (
        "CPU time at 1M × 10 float32 for source and target. A bare pass is `max` over the classes and "
        f"`log` of the array: {bare * 1e3:.0f} ms; ATC-MC took {ours * 1e3:.0f} ms, its threshold "
        f"{search * 1e3:.1f} ms, `estimate()` with all methods {whole:.2f} s."
    )
    return Section("Arrays in memory", bounds, note)
