"""Commands for pools of models: which there are, training one, and how far it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._options import (
    AsJson,
    DataFolder,
    Limit,
    Scheduler,
    Workers,
    console,
    error_console,
    print_json,
)
from oodometer.cli._runtime import (
    make_runner,
    resumable,
    show_failures,
    show_run_result,
)
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.studies.training.spec import PoolSpec

app = typer.Typer(
    help="Train many models in many ways, to compare measures on.", no_args_is_help=True
)


def _pool_names() -> list[str]:
    """What a shell completes."""
    from oodometer.studies.training.spec import built_in_names

    return list(built_in_names())


PoolSpecName = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="Name of a built-in pool (see pool list), or a TOML file.",
        autocompletion=_pool_names,
    ),
]
ModelsFolder = Annotated[
    Path | None,
    typer.Option("--models-dir", help="Folder of the pool's models. [default: pools/NAME]"),
]


@app.command("list")
def list_pools(as_json: AsJson = False) -> None:
    """List the pools that come with the package.

    Example: oodometer pool list
    """
    from oodometer.studies.training.spec import PoolSpec, built_in_names

    rows = [_describe_pool(PoolSpec.open(name)) for name in built_in_names()]
    if as_json:
        print_json(rows)
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


def _describe_pool(spec: PoolSpec) -> dict[str, Any]:
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
    spec: PoolSpecName,
    models_dir: ModelsFolder = None,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    limit: Limit = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Train the models of SPEC that its folder lacks; killed at any moment, it goes on there.

    Exits with 1 if a model failed; the next run tries it again.

    Example: oodometer pool run toy-mlp --workers 2
    """
    from oodometer.studies.training import run as train
    from oodometer.studies.training.spec import PoolSpec

    runner = make_runner(workers, scheduler)
    opened = PoolSpec.open(spec, data=data_dir)
    with resumable("Trained models"), terminal.progress_bar(error_console()) as progress:
        ran = train(
            opened, _pool_folder(opened, models_dir), runner=runner, limit=limit, progress=progress
        )
    show_run_result(ran, "models", as_json)


@app.command()
def status(
    spec: PoolSpecName,
    models_dir: ModelsFolder = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """How far the pool of SPEC is, by domain and architecture.

    Example: oodometer pool status toy-mlp
    """
    from oodometer.core.format import format_duration
    from oodometer.studies.training import status as standing_of
    from oodometer.studies.training.spec import PoolSpec

    opened = PoolSpec.open(spec, data=data_dir)
    found = standing_of(opened, _pool_folder(opened, models_dir))
    if as_json:
        print_json(found.to_dict())
        return
    counts = ("done", "converged", "failed", "pending")
    rows = [
        (" + ".join(row.domains), row.architecture, *(str(getattr(row, name)) for name in counts))
        for row in found.rows
    ]
    rows.append(("all", "", *(str(found.total(name)) for name in counts)))
    console().print(terminal.table(opened.name, ("domains", "architecture", *counts), rows))
    if found.seconds_left:
        console().print(Text(f"About {format_duration(found.seconds_left)} left for one worker."))
    show_failures(found.failed, "models")


def _pool_folder(spec: PoolSpec, folder: Path | None) -> Path:
    return Path("pools") / spec.name if folder is None else folder
