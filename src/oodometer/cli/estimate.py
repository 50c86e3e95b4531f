"""The command `estimate`, and what `report` shares with it: files of outputs, assessed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import oodometer
from oodometer.assessment.optional_analyses import Asked, More, more
from oodometer.assessment.result import Assessment
from oodometer.cli._history_option import Past, opened_history
from oodometer.cli._options import (
    AsJson,
    Html,
    Seed,
    console,
    errors,
    note,
    page_can_be_made,
    show_json,
)
from oodometer.cli._provenance import reproduced, written
from oodometer.cli._streaming_options import WHOLE, Reading, Scheduler, Stream, Workers, no_second
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.validation import is_blank
from oodometer.data.prediction_files import Columns, Outputs
from oodometer.report import terminal

Second = Annotated[
    list[Path] | None,
    typer.Option(help="Another model's outputs on the target, trained alike (for gde)."),
]
SecondSource = Annotated[
    list[Path] | None,
    typer.Option(help="The other models' outputs on the source, in the same order (for aline)."),
]
Method = Annotated[list[str] | None, typer.Option(help="Just this method; may be given again.")]
Labels = Annotated[str | None, typer.Option(help="Column of the true classes. [default: label]")]
Probs = Annotated[
    str | None, typer.Option(help="List column, or prefix of columns, of probabilities.")
]
Logits = Annotated[str | None, typer.Option(help="List column, or prefix of columns, of logits.")]
Classes = Annotated[
    str | None, typer.Option(help="Class names in order, between commas, for a list column.")
]
By = Annotated[
    str | None, typer.Option(help="Also an estimate for every value (or day) of this column.")
]
Heat = Annotated[str, typer.Option("--temperature", help="'fit', 'none' or a number.")]
Replicates = Annotated[int, typer.Option(help="Of the bootstrap.")]


def estimate(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Outputs on labelled validation data.")
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Outputs on the new data.")],
    second: Second = None,
    second_source: SecondSource = None,
    history: Past = None,
    metrics: Annotated[
        bool,
        typer.Option("--metrics", help="Also precision, recall, F1, AUROC and average precision."),
    ] = False,
    bound: Annotated[
        bool, typer.Option("--bound", help="Also an accuracy that it should not be under (DIS²).")
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(help="Also a verdict: is at most this fraction of accuracy lost?"),
    ] = None,
    method: Method = None,
    labels: Labels = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    by: By = None,
    temperature: Heat = "fit",
    seed: Seed = 0,
    replicates: Replicates = 200,
    stream: Stream = False,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
    html: Html = None,
    fail_below: Annotated[
        float | None, typer.Option(help="Exit with 1 if the headline is under this fraction.")
    ] = None,
) -> None:
    """Estimate the accuracy on TARGET from the outputs on SOURCE.

    Files are Parquet, CSV, Arrow or .npz, with columns prob_0, prob_1, … (or logit_…, or one list
    column probs or logits, or, of two classes, one column prob or logit) and, in the source, label.
    Where some rows of the target have a label too and others a blank, they are used.

    Either may be a folder or a pattern between quotes. Folders, patterns and files above 1 GB are
    read in pieces: methods whose sums add up see every row, the others a sample, as is told.

    Example: oodometer estimate validation.parquet new_site.parquet --html report.html

    Example: oodometer estimate validation.parquet "scores/*.parquet" --workers 4
    """
    _fraction(fail_below, "--fail-below")
    page_can_be_made(html)
    columns = named_columns(labels, probs, logits, classes)
    others = Others(tuple(second or ()), tuple(second_source or ()), tuple(history or ()))
    files = Files(source, target, others, columns, by)
    reading = Reading(stream, workers, scheduler)
    asked = Asked(metrics, bound, margin)
    settings = Settings(method, temperature, seed, replicates, asked, reading)
    found = assessed(files, settings)
    if as_json:
        beside = {"more": found.more.to_dict()} if settings.asked != Asked() else {}
        show_json({**found.assessment.to_dict(), **beside})
    else:
        terminal.show_assessment(console(), found.assessment)
        terminal.show_more(console(), found.more)
    if html is not None:
        written(page_of(files, found), html)
    if fail_below is not None and found.assessment.headline.estimate.value < fail_below:
        raise typer.Exit(1)


@dataclass(frozen=True)
class Others:
    """Files beside the two: other models' outputs on either side, and past domains."""

    second: tuple[Path, ...] = ()
    second_source: tuple[Path, ...] = ()
    history: tuple[Path, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them."""
        return (*self.second, *self.second_source, *self.history)


@dataclass(frozen=True)
class Files:
    """Which files are assessed, and what their columns are called."""

    source: Path
    target: Path
    others: Others
    columns: Columns
    by: str | None


@dataclass(frozen=True)
class Settings:
    """How they are assessed, as the command has it."""

    methods: list[str] | None
    temperature: str
    seed: int
    replicates: int
    asked: Asked = field(default_factory=Asked)
    reading: Reading = WHOLE


@dataclass(frozen=True, eq=False)
class Assessed:
    """What was found, and of which predictions."""

    assessment: Assessment
    more: More
    source: Predictions
    target: Predictions


def named_columns(
    labels: str | None, probs: str | None, logits: str | None, classes: str | None
) -> Columns:
    """What the user calls things."""
    return Columns(labels, probs, logits, None if classes is None else tuple(classes.split(",")))


def assessed(files: Files, settings: Settings) -> Assessed:
    """Read the files and estimate."""
    in_pieces = settings.reading.in_pieces(files.source, files.target)
    found, source, target = (_in_pieces if in_pieces else _whole)(files, settings)
    asked = settings.asked
    beside = more(asked, source, target, temperature=found.temperature, seed=found.seed)
    if asked != Asked() and target.n < found.n_target:
        told = f"All of this is of a random sample of {target.n:,} rows of the target."
        beside = replace(beside, reasons=(*beside.reasons, told))
    return Assessed(found, beside, source, target)


Read = tuple[Assessment, Predictions, Predictions]


def _whole(files: Files, settings: Settings) -> Read:
    """What was found, and of what rows."""
    source = Outputs.open(files.source).predictions(files.columns, labelled=True)
    opened = Outputs.open(files.target)
    target = opened.predictions(files.columns, labelled=False)
    others = files.others
    with terminal.progress_bar(errors()) as progress:
        found = oodometer.estimate(
            source,
            target,
            second=_peers(others.second, files.columns),
            second_source=_peers(others.second_source, files.columns),
            labelled=_some_labels(opened, files.columns),
            history=opened_history(others.history, files.columns),
            methods=settings.methods,
            temperature=_temperature(settings.temperature),
            by=None if files.by is None else opened.column(files.by),
            seed=settings.seed,
            replicates=settings.replicates,
            progress=progress,
        )
    return found, source, target


def _in_pieces(files: Files, settings: Settings) -> Read:
    """The same of files that are not read whole; of the target, a sample."""
    from oodometer.assessment.streaming import Asked as OfFiles

    no_second((*files.others.second, *files.others.second_source))
    heat = _temperature(settings.temperature)
    asked = OfFiles(settings.methods, heat, files.by, settings.seed, settings.replicates)
    past = opened_history(files.others.history, files.columns)
    found = settings.reading.assessed(files.source, files.target, files.columns, asked, past)
    return found.assessment, found.source, found.sample


def _peers(paths: tuple[Path, ...], columns: Columns) -> list[Predictions] | None:
    return [Outputs.open(path).predictions(columns, labelled=False) for path in paths] or None


def _some_labels(target: Outputs, columns: Columns) -> list[Any] | None:
    """The labels of a target that has some; where every row has one, nothing was left to tell."""
    found = target.some_labels(columns)
    if found is None or any(is_blank(value) for value in found):
        return found
    note(
        f"Every row of {target.path.name} has a label; they are not looked at. "
        f"`oodometer metrics none {target.path.name}` tells the accuracy."
    )
    return None


def page_of(files: Files, found: Assessed) -> str:
    """The report."""
    from oodometer import report

    return report.assessment_page(
        found.assessment,
        found.source,
        found.target,
        more=found.more,
        title=f"{files.target.name}: how accurate without labels?",
        reproduce=reproduced(
            [files.source, files.target, *files.others.paths], seed=found.assessment.seed
        ),
    )


def _fraction(value: float | None, option: str) -> None:
    if value is not None and not 0.0 <= value <= 1.0:
        hint = f" Did you mean {value / 100:g}?" if 1 < value <= 100 else ""
        raise InputError(f"{option} is a fraction from 0 to 1; got {value:g}.{hint}")


def _temperature(text: str) -> Any:
    if text in ("fit", "none"):
        return "fit" if text == "fit" else None
    try:
        return float(text)
    except ValueError as error:
        raise InputError(
            f"--temperature is 'fit', 'none' or a number above 0; got {text!r}."
        ) from error
