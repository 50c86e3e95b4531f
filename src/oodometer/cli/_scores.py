"""What the commands `measure` and `evaluate` share: models that files stand in for, names, output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from oodometer.cli._options import MODEL_HELP, console, print_json
from oodometer.data.prediction_files import PredictionColumns, ScoreFile

if TYPE_CHECKING:
    from oodometer.measures import Measurements
    from oodometer.metrics import Evaluation

# In place of a model, where the files hold its outputs or features.
NO_MODEL = "none"
MODEL_OR_NONE_HELP = f"{MODEL_HELP} Or none, where the files hold outputs or features."


def show_scores(found: Measurements | Evaluation, as_json: bool) -> None:
    """On the screen or as JSON; with nothing but refusals the command has failed."""
    from oodometer.report import terminal_measures

    if as_json:
        print_json(found.to_dict())
    else:
        terminal_measures.show_scores(console(), found)
    if not found.scores:
        raise typer.Exit(2)


def one_or_several(names: Sequence[str] | None) -> str | Sequence[str] | None:
    """Return a single name as it is: one that is requested alone and does not apply is an error.

    >>> one_or_several(["ece"]), one_or_several(["ece", "nll"]), one_or_several(None)
    ('ece', ['ece', 'nll'], None)
    """
    return names[0] if names is not None and len(names) == 1 else names


def read_outputs(
    path: Path, label_column: str | None, class_names: str | None, *, labelled: bool
) -> Any:
    """What a file holds in place of a model: its outputs, or features alone."""
    from oodometer.data import as_dataset

    if path.suffix.lower() == ".npy":
        return as_dataset(path).take(slice(None))
    opened = ScoreFile.open(path)
    if isinstance(opened.content, dict) and not {"probs", "logits"} & set(opened.content):
        return opened.column("features")
    names = None if class_names is None else tuple(class_names.split(","))
    columns = PredictionColumns(label_column, class_names=names)
    return opened.predictions(columns, labelled=labelled)
