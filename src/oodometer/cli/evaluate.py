"""The `oodometer evaluate` command: metrics on labelled data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli._options import (
    DATA_HELP,
    MODEL_OR_NONE_HELP,
    NO_MODEL,
    AsJson,
    DatasetFileOptions,
    LabelColumn,
    MetricNames,
    ModelOptions,
    Quiet,
    Seed,
    one_or_several,
    read_outputs,
    split_names,
    with_option_groups,
)
from oodometer.cli._runtime import progress_bar, show_scores


@with_option_groups
def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_OR_NONE_HELP)],
    data: Annotated[str, typer.Argument(metavar="DATA", help=f"Labelled data. {DATA_HELP}")],
    *,
    metric: MetricNames = None,
    corruption: Annotated[
        list[str] | None,
        typer.Option(
            help="Image corruption to evaluate under: a name (fog, jpeg-3), a group (noise, blur, "
            "weather, digital), or all; repeat, or separate by commas."
        ),
    ] = None,
    label_column: LabelColumn = None,
    data_options: DatasetFileOptions,
    model_options: ModelOptions,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate MODEL on labelled DATA: error, likelihood, calibration, robustness, per class.

    Example:
      oodometer evaluate model.onnx photos/ --corruption noise,fog-3
    """
    from oodometer.metrics import evaluate as compute_metrics

    if model == NO_MODEL:
        network = None
        dataset = read_outputs(
            Path(data),
            label_column=label_column,
            class_names=model_options.class_names,
            labelled=True,
        )
    else:
        network = model_options.open(model)
        dataset = data_options.open(data, label_column)
    names = split_names(metric)
    with progress_bar() as progress:
        result = compute_metrics(
            network,
            dataset,
            metrics=None if "all" in (names or ()) else one_or_several(names),
            corruptions=one_or_several(split_names(corruption)),
            seed=seed,
            progress=progress,
        )
    if model == NO_MODEL:  # arrays have no name, but the file has
        result = replace(result, data=Path(data).stem)
    show_scores(result, as_json)
