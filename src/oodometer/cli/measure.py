"""The `oodometer measure` command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from oodometer.cli._options import (
    DATA_HELP,
    SOURCE_DATA_HELP,
    AsJson,
    ClassNamesText,
    ImageSize,
    InputColumns,
    LabelColumn,
    MeasureNames,
    OutputTypeOption,
    PixelMean,
    PixelStd,
    RequestTimeout,
    Scheduler,
    Seed,
    SkipUnreadable,
    TextColumns,
    TrustPickle,
    Workers,
    error_console,
    open_dataset,
    open_model,
    split_names,
)
from oodometer.cli._runtime import make_optional_runner
from oodometer.cli._scores import (
    MODEL_OR_NONE_HELP,
    NO_MODEL,
    one_or_several,
    read_outputs,
    show_scores,
)
from oodometer.core.errors import InputError
from oodometer.report import terminal


def measure(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_OR_NONE_HELP)],
    source_data: Annotated[list[str], typer.Option(help=SOURCE_DATA_HELP)],
    target_data: Annotated[str, typer.Option(help=f"Unlabelled dataset. {DATA_HELP}")],
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
        int, typer.Option(help="Number of random 80 % subsamples, to estimate a measure's noise.")
    ] = 0,
    label_column: LabelColumn = None,
    text: TextColumns = None,
    inputs: InputColumns = None,
    size: ImageSize = None,
    skip_bad: SkipUnreadable = False,
    class_names: ClassNamesText = None,
    outputs: OutputTypeOption = None,
    mean: PixelMean = None,
    std: PixelStd = None,
    timeout: RequestTimeout = None,
    trust_pickle: TrustPickle = False,
    seed: Seed = 0,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Compute measures of MODEL that may predict its error on the target, without its labels.

    Example: oodometer measure my:net --source-data a.npz --target-data b.npz
    """
    from oodometer.measures import measure as run_measures

    runner = make_optional_runner(workers, scheduler)

    def opened(thing: str, *, labelled: bool = True) -> Any:
        if model == NO_MODEL:
            return read_outputs(Path(thing), label_column, class_names, labelled=labelled)
        try:
            return open_dataset(thing, label_column, text, inputs, size, skip_bad)
        except InputError:
            # Where the target has the column of labels, it must not be taken for an input.
            if labelled or label_column is None:
                raise
            return open_dataset(thing, None, text, inputs, size, skip_bad)

    network = (
        None
        if model == NO_MODEL
        else open_model(model, class_names, outputs, trust_pickle, (mean, std), timeout)
    )
    with terminal.progress_bar(error_console()) as progress:
        found = run_measures(
            network,
            _open_domains(source_data, opened),
            opened(target_data, labelled=False),
            measures=one_or_several(split_names(measure)),
            training_data=_open_domains(training_data or [], opened),
            layer=layer,
            subsamples=subsamples,
            seed=seed,
            runner=runner,
            progress=progress,
        )
    if model == NO_MODEL:  # arrays have no names, but files do
        names = " + ".join(Path(thing).stem for thing in source_data)
        found = replace(found, source=names, target=Path(target_data).stem)
    show_scores(found, as_json)


def _open_domains(paths: Sequence[str], open_data: Any) -> Any:
    """One dataset, or several by their names."""
    if len(paths) < 2:
        return open_data(paths[0]) if paths else None
    names = [Path(thing).stem for thing in paths]
    if len(set(names)) < len(names):
        names = [str(thing) for thing in paths]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"{twice[0]!r} stands more than once among the domains. Give it once.")
    return {name: open_data(thing) for name, thing in zip(names, paths, strict=True)}
