"""The `oodometer rank` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli._options import (
    DATA_HELP,
    MODEL_HELP,
    SOURCE_DATA_HELP,
    AsJson,
    BatchSize,
    ClassNamesText,
    DrawCount,
    FillMaskModelPath,
    HtmlPath,
    ImageSize,
    InputColumns,
    LabelColumn,
    Magnitude,
    OutputTypeOption,
    PixelMean,
    PixelStd,
    RequestTimeout,
    Scheduler,
    Seed,
    SkipUnreadable,
    TextColumns,
    ThreadCount,
    TransformName,
    TranslatorPaths,
    TrustPickle,
    WordnetFolder,
    Workers,
    check_report_path,
    console,
    error_console,
    make_transform,
    open_dataset,
    open_model,
    print_json,
)
from oodometer.cli._provenance import (
    ExamplesModelName,
    invariance_provenance,
    recreate_sampler,
    validate_model_name,
    write_report_page,
)
from oodometer.cli._runtime import make_optional_runner
from oodometer.core.errors import InputError
from oodometer.data.prediction_files import ScoreFile
from oodometer.report import terminal


def rank(
    model: Annotated[list[str], typer.Argument(metavar="MODEL", help=f"{MODEL_HELP} Two or more.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)],
    score: Annotated[
        str, typer.Option(help="Score to rank by: ni, pa, ne, ei, or an estimator such as atc-mc.")
    ] = "ni",
    transform: TransformName = None,
    magnitude: Magnitude = None,
    wordnet: WordnetFolder = None,
    filler: FillMaskModelPath = None,
    translator: TranslatorPaths = None,
    draws: DrawCount = 10,
    source_data: Annotated[list[str] | None, typer.Option(help=SOURCE_DATA_HELP)] = None,
    known_accuracies: Annotated[
        Path | None,
        typer.Option(
            help="Table of model and accuracy: those known on DATA, to predict the others'."
        ),
    ] = None,
    html: HtmlPath = None,
    examples_of: ExamplesModelName = None,
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
    batch_size: BatchSize = None,
    threads: ThreadCount = 1,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Rank models by their expected accuracy on DATA, without labels.

    Example: oodometer rank a.onnx b.onnx c.onnx photos/ -t randaugment
    """
    from oodometer.neighborhood import as_models
    from oodometer.neighborhood.ranking import rank as ranked

    if len(model) < 2:
        raise InputError(f"There must be two models or more to rank; got {len(model)}.")
    runner = make_optional_runner(workers, scheduler)
    check_report_path(html)
    models = as_models(
        [open_model(one, class_names, outputs, trust_pickle, (mean, std), timeout) for one in model]
    )
    shown = validate_model_name(examples_of, models)
    accuracies = None if known_accuracies is None else _load_accuracies(known_accuracies)
    # Labels are the source's; without a source they are the data's own, for the report alone.
    own_labels = None if source_data else label_column
    dataset = open_dataset(data, own_labels, text, inputs, size, skip_bad)
    labelled = None
    if source_data:
        if len(source_data) > 1:
            raise InputError("rank takes one --source-data. Join the files, or give one of them.")
        labelled = open_dataset(source_data[0], label_column, text, inputs, size, skip_bad)
    chosen = make_transform(transform, dataset, magnitude, wordnet, filler, translator)
    with terminal.progress_bar(error_console()) as progress:
        found = ranked(
            models,
            dataset,
            score=score,
            transform=chosen,
            source=labelled,
            known_accuracies=accuracies,
            draws=draws,
            seed=seed,
            batch_size=batch_size,
            threads=threads,
            runner=runner,
            progress=progress,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        terminal.show_ranking(console(), found)
    if html is not None:
        from oodometer.report import ranking_page

        page = ranking_page(
            found,
            recreate_sampler(dataset, chosen, seed),
            title=f"{found.data}: which model is best?",
            reproduce=invariance_provenance(model, seed, found.neighborhoods),
            known_accuracies=accuracies,
            model=shown,
        )
        write_report_page(page, html)


def _load_accuracies(path: Path) -> dict[str, float]:
    """Accuracy by model, of a table with these two columns."""
    opened = ScoreFile.open(path)
    names, values = opened.column("model").astype(str), opened.column("accuracy")
    try:
        return dict(zip(names.tolist(), values.astype(float).tolist(), strict=True))
    except ValueError as error:
        raise InputError(f"{path.name}: the column accuracy must be numbers.") from error
