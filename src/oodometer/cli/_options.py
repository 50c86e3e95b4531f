"""Options that several commands share, the console, and checks made before the work."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from oodometer.core.errors import InputError
from oodometer.report._terminal_layout import printable

# What a shell gives for a program that a closed pipe has ended: 128 and the signal's number.
BROKEN_PIPE_EXIT_CODE = 141

# One option has one meaning and one help text in all commands.
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no notes.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
HTML_HELP = "Path of the HTML report to write."
HtmlPath = Annotated[Path | None, typer.Option(help=HTML_HELP)]
OutputPath = Annotated[
    Path | None,
    typer.Option(help="File to write the result to; its extension selects the format."),
]
MethodNames = Annotated[
    list[str] | None,
    typer.Option(help="Estimator, by name; repeat, or separate by commas. [default: all]"),
]
MeasureNames = Annotated[
    list[str] | None,
    typer.Option(
        "--measure", "-m", help="Measure, by name; repeat, or separate by commas. [default: all]"
    ),
]
MetricNames = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        help="Metric, by name, or all; repeat, or separate by commas. "
        "[default: all; of estimate, none]",
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(help="Column (or .npz array) of the true classes; of predictions usually label."),
]
ProbColumns = Annotated[
    str | None, typer.Option(help="List column, or prefix of columns, of probabilities.")
]
LogitColumns = Annotated[
    str | None, typer.Option(help="List column, or prefix of columns, of logits.")
]
ClassNamesText = Annotated[
    str | None, typer.Option("--class-names", help="Class names in order, separated by commas.")
]
SegmentColumn = Annotated[
    str | None, typer.Option(help="Column whose every value (or day) gets an estimate of its own.")
]
Temperature = Annotated[
    str, typer.Option(help="Temperature of the softmax: 'fit', 'none' or a number.")
]
Replicates = Annotated[int, typer.Option(help="Number of bootstrap replicates.")]
OtherModelPaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--other-model",
        help="Predictions of another model on the target, trained alike (for gde); repeatable.",
    ),
]
ReferenceDomain = Annotated[
    str | None,
    typer.Option(
        help="Test set that the others are compared with, for a table of accuracies (models × sets)."
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder of the domains' files. [default: $OODOMETER_DATA]"),
]
StoreFolder = Annotated[
    Path | None,
    typer.Option("--store-dir", help="Folder of the study's store. [default: studies/NAME]"),
]
SOURCE_DATA_HELP = "Labelled dataset of the source; measure takes several, one per source domain."
Limit = Annotated[
    int | None,
    typer.Option(help="Maximum number of models or evaluations to compute in this run."),
]
Workers = Annotated[
    int, typer.Option(help="Number of worker processes, one core each; 0: this process.")
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler to work on: tcp://host:8786.")
]

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


class PipeSafeConsole(Console):
    """A console with which a closed pipe is no failure of ours, as with any program."""

    def on_broken_pipe(self) -> None:
        """Go without a word."""
        raise BrokenPipeError


def console() -> Console:
    """Where tables go."""
    return PipeSafeConsole(highlight=False, no_color=_is_color_disabled())


def error_console() -> Console:
    """Where progress and notes go."""
    return PipeSafeConsole(
        stderr=True, highlight=False, no_color=_is_color_disabled(), quiet=_quiet.get()
    )


def _is_color_disabled() -> bool | None:
    """Whether CLICOLOR forbids colour; rich itself heeds NO_COLOR and TERM."""
    return True if os.environ.get("CLICOLOR") == "0" else None


def split_names(names: Sequence[str] | None) -> list[str] | None:
    """Return the names of a repeatable option whose values may be separated by commas.

    >>> split_names(["ac, doc", "atc-mc"]), split_names(None)
    (['ac', 'doc', 'atc-mc'], None)
    """
    if names is None:
        return None
    return [part.strip() for name in names for part in name.split(",") if part.strip()]


@contextmanager
def quiet_output(enabled: bool) -> Iterator[None]:
    """Neither progress nor notes, if wanted."""
    before = _quiet.set(enabled)
    try:
        yield
    finally:
        _quiet.reset(before)


def print_note(message: str) -> None:
    """A line beside the result: where a file is."""
    error_console().print(Text(printable(message)), soft_wrap=True)


def print_json(result: Any) -> None:
    """A result for machines; what is no number is null, for JSON has no other word for it."""
    typer.echo(json.dumps(_json_safe(result), indent=2, allow_nan=False))


def _json_safe(data: Any) -> Any:
    """Without numbers that JSON lacks.

    >>> _json_safe({"a": [1.5, float("nan")]})
    {'a': [1.5, None]}
    """
    if isinstance(data, Mapping):
        return {key: _json_safe(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_json_safe(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def check_report_path(html: Path | None) -> None:
    """Refuse what would fail after the work, or destroy: a file that is no page is not replaced."""
    if html is not None:
        from oodometer import report

        report.check_available()
        report.check_writable(html)
        if html.exists() and not _is_report_page(html):
            raise InputError(
                f"{html} is there already and is no page. Give another name, such as "
                f"{html.with_suffix('.html').name}, or remove it first."
            )


def _is_report_page(path: Path) -> bool:
    """Whether it begins as our pages do, or is empty."""
    with path.open("rb") as stream:
        start = stream.read(64).lstrip().lower()
    return not start or start.startswith(b"<!doctype html")
