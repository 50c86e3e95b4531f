"""The `oodometer invariance` command, which measures invariance under transforms of the data."""

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
    AsJson,
    DatasetFileOptions,
    ExamplesModelName,
    HtmlPath,
    ModelOptions,
    Quiet,
    SamplingOptions,
    TransformOptions,
    WorkerOptions,
    with_option_groups,
)
from oodometer.cli._runtime import console, print_json, print_note, progress_bar
from oodometer.core.errors import UnknownName
from oodometer.report import terminal


@with_option_groups
def invariance(
    model: Annotated[list[str], typer.Argument(metavar="MODEL", help=f"{MODEL_HELP} One or more.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)],
    *,
    transform_options: TransformOptions,
    sampling: SamplingOptions,
    precision: Annotated[
        float | None,
        typer.Option(
            help="Stop when the 95 % confidence interval of PA (pairwise agreement) has at most "
            "this half-width, such as 0.005."
        ),
    ] = None,
    max_inputs: Annotated[
        int | None, typer.Option(help="Maximum number of inputs that each model classifies.")
    ] = None,
    transform_data: Annotated[
        Path | None, typer.Option(help="Dataset that the transform learns from. [default: DATA]")
    ] = None,
    save_examples: Annotated[
        Path | None,
        typer.Option(
            help="Folder to which the examples with the least invariant predictions are written."
        ),
    ] = None,
    html: HtmlPath = None,
    examples_of: ExamplesModelName = None,
    data_options: DatasetFileOptions,
    model_options: ModelOptions,
    worker_options: WorkerOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure how stable the predictions of MODEL are when DATA are transformed, without labels.

    Example:
      oodometer invariance model.onnx photos/ -t randaugment --precision 0.01
    """
    from oodometer.neighborhood import as_models
    from oodometer.neighborhood import invariance as compute_invariance

    runner = worker_options.optional_runner()
    check_report_path(html)
    if save_examples is not None:
        from oodometer.report.gallery import check_gallery_folder, write_gallery

        check_gallery_folder(save_examples)
    models = as_models([model_options.open(location) for location in model])
    if examples_of is not None and examples_of not in models:
        raise UnknownName("model", examples_of, models)
    dataset = data_options.open(data)
    transform = transform_options.make(dataset)
    reference = None if transform_data is None else data_options.open(transform_data)
    with progress_bar() as progress:
        result = compute_invariance(
            models,
            dataset,
            transform=transform,
            draws=sampling.draws,
            identity=transform_options.includes_identity(),
            precision=precision,
            max_inputs=max_inputs,
            transform_data=reference,
            seed=sampling.seed,
            batch_size=sampling.batch_size,
            threads=sampling.threads,
            runner=runner,
            progress=progress,
        )
    if as_json:
        print_json(result.to_dict())
    else:
        terminal.show_neighborhoods(console(), result, dataset.kind)
    assert result.sampler is not None
    if save_examples is not None:
        count = write_gallery(save_examples, result, result.sampler)
        print_note(f"Neighborhoods of {count} examples written to {save_examples}")
    if html is not None:
        from oodometer.report import invariance_page

        page = invariance_page(
            result,
            result.sampler,
            title=f"{result.data}: how stable are the decisions?",
            reproduce=invariance_provenance(model, result.seed, result),
            model=examples_of,
        )
        write_report_page(page, html)
