"""What commands share that run for long: who works, where the files are, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from oodometer.cli._options import console, print_json
from oodometer.cli._runtime import command_line
from oodometer.core.errors import InputError
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner
    from oodometer.studies import StudyRunResult as Studies
    from oodometer.studies.training import PoolRunResult as Pools

# So many reasons are shown; all are in the folder.
MAX_REASONS_SHOWN = 5


def make_runner(workers: int, scheduler: str | None) -> Runner:
    """The runner that was asked for."""
    from oodometer.parallel.runners import distributed, processes, serial

    if workers < 0:
        raise InputError(f"--workers must be 0 or more; got {workers}. Each takes one core.")
    if workers and scheduler is not None:
        raise InputError(
            "Give --workers or --scheduler, not both: the workers of a cluster are started there."
        )
    if scheduler is not None:
        return distributed(scheduler)
    return processes(workers) if workers else serial


def make_optional_runner(workers: int, scheduler: str | None) -> Runner | None:
    """The same for a command that works in this process, with all its threads, if none is asked for."""
    return make_runner(workers, scheduler) if workers or scheduler is not None else None


@contextmanager
def resumable(results: str) -> Iterator[None]:
    """Who interrupts is told how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(
            f"{results} so far are kept; go on with: {command_line()}"
        ) from stop


def show_run_result(result: Pools | Studies, unit: str, as_json: bool) -> None:
    """What a run has done; the exit code is 1 where something failed."""
    if as_json:
        print_json(result.to_dict())
    else:
        console().print(Text(result.summary()))
        show_failures(result.failed, unit)
    if result.failed:
        raise typer.Exit(1)


def show_failures(failures: Mapping[str, str], unit: str) -> None:
    """The most frequent ones, each with one of what failed for it."""
    if not failures:
        return
    of = {reason: name for name, reason in failures.items()}
    counts = Counter(failures.values()).most_common(MAX_REASONS_SHOWN)
    rows = [(str(count), of[reason], reason) for reason, count in counts]
    title = "Failed, to be tried again in the next run"
    console().print(terminal.table(title, (unit, "such as", "reason"), rows))
