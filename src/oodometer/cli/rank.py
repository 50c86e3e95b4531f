"""The `oodometer rank` command, which ranks models on unlabelled data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli._html_report import (
    check_report_path,
    invariance_provenance,
    write_report_page,
)
from oodometer.cli._options import (
    DATA_HELP,
    MODEL_HELP,
    SOURCE_DATA_HELP,
    AsJson,
    DatasetFileOptions,
    ExamplesModelName,
    HtmlPath,
    LabelColumn,
    ModelOptions,
    Quiet,
    SamplingOptions,
    TransformOptions,
    WorkerOptions,
    with_option_groups,
)
from oodometer.cli._runtime import console, print_json, progress_bar
from oodometer.core.errors import InputError, UnknownName
from oodometer.data.prediction_files import ScoreFile
from oodometer.report import terminal


@with_option_groups
def rank(
    model: Annotated[list[str], typer.Argument(metavar="MODEL", help=f"{MODEL_HELP} Two or more.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)],
    *,
    score: Annotated[
        str | None,
        typer.Option(
            help="Score to rank by: ni, pa, ne, ei, an estimator such as atc-mc, or both joined by "
            "+, such as ni+doc. Default: ni, or ni+doc with --source-data."
        ),
    ] = None,
    transform_options: TransformOptions,
    sampling: SamplingOptions,
    source_data: Annotated[list[str] | None, typer.Option(help=SOURCE_DATA_HELP)] = None,
    known_accuracies: Annotated[
        Path | None,
        typer.Option(
            help="Table with the columns model and accuracy, for models whose accuracy on DATA is "
            "known. The accuracies of all models are predicted from them."
        ),
    ] = None,
    html: HtmlPath = None,
    examples_of: ExamplesModelName = None,
    label_column: LabelColumn = None,
    data_options: DatasetFileOptions,
    model_options: ModelOptions,
    worker_options: WorkerOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Rank models by a score that predicts their accuracy on DATA, without labels.

    Example:
      oodometer rank a.onnx b.onnx c.onnx photos/ -t randaugment
    """
    from oodometer.neighborhood import as_models
    from oodometer.neighborhood.ranking import rank as rank_models

    if len(model) < 2:
        raise InputError(f"A ranking needs two models or more; got {len(model)}.")
    if source_data and len(source_data) > 1:
        raise InputError("rank takes one --source-data. Join the files, or give one of them.")
    runner = worker_options.optional_runner()
    check_report_path(html)
    models = as_models([model_options.open(location) for location in model])
    if examples_of is not None and examples_of not in models:
        raise UnknownName("model", examples_of, models)
    accuracies = None if known_accuracies is None else _load_accuracies(known_accuracies)
    # If a source is given, --label-column is a column of the source. Otherwise it is a column of
    # the data, and only the HTML report uses its labels.
    dataset = data_options.open(data, None if source_data else label_column)
    source = data_options.open(source_data[0], label_column) if source_data else None
    transform = transform_options.make(dataset)
    with progress_bar() as progress:
        result = rank_models(
            models,
            dataset,
            score=score,
            transform=transform,
            source=source,
            known_accuracies=accuracies,
            draws=sampling.draws,
            identity=transform_options.includes_identity(),
            seed=sampling.seed,
            batch_size=sampling.batch_size,
            threads=sampling.threads,
            runner=runner,
            progress=progress,
        )
    if as_json:
        print_json(result.to_dict())
    else:
        terminal.show_ranking(console(), result)
    if html is not None:
        from oodometer.report import ranking_page

        page = ranking_page(
            result,
            None if result.neighborhoods is None else result.neighborhoods.sampler,
            title=f"{result.data}: which model is best?",
            reproduce=invariance_provenance(model, sampling.seed, result.neighborhoods),
            known_accuracies=accuracies,
            model=examples_of,
        )
        write_report_page(page, html)


def _load_accuracies(path: Path) -> dict[str, float]:
    """Return the accuracy of each model, from a table with the columns model and accuracy."""
    table = ScoreFile.open(path)
    names = table.column("model").astype(str)
    values = table.column("accuracy")
    try:
        return dict(zip(names.tolist(), values.astype(float).tolist(), strict=True))
    except ValueError as error:
        raise InputError(f"{path.name}: the column accuracy must contain numbers.") from error
