"""The `oodometer measure` command, which computes measures that need no target labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from oodometer.cli._options import (
    MODEL_OR_NONE_HELP,
    NO_MODEL,
    SOURCE_DATA_HELP,
    TARGET_DATA_HELP,
    AsJson,
    DatasetFileOptions,
    LabelColumn,
    MeasureNames,
    ModelOptions,
    Quiet,
    Seed,
    WorkerOptions,
    one_or_several,
    read_outputs,
    split_members,
    with_option_groups,
)
from oodometer.cli._runtime import progress_bar, show_scores
from oodometer.core.errors import InputError


@with_option_groups
def measure(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_OR_NONE_HELP)],
    *,
    source_data: Annotated[list[str], typer.Option(help=SOURCE_DATA_HELP)],
    target_data: Annotated[str, typer.Option(help=TARGET_DATA_HELP)],
    measure: MeasureNames = None,
    training_data: Annotated[
        list[str] | None,
        typer.Option(help="Dataset that the model was trained on; repeat for several domains."),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            help="Layer whose outputs are the features. [default: input of the last linear layer]"
        ),
    ] = None,
    subsamples: Annotated[
        int,
        typer.Option(
            help="Number of random subsamples of 80 % of the rows, from which the noise of each "
            "measure is estimated."
        ),
    ] = 0,
    label_column: LabelColumn = None,
    data_options: DatasetFileOptions,
    model_options: ModelOptions,
    seed: Seed = 0,
    worker_options: WorkerOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compute measures of MODEL that may predict its error on the target, without target labels.

    Example:
      oodometer measure my:net --source-data a.npz --target-data b.npz
    """
    from oodometer.measures import measure as compute_measures

    runner = worker_options.optional_runner()

    def open_data(location: str, *, labelled: bool = True) -> Any:
        if model == NO_MODEL:
            return read_outputs(
                Path(location),
                label_column=label_column,
                class_names=model_options.class_names,
                labelled=labelled,
            )
        try:
            return data_options.open(location, label_column)
        except InputError:
            # The target may have no label column. If it has one, the column is not an input.
            if labelled or label_column is None:
                raise
            return data_options.open(location)

    network = None if model == NO_MODEL else model_options.open(model)
    with progress_bar() as progress:
        result = compute_measures(
            network,
            _open_domains(source_data, open_data),
            open_data(target_data, labelled=False),
            measures=one_or_several(split_members(measure)),
            training_data=_open_domains(training_data or [], open_data),
            layer=layer,
            subsamples=subsamples,
            seed=seed,
            runner=runner,
            progress=progress,
        )
    if model == NO_MODEL:  # predictions have no name, so the names of the files are used
        source_name = " + ".join(Path(location).stem for location in source_data)
        result = replace(result, source=source_name, target=Path(target_data).stem)
    show_scores(result, as_json)


def _open_domains(locations: Sequence[str], open_data: Callable[[str], Any]) -> Any:
    """Return the dataset of a single location, or several datasets by name."""
    if len(locations) < 2:
        return open_data(locations[0]) if locations else None
    names = [Path(location).stem for location in locations]
    if len(set(names)) < len(names):
        names = list(locations)
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InputError(f"{repeated[0]!r} is given more than once. Give each domain once.")
    return {name: open_data(location) for name, location in zip(names, locations, strict=True)}
