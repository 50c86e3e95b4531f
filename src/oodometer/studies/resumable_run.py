"""Resumable runs: execute pending tasks with a runner and store each outcome when it arrives.

Training a pool and evaluating a study are resumable runs. Workers only compute; the process that
started the run writes all outcomes. A stored outcome is never computed again. A failure is stored
with its reason, and the next run tries the failed task again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeVar

from oodometer.core.errors import MissingExtra, format_error, out_of_range
from oodometer.core.format import format_duration
from oodometer.core.protocols import ProgressCallback
from oodometer.parallel.runners import Runner

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def check_limit(limit: int | None) -> None:
    """Raise if `limit`, the maximum number of models or evaluations to compute, is below 1."""
    if limit is not None and limit < 1:
        raise out_of_range("limit", limit, low=1)


def run_tasks(
    runner: Runner,
    work: Callable[[Task], list[Outcome]],
    tasks: Sequence[Task],
    *,
    failed: Callable[[Task, str], list[Outcome]],
    record: Callable[[list[Outcome]], None],
) -> None:
    """Run `work` on every task, and pass the outcomes of each finished task to `record`.

    If a task raises an exception, its outcomes are the result of `failed(task, reason)`, where
    `reason` is the error message in one line. A missing package ends the whole run, because every
    other task would fail for the same reason.
    """
    if not tasks:
        return
    with closing(runner(work, tasks)) as results:
        for task, result in results:
            if isinstance(result, MissingExtra):
                raise result
            if isinstance(result, Exception):
                record(failed(task, format_error(result)))
            else:
                record(result)


def write_despite_interrupt(write: Callable[[], object]) -> None:
    """Write a finished outcome; after a keyboard interrupt, write it again and then re-raise."""
    try:
        write()
    except KeyboardInterrupt:
        write()
        raise


@dataclass
class RunLog:
    """Counters of a run, which are reported to the progress callback.

    A run computes `total` units (models or evaluations), of which `before` were already stored when
    the run started. A run has one or more stages. The remaining time is extrapolated from the
    duration of the jobs that are finished in the current stage.
    """

    unit: str
    total: int
    before: int
    progress: ProgressCallback | None
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    stage: str = ""
    n_jobs: int = 0
    n_jobs_done: int = 0
    started: float = field(default_factory=time.monotonic)
    stage_started: float = 0.0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def start_stage(self, n_jobs: int, stage: str = "") -> None:
        """Start a stage of `n_jobs` jobs; if the stage has a name, its counts are shown as well."""
        self.stage = stage
        self.n_jobs = n_jobs
        self.n_jobs_done = 0
        self.stage_started = time.monotonic()
        self.report()

    def advance(self, n_jobs: int) -> None:
        """Add `n_jobs` to the finished jobs of the stage and report the progress."""
        self.n_jobs_done += n_jobs
        self.report()

    def report(self) -> None:
        """Call the progress callback with the counts and the estimated remaining time."""
        if self.progress is None:
            return
        parts = [f"{self.before + self.done} of {self.total} {self.unit}"]
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        if self.stage:
            parts.append(f"{self.stage}: {self.n_jobs_done} of {self.n_jobs}")
        n_left = self.n_jobs - self.n_jobs_done
        if self.n_jobs_done and n_left:
            seconds_per_job = (time.monotonic() - self.stage_started) / self.n_jobs_done
            parts.append(f"about {format_duration(n_left * seconds_per_job)} left")
        self.progress(self.n_jobs_done, self.n_jobs, ", ".join(parts))
