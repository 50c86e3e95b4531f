"""The `oodometer predict` command, which writes the predictions of a model on data or a domain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._model_outputs import predict_file
from oodometer.cli._options import (
    DATA_HELP,
    MODEL_HELP,
    AsJson,
    DataFolder,
    DatasetFileOptions,
    LabelColumn,
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

OUTPUT_EXTENSIONS = (".parquet", ".csv")


@with_option_groups
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help=f"{DATA_HELP} With DOMAIN, the name of a domain group, or your own TOML file.",
        ),
    ],
    domain: Annotated[
        str | None,
        typer.Argument(metavar="DOMAIN", help="Name of a domain, if DATA is a domain group."),
    ] = None,
    *,
    output: OutputPath = None,
    split: Annotated[
        str, typer.Option(help="Rows of a domain to predict: test or train.")
    ] = "test",
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of rows, chosen at random. [default: all]"),
    ] = None,
    data_dir: DataFolder = None,
    label_column: LabelColumn = None,
    data_options: DatasetFileOptions,
    model_options: ModelOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the predictions of MODEL on DATA, with labels if known, to a file for `estimate`.

    The file is a Parquet or CSV file. Without --output, it is called DATA-predictions.parquet, or
    GROUP-DOMAIN.parquet.

    Example:
      oodometer predict model.onnx photos/ -o photos.parquet

    Example:
      oodometer predict model.onnx camelyon17 ood-test --output target.parquet
    """
    from oodometer.data.atomic import write_table

    if output is not None and output.suffix.lower() not in OUTPUT_EXTENSIONS:
        raise InputError(
            f"--output must end with {' or '.join(OUTPUT_EXTENSIONS)}; got {str(output)!r}."
        )
    if domain is None:
        _check_is_data(data)
        _reject_domain_options({"--split": split != "test", "--rows": rows, "--data-dir": data_dir})
        table = predict_file(
            model_options.open(model),
            data,
            label_column=label_column,
            data_options=data_options,
            kept_columns=("id",),
        ).content
        name = data
    else:
        table, name = _predict_domain(model, data, domain, split, rows, data_dir, model_options)
    if output is None:
        stem = f"{Path(data).stem}-predictions" if domain is None else name.replace("/", "-")
        output = Path(f"{stem}.parquet")
    write_table(table, output)
    if as_json:
        n_classes = sum(column.startswith(("prob_", "logit_")) for column in table.column_names)
        print_json({"output": str(output), "rows": table.num_rows, "classes": n_classes})
    else:
        labelled = "" if "label" in table.column_names else ", without labels"
        console().print(
            Text(f"Wrote the predictions on {table.num_rows} rows of {name} to {output}{labelled}.")
        )


def _check_is_data(data: str) -> None:
    """Raise if DATA is a domain group, which needs a DOMAIN."""
    if Path(data).suffix != ".toml":
        if Path(data).exists():
            return
        from oodometer.studies.domains.group import available_names

        if data not in available_names():
            return
    raise InputError(
        f"{data!r} is a domain group, and DOMAIN is missing. Name one of its domains; oodometer "
        "domains lists them."
    )


def _reject_domain_options(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if value:
            raise InputError(
                f"{name} applies to a domain of a group. Give DOMAIN, or leave it out."
            )


def _predict_domain(
    model: str,
    group: str,
    domain: str,
    split: str,
    max_rows: int | None,
    data_dir: Path | None,
    model_options: ModelOptions,
) -> tuple[Any, str]:
    """Return the table of predictions on a domain, and the name of the domain."""
    from oodometer.models.inference import predict_dataset
    from oodometer.studies.domains.class_merging import adapt_model

    opened = open_group(group, data_dir)
    dataset = _sample_rows(opened.domain(domain, split), max_rows)  # type: ignore[arg-type]
    network = adapt_model(model_options.open(model), opened, dataset)
    with progress_bar() as progress:
        predictions = predict_dataset(
            network, dataset, labelled=False, progress=progress, message="Predicting"
        )
    return _domain_table(predictions, dataset, opened.classes), f"{opened.name}/{domain}"


def _sample_rows(dataset: Dataset, max_rows: int | None) -> Any:
    """Return at most `max_rows` rows; the choice depends on the content of the rows only."""
    if max_rows is None or max_rows >= len(dataset):
        return dataset
    from oodometer.studies.splits import sample_rows

    return dataset.rows(sample_rows(dataset.keys, max_rows, 0))


def _domain_table(predictions: Predictions, dataset: Dataset, classes: tuple[str, ...]) -> Any:
    """Return scores and labels in the format of `docs/formats.md`; labels are class names."""
    import numpy as np
    import pyarrow as pa

    from oodometer.models.inference import concat_predictions
    from oodometer.studies.domains.label_sets import accept_any_label, accepted_classes
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
    return pa.table({**columns, "label": labels})
