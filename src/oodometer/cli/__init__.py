"""The command line: one short function per command, in the files beside this one.

Exit codes: 0 done, 1 the headline is under --fail-below or some of a pool or a study failed,
2 something is wrong with the command or the input, 130 interrupted by Ctrl-C, 141 the reader of
the output went away.
"""

from __future__ import annotations

import shutil
import sys
import warnings
from typing import Annotated, Any, TextIO

import typer

import oodometer
from oodometer.cli import (
    _runtime,
    demo,
    domains,
    estimate,
    evaluate,
    invariance,
    measure,
    methods,
    plan,
    pool,
    rank,
    report,
    study,
    toy,
    transforms,
)
from oodometer.core.errors import OodometerError

# Help is no wider than this, for long lines are hard to read.
MAX_HELP_WIDTH = 100

app = typer.Typer(
    help="How accurate is a classifier on data that has no labels?",
    epilog=_runtime.HELP_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
toy_app = typer.Typer(
    help="Run synthetic problems whose true accuracy is known.", no_args_is_help=True
)
app.command()(estimate.estimate)
app.command()(plan.plan)
app.command()(report.report)
app.command()(invariance.invariance)
app.command()(rank.rank)
app.command()(transforms.transforms)
app.command()(measure.measure)
app.command()(evaluate.evaluate)
app.command()(domains.domains)
app.command()(methods.methods)
app.command()(demo.demo)
toy_app.command()(toy.spurious)
toy_app.command()(toy.hypersphere)
app.add_typer(pool.app, name="pool")
app.add_typer(study.app, name="study")
app.add_typer(toy_app, name="toy")
_runtime.prepare_commands(app)


def main() -> None:
    """Run a command; our own errors become one line and exit code 2, warnings one line each."""
    warnings.showwarning = _show_warning
    try:
        sys.exit(_run_app() or 0)
    except OodometerError as error:
        _runtime.print_error(str(error))
    except _runtime.UsageError as error:
        _show_usage_error(error)
    except OSError as error:
        _runtime.print_error(
            f"The system refused to read or write: {error}. Is there room, and is it allowed?"
        )
    sys.exit(2)


def _run_app() -> Any:
    """What it ends with: an exit code, or nothing."""
    width = min(shutil.get_terminal_size().columns, MAX_HELP_WIDTH)
    return app(prog_name="oodometer", standalone_mode=False, terminal_width=width)


def _show_usage_error(error: Any) -> None:
    """One line; but a command that was given nothing shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        _runtime.print_error(_runtime.format_usage_error(error))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as users read it; the rest of what Python says of one is for developers."""
    _runtime.print_error(f"warning: {message}")


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"oodometer {oodometer.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """How accurate is a classifier on data that has no labels?"""
