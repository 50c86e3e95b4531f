"""The command `plan`: how many labels to buy, and of which rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.assessment.labeling_plan import LabelingPlan, plan_labels
from oodometer.assessment.ppi import expected_correctness
from oodometer.cli._options import AsJson, Seed, console, print_json, print_note
from oodometer.cli.estimate import (
    LabelColumn,
    LogitColumns,
    ProbColumns,
    ScoreClassNames,
    parse_columns,
)
from oodometer.core.predictions import Predictions
from oodometer.data.atomic import atomic_write
from oodometer.data.prediction_files import ScoreFile


def plan(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Outputs on the new data.")],
    half_width: Annotated[
        float, typer.Option(help="Wanted of the 95 % interval, as a fraction.")
    ] = 0.02,
    source: Annotated[
        Path | None,
        typer.Option(help="Outputs on labelled data, to tell how often rows as sure are right."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="A CSV file to write the rows to; else they are printed.")
    ] = None,
    labels: LabelColumn = None,
    probs: ProbColumns = None,
    logits: LogitColumns = None,
    classes: ScoreClassNames = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Say how many labels of TARGET an accuracy of wanted sureness needs, and of which rows.

    Rows are numbered from 0. Fill in the column label of these rows, leave the others blank, and
    `oodometer estimate` makes an honest interval of them.

    Example: oodometer plan new_site.parquet --half-width 0.02 --output to_label.csv
    """
    columns = parse_columns(labels, probs, logits, classes)
    rows = ScoreFile.open(target).predictions(columns, labelled=False)
    scores = rows.confidence.astype(float)
    if source is not None:
        known = ScoreFile.open(source).predictions(columns, labelled=True)
        scores = expected_correctness(known, rows.reorder_classes(known.class_names))
    found = plan_labels(scores, half_width=half_width, seed=seed)
    if output is not None:
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
        return f"For ± {wide:g} points label all {n:,} rows."
    return (
        f"For ± {wide:g} points label {labeling_plan.n_labels:,} of {n:,} rows, if scores tell the truth; "
        f"labels alone would take {labeling_plan.n_labels_without_scores:,} ({100 * labeling_plan.label_savings:.0f} % are saved)."
    )


def _write_rows_to_label(labeling_plan: LabelingPlan, rows: Predictions, path: Path) -> None:
    lines = ["row,confidence,label"]
    lines += [f"{row},{rows.confidence[row]:.4f}," for row in labeling_plan.rows.tolist()]
    with atomic_write(path) as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print_note(f"{labeling_plan.n_labels:,} rows to label are in {path}")
