"""Command line of oodometer, with one module per command.

Exit codes: 0 on success, 1 if the headline is below --fail-below, a monitor has an alarm, or some
models or evaluations failed, 2 if the command line or the input is invalid, 3 if a monitor cannot
tell, 130 if Ctrl-C was pressed, and 141 if the reader of the output closed the pipe.
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
    cache,
    demo,
    domains,
    estimate,
    evaluate,
    invariance,
    measure,
    methods,
    monitor,
    plan,
    pool,
    predict,
    rank,
    report,
    study,
    toy,
    transforms,
)
from oodometer.cli._messages import with_option_names
from oodometer.core.errors import OodometerError

# Maximum width of the help in wide terminals, because longer lines are hard to read.
MAX_HELP_COLUMNS = 100

app = typer.Typer(
    cls=_runtime.RootGroup,
    help="Estimate the accuracy of a classifier on unlabelled data.",
    epilog=_runtime.HELP_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would treat [default: …] as markup and hide it
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
app.command()(predict.predict)
app.command()(methods.methods)
app.command()(cache.cache)
app.command()(demo.demo)
app.add_typer(monitor.app, name="monitor")
app.add_typer(pool.app, name="pool")
app.add_typer(study.app, name="study")
app.add_typer(toy.app, name="toy")
_runtime.prepare_help(app)


def main() -> None:
    """Run the command line; print an error as one line to standard error and set the exit code."""
    warnings.showwarning = _show_warning
    sys.exit(_run_command())


def _run_command() -> int:
    columns = min(shutil.get_terminal_size().columns, MAX_HELP_COLUMNS)
    try:
        exit_code = app(prog_name="oodometer", standalone_mode=False, terminal_width=columns)
        return int(exit_code or 0)
    except _runtime.CommandStopped as stop:
        return _runtime.stopped_exit_code(stop.__cause__)
    except OodometerError as error:
        _runtime.print_error(with_option_names(str(error), _option_names(app)))
    except _runtime.UsageError as error:
        _show_usage_error(error)
    except OSError as error:
        _runtime.print_error(
            f"Cannot read or write: {error}. Check the free disk space and the permissions."
        )
    return 2


def _option_names(typer_app: typer.Typer) -> set[str]:
    """Return the names of the options of all commands."""
    names: set[str] = set()
    commands: list[Any] = [typer.main.get_command(typer_app)]
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        names |= {name for parameter in command.params for name in parameter.opts}
    return names


def _show_usage_error(error: Any) -> None:
    """Print a usage error as one line; for a group without a command, print the help instead."""
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
    """Print a warning as one line, without file name and line number."""
    _runtime.print_error(f"warning: {with_option_names(str(message))}")


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
    pass
