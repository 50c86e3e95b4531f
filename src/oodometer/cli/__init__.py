"""The command line: one short function per command, in the files beside this one.

Exit codes: 0 done, 1 the headline is under --fail-below or some of a pool or a study failed,
2 something is wrong with the input, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, TextIO

import typer

import oodometer
from oodometer.cli import (
    demos,
    domains,
    estimating,
    listing,
    measuring,
    neighborhoods,
    pools,
    studies,
)
from oodometer.errors import OodometerError

INTERRUPTED = 130

app = typer.Typer(
    help="How accurate is a classifier on data that has no labels?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
toy_app = typer.Typer(help="Small worlds in which the truth is known.", no_args_is_help=True)
app.command()(estimating.estimate)
app.command()(neighborhoods.invariance)
app.command()(neighborhoods.rank)
app.command()(neighborhoods.transforms)
app.command()(measuring.measure)
app.command()(measuring.metrics)
app.command()(domains.domains)
app.command()(listing.methods)
app.command()(demos.demo)
toy_app.command()(demos.spurious)
toy_app.command()(demos.hypersphere)
app.add_typer(pools.app, name="pool")
app.add_typer(studies.app, name="study")
app.add_typer(toy_app, name="toy")


def main() -> None:
    """Run a command; our own errors become one line and exit code 2, warnings one line each."""
    warnings.showwarning = _one_line
    try:
        app()
    except OodometerError as error:
        _say(str(error))
        sys.exit(2)
    except OSError as error:
        _say(f"The system refused to read or write: {error}. Is there room, and is it allowed?")
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            _say("Interrupted.")
        raise


def _say(message: str) -> None:
    """One line on the error stream; what a file or a server says can't steer the terminal."""
    line = " ".join(message.split())
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    sys.stderr.write(f"oodometer: {shown}\n")


def _one_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as users read it; the rest of what Python says of one is for developers."""
    _say(f"warning: {message}")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oodometer {oodometer.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which it is.")
    ] = False,
) -> None:
    """How accurate is a classifier on data that has no labels?"""
