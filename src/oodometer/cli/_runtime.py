"""How every command begins and ends: quiet if asked, one line if wrong, the right exit code."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import typer

from oodometer.cli._options import BROKEN_PIPE_EXIT_CODE, Quiet, quiet_output
from oodometer.report._terminal_layout import printable

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
