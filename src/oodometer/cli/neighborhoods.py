"""Commands that show data to models: invariance, rank, transforms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from oodometer import screen
from oodometer.cli.opening import (
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
    Reference,
    Size,
    SkipBad,
    Std,
    Text,
    Timeout,
    TransformName,
    Translator,
    TrustPickle,
    Wordnet,
    Workers,
    chosen_transform,
    folder_can_be_made,
    opened_dataset,
    opened_model,
)
from oodometer.cli.options import AsJson, Seed, console, errors
from oodometer.core import Transform
from oodometer.errors import InputError
from oodometer.files import Outputs


def invariance(
    model: Annotated[list[str], typer.Argument(help=f"{MODEL_HELP} Several may be given.")],
    data: Annotated[str, typer.Argument(help=DATA_HELP)],
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
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """How invariant MODEL's decisions are in the neighborhoods of DATA, which needs no labels.

    Example: oodometer invariance model.onnx photos/ --transform randaugment --precision 0.01
    """
    from oodometer.neighborhood import invariance as measured

    models = [
        opened_model(one, classes, outputs, trust_pickle, (mean, std), timeout) for one in model
    ]
    dataset = opened_dataset(data, None, text, inputs, size, skip_bad)
    chosen = chosen_transform(transform, dataset, magnitude, wordnet, filler, translator)
    folder_can_be_made(save_examples)
    known = (
        None
        if reference is None
        else opened_dataset(str(reference), None, text, inputs, size, skip_bad)
    )
    with screen.progress_bar(errors()) as progress:
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
            workers=workers,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2, allow_nan=False))
    else:
        screen.show_neighborhoods(console(), found, dataset.kind)
    if save_examples is not None:
        from oodometer.neighborhood import ready_transform
        from oodometer.report.gallery import write_gallery
        from oodometer.showing import Show

        learned_from = dataset if known is None else known
        show = Show(dataset, ready_transform(chosen, dataset, learned_from, seed), seed)
        named = dict(zip(found.models, models, strict=True))
        written = write_gallery(save_examples, found, named, show)
        typer.echo(f"Neighborhoods of {written} examples written to {save_examples}", err=True)


def rank(
    model: Annotated[list[str], typer.Argument(help=f"{MODEL_HELP} Two or more.")],
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
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """Order models by how well they should do on DATA, without labels.

    Example: oodometer rank a.onnx b.onnx c.onnx --data photos/ --transform randaugment
    """
    from oodometer.ranking import rank as ranked

    if len(model) < 2:
        raise InputError(f"There must be two models or more to rank; got {len(model)}.")
    models = [
        opened_model(one, classes, outputs, trust_pickle, (mean, std), timeout) for one in model
    ]
    dataset = opened_dataset(data, None, text, inputs, size, skip_bad)
    labelled = (
        None if source is None else opened_dataset(source, labels, text, inputs, size, skip_bad)
    )
    with screen.progress_bar(errors()) as progress:
        found = ranked(
            models,
            dataset,
            by=by,
            transform=chosen_transform(transform, dataset, magnitude, wordnet, filler, translator),
            source=labelled,
            known=None if known is None else _accuracies(known),
            draws=draws,
            seed=seed,
            batch=batch,
            workers=workers,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2, allow_nan=False))
    else:
        screen.show_ranking(console(), found)


def transforms(
    suggest: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="MODEL DATA", help="Which of them are fit for this model and data."),
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="How many to look at.")] = 500,
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
    as_json: AsJson = False,
) -> None:
    """List every transform; with --suggest, try each on a model and data.

    Example: oodometer transforms --suggest model.onnx photos/
    """
    from oodometer import transforms as family

    if suggest is None:
        rows = [_described(member) for member in family.every()]
        if as_json:
            typer.echo(json.dumps(rows, indent=2))
        else:
            screen.show_transforms(console(), rows)
        return
    from oodometer.suitability import suggest_transforms

    model = opened_model(suggest[0], classes, outputs, trust_pickle, (mean, std), timeout)
    dataset = opened_dataset(suggest[1], labels, text, inputs, size, skip_bad)
    with screen.progress_bar(errors()) as progress:
        found = suggest_transforms(model, dataset, examples=examples, seed=seed, progress=progress)
    if as_json:
        typer.echo(json.dumps([one.to_dict() for one in found], indent=2))
    else:
        screen.show_suggestions(console(), found)


def _accuracies(path: Path) -> dict[str, float]:
    """Accuracy by model, of a table with these two columns."""
    opened = Outputs.open(path)
    names, values = opened.column("model").astype(str), opened.column("accuracy")
    try:
        return dict(zip(names.tolist(), values.astype(float).tolist(), strict=True))
    except ValueError as error:
        raise InputError(f"{path.name}: the column accuracy must be numbers.") from error


def _described(member: Transform) -> dict[str, Any]:
    return {
        "name": member.name,
        "label": member.label,
        "kinds": list(member.kinds),
        "magnitude": member.magnitude,
        "assumes": member.assumes,
    }
