"""The `oodometer pool` commands: list, train and check pools of models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._options import (
    AsJson,
    CacheFolder,
    DataFolder,
    Limit,
    OutputPath,
    Quiet,
    WorkerOptions,
    with_option_groups,
)
from oodometer.cli._runtime import (
    console,
    print_json,
    print_note,
    progress_bar,
    resumable,
    show_failures,
    show_run_result,
)
from oodometer.core.errors import InputError
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.studies.training.spec import PoolSpec

# Maximum number of architectures of a pool in the table of pools.
MAX_LISTED_ARCHITECTURES = 3

app = typer.Typer(
    help="Train pools: sets of models with varied settings, on which measures are compared.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _pool_names() -> list[str]:
    """Return the names of built-in pools for shell completion."""
    from oodometer.studies.training.spec import built_in_names

    return list(built_in_names())


PoolSpecName = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="Name of a built-in pool (see oodometer pool list), or path of a TOML file.",
        autocompletion=_pool_names,
    ),
]
ModelsFolder = Annotated[
    Path | None,
    typer.Option("--models-dir", help="Folder of the trained models. [default: pools/NAME]"),
]


@app.command("list")
def list_pools(as_json: AsJson = False, quiet: Quiet = False) -> None:
    """List the built-in pools.

    Example:
      oodometer pool list
    """
    from oodometer.studies.training.spec import PoolSpec, built_in_names

    pools = [_describe_pool(PoolSpec.open(name)) for name in built_in_names()]
    if as_json:
        print_json(pools)
        return
    rows = [
        (
            pool["name"],
            str(pool["models"]),
            pool["group"],
            _shorten(pool["architectures"]),
            pool["about"],
        )
        for pool in pools
    ]
    heads = ("pool", "models", "group", "architectures", "description")
    console().print(terminal.table("Pools (oodometer pool run)", heads, rows))


def _shorten(names: list[str]) -> str:
    """Join the names; if there are too many for a table, only the first ones and their number.

    >>> _shorten(["a", "b"])
    'a, b'
    """
    if len(names) <= MAX_LISTED_ARCHITECTURES:
        return ", ".join(names)
    shown = ", ".join(names[: MAX_LISTED_ARCHITECTURES - 1])
    return f"{shown} and {len(names) - MAX_LISTED_ARCHITECTURES + 1} more"


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Name of a built-in pool.", autocompletion=_pool_names),
    ],
    output: OutputPath = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the TOML file of a built-in pool, or copy it in order to change it.

    The comments in the file say which files the pool needs, and which values its paper does not
    state. To train the networks on another domain group, copy the file with --output, which must be
    a new .toml file, and change its key group.

    Example:
      oodometer pool show ao-pacs --output ao-vlcs.toml
    """
    from oodometer.data.atomic import atomic_write
    from oodometer.studies.training.spec import built_in_path

    content = built_in_path(name).read_text(encoding="utf-8")
    if output is not None:
        if output.suffix != ".toml" or output.exists():
            raise InputError(
                f"--output of pool show must be a new .toml file; got {str(output)!r}."
            )
        with atomic_write(output) as path:
            path.write_text(content, encoding="utf-8")
        print_note(f"Pool {name} written to {output}")
    if as_json:
        print_json({"name": name, "toml": content, "output": output and str(output)})
    elif output is None:
        typer.echo(content, nl=False)


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
@with_option_groups
def run(
    spec: PoolSpecName,
    *,
    models_dir: ModelsFolder = None,
    worker_options: WorkerOptions,
    limit: Limit = None,
    data_dir: DataFolder = None,
    cache_dir: CacheFolder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train the models of SPEC that have not been trained yet.

    Pretrained networks that are only evaluated are registered; those without weights are listed.

    An interrupted run can be resumed with the same command. The exit code is 1 if the training of a
    model failed; the next run tries it again.

    Example:
      oodometer pool run toy-mlp --workers 2
    """
    from oodometer.studies.training import run as train
    from oodometer.studies.training.spec import PoolSpec

    runner = worker_options.runner()
    pool = PoolSpec.open(spec, data=data_dir)
    folder = _pool_folder(pool, models_dir)
    with resumable("Trained models"), progress_bar() as progress:
        result = train(pool, folder, runner=runner, limit=limit, progress=progress)
    show_run_result(result, "models", as_json)


@app.command()
def status(
    spec: PoolSpecName,
    models_dir: ModelsFolder = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show how many models of the pool SPEC are trained, by domain and architecture.

    Example:
      oodometer pool status toy-mlp
    """
    from oodometer.core.format import format_duration
    from oodometer.studies.training import status as pool_status
    from oodometer.studies.training._run import describe_missing
    from oodometer.studies.training.spec import PoolSpec

    pool = PoolSpec.open(spec, data=data_dir)
    result = pool_status(pool, _pool_folder(pool, models_dir))
    if as_json:
        print_json(result.to_dict())
        return
    counts = ("done", "converged", "failed", "pending")
    rows = [
        (" + ".join(row.domains), row.architecture, *(str(getattr(row, name)) for name in counts))
        for row in result.rows
    ]
    rows.append(("all", "", *(str(result.total(name)) for name in counts)))
    console().print(terminal.table(pool.name, ("domains", "architecture", *counts), rows))
    if result.missing:
        console().print(Text(describe_missing(result.missing).strip()))
    if result.seconds_left:
        duration = format_duration(result.seconds_left)
        console().print(Text(f"About {duration} left with one worker."))
    show_failures(result.failed, "models")


def _pool_folder(spec: PoolSpec, folder: Path | None) -> Path:
    return Path("pools") / spec.name if folder is None else folder
