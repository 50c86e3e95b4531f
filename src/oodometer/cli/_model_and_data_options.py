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


def _transform_names() -> list[str]:
    """What a shell completes."""
    from oodometer import transforms

    return [member.name for member in transforms.available()]


TransformName = Annotated[
    str | None,
    typer.Option(
        "--transform",
        "-t",
        help="Transform, by name; see oodometer transforms.",
        autocompletion=_transform_names,
    ),
]
Magnitude = Annotated[
    float | None, typer.Option(help="Magnitude of the transform, the bound of every draw.")
]
WordnetFolder = Annotated[Path | None, typer.Option(help="Folder of the WordNet files, for eda.")]
FillMaskModelPath = Annotated[
    Path | None, typer.Option(help="Local fill-mask model, for ssmba. [default: learned from DATA]")
]
TranslatorPaths = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        metavar="FORWARD BACKWARD",
        help="Local translation models, for backtranslate. [default: Apertium]",
    ),
]
DrawCount = Annotated[
    int, typer.Option("--draws", "-n", help="Transformed copies of every example.")
]
BatchSize = Annotated[
    int | None, typer.Option(min=1, help="Number of inputs that a model classifies at a time.")
]
ThreadCount = Annotated[
    int, typer.Option(min=0, help="Number of threads that transform inputs beside the models.")
]
TextColumns = Annotated[
    str | None,
    typer.Option(help="Text column of a table, or two, separated by a comma, for pairs."),
]
InputColumns = Annotated[
    str | None,
    typer.Option(
        "--inputs", help="Array of an .npz file, or columns of a table, separated by commas."
    ),
]
ImageSize = Annotated[int | None, typer.Option(min=1, help="Size that images are resized to.")]
SkipUnreadable = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out unreadable images and empty texts.")
]
OutputTypeOption = Annotated[
    str | None,
    typer.Option("--outputs", help="Type of the model's outputs: probs, logits or classes."),
]
PixelMean = Annotated[
    str | None,
    typer.Option(
        help="Mean of each channel, pixels in 0…1, separated by commas, for an .onnx file."
    ),
]
PixelStd = Annotated[
    str | None, typer.Option(help="Standard deviation of each channel, with --mean.")
]
RequestTimeout = Annotated[
    float | None,
    typer.Option(help="Seconds that a request to an http(s) address may take. [default: 30]"),
]
TrustPickle = Annotated[
    bool,
    typer.Option("--trust-pickle", help="Load pickles, which can run any code that they contain."),
]
TransformData = Annotated[
    Path | None, typer.Option(help="Dataset that the transform learns from. [default: DATA]")
]


def open_model(
    location: str,
    class_names: str | None,
    outputs: str | None,
    trust_pickle: bool,
    mean_and_std: tuple[str | None, str | None],
    timeout: float | None,
) -> Model:
    """The model that was named, with the options given for it."""
    from oodometer.models import HttpModel, OnnxModel, as_model

    if outputs not in (None, "probs", "logits", "classes"):
        raise InputError(f"--outputs is probs, logits or classes; got {outputs!r}.")
    names = None if class_names is None else class_names.split(",")
    form = cast('Literal["probs", "logits", "classes"] | None', outputs)
    if timeout is not None:
        if not location.startswith(("http://", "https://")):
            raise InputError(f"--timeout is for an http(s) address; got {location!r}.")
        return HttpModel(location, class_names=names, outputs=form, timeout=timeout)
    if mean_and_std == (None, None):
        return as_model(location, class_names=names, outputs=form, trust_pickle=trust_pickle)
    if not location.endswith(".onnx"):
        raise InputError(f"--mean and --std are for .onnx files; got {location!r}.")
    mean, std = (
        _parse_floats(text, name)
        for text, name in zip(mean_and_std, ("--mean", "--std"), strict=True)
    )
    return OnnxModel(location, class_names=names, outputs=form, mean=mean, std=std)


def _parse_floats(text: str | None, option: str) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"{option} is numbers separated by commas, 0.5,0.5,0.5; got {text!r}."
        ) from error


def open_dataset(
    location: str,
    labels: str | None,
    text: str | None,
    inputs: str | None,
    size: int | None,
    skip_bad: bool,
) -> Dataset:
    """The data that were named."""
    from oodometer.data import as_dataset

    return as_dataset(
        Path(location), labels=labels, text=text, inputs=inputs, size=size, skip_bad=skip_bad
    )


def make_transform(
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

    chosen = family.get(name or family.DEFAULT_TRANSFORMS[dataset.kind])
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


def check_gallery_folder(folder: Path | None) -> None:
    """Refuse before the work what would fail after it."""
    if folder is not None:
        from oodometer.report._gallery_folder import check_gallery_folder

        check_gallery_folder(folder)
