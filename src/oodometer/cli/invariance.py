"""The `oodometer invariance` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli._invariance_provenance import ExamplesOf, remade, shown_again, shown_model
from oodometer.cli._model_and_data_options import (
    DATA_HELP,
    MODEL_HELP,
    Batch,
    Classes,
    Draws,
    Filler,
    InputsAre,
    Magnitude,
    Mean,
    OutputsAre,
    Reference,
    Size,
    SkipBad,
    Std,
    Text,
    Threads,
    Timeout,
    TransformName,
    Translator,
    TrustPickle,
    Wordnet,
    chosen_transform,
    folder_can_be_made,
    opened_dataset,
    opened_model,
)
from oodometer.cli._options import (
    AsJson,
    Html,
    Seed,
    console,
    errors,
    note,
    page_can_be_made,
    show_json,
)
from oodometer.cli._provenance import written
from oodometer.cli._run_options import Scheduler, Workers, runner_beside
from oodometer.report import terminal


def invariance(
    model: Annotated[
        list[str], typer.Argument(metavar="MODEL", help=f"{MODEL_HELP} Several may be given.")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)],
    transform: TransformName = None,
    magnitude: Magnitude = None,
    wordnet: Wordnet = None,
    filler: Filler = None,
    translator: Translator = None,
    draws: Draws = 10,
    no_identity: Annotated[
        bool, typer.Option("--no-identity", help="The example itself has no vote.")
    ] = False,
    precision: Annotated[
        float | None, typer.Option(help="Stop when PA's 95 % interval is ± this (0.005).")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Show each model at most so many inputs.")
    ] = None,
    reference: Reference = None,
    save_examples: Annotated[
        Path | None, typer.Option(help="Write the least invariant neighborhoods to this folder.")
    ] = None,
    html: Html = None,
    examples_of: ExamplesOf = None,
    text: Text = None,
    inputs: InputsAre = None,
    size: Size = None,
    skip_bad: SkipBad = False,
    classes: Classes = None,
    outputs: OutputsAre = None,
    mean: Mean = None,
    std: Std = None,
    timeout: Timeout = None,
    trust_pickle: TrustPickle = False,
    seed: Seed = 0,
    batch: Batch = None,
    threads: Threads = 1,
    workers: Workers = 0,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """How invariant MODEL's decisions are in the neighborhoods of DATA, which needs no labels.

    Example: oodometer invariance model.onnx photos/ -t randaugment --precision 0.01
    """
    from oodometer.neighborhood import invariance as measured
    from oodometer.neighborhood import opened_models

    runner = runner_beside(workers, scheduler)
    page_can_be_made(html)
    folder_can_be_made(save_examples)
    models = opened_models(
        [opened_model(one, classes, outputs, trust_pickle, (mean, std), timeout) for one in model]
    )
    shown = shown_model(examples_of, models)
    dataset = opened_dataset(data, None, text, inputs, size, skip_bad)
    chosen = chosen_transform(transform, dataset, magnitude, wordnet, filler, translator)
    known = (
        None
        if reference is None
        else opened_dataset(str(reference), None, text, inputs, size, skip_bad)
    )
    with terminal.progress_bar(errors()) as progress:
        found = measured(
            models,
            dataset,
            chosen,
            draws=draws,
            identity=not no_identity,
            precision=precision,
            budget=budget,
            reference=known,
            seed=seed,
            batch=batch,
            threads=threads,
            runner=runner,
            progress=progress,
        )
    if as_json:
        show_json(found.to_dict())
    else:
        terminal.show_neighborhoods(console(), found, dataset.kind)
    if save_examples is None and html is None:
        return
    show = shown_again(dataset, chosen, seed, known)
    if save_examples is not None:
        from oodometer.report.gallery import write_gallery

        count = write_gallery(save_examples, found, show)
        note(f"Neighborhoods of {count} examples written to {save_examples}")
    if html is not None:
        from oodometer.report import invariance_page

        title = f"{found.data}: how stable are decisions?"
        facts = remade(model, found.seed, found)
        page = invariance_page(found, show, title=title, reproduce=facts, model=shown)
        written(page, html)
