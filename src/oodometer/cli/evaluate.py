"""The `oodometer metrics` command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from oodometer.cli._scores import (
    MODEL_OR_NONE_HELP,
    NO_MODEL,
    read_outputs,
    show_scores,
    split_names,
)
from oodometer.report import terminal

if TYPE_CHECKING:
    pass


def metrics(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_OR_NONE_HELP)],
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
    as_json: AsJson = False,
) -> None:
    """How good MODEL is on labelled DATA: error, likelihood, calibration, robustness, by class.

    Example: oodometer metrics model.onnx photos/ --corrupt noise --corrupt fog-3
    """
    from oodometer.metrics import evaluate

    if model == NO_MODEL:
        network, known = None, read_outputs(Path(data), labels, classes, labelled=True)
    else:
        network = open_model(model, classes, outputs, trust_pickle, (mean, std), timeout)
        known = open_dataset(data, labels, text, inputs, size, skip_bad)
    with terminal.progress_bar(error_console()) as progress:
        found = evaluate(
            network,
            known,
            metrics=split_names(metrics),
            corrupt=split_names(corrupt),
            seed=seed,
            progress=progress,
        )
    show_scores(replace(found, data=Path(data).stem) if model == NO_MODEL else found, as_json)
