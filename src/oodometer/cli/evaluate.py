"""The `oodometer evaluate` command, which computes metrics on labelled data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, cast

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
            help="Also evaluate on corrupted images. The value is the name of a corruption (fog, "
            "jpeg-3), a group (noise, blur, weather, digital), standard (fifteen), or all "
            "(nineteen). Repeat the option, or separate names by commas."
        ),
    ] = None,
    severities: Annotated[
        str,
        typer.Option(
            help="Severities of the corruptions: those of CIFAR-10-C and ImageNet-C (published), "
            "or relative to the size of the image (relative)."
        ),
    ] = "published",
    label_column: LabelColumn = None,
    data_options: DatasetFileOptions,
    model_options: ModelOptions,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compute metrics of MODEL on labelled DATA, such as error, calibration and robustness.

    Example:
      oodometer evaluate model.onnx photos/ --class-names cat,dog --corruption fog
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
            severities=cast('Literal["published", "relative"]', severities),
            seed=seed,
            progress=progress,
        )
    if model == NO_MODEL:  # predictions have no name, so the name of the file is used
        result = replace(result, data=Path(data).stem)
    show_scores(result, as_json)
