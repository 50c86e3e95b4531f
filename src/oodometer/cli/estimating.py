"""The command `estimate`, and what `report` shares with it: files of outputs, assessed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import oodometer
from oodometer import screen
from oodometer.assessment import Assessment
from oodometer.cli.options import AsJson, Html, Seed, console, errors, page_can_be_made, show_json
from oodometer.cli.pages import reproduced, written
from oodometer.errors import InputError
from oodometer.files import Columns, Outputs
from oodometer.predictions import Predictions

Second = Annotated[
    list[Path] | None,
    typer.Option(help="Another model's outputs on the target, trained alike (for gde)."),
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
    method: Method = None,
    labels: Labels = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    by: By = None,
    temperature: Heat = "fit",
    seed: Seed = 0,
    replicates: Replicates = 200,
    as_json: AsJson = False,
    html: Html = None,
    fail_below: Annotated[
        float | None, typer.Option(help="Exit with 1 if the headline is under this fraction.")
    ] = None,
) -> None:
    """Estimate the accuracy on TARGET from the outputs on SOURCE.

    Files are Parquet, CSV, Arrow or .npz, with columns prob_0, prob_1, … (or logit_…, or one list
    column probs or logits, or, of two classes, one column prob or logit) and, in the source, label.

    Example: oodometer estimate validation.parquet new_site.parquet --html report.html
    """
    _fraction(fail_below, "--fail-below")
    page_can_be_made(html)
    columns = named_columns(labels, probs, logits, classes)
    files = Files(source, target, tuple(second or ()), columns, by)
    found = assessed(files, Settings(method, temperature, seed, replicates))
    if as_json:
        show_json(found.assessment.to_dict())
    else:
        screen.show_assessment(console(), found.assessment)
    if html is not None:
        written(page_of(files, found), html)
    if fail_below is not None and found.assessment.headline.estimate.value < fail_below:
        raise typer.Exit(1)


@dataclass(frozen=True)
class Files:
    """Which files are assessed, and what their columns are called."""

    source: Path
    target: Path
    second: tuple[Path, ...]
    columns: Columns
    by: str | None


@dataclass(frozen=True)
class Settings:
    """How they are assessed, as the command has it."""

    methods: list[str] | None
    temperature: str
    seed: int
    replicates: int


@dataclass(frozen=True, eq=False)
class Assessed:
    """What was found, and of which predictions."""

    assessment: Assessment
    source: Predictions
    target: Predictions


def named_columns(
    labels: str | None, probs: str | None, logits: str | None, classes: str | None
) -> Columns:
    """What the user calls things."""
    return Columns(labels, probs, logits, None if classes is None else tuple(classes.split(",")))


def assessed(files: Files, settings: Settings) -> Assessed:
    """Read the files and estimate."""
    source = Outputs.open(files.source).predictions(files.columns, labelled=True)
    opened = Outputs.open(files.target)
    target = opened.predictions(files.columns, labelled=False)
    peers = [Outputs.open(p).predictions(files.columns, labelled=False) for p in files.second]
    with screen.progress_bar(errors()) as progress:
        found = oodometer.estimate(
            source,
            target,
            second=peers or None,
            methods=settings.methods,
            temperature=_temperature(settings.temperature),
            by=None if files.by is None else opened.column(files.by),
            seed=settings.seed,
            replicates=settings.replicates,
            progress=progress,
        )
    return Assessed(found, source, target)


def page_of(files: Files, found: Assessed) -> str:
    """The report."""
    from oodometer import report

    return report.assessment_page(
        found.assessment,
        found.source,
        found.target,
        title=f"{files.target.name}: how accurate without labels?",
        reproduce=reproduced(
            [files.source, files.target, *files.second], seed=found.assessment.seed
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
