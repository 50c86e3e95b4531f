"""Estimators that have read the target already, and the pass in which they do."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from oodometer.assessment.partial_sums import Plan, Summing, Tally
from oodometer.core.errors import OodometerError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimate, Staged
from oodometer.core.softmax_kernels import Floats
from oodometer.data._partitions import Part
from oodometer.data.bottom_k import Bottom, Keeper
from oodometer.parallel.runners import Runner, serial, threads

# Threads that read at most: each has a batch in memory. More are what workers are for.
THREADS = 4


@dataclass(frozen=True, eq=False)
class Summed(Staged[Any, Any]):
    """An estimator whose sums over the target are known: it looks at no row any more."""

    of: Summing
    total: Any

    @property
    def name(self) -> str:
        """How users call it."""
        return self.of.member.name

    @property
    def assumes(self) -> str:
        """What must hold for it to be right."""
        return self.of.member.assumes

    @property
    def needs(self) -> tuple[str, ...]:
        """What it must be given."""
        return self.of.member.needs

    @property
    def paper(self) -> str:
        """Where it comes from."""
        return self.of.member.paper

    @property
    def believes_scores(self) -> bool:
        """Whether it takes scores for chances."""
        return self.of.member.believes_scores

    def learn(self, source: Predictions) -> Any:
        """What was learned before the pass."""
        return self.of.learned

    def summarize(self, learned: Any, batch: Predictions) -> Any:
        """What was summed in the pass."""
        return self.total

    def finish(self, learned: Any, total: Any) -> Estimate:
        """The estimate."""
        return self.of.member.finish(learned, total)

    def resample(self, learned: Any, total: Any, rng: np.random.Generator, count: int) -> Floats:
        """Replicates of the estimate."""
        return self.of.member.resample(learned, total, rng, count)


def passed(plan: Plan, parts: Sequence[Part], runner: Runner, tell: Callable[[int], None]) -> Tally:
    """The tally of all parts, by whoever works; `tell` hears how many rows are done.

    Sums are added in the order of the parts, whoever is first, for the last bits of a sum hang on
    the order. Samples hang on none.
    """
    here = runner is serial
    stopped = threading.Event()
    work = partial(plan, tell=_Heard(tell, stopped)) if here else plan
    hands = threads(min(os.cpu_count() or 1, THREADS)) if here else runner
    sample, labelled = Keeper(plan.size), Keeper(plan.labels)
    whole, waiting, following = Tally(), {}, 0
    try:
        for part, found in hands(work, parts):
            if isinstance(found, Exception):
                raise found
            if not here:
                tell(found.n)
            _kept(sample, found.sample)
            _kept(labelled, found.labelled)
            waiting[part.number] = replace(found, sample=None, labelled=None)
            while following in waiting:
                whole.add(waiting.pop(following))
                following += 1
    finally:
        stopped.set()
    return replace(whole, sample=sample.sample(), labelled=labelled.sample())


class _Heard:
    """What threads tell of, one at a time; who tells after the end is stopped."""

    def __init__(self, tell: Callable[[int], None], stopped: threading.Event) -> None:
        self._tell, self._stopped, self._lock = tell, stopped, threading.Lock()

    def __call__(self, rows: int) -> None:
        """So many rows more."""
        if self._stopped.is_set():
            raise OodometerError("The pass was given up.")
        with self._lock:
            self._tell(rows)


def _kept(keeper: Keeper, found: Bottom | None) -> None:
    if found is not None:
        keeper.add(found)
