"""The `oodometer transforms` command, which lists transforms or tries them on a model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from oodometer.cli._options import (
    AsJson,
    DatasetFileOptions,
    LabelColumn,
    ModelOptions,
    Quiet,
    Seed,
    with_option_groups,
)
from oodometer.cli._runtime import console, print_json, progress_bar
from oodometer.core.protocols import Transform
from oodometer.report import terminal


@with_option_groups
def transforms(
    *,
    suggest: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="MODEL DATA", help="Model and dataset to try every transform on."),
    ] = None,
    examples: Annotated[
        int, typer.Option(min=1, help="Number of examples to try the transforms on.")
    ] = 500,
    label_column: LabelColumn = None,
    data_options: DatasetFileOptions,
    model_options: ModelOptions,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List all transforms; with --suggest, check which are suitable for a model and a dataset.

    Example:
      oodometer transforms --suggest model.onnx photos/ --class-names cat,dog
    """
    if suggest is None:
        _list_transforms(as_json)
        return
    from oodometer.neighborhood.suitability import suggest_transforms

    model = model_options.open(suggest[0])
    dataset = data_options.open(suggest[1], label_column)
    with progress_bar() as progress:
        suggestions = suggest_transforms(
            model, dataset, examples=examples, seed=seed, progress=progress
        )
    if as_json:
        print_json([suggestion.to_dict() for suggestion in suggestions])
    else:
        terminal.show_suggestions(console(), suggestions)


def _list_transforms(as_json: bool) -> None:
    from oodometer.transforms import available

    rows = [_describe_transform(member) for member in available()]
    if as_json:
        print_json(rows)
    else:
        terminal.show_transforms(console(), rows)


def _describe_transform(member: Transform) -> dict[str, Any]:
    return {
        "name": member.name,
        "label": member.label,
        "kinds": list(member.kinds),
        "magnitude": member.magnitude,
        "assumes": member.assumes,
    }
