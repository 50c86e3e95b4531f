"""The `oodometer evaluate` command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli._options import (
    DATA_HELP,
    AsJson,
    ClassNamesText,
    ImageSize,
    InputColumns,
    LabelColumn,
    MetricNames,
    OutputTypeOption,
    PixelMean,
    PixelStd,
    RequestTimeout,
    Seed,
    SkipUnreadable,
    TextColumns,
    TrustPickle,
    error_console,
    open_dataset,
    open_model,
    split_names,
)
from oodometer.cli._scores import (
    MODEL_OR_NONE_HELP,
    NO_MODEL,
    one_or_several,
    read_outputs,
    show_scores,
)
from oodometer.report import terminal


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_OR_NONE_HELP)],
    data: Annotated[str, typer.Argument(metavar="DATA", help=f"Labelled data. {DATA_HELP}")],
    metric: MetricNames = None,
    corruption: Annotated[
        list[str] | None,
        typer.Option(
            help="Corruption of images to evaluate after, by name (fog, jpeg-3), group (noise, blur, "
            "weather, digital), or all; repeat, or separate by commas."
        ),
    ] = None,
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
    as_json: AsJson = False,
) -> None:
    """Evaluate MODEL on labelled DATA: error, likelihood, calibration, robustness, per class.

    Example: oodometer evaluate model.onnx photos/ --corruption noise,fog-3
    """
    from oodometer.metrics import evaluate as run_metrics

    if model == NO_MODEL:
        network, known = None, read_outputs(Path(data), label_column, class_names, labelled=True)
    else:
        network = open_model(model, class_names, outputs, trust_pickle, (mean, std), timeout)
        known = open_dataset(data, label_column, text, inputs, size, skip_bad)
    names = split_names(metric)
    with terminal.progress_bar(error_console()) as progress:
        found = run_metrics(
            network,
            known,
            metrics=None if "all" in (names or ()) else one_or_several(names),
            corruptions=one_or_several(split_names(corruption)),
            seed=seed,
            progress=progress,
        )
    show_scores(replace(found, data=Path(data).stem) if model == NO_MODEL else found, as_json)
