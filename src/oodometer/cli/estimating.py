"""Commands on files of outputs: estimate, and the list of methods."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import oodometer
from oodometer import screen
from oodometer.assessment import Assessment
from oodometer.cli.options import AsJson, Html, Seed, console, errors, page_can_be_made
from oodometer.errors import InputError
from oodometer.files import Columns, Outputs
from oodometer.predictions import Predictions


def estimate(
    source: Annotated[Path, typer.Argument(help="Outputs on labelled validation data.")],
    target: Annotated[Path, typer.Argument(help="Outputs on the new data.")],
    second: Annotated[
        list[Path] | None,
        typer.Option(help="Another model's outputs on the target, trained alike (for gde)."),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Just this method; may be given again.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Column of the true classes. [default: label]")
    ] = None,
    probs: Annotated[
        str | None, typer.Option(help="List column, or prefix of columns, of probabilities.")
    ] = None,
    logits: Annotated[
        str | None, typer.Option(help="List column, or prefix of columns, of logits.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="Class names in order, between commas, for a list column.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Also an estimate for every value (or day) of this column.")
    ] = None,
    temperature: Annotated[str, typer.Option(help="'fit', 'none' or a number.")] = "fit",
    seed: Seed = 0,
    replicates: Annotated[int, typer.Option(help="Of the bootstrap.")] = 200,
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
    names = None if classes is None else tuple(classes.split(","))
    columns = Columns(labels, probs, logits, names)
    known = Outputs.open(source).predictions(columns, labelled=True)
    opened = Outputs.open(target)
    new = opened.predictions(columns, labelled=False)
    with screen.progress_bar(errors()) as progress:
        found = oodometer.estimate(
            known,
            new,
            second=[Outputs.open(p).predictions(columns, labelled=False) for p in second or []]
            or None,
            methods=method,
            temperature=_temperature(temperature),
            by=None if by is None else opened.column(by),
            seed=seed,
            replicates=replicates,
            progress=progress,
        )
    _show(found, as_json)
    if html is not None:
        _write_report(found, known, new, [source, target, *(second or [])], html)
    if fail_below is not None and found.headline.estimate.value < fail_below:
        raise typer.Exit(1)


def _show(found: Assessment, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2, allow_nan=False))
    else:
        screen.show_assessment(console(), found)


def _write_report(
    found: Assessment, source: Predictions, target: Predictions, files: list[Path], html: Path
) -> None:
    from oodometer import report

    facts = {
        "Command": " ".join(["oodometer", *sys.argv[1:]]),
        "Versions": f"oodometer {oodometer.__version__}, Python {platform.python_version()}",
        "Seed": str(found.seed),
    }
    facts |= {f"SHA-256 of {path.name}": _fingerprint(path) for path in files}
    title = f"{files[1].name}: how accurate without labels?"
    page = report.assessment_page(found, source, target, title=title, reproduce=facts)
    report.write_page(page, html)
    typer.echo(f"Report written to {html}", err=True)


def _fingerprint(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


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
