"""Commands that look inside a model: measure and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oodometer.cli._model_and_data_options import (
    DATA_HELP,
    MODEL_HELP,
    Classes,
    InputsAre,
    Labels,
    Mean,
    OutputsAre,
    Size,
    SkipBad,
    Std,
    Text,
    Timeout,
    TrustPickle,
    opened_dataset,
    opened_model,
)
from oodometer.cli._options import AsJson, Seed, console, errors, show_json
from oodometer.cli._run_options import Scheduler, Workers, runner_beside
from oodometer.core.errors import InputError
from oodometer.data.prediction_files import Columns, Outputs
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.measures._measure import Measurements
    from oodometer.metrics._evaluate import Evaluation

# In place of a model, where the files hold its outputs or features.
NO_MODEL = "none"
LOOKED_INTO = f"{MODEL_HELP} Or none, where the files hold outputs or features."


def measure(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=LOOKED_INTO)],
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
    labels: Labels = None,
    text: Text = None,
    inputs: InputsAre = None,
    size: Size = None,
    skip_bad: SkipBad = False,
    classes: Classes = None,
    outputs: OutputsAre = None,
    mean: Mean = None,
    std: Std = None,
    timeout: Timeout = None,
    trust_pickle: TrustPickle = False,
    seed: Seed = 0,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Measure what may tell of MODEL's error on TARGET: divergences, gradients, norms and more.

    Example: oodometer measure my:net --source val.npz --target new.npz -m h-divergence
    """
    from oodometer.measures._measure import measure as measured

    runner = runner_beside(workers, scheduler)

    def opened(thing: str, *, labelled: bool = True) -> Any:
        if model == NO_MODEL:
            return _outputs(Path(thing), labels, classes, labelled=labelled)
        try:
            return opened_dataset(thing, labels, text, inputs, size, skip_bad)
        except InputError:
            # Where the target has the column of labels, it must not be taken for an input.
            if labelled or labels is None:
                raise
            return opened_dataset(thing, None, text, inputs, size, skip_bad)

    network = (
        None
        if model == NO_MODEL
        else opened_model(model, classes, outputs, trust_pickle, (mean, std), timeout)
    )
    with terminal.progress_bar(errors()) as progress:
        found = measured(
            _split(measures),
            network,
            _domains(source, opened),
            opened(target, labelled=False),
            training=_domains(training or [], opened),
            layer=layer,
            replicates=replicates,
            seed=seed,
            runner=runner,
            progress=progress,
        )
    if model == NO_MODEL:  # arrays have no names, but files do
        names = " + ".join(Path(thing).stem for thing in source)
        found = replace(found, source=names, target=Path(target).stem)
    _shown(found, as_json)


def metrics(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=LOOKED_INTO)],
    data: Annotated[str, typer.Argument(metavar="DATA", help=f"Labelled data. {DATA_HELP}")],
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metrics", "-m", help="Just these, between commas. [default: all]"),
    ] = None,
    corrupt: Annotated[
        list[str] | None,
        typer.Option(
            help="Also after corruptions: all, noise, blur, weather, digital, fog, jpeg-3 …"
        ),
    ] = None,
    labels: Labels = None,
    text: Text = None,
    inputs: InputsAre = None,
    size: Size = None,
    skip_bad: SkipBad = False,
    classes: Classes = None,
    outputs: OutputsAre = None,
    mean: Mean = None,
    std: Std = None,
    timeout: Timeout = None,
    trust_pickle: TrustPickle = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """How good MODEL is on labelled DATA: error, likelihood, calibration, robustness, by class.

    Example: oodometer metrics model.onnx photos/ --corrupt noise --corrupt fog-3
    """
    from oodometer.metrics._evaluate import evaluate

    if model == NO_MODEL:
        network, known = None, _outputs(Path(data), labels, classes, labelled=True)
    else:
        network = opened_model(model, classes, outputs, trust_pickle, (mean, std), timeout)
        known = opened_dataset(data, labels, text, inputs, size, skip_bad)
    with terminal.progress_bar(errors()) as progress:
        found = evaluate(
            network,
            known,
            metrics=_split(metrics),
            corrupt=_split(corrupt),
            seed=seed,
            progress=progress,
        )
    _shown(replace(found, data=Path(data).stem) if model == NO_MODEL else found, as_json)


def _shown(found: Measurements | Evaluation, as_json: bool) -> None:
    """On the screen or as JSON; with nothing but refusals the command has failed."""
    from oodometer.report.terminal_measures import show

    if as_json:
        show_json(found.to_dict())
    else:
        show(console(), found)
    if not found.scores:
        raise typer.Exit(2)


def _split(names: Sequence[str] | None) -> str | list[str] | None:
    """Names between commas; one alone stays one, for which a refusal is an error."""
    if names is None:
        return None
    found = [part.strip() for name in names for part in name.split(",") if part.strip()]
    return found[0] if len(found) == 1 else found


def _domains(things: Sequence[str], opened: Any) -> Any:
    """One dataset, or several by their names."""
    if len(things) < 2:
        return opened(things[0]) if things else None
    names = [Path(thing).stem for thing in things]
    if len(set(names)) < len(names):
        names = [str(thing) for thing in things]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"{twice[0]!r} stands more than once among the domains. Give it once.")
    return {name: opened(thing) for name, thing in zip(names, things, strict=True)}


def _outputs(path: Path, labels: str | None, classes: str | None, *, labelled: bool) -> Any:
    """What a file holds in place of a model: its outputs, or features alone."""
    from oodometer.data import as_dataset

    if path.suffix.lower() == ".npy":
        return as_dataset(path).take(slice(None))
    opened = Outputs.open(path)
    if isinstance(opened.content, dict) and not {"probs", "logits"} & set(opened.content):
        return opened.column("features")
    names = None if classes is None else tuple(classes.split(","))
    return opened.predictions(Columns(labels, classes=names), labelled=labelled)
