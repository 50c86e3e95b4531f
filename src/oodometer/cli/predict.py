"""The `oodometer predict` command, which writes the predictions of a model on a domain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._options import (
    MODEL_HELP,
    AsJson,
    DataFolder,
    ModelOptions,
    OutputPath,
    Quiet,
    with_option_groups,
)
from oodometer.cli._runtime import console, print_json, progress_bar
from oodometer.cli.domains import open_group
from oodometer.core.errors import InputError

if TYPE_CHECKING:
    from oodometer.core.predictions import Predictions
    from oodometer.core.protocols import Dataset


@with_option_groups
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    group: Annotated[
        str,
        typer.Argument(metavar="GROUP", help="Name of a domain group, or your own TOML file."),
    ],
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="Name of a domain of GROUP.")],
    *,
    output: OutputPath = None,
    split: Annotated[str, typer.Option(help="Rows to predict: test or train.")] = "test",
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of rows, chosen at random. [default: all]"),
    ] = None,
    data_dir: DataFolder = None,
    model_options: ModelOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the predictions of MODEL on a domain, with labels, to a file that `estimate` reads.

    The file is a Parquet file. Without --output, it is called GROUP-DOMAIN.parquet.

    Example:
      oodometer predict model.onnx camelyon17 ood-test --output target.parquet
    """
    from oodometer.models.inference import predict_dataset
    from oodometer.studies.domains.class_merging import adapt_model

    opened = open_group(group, data_dir)
    output = output or Path(f"{opened.name}-{domain}.parquet".replace("/", "-"))
    if output.suffix.lower() != ".parquet":
        raise InputError(f"--output must end with .parquet; got {str(output)!r}.")
    dataset = _sample_rows(opened.domain(domain, split), rows)  # type: ignore[arg-type]
    network = adapt_model(model_options.open(model), opened, dataset)
    with progress_bar() as progress:
        predictions = predict_dataset(
            network, dataset, labelled=False, progress=progress, message="Predicting"
        )
    _write_predictions(predictions, dataset, opened.classes, output)
    if as_json:
        print_json({"output": str(output), "rows": len(dataset), "classes": predictions.k})
    else:
        name = f"{opened.name}/{domain}"
        console().print(
            Text(f"Wrote the predictions on {len(dataset)} rows of {name} to {output}.")
        )


def _sample_rows(dataset: Dataset, max_rows: int | None) -> Any:
    """Return at most `max_rows` rows; the choice depends on the content of the rows only."""
    if max_rows is None or max_rows >= len(dataset):
        return dataset
    from oodometer.studies.splits import sample_rows

    return dataset.rows(sample_rows(dataset.keys, max_rows, 0))


def _write_predictions(
    predictions: Predictions, dataset: Dataset, classes: tuple[str, ...], output: Path
) -> None:
    """Write scores and labels in the format of `docs/formats.md`; labels are class names."""
    import numpy as np
    import pyarrow as pa

    from oodometer.models.inference import concat_predictions
    from oodometer.studies.domains.label_sets import accept_any_label, accepted_classes
    from oodometer.studies.store.export import write_table
    from oodometer.studies.store.records import labels_for_model

    if predictions.k != len(classes):
        raise InputError(
            f"The model has {predictions.k} classes, and the domain has {len(classes)}. Use a model "
            "with these classes."
        )
    scores, score_type = predictions.require_scores("the file of predictions")
    labels = labels_for_model(np.asarray(dataset.labels), classes, predictions.class_names)
    accepted = accepted_classes(dataset)
    if accepted is not None:
        labelled = concat_predictions([predictions], labels)
        labels = np.asarray(accept_any_label(labelled, accepted, classes).labels)
        if predictions.class_names is not None:
            labels = np.asarray(predictions.class_names)[labels]
    names = predictions.class_names or classes
    if labels.dtype.kind in "iu":  # the classes of the model are identified by their numbers
        labels, names = np.asarray(classes)[labels], classes
    prefix = "prob" if score_type == "probs" else "logit"
    columns = {f"{prefix}_{name}": scores[:, number] for number, name in enumerate(names)}
    write_table(pa.table({**columns, "label": labels}), output)
