"""Options that name a model, data or a transform, and what is opened from them."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from oodometer.core.errors import InputError
from oodometer.core.protocols import Dataset, Model, Transform

MODEL_HELP = (
    "An .onnx file, a local Hugging Face folder, a model's folder of a pool, a .skops file, an "
    "http(s) address, or package.module:function."
)
DATA_HELP = "An image folder, an .npz, .npy, .csv, .parquet or .arrow file."


def _transforms() -> list[str]:
    """What a shell completes."""
    from oodometer import transforms

    return [member.name for member in transforms.every()]


TransformName = Annotated[
    str | None,
    typer.Option(
        "--transform",
        "-t",
        help="Its name; see oodometer transforms.",
        autocompletion=_transforms,
    ),
]
Magnitude = Annotated[float | None, typer.Option(help="The bound of every draw.")]
Wordnet = Annotated[Path | None, typer.Option(help="Folder of the WordNet files, for eda.")]
Filler = Annotated[
    Path | None, typer.Option(help="Local fill-mask model, for ssmba. [default: learned from DATA]")
]
Translator = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        metavar="FORWARD BACKWARD",
        help="Local translation models, for backtranslate. [default: Apertium]",
    ),
]
Draws = Annotated[int, typer.Option("--draws", "-n", help="Transformed copies of every example.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Inputs shown at a time.")]
Threads = Annotated[int, typer.Option(min=0, help="Threads that transform beside the models.")]
Text = Annotated[
    str | None, typer.Option(help="Text column of a table, or two between a comma for pairs.")
]
InputsAre = Annotated[
    str | None,
    typer.Option("--inputs", help="Array of an .npz file, or columns of a table between commas."),
]
Labels = Annotated[str | None, typer.Option(help="Column (or .npz array) of the true classes.")]
Size = Annotated[int | None, typer.Option(min=1, help="Bring images to this size.")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out unreadable images and empty texts.")
]
Classes = Annotated[str | None, typer.Option(help="Class names in order, between commas.")]
OutputsAre = Annotated[
    str | None, typer.Option("--outputs", help="What the model gives: probs, logits or classes.")
]
Mean = Annotated[
    str | None, typer.Option(help="Of pixels 0…1 by channel, between commas, for an .onnx file.")
]
Std = Annotated[str | None, typer.Option(help="Of pixels 0…1 by channel, with --mean.")]
Timeout = Annotated[
    float | None,
    typer.Option(help="Seconds that a try at an http(s) address may take. [default: 30]"),
]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="Load pickles, which can run any code they hold.")
]
Reference = Annotated[
    Path | None, typer.Option(help="Data that the transform learns from. [default: DATA]")
]


def opened_model(
    thing: str,
    classes: str | None,
    outputs: str | None,
    trust_pickle: bool,
    scaling: tuple[str | None, str | None],
    timeout: float | None,
) -> Model:
    """The model that was named, with the options given for it."""
    from oodometer.models import HttpModel, OnnxModel, as_model

    if outputs not in (None, "probs", "logits", "classes"):
        raise InputError(f"--outputs is probs, logits or classes; got {outputs!r}.")
    names = None if classes is None else classes.split(",")
    form = cast('Literal["probs", "logits", "classes"] | None', outputs)
    if timeout is not None:
        if not thing.startswith(("http://", "https://")):
            raise InputError(f"--timeout is for an http(s) address; got {thing!r}.")
        return HttpModel(thing, classes=names, outputs=form, timeout=timeout)
    if scaling == (None, None):
        return as_model(thing, classes=names, outputs=form, trust_pickle=trust_pickle)
    if not thing.endswith(".onnx"):
        raise InputError(f"--mean and --std are for .onnx files; got {thing!r}.")
    mean, std = (
        _numbers(text, name) for text, name in zip(scaling, ("--mean", "--std"), strict=True)
    )
    return OnnxModel(thing, classes=names, outputs=form, mean=mean, std=std)


def _numbers(text: str | None, option: str) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"{option} is numbers between commas, 0.5,0.5,0.5; got {text!r}."
        ) from error


def opened_dataset(
    thing: str,
    labels: str | None,
    text: str | None,
    inputs: str | None,
    size: int | None,
    skip_bad: bool,
) -> Dataset:
    """The data that were named."""
    from oodometer.data import as_dataset

    return as_dataset(
        Path(thing), labels=labels, text=text, inputs=inputs, size=size, skip_bad=skip_bad
    )


def chosen_transform(
    name: str | None,
    dataset: Dataset,
    magnitude: float | None,
    wordnet: Path | None,
    filler: Path | None,
    translator: tuple[Path, Path] | None,
) -> Transform:
    """The transform of that name with the settings that were given."""
    from oodometer import transforms as family
    from oodometer.transforms.text.marian import Marian

    chosen = family.named(name or family.USUAL[dataset.kind])
    given: dict[str, Any] = {
        "magnitude": magnitude,
        "wordnet": wordnet,
        "model": filler,
        "translator": None if translator is None else Marian(*translator),
    }
    settings = {key: value for key, value in given.items() if value is not None}
    known = {one.name for one in fields(chosen)}  # type: ignore[arg-type]
    for key in settings.keys() - known:
        option = "filler" if key == "model" else key
        raise InputError(
            f"--{option} is no setting of the transform {chosen.name!r}. Leave it out."
        )
    return replace(chosen, **settings) if settings else chosen  # type: ignore[type-var]


def folder_can_be_made(folder: Path | None) -> None:
    """Refuse before the work what would fail after it."""
    if folder is not None:
        from oodometer.report._gallery_folder import check_folder

        check_folder(folder)
