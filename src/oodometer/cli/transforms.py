"""The `oodometer transforms` command."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from oodometer.cli._options import (
    AsJson,
    ClassNamesText,
    ImageSize,
    InputColumns,
    LabelColumn,
    OutputTypeOption,
    PixelMean,
    PixelStd,
    RequestTimeout,
    Seed,
    SkipUnreadable,
    TextColumns,
    TrustPickle,
    console,
    error_console,
    open_dataset,
    open_model,
    print_json,
)
from oodometer.core.protocols import Transform
from oodometer.report import terminal


def transforms(
    suggest: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="MODEL DATA", help="Model and dataset to try every transform on."),
    ] = None,
    examples: Annotated[
        int, typer.Option(min=1, help="Number of examples to try the transforms on.")
    ] = 500,
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
    """List every transform; with --suggest, try each on a model and data.

    Example: oodometer transforms --suggest model.onnx photos/
    """
    from oodometer import transforms as family

    if suggest is None:
        rows = [_describe_transform(member) for member in family.available()]
        if as_json:
            print_json(rows)
        else:
            terminal.show_transforms(console(), rows)
        return
    from oodometer.neighborhood.suitability import suggest_transforms

    model = open_model(suggest[0], class_names, outputs, trust_pickle, (mean, std), timeout)
    dataset = open_dataset(suggest[1], label_column, text, inputs, size, skip_bad)
    with terminal.progress_bar(error_console()) as progress:
        found = suggest_transforms(model, dataset, examples=examples, seed=seed, progress=progress)
    if as_json:
        print_json([one.to_dict() for one in found])
    else:
        terminal.show_suggestions(console(), found)


def _describe_transform(member: Transform) -> dict[str, Any]:
    return {
        "name": member.name,
        "label": member.label,
        "kinds": list(member.kinds),
        "magnitude": member.magnitude,
        "assumes": member.assumes,
    }
