"""The command line: one short function per command.

Exit codes: 0 done, 1 the headline is under --fail-below, 2 something is wrong with the input.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

import oodometer
from oodometer import estimators, screen
from oodometer.assessment import Assessment
from oodometer.errors import InputError, OodometerError
from oodometer.files import Columns, Outputs
from oodometer.predictions import Predictions

app = typer.Typer(
    help="How accurate is a classifier on data that has no labels?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
toy_app = typer.Typer(help="Small worlds in which the truth is known.", no_args_is_help=True)
app.add_typer(toy_app, name="toy")

AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Seed = Annotated[int, typer.Option(help="Of every random choice.")]


def main() -> None:
    """Run a command; our own errors become one line and exit code 2, warnings one line each."""
    warnings.showwarning = _one_line
    try:
        app()
    except OodometerError as error:
        sys.stderr.write(f"oodometer: {' '.join(str(error).split())}\n")
        sys.exit(2)


def _one_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as users read it; the rest of what Python says of one is for developers."""
    sys.stderr.write(f"oodometer: warning: {' '.join(str(message).split())}\n")


def _console() -> Console:
    return Console(highlight=False)


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


@app.command()
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
    html: Annotated[Path | None, typer.Option(help="Write a report to this file.")] = None,
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
    _page_can_be_made(html)
    names = None if classes is None else tuple(classes.split(","))
    columns = Columns(labels, probs, logits, names)
    known = Outputs.open(source).predictions(columns, labelled=True)
    opened = Outputs.open(target)
    new = opened.predictions(columns, labelled=False)
    with screen.progress_bar(Console(stderr=True)) as progress:
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


def _page_can_be_made(html: Path | None) -> None:
    """Refuse what would fail after the work: a missing package, a folder that is not there."""
    if html is not None:
        from oodometer import report

        report.check_available()
        report.check_writable(html)


def _show(found: Assessment, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2, allow_nan=False))
    else:
        screen.show_assessment(_console(), found)


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


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List every method: what it needs, what it assumes, its paper.

    Example: oodometer methods --json
    """
    rows: list[dict[str, Any]] = [
        {
            "name": member.name,
            "family": "estimator",
            "needs": list(getattr(member, "needs", ())),
            "assumes": member.assumes,
            "paper": getattr(member, "paper", ""),
            "streams": bool(getattr(member, "streams", False)),
        }
        for member in estimators.every()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    columns = ("method", "needs", "assumes", "paper")
    cells = [(r["name"], ", ".join(r["needs"]), r["assumes"], r["paper"]) for r in rows]
    _console().print(screen.table("Estimators of accuracy", columns, cells))


@app.command()
def demo(
    html: Annotated[Path | None, typer.Option(help="Write a report to this file.")] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the outputs as Parquet files into this folder.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Estimate accuracy on digits shifted in a dozen ways, beside the truth.

    Example: oodometer demo --html demo.html --save example
    """
    from oodometer import demo as digits
    from oodometer import report

    _page_can_be_made(html)
    with screen.progress_bar(Console(stderr=True)) as progress:
        progress(0, 1, "training")
        suite = digits.digits_suite(seed)
        rows = digits.compare(suite, seed=seed, progress=progress)
    if as_json:
        plain = [
            {
                "name": r.name,
                "truth": r.truth,
                "estimates": [e.to_dict() for e in r.estimates.values()],
            }
            for r in rows
        ]
        typer.echo(json.dumps(plain, indent=2))
    else:
        screen.show_comparison(_console(), rows, float(suite.source.correct.mean()))
    if save is not None:
        written = digits.save(suite, save)
        typer.echo(f"{len(written)} files written to {save}", err=True)
    if html is not None:
        title = "Digits, shifted: estimated against true accuracy"
        report.write_page(report.comparison_page(rows, title=title), html)
        typer.echo(f"Report written to {html}", err=True)


@toy_app.command()
def spurious(
    p_sp: Annotated[
        float, typer.Option(help="How often the feature agrees on the source.")
    ] = 0.995,
    w_inv: Annotated[float, typer.Option(help="Weight of the invariant feature.")] = 4.0,
    w_sp: Annotated[float, typer.Option(help="Weight of the spurious feature.")] = 2.0,
    c: Annotated[
        float | None, typer.Option(help="Support of the target's invariant feature (source: 1).")
    ] = None,
    n: Annotated[int, typer.Option(min=100, help="Rows of source and of each target.")] = 100_000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """A feature that misleads: where ATC is right and the others are not (Garg et al. 2022, §6).

    Example: oodometer toy spurious --c 0.5
    """
    from oodometer.toys import SpuriousToy, spurious_rows

    toy = SpuriousToy(p_sp=p_sp, w_inv=w_inv, w_sp=w_sp)
    with screen.progress_bar(Console(stderr=True)) as progress:
        rows = []
        for row in spurious_rows(toy, n=n, c=c, seed=seed):
            rows.append(row)
            progress(len(rows), 11, f"agreement {row.agreement:.1f}")
    if as_json:
        plain = [
            {"agreement": r.agreement, "truth": r.truth, "estimates": r.estimates} for r in rows
        ]
        typer.echo(json.dumps({"bound": toy.bound(n), "rows": plain}, indent=2))
        return
    screen.show_toy(_console(), toy, rows, n)
