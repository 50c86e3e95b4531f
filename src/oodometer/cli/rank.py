"""The `oodometer rank` command."""

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
    Labels,
    Magnitude,
    Mean,
    OutputsAre,
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
    opened_dataset,
    opened_model,
)
from oodometer.cli._options import (
    AsJson,
    Html,
    Seed,
    console,
    errors,
    page_can_be_made,
    show_json,
)
from oodometer.cli._provenance import written
from oodometer.cli._run_options import Scheduler, Workers, runner_beside
from oodometer.core.errors import InputError
from oodometer.data.prediction_files import Outputs
from oodometer.report import terminal


def rank(
    model: Annotated[list[str], typer.Argument(metavar="MODEL", help=f"{MODEL_HELP} Two or more.")],
    data: Annotated[str, typer.Option(help=DATA_HELP)],
    by: Annotated[str, typer.Option(help="ni, pa, ne, ei, or an estimator such as atc-mc.")] = "ni",
    transform: TransformName = None,
    magnitude: Magnitude = None,
    wordnet: Wordnet = None,
    filler: Filler = None,
    translator: Translator = None,
    draws: Draws = 10,
    source: Annotated[
        str | None, typer.Option(help="Labelled source data, for an estimator.")
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(help="CSV of model, accuracy: those known on DATA, to predict the others'."),
    ] = None,
    html: Html = None,
    examples_of: ExamplesOf = None,
    labels: Labels = None,
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
    """Order models by how well they should do on DATA, without labels.

    Example: oodometer rank a.onnx b.onnx c.onnx --data photos/ -t randaugment
    """
    from oodometer.neighborhood import opened_models
    from oodometer.neighborhood.ranking import rank as ranked

    if len(model) < 2:
        raise InputError(f"There must be two models or more to rank; got {len(model)}.")
    runner = runner_beside(workers, scheduler)
    page_can_be_made(html)
    models = opened_models(
        [opened_model(one, classes, outputs, trust_pickle, (mean, std), timeout) for one in model]
    )
    shown = shown_model(examples_of, models)
    accuracies = None if known is None else _accuracies(known)
    # Labels are the source's; without a source they are the data's own, for the report alone.
    dataset = opened_dataset(data, None if source else labels, text, inputs, size, skip_bad)
    labelled = (
        None if source is None else opened_dataset(source, labels, text, inputs, size, skip_bad)
    )
    chosen = chosen_transform(transform, dataset, magnitude, wordnet, filler, translator)
    with terminal.progress_bar(errors()) as progress:
        found = ranked(
            models,
            dataset,
            by=by,
            transform=chosen,
            source=labelled,
            known=accuracies,
            draws=draws,
            seed=seed,
            batch=batch,
            threads=threads,
            runner=runner,
            progress=progress,
        )
    if as_json:
        show_json(found.to_dict())
    else:
        terminal.show_ranking(console(), found)
    if html is not None:
        from oodometer.report import ranking_page

        page = ranking_page(
            found,
            shown_again(dataset, chosen, seed),
            title=f"{found.data}: which model is best?",
            reproduce=remade(model, seed, found.neighborhoods),
            known=accuracies,
            model=shown,
        )
        written(page, html)


def _accuracies(path: Path) -> dict[str, float]:
    """Accuracy by model, of a table with these two columns."""
    opened = Outputs.open(path)
    names, values = opened.column("model").astype(str), opened.column("accuracy")
    try:
        return dict(zip(names.tolist(), values.astype(float).tolist(), strict=True))
    except ValueError as error:
        raise InputError(f"{path.name}: the column accuracy must be numbers.") from error
