"""Commands for pools of models: which there are, training one, and how far it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._options import AsJson, console, errors, show_json
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
    from oodometer.studies.training.spec import Spec

app = typer.Typer(help="Many models trained in many ways, to judge by.", no_args_is_help=True)


def _pools() -> list[str]:
    """What a shell completes."""
    from oodometer.studies.training.spec import built_in

    return list(built_in())


Named = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="Its name (pool list), or a TOML file.",
        autocompletion=_pools,
    ),
]
Folder = Annotated[
    Path | None, typer.Option(help="Where its models are. [default: pools/, and the pool's name]")
]


@app.command("list")
def list_pools(as_json: AsJson = False) -> None:
    """List the pools that come with the package.

    Example: oodometer pool list
    """
    from oodometer.studies.training.spec import Spec, built_in

    rows = [_described(Spec.open(name)) for name in built_in()]
    if as_json:
        show_json(rows)
        return
    cells = [
        (
            row["name"],
            str(row["models"]),
            row["group"],
            ", ".join(row["architectures"]),
            row["about"],
        )
        for row in rows
    ]
    heads = ("pool", "models", "group", "architectures", "about")
    console().print(terminal.table("Pools (oodometer pool run)", heads, cells))


def _described(spec: Spec) -> dict[str, Any]:
    recipes = spec.recipes()
    return {
        "name": spec.name,
        "about": spec.about,
        "group": spec.group.name,
        "architectures": list(dict.fromkeys(recipe.architecture for recipe in recipes)),
        "models": len(recipes),
    }


@app.command()
def run(
    spec: Named,
    folder: Folder = None,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    limit: Annotated[int | None, typer.Option(help="Train at most so many models now.")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Train the models of SPEC that its folder lacks; killed at any moment, it goes on there.

    Exits with 1 if a model failed; the next run tries it again.

    Example: oodometer pool run toy-mlp --workers 2
    """
    from oodometer.studies.training import run as train
    from oodometer.studies.training.spec import Spec

    runner = runner_of(workers, scheduler)
    opened = Spec.open(spec, data=data)
    with resumable("Trained models"), terminal.progress_bar(errors()) as progress:
        ran = train(opened, _folder(opened, folder), runner=runner, limit=limit, progress=progress)
    show_end(ran, "models", as_json)


@app.command()
def status(spec: Named, folder: Folder = None, data: Data = None, as_json: AsJson = False) -> None:
    """How far the pool of SPEC is, by domain and architecture.

    Example: oodometer pool status toy-mlp
    """
    from oodometer.core.format import span
    from oodometer.studies.training import status as standing_of
    from oodometer.studies.training.spec import Spec

    opened = Spec.open(spec, data=data)
    found = standing_of(opened, _folder(opened, folder))
    if as_json:
        show_json(found.to_dict())
        return
    counts = ("done", "converged", "failed", "pending")
    rows = [
        (" + ".join(row.domains), row.architecture, *(str(getattr(row, name)) for name in counts))
        for row in found.rows
    ]
    rows.append(("all", "", *(str(found.total(name)) for name in counts)))
    console().print(terminal.table(opened.name, ("domains", "architecture", *counts), rows))
    if found.seconds_left:
        console().print(Text(f"About {span(found.seconds_left)} left for one worker."))
    show_reasons(found.failed, "models")


def _folder(spec: Spec, given: Path | None) -> Path:
    return Path("pools") / spec.name if given is None else given
