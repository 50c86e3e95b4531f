"""The `oodometer plan` command, which selects the rows to label for a given precision."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from oodometer.assessment.labeling_plan import plan_labels
from oodometer.cli._options import (
    AsJson,
    ColumnOptions,
    OutputPath,
    Quiet,
    Seed,
    with_option_groups,
)
from oodometer.cli._runtime import console, print_json, print_note
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.data.prediction_files import (
    PredictionColumns,
    ScoreFile,
    label_column_candidates,
)


@with_option_groups
def plan(
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="Predictions on the unlabelled data.")
    ],
    *,
    half_width: Annotated[
        float,
        typer.Option(help="Desired half-width of the 95 % confidence interval, as a fraction."),
    ] = 0.02,
    labels: Annotated[
        int | None,
        typer.Option(help="Number of rows to label, instead of --half-width.", min=1),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            help="Predictions on labelled data, which calibrate the confidences of plan, or from "
            "which a monitor learns."
        ),
    ] = None,
    output: OutputPath = None,
    column_options: ColumnOptions,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Choose how many and which rows of TARGET to label, to reach a given precision.

    With --labels N, N rows are chosen, and the precision that they give is shown.

    The rows are in random order, so that labeling can stop early: the first rows are a valid sample
    of their own. Rows are counted from 0. With --output FILE, the rows are written to a CSV file, with their ids
    if TARGET has a column id. Fill in its column label, and pass the file to `oodometer estimate
    SOURCE TARGET --target-labels FILE`.

    Example:
      oodometer plan new_site.parquet --half-width 0.02 --output to_label.csv
    """
    columns = column_options.prediction_columns()
    predictions = ScoreFile.open(target).predictions(columns, labelled=False)
    labelled = None
    if source is not None:
        labelled = _read_source(source, columns)
    result = plan_labels(
        predictions, source=labelled, half_width=half_width, n_labels=labels, seed=seed
    )
    if output is not None:
        if output.suffix.lower() != ".csv":
            raise InputError(f"--output of plan must be a .csv file; got {output.name!r}.")
        result.to_csv(output)
        print_note(
            f"{result.n_labels:,} rows to label written to {output}, in random order: label them "
            "from the top; any first part is a valid sample."
        )
    if as_json:
        print_json(result.to_dict())
        return
    console().print(result.summary)
    if output is None:
        console().print(", ".join(map(str, result.rows.tolist())), highlight=False)


def _read_source(path: Path, columns: PredictionColumns) -> Predictions:
    """Return the labelled predictions of --source; raise if the file has no labels."""
    file = ScoreFile.open(path)
    predictions = file.predictions(columns, labelled=True)
    if predictions.is_labelled:
        return predictions
    candidates = label_column_candidates(file.column_names)
    named = f" {shlex.quote(candidates[0])}" if candidates else ""
    raise InputError(
        f"{path.name} has no labels, which --source needs. Name the column with the true classes: "
        f"--label-column{named or ' COLUMN'}."
    )
