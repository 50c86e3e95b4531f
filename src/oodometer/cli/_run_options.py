"""What commands share that run for long: who works, where the files are, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from oodometer.cli._options import console, show_json
from oodometer.cli._runtime import again
from oodometer.core.errors import InputError
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner
    from oodometer.studies import Ran as Studies
    from oodometer.studies.training import Ran as Pools

# So many reasons are shown; all are in the folder.
SHOWN = 5

Data = Annotated[
    Path | None, typer.Option(help="The folder of the domains' files. [default: $OODOMETER_DATA]")
]
Workers = Annotated[
    int, typer.Option(help="Processes that work, a core each; 0 works in this one.")
]
Scheduler = Annotated[str | None, typer.Option(help="Work on a Dask cluster: tcp://host:8786.")]


def runner_of(workers: int, scheduler: str | None) -> Runner:
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


def runner_beside(workers: int, scheduler: str | None) -> Runner | None:
    """The same for a command that works in this process, with all its threads, if none is asked for."""
    return runner_of(workers, scheduler) if workers or scheduler is not None else None


@contextmanager
def resumable(kept: str) -> Iterator[None]:
    """Who interrupts is told how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"{kept} so far are kept; go on with: {again()}") from stop


def show_end(ran: Pools | Studies, what: str, as_json: bool) -> None:
    """What a run has done; the exit code is 1 where something failed."""
    if as_json:
        show_json(ran.to_dict())
    else:
        console().print(Text(ran.told()))
        show_reasons(ran.failed, what)
    if ran.failed:
        raise typer.Exit(1)


def show_reasons(failed: Mapping[str, str], what: str) -> None:
    """The most frequent ones, each with one of what failed for it."""
    if not failed:
        return
    of = {reason: name for name, reason in failed.items()}
    counts = Counter(failed.values()).most_common(SHOWN)
    rows = [(str(count), of[reason], reason) for reason, count in counts]
    title = "Failed, to be tried again in the next run"
    console().print(terminal.table(title, (what, "such as", "reason"), rows))
