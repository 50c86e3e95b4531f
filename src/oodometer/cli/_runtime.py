"""How every command begins and ends: quiet if asked, one line if wrong, the right exit code."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from rich.text import Text

from oodometer.cli._options import BROKEN_PIPE_EXIT_CODE, Quiet, console, print_json, quiet_output
from oodometer.core.errors import InputError
from oodometer.report import terminal
from oodometer.report.terminal import printable

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner
    from oodometer.studies import StudyRunResult as Studies
    from oodometer.studies.training import PoolRunResult as Pools

INTERRUPTED_EXIT_CODE = 130
# The epilog of help; \b keeps the lines below it as they are.
HELP_EPILOG = """
\b
Example:
  oodometer demo --html demo.html

\b
Exit codes:
  0    done
  1    under --fail-below, or some of a pool or a study failed
  2    something is wrong with the command or the input
  130  interrupted by Ctrl-C
  141  the reader of the output went away
"""
# What the parser raises; by its heirs, as the class itself has moved between versions of typer.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def prepare_commands(app: typer.Typer) -> None:
    """Give every command --quiet, an example that can be copied, and an end of one line."""
    for info in iter_commands(app):
        if info.callback is not None:
            told = inspect.cleandoc(info.callback.__doc__ or "")
            info.short_help = " ".join(told.split("\n\n")[0].split())
            info.help = re.sub(r"^Example: ", "\b\nExample:\n  ", told, flags=re.MULTILINE)
            info.callback = _with_exit_codes(info.callback)


def iter_commands(app: typer.Typer) -> Iterator[Any]:
    """What is registered, groups within groups too."""
    app.rich_markup_mode = None  # it takes [default: …] for markup, and cuts words
    yield from app.registered_commands
    for group in app.registered_groups:
        if group.typer_instance is not None:
            group.short_help = group.typer_instance.info.help
            yield from iter_commands(group.typer_instance)


def _with_exit_codes(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option more."""

    @functools.wraps(command)
    def ending(*, quiet: bool = False, **given: Any) -> None:
        try:
            with quiet_output(quiet):
                command(**given)
            flush_output()
        except KeyboardInterrupt as stop:
            print_error(
                f"Interrupted. {str(stop) or f'Nothing of it is kept; from the start: {command_line()}'}"
            )
            raise typer.Exit(INTERRUPTED_EXIT_CODE) from stop
        except BrokenPipeError as gone:
            _discard_output()
            raise typer.Exit(BROKEN_PIPE_EXIT_CODE) from gone

    extra = inspect.Parameter(
        "quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet
    )
    known = inspect.signature(command, eval_str=True)
    ending.__signature__ = known.replace(parameters=[*known.parameters.values(), extra])  # type: ignore[attr-defined]
    ending.__annotations__ = get_type_hints(command, include_extras=True) | {"quiet": Quiet}
    return ending


def flush_output() -> None:
    """Write now what is to be written, while a failure can still be told."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _discard_output() -> None:
    """Nobody reads on; without this the interpreter would complain when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command_line() -> str:
    """The command that was given, to give it again."""
    return shlex.join(["oodometer", *sys.argv[1:]])


def print_error(message: str) -> None:
    """One line on the error stream; what a file or a server says can't steer the terminal."""
    if sys.stderr is not None:
        sys.stderr.write(f"oodometer: {printable(' '.join(message.split()))}\n")


def format_usage_error(error: Any) -> str:
    """What is wrong with a command line, what may have been meant, and where to look."""
    context = error.ctx
    place = "oodometer" if context is None else context.command_path
    told = str(getattr(error, "message", "")) if hasattr(error, "option_name") else ""
    told = (told or error.format_message()).rstrip(".")
    if context is not None and hasattr(error, "possibilities"):
        opts = [name for one in context.command.get_params(context) for name in one.opts]
        known = {name.lstrip("-"): name for name in opts}
        near = difflib.get_close_matches(error.option_name.lstrip("-"), known, n=1, cutoff=0.5)
        told += f". Did you mean {known[near[0]]}?" if near else ""
    return f"{told}{'' if told.endswith('?') else '.'} See {place} --help"


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
