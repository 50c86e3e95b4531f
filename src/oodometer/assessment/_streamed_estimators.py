"""Estimators that have read the target already, and the pass in which they do."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from oodometer.assessment.partial_sums import FittedEstimator, PartialResult, ScanPlan
from oodometer.core.errors import OodometerError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimate, StreamingEstimator
from oodometer.core.softmax_kernels import Floats
from oodometer.data._partitions import FilePartition
from oodometer.data.bottom_k import BottomKSample, BottomKSampler
from oodometer.parallel.runners import Runner, serial, threads

# Threads that read at most: each has a batch in memory. More are what workers are for.
MAX_READER_THREADS = 4


@dataclass(frozen=True, eq=False)
class SummarizedEstimator(StreamingEstimator[Any, Any]):
    """An estimator whose sums over the target are known: it looks at no row any more."""

    fitted: FittedEstimator
    total: Any

    @property
    def name(self) -> str:
        """How users call it."""
        return self.fitted.estimator.name

    @property
    def assumes(self) -> str:
        """What must hold for it to be right."""
        return self.fitted.estimator.assumes

    @property
    def needs(self) -> tuple[str, ...]:
        """What it must be given."""
        return self.fitted.estimator.needs

    @property
    def paper(self) -> str:
        """Where it comes from."""
        return self.fitted.estimator.paper

    @property
    def assumes_calibrated(self) -> bool:
        """Whether it takes scores for chances."""
        return self.fitted.estimator.assumes_calibrated

    def learn(self, source: Predictions) -> Any:
        """What was learned before the pass."""
        return self.fitted.learned_state

    def summarize(self, learned: Any, batch: Predictions) -> Any:
        """What was summed in the pass."""
        return self.total

    def finish(self, learned: Any, total: Any) -> Estimate:
        """The estimate."""
        return self.fitted.estimator.finish(learned, total)

    def resample(self, learned: Any, total: Any, rng: np.random.Generator, count: int) -> Floats:
        """Replicates of the estimate."""
        return self.fitted.estimator.resample(learned, total, rng, count)


def scan(
    plan: ScanPlan,
    parts: Sequence[FilePartition],
    runner: Runner,
    report_rows: Callable[[int], None],
) -> PartialResult:
    """The tally of all parts, by whoever works; `report_rows` hears how many rows are done.

    Sums are added in the order of the parts, whoever is first, for the last bits of a sum hang on
    the order. Samples hang on none.
    """
    here = runner is serial
    stopped = threading.Event()
    work = partial(plan, report_rows=_ProgressRelay(report_rows, stopped)) if here else plan
    hands = threads(min(os.cpu_count() or 1, MAX_READER_THREADS)) if here else runner
    sample, labelled = BottomKSampler(plan.sample_size), BottomKSampler(plan.max_labels)
    whole, waiting, following = PartialResult(), {}, 0
    try:
        for part, found in hands(work, parts):
            if isinstance(found, Exception):
                raise found
            if not here:
                report_rows(found.n)
            _merge_sample(sample, found.sample)
            _merge_sample(labelled, found.labelled_sample)
            waiting[part.number] = replace(found, sample=None, labelled_sample=None)
            while following in waiting:
                whole.merge(waiting.pop(following))
                following += 1
    finally:
        stopped.set()
    return replace(whole, sample=sample.sample(), labelled_sample=labelled.sample())


class _ProgressRelay:
    """What threads tell of, one at a time; who tells after the end is stopped."""

    def __init__(self, report_rows: Callable[[int], None], stopped: threading.Event) -> None:
        self._report_rows, self._stopped, self._lock = report_rows, stopped, threading.Lock()

    def __call__(self, rows: int) -> None:
        """So many rows more."""
        if self._stopped.is_set():
            raise OodometerError("The pass was given up.")
        with self._lock:
            self._report_rows(rows)


def _merge_sample(sampler: BottomKSampler, sample: BottomKSample | None) -> None:
    if sample is not None:
        sampler.merge(sample)
