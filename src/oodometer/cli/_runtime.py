"""Terminal output, error messages and exit codes shared by all commands."""

from __future__ import annotations

import difflib
import inspect
import json
import math
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from oodometer.core.errors import InputError
from oodometer.core.protocols import ProgressCallback
from oodometer.report import terminal
from oodometer.report.terminal import printable

if TYPE_CHECKING:
    from oodometer.measures import Measurements
    from oodometer.metrics import Evaluation
    from oodometer.studies import StudyRunResult
    from oodometer.studies.training import PoolRunResult

INTERRUPTED_EXIT_CODE = 130
# Exit code that a shell reports for a program that is ended by SIGPIPE (128 + signal number 13).
BROKEN_PIPE_EXIT_CODE = 141
# Epilog of the help; \b keeps the line breaks of the paragraph after it.
HELP_EPILOG = """
\b
Example:
  oodometer demo --html demo.html

\b
Exit codes:
  0    success
  1    below --fail-below, alarm, or some models or evaluations failed
  2    invalid command line or input
  3    a monitor cannot tell: too few batches or rows
  130  interrupted by Ctrl-C
  141  output pipe closed by its reader
"""
# Maximum number of failure reasons shown for a run. The folder of the run has all of them.
MAX_REASONS_SHOWN = 5
# Base class of the errors of the command-line parser. It is found through a subclass, because the
# module that defines it differs between versions of typer.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


class PipeSafeConsole(Console):
    """Console that raises BrokenPipeError when its reader closes the pipe."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class CommandStopped(Exception):
    """Error for a command that was interrupted or whose output pipe was closed.

    `__cause__` is the KeyboardInterrupt or the BrokenPipeError.
    """


class RootGroup(TyperGroup):
    """Root command that raises interrupts and closed pipes as `CommandStopped`.

    Otherwise typer would handle them, and `main` could not report them.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            flush_output()
        except (KeyboardInterrupt, BrokenPipeError) as error:
            raise CommandStopped from error
        return result


def prepare_help(app: typer.Typer) -> None:
    """Set the help texts of every command from its docstring, with examples on their own lines."""
    for info in iter_commands(app):
        text = inspect.cleandoc(info.callback.__doc__ or "")
        info.short_help = " ".join(text.split("\n\n")[0].split())
        info.help = re.sub(r"^Example:$", "\b\nExample:", text, flags=re.MULTILINE)


def iter_commands(app: typer.Typer) -> Iterator[Any]:
    """Yield every registered command, including the commands of nested groups."""
    yield from app.registered_commands
    for group in app.registered_groups:
        if group.typer_instance is not None:
            group.short_help = group.typer_instance.info.help
            yield from iter_commands(group.typer_instance)


def set_quiet(quiet: bool) -> bool:
    """Turn progress bars and notes off or on."""
    _quiet.set(quiet)
    return quiet


def check_verbosity(verbose: bool, quiet: bool) -> None:
    """Raise if more and fewer details are requested at once."""
    if verbose and quiet:
        raise InputError("Both --verbose and --quiet are given. Give only one of them.")


def console() -> Console:
    """Return the console for results (standard output)."""
    return PipeSafeConsole(highlight=False, no_color=_is_color_disabled())


def error_console() -> Console:
    """Return the console for progress and notes (standard error)."""
    return PipeSafeConsole(
        stderr=True, highlight=False, no_color=_is_color_disabled(), quiet=_quiet.get()
    )


def _is_color_disabled() -> bool | None:
    """Return True if CLICOLOR is 0; otherwise None, so that rich checks NO_COLOR and TERM."""
    return True if os.environ.get("CLICOLOR") == "0" else None


def progress_bar() -> AbstractContextManager[ProgressCallback]:
    """Return a progress bar on standard error."""
    return terminal.progress_bar(error_console())


def print_note(message: str) -> None:
    """Print a note to standard error, such as the path of a written file."""
    error_console().print(Text(printable(message)), soft_wrap=True)


def print_error(message: str) -> None:
    """Print one line to standard error, without control characters."""
    if sys.stderr is not None:
        sys.stderr.write(f"oodometer: {printable(' '.join(message.split()))}\n")


def print_json(result: Any) -> None:
    """Print a result as JSON; NaN and infinity, which JSON does not have, become null."""
    typer.echo(json.dumps(_finite_or_none(result), indent=2, allow_nan=False))


def _finite_or_none(data: Any) -> Any:
    """Return `data` with None for every number that is not finite.

    >>> _finite_or_none({"a": [1.5, float("nan")]})
    {'a': [1.5, None]}
    """
    if isinstance(data, Mapping):
        return {key: _finite_or_none(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite_or_none(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def flush_output() -> None:
    """Flush standard output now, so that a write error can still be reported."""
    if sys.stdout is not None:
        sys.stdout.flush()


def discard_output() -> None:
    """Redirect standard output to the null device, so that the flush at exit succeeds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command_line() -> str:
    """Return the command line of this process, quoted for a shell."""
    return shlex.join(["oodometer", *sys.argv[1:]])


@contextmanager
def resumable(results: str) -> Iterator[None]:
    """Add to the message of an interrupt that `results` are saved, and how to resume."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"{results} are saved. Resume with: {command_line()}") from stop


def stopped_exit_code(cause: BaseException | None) -> int:
    """Return the exit code of a stopped command; report an interrupt, but not a closed pipe."""
    if isinstance(cause, BrokenPipeError):
        discard_output()
        return BROKEN_PIPE_EXIT_CODE
    default = f"No results were saved. Start again with: {command_line()}"
    print_error(f"Interrupted. {str(cause) or default}")
    return INTERRUPTED_EXIT_CODE


def format_usage_error(error: Any) -> str:
    """Return the message of a parser error, with a suggested option and the help command."""
    context = error.ctx
    path = "oodometer" if context is None else context.command_path
    message = str(getattr(error, "message", "")) if hasattr(error, "option_name") else ""
    message = (message or error.format_message()).rstrip(".")
    if context is not None and hasattr(error, "possibilities"):
        parameters = context.command.get_params(context)
        options = {name.lstrip("-"): name for one in parameters for name in one.opts}
        near = difflib.get_close_matches(error.option_name.lstrip("-"), options, n=1, cutoff=0.5)
        message += f". Did you mean {options[near[0]]}?" if near else ""
    return f"{message}{'' if message.endswith('?') else '.'} See {path} --help"


def show_scores(result: Measurements | Evaluation, as_json: bool) -> None:
    """Show measures or metrics; exit with code 2 if none could be computed."""
    from oodometer.report import terminal_measures

    if as_json:
        print_json(result.to_dict())
    else:
        terminal_measures.show_scores(console(), result)
    if not result.scores:
        raise typer.Exit(2)


def show_run_result(result: PoolRunResult | StudyRunResult, unit: str, as_json: bool) -> None:
    """Show the summary of a run; exit with code 1 if some models or evaluations failed."""
    if as_json:
        print_json(result.to_dict())
    else:
        console().print(Text(result.summary()))
        show_failures(result.failed, unit)
    if result.failed:
        raise typer.Exit(1)


def show_failures(failures: Mapping[str, str], unit: str) -> None:
    """Show the most frequent failure reasons, each with its count and one example."""
    if not failures:
        return
    example_of = {reason: name for name, reason in failures.items()}
    counts = Counter(failures.values()).most_common(MAX_REASONS_SHOWN)
    rows = [(str(count), example_of[reason], reason) for reason, count in counts]
    title = "Failed; the next run tries again"
    console().print(terminal.table(title, (unit, "example", "reason"), rows))
