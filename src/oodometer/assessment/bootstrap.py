"""One estimator with the source it has learned from, and the interval of what it says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from oodometer.assessment import headline
from oodometer.assessment.result import Segment
from oodometer.core.errors import NoAnswer
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimate, Estimator, Progress, Staged
from oodometer.core.softmax_kernels import Floats
from oodometer.core.stats import Z95, stream, wilson

# Third-party estimators without a bootstrap of their own get one by rows, of this many replicates.
SLOW_REPLICATES = 50


@dataclass(frozen=True, eq=False)
class Task:
    """One estimator with the source it has learned from."""

    member: Estimator
    source: Predictions
    temperature: float | None
    seed: int
    replicates: int

    @cached_property
    def learned(self) -> Any:
        """What a staged estimator learned, once for all segments."""
        return self.member.learn(self.source) if isinstance(self.member, Staged) else None

    def run(self, target: Predictions, *path: object) -> Estimate:
        """The estimate with its interval; randomness depends on seed, method and path alone."""
        rng = stream(self.seed, "bootstrap", self.member.name, *path)
        if isinstance(self.member, Staged):
            total = self.member.summarize(self.learned, target)
            found = self.member.finish(self.learned, total)
            drawn = self.member.resample(self.learned, total, rng, self.replicates)
            return self._finished(found, np.quantile(drawn, [0.025, 0.975]))
        found = self.member.estimate(self.source, target)
        values = [
            self.member.estimate(_drawn(self.source, rng), _drawn(target, rng)).value
            for _ in range(min(self.replicates, SLOW_REPLICATES))
        ]
        half = Z95 * float(np.std(values))
        return self._finished(found, np.array([found.value - half, found.value + half]))

    def segment(self, name: str, n: int, rows: Predictions) -> Segment:
        """The estimate of one part of n rows, or why there is none."""
        try:
            return Segment(name, n, self.run(rows, "segment", name))
        except NoAnswer as reason:
            return Segment(name, n, None, str(reason))

    def _finished(self, found: Estimate, ends: Floats) -> Estimate:
        low, high = min(float(ends[0]), found.value), max(float(ends[1]), found.value)
        if getattr(self.member, "believes_scores", False):
            low, high = _widened(found.value, (low, high), _doubt(self.source))
        notes = found.notes
        if "source labels" in getattr(self.member, "needs", ()) and headline.all_alike(self.source):
            # A bootstrap can't draw the error that was not seen; Wilson's interval can.
            share = float(self.source.correct[0])
            wide = wilson(share * self.source.n, self.source.n)
            low, high = low - (share - wide[0]), high + (wide[1] - share)
            lacking = "error" if share else "right answer"
            notes += (f"the source shows no {lacking}; the interval is widened by Wilson's bound",)
        return replace(
            found,
            method=self.member.name,
            assumes=self.member.assumes,
            low=max(low, 0.0),
            high=min(high, 1.0),
            temperature=self.temperature,
            notes=notes,
        )


def _doubt(source: Predictions) -> float:
    """How far mean confidence may be from accuracy on the source for all that its rows can tell.

    A bootstrap of scores alone has no part in it: that they are chances is known from labels.
    """
    off = source.correct - source.confidence
    return Z95 * float(off.std()) / math.sqrt(source.n)


def _widened(value: float, ends: tuple[float, float], doubt: float) -> tuple[float, float]:
    """Ends farther away by a doubt of another kind."""
    low, high = ends
    return value - math.hypot(value - low, doubt), value + math.hypot(high - value, doubt)


def tasks_of(
    members: Sequence[Estimator],
    source: Predictions,
    temperature: float | None,
    *,
    seed: int,
    replicates: int,
) -> dict[str, Task]:
    """Estimators by name, with the source, which is at that temperature."""
    return {m.name: Task(m, source, temperature, seed, replicates) for m in members}


def _drawn(rows: Predictions, rng: np.random.Generator) -> Predictions:
    return rows.rows(rng.integers(rows.n, size=rows.n))


def each(
    tasks: Mapping[str, Task], target: Predictions, progress: Progress | None
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """What all of them say of a target, and why some say nothing."""
    found: dict[str, Estimate] = {}
    refused: dict[str, str] = {}
    for done, (name, task) in enumerate(tasks.items()):
        if progress:
            progress(done, len(tasks), name)
        try:
            found[name] = task.run(target)
        except NoAnswer as reason:
            refused[name] = str(reason)
    return found, refused
