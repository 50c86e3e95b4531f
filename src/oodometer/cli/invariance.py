"""The `oodometer invariance` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli._options import (
    DATA_HELP,
    MODEL_HELP,
    AsJson,
    BatchSize,
    ClassNamesText,
    DrawCount,
    FillMaskModelPath,
    HtmlPath,
    ImageSize,
    InputColumns,
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
    TransformData,
    TransformName,
    TranslatorPaths,
    TrustPickle,
    WordnetFolder,
    Workers,
    check_gallery_folder,
    check_report_path,
    console,
    error_console,
    make_transform,
    open_dataset,
    open_model,
    print_json,
    print_note,
)
from oodometer.cli._provenance import (
    ExamplesModelName,
    invariance_provenance,
    recreate_sampler,
    validate_model_name,
    write_report_page,
)
from oodometer.cli._runtime import make_optional_runner
from oodometer.report import terminal


def invariance(
    model: Annotated[
        list[str], typer.Argument(metavar="MODEL", help=f"{MODEL_HELP} Several may be given.")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)],
    transform: TransformName = None,
    magnitude: Magnitude = None,
    wordnet: WordnetFolder = None,
    filler: FillMaskModelPath = None,
    translator: TranslatorPaths = None,
    draws: DrawCount = 10,
    no_identity: Annotated[
        bool,
        typer.Option(
            "--no-identity", help="Leave the untransformed example out of its neighborhood."
        ),
    ] = False,
    precision: Annotated[
        float | None,
        typer.Option(help="Stop when the 95 % interval of PA has this half-width (0.005)."),
    ] = None,
    max_inputs: Annotated[
        int | None, typer.Option(help="Maximum number of inputs that each model classifies.")
    ] = None,
    transform_data: TransformData = None,
    save_examples: Annotated[
        Path | None, typer.Option(help="Write the least invariant neighborhoods to this folder.")
    ] = None,
    html: HtmlPath = None,
    examples_of: ExamplesModelName = None,
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
    """Measure how stable the decisions of MODEL are in neighborhoods of DATA, without labels.

    Example: oodometer invariance model.onnx photos/ -t randaugment --precision 0.01
    """
    from oodometer.neighborhood import as_models
    from oodometer.neighborhood import invariance as measured

    runner = make_optional_runner(workers, scheduler)
    check_report_path(html)
    check_gallery_folder(save_examples)
    models = as_models(
        [open_model(one, class_names, outputs, trust_pickle, (mean, std), timeout) for one in model]
    )
    shown = validate_model_name(examples_of, models)
    dataset = open_dataset(data, None, text, inputs, size, skip_bad)
    chosen = make_transform(transform, dataset, magnitude, wordnet, filler, translator)
    known = (
        None
        if transform_data is None
        else open_dataset(str(transform_data), None, text, inputs, size, skip_bad)
    )
    with terminal.progress_bar(error_console()) as progress:
        found = measured(
            models,
            dataset,
            transform=chosen,
            draws=draws,
            identity=not no_identity,
            precision=precision,
            max_inputs=max_inputs,
            transform_data=known,
            seed=seed,
            batch_size=batch_size,
            threads=threads,
            runner=runner,
            progress=progress,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        terminal.show_neighborhoods(console(), found, dataset.kind)
    if save_examples is None and html is None:
        return
    show = recreate_sampler(dataset, chosen, seed, known)
    if save_examples is not None:
        from oodometer.report.gallery import write_gallery

        count = write_gallery(save_examples, found, show)
        print_note(f"Neighborhoods of {count} examples written to {save_examples}")
    if html is not None:
        from oodometer.report import invariance_page

        title = f"{found.data}: how stable are decisions?"
        facts = invariance_provenance(model, found.seed, found)
        page = invariance_page(found, show, title=title, reproduce=facts, model=shown)
        write_report_page(page, html)
