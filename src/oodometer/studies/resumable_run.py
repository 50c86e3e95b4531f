"""Resumable run: execute pending tasks by a runner and store each outcome as it arrives.

Training a pool and evaluating a study are such runs. Only this process writes. Stored outcomes are
never computed again; failures are stored with their reason and tried again by the next run.
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
    """Raise if the maximum number of tasks is below 1."""
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
    """Run `work` on every task and record the outcomes of each task as it ends.

    `failed` returns the outcomes of a task that raised, given the reason in one line. A missing
    package ends the run, because every other task would fail as well.
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
    """Write a finished outcome; if interrupted, write it again before raising the interrupt."""
    try:
        write()
    except KeyboardInterrupt:
        write()
        raise


@dataclass
class RunLog:
    """Counts of a run, reported as progress: `total` units, of which `before` were stored already.

    A run has one stage or several; the remaining time is extrapolated within a stage.
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
        """Start a stage of `n_jobs`; a name for it is shown with its own counts."""
        self.stage = stage
        self.n_jobs = n_jobs
        self.n_jobs_done = 0
        self.stage_started = time.monotonic()
        self.report()

    def advance(self, n_jobs: int) -> None:
        """Count finished jobs of the stage and report the progress."""
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
