"""The command `report`: a page of an assessment, or of a study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._options import AsJson, Seed, console, page_can_be_made, show_json
from oodometer.cli._provenance import page_of_study
from oodometer.cli._run_options import Data
from oodometer.cli.estimate import (
    By,
    Classes,
    Files,
    Heat,
    Labels,
    Logits,
    Method,
    Others,
    Probs,
    Replicates,
    Second,
    Settings,
    assessed,
    named_columns,
    page_of,
)
from oodometer.core.errors import InputError

if TYPE_CHECKING:
    from oodometer.studies.analysis.evaluation_table import Table


def report(
    what: Annotated[
        Path,
        typer.Argument(
            metavar="WHAT",
            help="Outputs on labelled data, with TARGET; or a study: its TOML file, the folder of "
            "its store, or a table of evaluations or accuracies.",
        ),
    ],
    target: Annotated[
        Path | None, typer.Argument(metavar="TARGET", help="Outputs on the new data.")
    ] = None,
    output: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
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
    reference: Annotated[
        str | None,
        typer.Option(help="For a table models × test sets: the set that others are held against."),
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the store of a study is.")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write a page to look at: of outputs on two sets of data, or of a study.

    Two files of outputs are assessed as `estimate` does it. One file or folder is a study.

    Example: oodometer report validation.parquet new_site.parquet --by site

    Example: oodometer report digits.toml --output digits.html
    """
    page_can_be_made(output)
    asked = {"--second": second, "--method": method, "--labels": labels, "--probs": probs,
             "--logits": logits, "--classes": classes, "--by": by}  # fmt: skip
    if target is None:
        _only("one WHAT, a study", asked, "Give a TARGET too, or leave it out.")
        page = _study_page(what, reference, folder, data)
    else:
        of_studies = {"--reference": reference, "--folder": folder, "--data": data}
        _only("outputs on two sets of data", of_studies, "Leave it out.")
        columns = named_columns(labels, probs, logits, classes)
        files = Files(what, target, Others(tuple(second or ())), columns, by)
        page = page_of(files, assessed(files, Settings(method, temperature, seed, replicates)))
    _write(page, output, "study" if target is None else "assessment", as_json)


def _only(given: str, others: Mapping[str, Any], cure: str) -> None:
    """Refuse options that would not be looked at."""
    for name, value in others.items():
        if value:
            raise InputError(f"{name} is not for {given}. {cure}")


def _write(page: str, output: Path, kind: str, as_json: bool) -> None:
    from oodometer.report import write_page

    write_page(page, output)
    size = len(page.encode("utf-8", errors="replace"))
    if as_json:
        show_json({"report": str(output), "kind": kind, "bytes": size})
    else:
        console().print(Text(f"Report of the {kind} written to {output} ({size / 1e6:.1f} MB)"))


def _study_page(what: Path, reference: str | None, folder: Path | None, data: Path | None) -> str:
    from oodometer.cli.study import rows_of
    from oodometer.studies.analysis.evaluation_table import Table

    if what.is_dir() or what.suffix == ".toml":
        _only("a study's own rows", {"--reference": reference}, "Leave it out.")
        table = Table.read(rows_of(str(what), folder, data))
    else:
        _only("a table", {"--folder": folder, "--data": data}, "Leave it out.")
        table = _table(what, reference)
    return page_of_study(table, what)


def _table(path: Path, reference: str | None) -> Table:
    """A table that anyone brings: evaluations, or accuracies of models × test sets."""
    from oodometer.data.prediction_files import Outputs
    from oodometer.studies.analysis._evaluation_columns import NEEDED
    from oodometer.studies.analysis._wide_to_evaluations import held_against
    from oodometer.studies.analysis.evaluation_table import Table
    from oodometer.studies.analysis.wide_table import Wide

    content = Outputs.open(path).content
    columns = content if isinstance(content, dict) else content.column_names
    names = {name.strip().lower() for name in columns}
    if "model" not in names:
        raise InputError(
            f"{path.name} has no column 'model', so it is no table of evaluations. For outputs of "
            "a classifier give two files: on labelled data, and on the new data."
        )
    if reference is None and names & set(NEEDED[1:]):
        return Table.read(path)
    wide = Wide.read(path)
    if reference is None:
        raise InputError(
            f"{path.name} has accuracies on {len(wide.sets)} test sets: say with --reference which "
            f"set others are held against. There are: {', '.join(wide.sets[:12])}."
        )
    return held_against(wide, reference)
