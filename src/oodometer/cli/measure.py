"""The `oodometer measure` command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oodometer.cli._model_and_data_options import (
    DATA_HELP,
    ClassNamesOption,
    ImageSize,
    InputColumns,
    LabelField,
    OutputTypeOption,
    PixelMean,
    PixelStd,
    RequestTimeout,
    SkipUnreadable,
    TextColumns,
    TrustPickle,
    open_dataset,
    open_model,
)
from oodometer.cli._options import AsJson, Seed, error_console
from oodometer.cli._run_options import Scheduler, Workers, make_optional_runner
from oodometer.cli._scores import (
    MODEL_OR_NONE_HELP,
    NO_MODEL,
    read_outputs,
    show_scores,
    split_names,
)
from oodometer.core.errors import InputError
from oodometer.report import terminal

if TYPE_CHECKING:
    pass


def measure(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_OR_NONE_HELP)],
    source: Annotated[
        list[str],
        typer.Option(help=f"Labelled source data; again for every source domain. {DATA_HELP}"),
    ],
    target: Annotated[str, typer.Option(help=f"The new data. {DATA_HELP}")],
    measures: Annotated[
        list[str] | None,
        typer.Option("--measures", "-m", help="Just these, between commas. [default: all]"),
    ] = None,
    training: Annotated[
        list[str] | None,
        typer.Option(help="What the model was trained on; again for every domain."),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(help="Where features are taken. [default: what enters the last linear layer]"),
    ] = None,
    replicates: Annotated[
        int, typer.Option(help="Random 80 % of the rows to measure again, for the noise.")
    ] = 0,
    labels: LabelField = None,
    text: TextColumns = None,
    inputs: InputColumns = None,
    size: ImageSize = None,
    skip_bad: SkipUnreadable = False,
    classes: ClassNamesOption = None,
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
    """Measure what may tell of MODEL's error on TARGET: divergences, gradients, norms and more.

    Example: oodometer measure my:net --source val.npz --target new.npz -m h-divergence
    """
    from oodometer.measures import measure as measured

    runner = make_optional_runner(workers, scheduler)

    def opened(thing: str, *, labelled: bool = True) -> Any:
        if model == NO_MODEL:
            return read_outputs(Path(thing), labels, classes, labelled=labelled)
        try:
            return open_dataset(thing, labels, text, inputs, size, skip_bad)
        except InputError:
            # Where the target has the column of labels, it must not be taken for an input.
            if labelled or labels is None:
                raise
            return open_dataset(thing, None, text, inputs, size, skip_bad)

    network = (
        None
        if model == NO_MODEL
        else open_model(model, classes, outputs, trust_pickle, (mean, std), timeout)
    )
    with terminal.progress_bar(error_console()) as progress:
        found = measured(
            split_names(measures),
            network,
            _open_domains(source, opened),
            opened(target, labelled=False),
            training=_open_domains(training or [], opened),
            layer=layer,
            replicates=replicates,
            seed=seed,
            runner=runner,
            progress=progress,
        )
    if model == NO_MODEL:  # arrays have no names, but files do
        names = " + ".join(Path(thing).stem for thing in source)
        found = replace(found, source=names, target=Path(target).stem)
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
