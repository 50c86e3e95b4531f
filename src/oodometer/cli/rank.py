"""The `oodometer rank` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli._invariance_provenance import (
    ExamplesModelName,
    invariance_provenance,
    recreate_sampler,
    validate_model_name,
)
from oodometer.cli._model_and_data_options import (
    DATA_HELP,
    MODEL_HELP,
    BatchSize,
    ClassNamesOption,
    DrawCount,
    FillMaskModelPath,
    ImageSize,
    InputColumns,
    LabelField,
    Magnitude,
    OutputTypeOption,
    PixelMean,
    PixelStd,
    RequestTimeout,
    SkipUnreadable,
    TextColumns,
    ThreadCount,
    TransformName,
    TranslatorPaths,
    TrustPickle,
    WordnetFolder,
    make_transform,
    open_dataset,
    open_model,
)
from oodometer.cli._options import (
    AsJson,
    HtmlPath,
    Seed,
    check_report_path,
    console,
    error_console,
    print_json,
)
from oodometer.cli._provenance import write_report_page
from oodometer.cli._run_options import Scheduler, Workers, make_optional_runner
from oodometer.core.errors import InputError
from oodometer.data.prediction_files import ScoreFile
from oodometer.report import terminal


def rank(
    model: Annotated[list[str], typer.Argument(metavar="MODEL", help=f"{MODEL_HELP} Two or more.")],
    data: Annotated[str, typer.Option(help=DATA_HELP)],
    by: Annotated[str, typer.Option(help="ni, pa, ne, ei, or an estimator such as atc-mc.")] = "ni",
    transform: TransformName = None,
    magnitude: Magnitude = None,
    wordnet: WordnetFolder = None,
    filler: FillMaskModelPath = None,
    translator: TranslatorPaths = None,
    draws: DrawCount = 10,
    source: Annotated[
        str | None, typer.Option(help="Labelled source data, for an estimator.")
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(help="CSV of model, accuracy: those known on DATA, to predict the others'."),
    ] = None,
    html: HtmlPath = None,
    examples_of: ExamplesModelName = None,
    labels: LabelField = None,
    text: TextColumns = None,
    inputs: InputColumns = None,
    size: ImageSize = None,
    skip_bad: SkipUnreadable = False,
    classes: ClassNamesOption = None,
    outputs: OutputTypeOption = None,
    mean: PixelMean = None,
    std: PixelStd = None,
    timeout: RequestTimeout = None,
    trust_pickle: TrustPickle = False,
    seed: Seed = 0,
    batch: BatchSize = None,
    threads: ThreadCount = 1,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Order models by how well they should do on DATA, without labels.

    Example: oodometer rank a.onnx b.onnx c.onnx --data photos/ -t randaugment
    """
    from oodometer.neighborhood import as_models
    from oodometer.neighborhood.ranking import rank as ranked

    if len(model) < 2:
        raise InputError(f"There must be two models or more to rank; got {len(model)}.")
    runner = make_optional_runner(workers, scheduler)
    check_report_path(html)
    models = as_models(
        [open_model(one, classes, outputs, trust_pickle, (mean, std), timeout) for one in model]
    )
    shown = validate_model_name(examples_of, models)
    accuracies = None if known is None else _load_accuracies(known)
    # Labels are the source's; without a source they are the data's own, for the report alone.
    dataset = open_dataset(data, None if source else labels, text, inputs, size, skip_bad)
    labelled = (
        None if source is None else open_dataset(source, labels, text, inputs, size, skip_bad)
    )
    chosen = make_transform(transform, dataset, magnitude, wordnet, filler, translator)
    with terminal.progress_bar(error_console()) as progress:
        found = ranked(
            models,
            dataset,
            by=by,
            transform=chosen,
            source=labelled,
            known_accuracies=accuracies,
            draws=draws,
            seed=seed,
            batch_size=batch,
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
