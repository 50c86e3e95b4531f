"""The command `plan`: how many labels to buy, and of which rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.assessment.labeling_plan import Plan, planned_labels
from oodometer.assessment.ppi import chances
from oodometer.cli._options import AsJson, Seed, console, note, show_json
from oodometer.cli.estimate import Classes, Labels, Logits, Probs, named_columns
from oodometer.core.predictions import Predictions
from oodometer.data.atomic import aside
from oodometer.data.prediction_files import Outputs


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
    labels: Labels = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Say how many labels of TARGET an accuracy of wanted sureness needs, and of which rows.

    Rows are numbered from 0. Fill in the column label of these rows, leave the others blank, and
    `oodometer estimate` makes an honest interval of them.

    Example: oodometer plan new_site.parquet --half-width 0.02 --output to_label.csv
    """
    columns = named_columns(labels, probs, logits, classes)
    rows = Outputs.open(target).predictions(columns, labelled=False)
    scores = rows.confidence.astype(float)
    if source is not None:
        known = Outputs.open(source).predictions(columns, labelled=True)
        scores = chances(known, rows.in_class_order(known.class_names))
    found = planned_labels(scores, half_width=half_width, seed=seed)
    if output is not None:
        _write(found, rows, output)
    if as_json:
        show_json(found.to_dict())
        return
    console().print(_words(found, rows.n))
    if output is None:
        console().print(", ".join(map(str, found.rows.tolist())), highlight=False)


def _words(found: Plan, n: int) -> str:
    wide = 100 * found.half_width
    if found.needed == n:
        return f"For ± {wide:g} points label all {n:,} rows."
    return (
        f"For ± {wide:g} points label {found.needed:,} of {n:,} rows, if scores tell the truth; "
        f"labels alone would take {found.alone:,} ({100 * found.saved:.0f} % are saved)."
    )


def _write(found: Plan, rows: Predictions, path: Path) -> None:
    lines = ["row,confidence,label"]
    lines += [f"{row},{rows.confidence[row]:.4f}," for row in found.rows.tolist()]
    with aside(path) as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    note(f"{found.needed:,} rows to label are in {path}")
