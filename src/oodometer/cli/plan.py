"""The command `plan`: how many labels to buy, and of which rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.assessment.labeling_plan import LabelingPlan, plan_labels
from oodometer.cli._options import (
    AsJson,
    ClassNamesText,
    LabelColumn,
    LogitColumns,
    OutputPath,
    ProbColumns,
    Seed,
    console,
    print_json,
    print_note,
)
from oodometer.cli.estimate import parse_columns
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.data.atomic import atomic_write
from oodometer.data.prediction_files import ScoreFile


def plan(
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="Predictions on the unlabelled data.")
    ],
    half_width: Annotated[
        float, typer.Option(help="Desired half-width of the 95 % confidence interval, a fraction.")
    ] = 0.02,
    source: Annotated[
        Path | None,
        typer.Option(
            help="Predictions on labelled data; calibrates the confidences of the target."
        ),
    ] = None,
    output: OutputPath = None,
    label_column: LabelColumn = None,
    prob_columns: ProbColumns = None,
    logit_columns: LogitColumns = None,
    class_names: ClassNamesText = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Choose how many rows of TARGET to label, and which, to reach a given precision.

    Rows are counted from 0. Fill in the column label of the CSV file that --output names and pass
    it to `oodometer estimate SOURCE TARGET --target-labels FILE`.

    Example: oodometer plan new_site.parquet --half-width 0.02 --output to_label.csv
    """
    columns = parse_columns(label_column, prob_columns, logit_columns, class_names)
    rows = ScoreFile.open(target).predictions(columns, labelled=False)
    known = None
    if source is not None:
        known = ScoreFile.open(source).predictions(columns, labelled=True)
    found = plan_labels(rows, source=known, half_width=half_width, seed=seed)
    if output is not None:
        if output.suffix.lower() != ".csv":
            raise InputError(f"--output of plan is a .csv file; got {output.name!r}.")
        _write_rows_to_label(found, rows, output)
    if as_json:
        print_json(found.to_dict())
        return
    console().print(_plan_summary(found, rows.n))
    if output is None:
        console().print(", ".join(map(str, found.rows.tolist())), highlight=False)


def _plan_summary(labeling_plan: LabelingPlan, n: int) -> str:
    wide = 100 * labeling_plan.half_width
    if labeling_plan.n_labels == n:
        return f"Label all {n:,} rows for a confidence interval of ±{wide:g} points."
    return (
        f"Label {labeling_plan.n_labels:,} of {n:,} rows for a confidence interval of ±{wide:g} points "
        f"(simple random sampling would need {labeling_plan.n_labels_without_scores:,})."
    )


def _write_rows_to_label(labeling_plan: LabelingPlan, rows: Predictions, path: Path) -> None:
    lines = ["row,confidence,label"]
    lines += [f"{row},{rows.confidence[row]:.4f}," for row in labeling_plan.rows.tolist()]
    with atomic_write(path) as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print_note(f"{labeling_plan.n_labels:,} rows to label are in {path}")
