"""Commands for studies: running one, how far it is, and the rows that it gave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli import _study_tables
from oodometer.cli._model_and_data_options import TrustPickle
from oodometer.cli._options import AsJson, console, errors, note, show_json
from oodometer.cli._run_options import (
    Data,
    Scheduler,
    Workers,
    resumable,
    runner_of,
    show_end,
    show_reasons,
)
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.studies import Study

# So many rows are shown on the screen, and these columns.
SHOWN = 20
COLUMNS = ("model", "trained_on", "tested_on", "accuracy", "measure", "value", "reason")

app = typer.Typer(help="Which measure tells the truth: models by domains.", no_args_is_help=True)

Named = Annotated[str, typer.Argument(metavar="SPEC", help="A TOML file.")]
Folder = Annotated[
    Path | None, typer.Option(help="Where its store is. [default: studies/, and the study's name]")
]


@app.command()
def run(
    spec: Named,
    folder: Folder = None,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    limit: Annotated[int | None, typer.Option(help="Do at most so many evaluations now.")] = None,
    data: Data = None,
    trust_pickle: TrustPickle = False,
    as_json: AsJson = False,
) -> None:
    """Do what the store of SPEC lacks: every model on every domain; killed, it goes on there.

    Exits with 1 if an evaluation failed; the next run tries it again.

    Example: oodometer study run digits.toml --workers 2
    """
    from oodometer.studies import Study
    from oodometer.studies import run as run_study

    runner = runner_of(workers, scheduler)
    study = Study.open(spec, data=data, trust_pickle=trust_pickle)
    with resumable("Evaluations"), terminal.progress_bar(errors()) as progress:
        ran = run_study(
            study, _folder(study, folder), runner=runner, limit=limit, progress=progress
        )
    show_end(ran, "evaluations", as_json)


@app.command()
def status(spec: Named, folder: Folder = None, data: Data = None, as_json: AsJson = False) -> None:
    """How far the study of SPEC is, by training domains and architecture.

    Example: oodometer study status digits.toml
    """
    from oodometer.studies import Study
    from oodometer.studies import status as standing_of
    from oodometer.studies._run import missing_models

    study = Study.open(spec, data=data)
    found = standing_of(study, _folder(study, folder))
    if as_json:
        show_json(found.to_dict())
        return
    counts = ("models", "done", "failed", "pending")
    rows = [
        (" + ".join(row.trained_on), row.architecture, *(str(getattr(row, n)) for n in counts))
        for row in found.rows
    ]
    rows.append(("all", "", *(str(found.total(name)) for name in counts)))
    console().print(terminal.table(study.name, ("trained on", "architecture", *counts), rows))
    missing = missing_models(found.left_out, found.untrained).strip()
    if missing:
        console().print(Text(missing))
    if found.refused:
        lacking = [(name, str(count)) for name, count in found.refused.items()]
        console().print(terminal.table("No answer", ("measure", "values"), lacking))
    show_reasons(found.failed, "evaluations")


@app.command()
def rows(
    study: Annotated[
        str, typer.Argument(metavar="SPEC|FOLDER", help="A TOML file, or the folder of a store.")
    ],
    output: Annotated[
        Path | None, typer.Option(help="Write all rows to this file: .parquet or .csv.")
    ] = None,
    folder: Folder = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """The rows of a study, one a measure of a model on a domain; a study may run meanwhile.

    Of a SPEC, those that it asks for; of a FOLDER, what was written last.

    Example: oodometer study rows digits.toml --output rows.parquet
    """
    from oodometer.studies.store import Store

    place, keys = asked_of(study, folder, data)
    with Store.open(place) as store:
        if as_json:
            show_json(store.rows(keys).to_pylist())
        elif output is None:
            _show_rows(store.rows(keys))
        if output is None:
            return
        store.export(output, keys)
        note(f"The rows are in {output}.")


def asked_of(study: str, folder: Path | None, data: Path | None) -> tuple[Path, Any]:
    """Where the store is, and which rows of it are meant: of a folder, all."""
    from oodometer.studies import Study
    from oodometer.studies.plan import planned

    if Path(study).is_dir():
        return Path(study), None
    opened = Study.open(study, data=data)
    return _folder(opened, folder), planned(opened).keys()


def _folder(study: Study, given: Path | None) -> Path:
    return Path("studies") / study.name if given is None else given


def _show_rows(table: Any) -> None:
    """The first ones."""
    heads = table.select(list(COLUMNS)).slice(0, SHOWN).to_pylist()
    cells = [[_shown(row[name]) for name in COLUMNS] for row in heads]
    title = f"{len(heads):,} of {table.num_rows:,} rows"
    console().print(terminal.table(title, COLUMNS, cells))
    if len(heads) < table.num_rows:
        console().print(Text("All of them: --output rows.parquet, or rows.csv."))


def _shown(cell: Any) -> str:
    if cell is None:
        return ""
    return terminal.number(cell, ".4g") if isinstance(cell, float) else str(cell)


# After those above: help shows commands in this order.
app.command()(_study_tables.table)
app.command()(_study_tables.judge)
