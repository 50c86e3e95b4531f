"""Options that several commands share, the console, and checks made before the work."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from oodometer.assessment.conformal_interval import History
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, Transform
from oodometer.data.prediction_files import PredictionColumns, ScoreFile
from oodometer.report.terminal import printable

# What a shell gives for a program that a closed pipe has ended: 128 and the signal's number.
BROKEN_PIPE_EXIT_CODE = 141

# One option has one meaning and one help text in all commands.
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no notes.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
HTML_HELP = "Path of the HTML report to write."
HtmlPath = Annotated[Path | None, typer.Option(help=HTML_HELP)]
OutputPath = Annotated[
    Path | None,
    typer.Option(help="File to write the result to; its extension selects the format."),
]
MethodNames = Annotated[
    list[str] | None,
    typer.Option(help="Estimator, by name; repeat, or separate by commas. [default: all]"),
]
MeasureNames = Annotated[
    list[str] | None,
    typer.Option(
        "--measure", "-m", help="Measure, by name; repeat, or separate by commas. [default: all]"
    ),
]
MetricNames = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        help="Metric, by name, or all; repeat, or separate by commas. "
        "[default: all; of estimate, none]",
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(help="Column (or .npz array) of the true classes; of predictions usually label."),
]
ProbColumns = Annotated[
    str | None, typer.Option(help="List column, or prefix of columns, of probabilities.")
]
LogitColumns = Annotated[
    str | None, typer.Option(help="List column, or prefix of columns, of logits.")
]
ClassNamesText = Annotated[
    str | None, typer.Option("--class-names", help="Class names in order, separated by commas.")
]
SegmentColumn = Annotated[
    str | None, typer.Option(help="Column whose every value (or day) gets an estimate of its own.")
]
Temperature = Annotated[
    str, typer.Option(help="Temperature of the softmax: 'fit', 'none' or a number.")
]
Replicates = Annotated[int, typer.Option(help="Number of bootstrap replicates.")]
OtherModelPaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--other-model",
        help="Predictions of another model on the target, trained alike (for gde); repeatable.",
    ),
]
ReferenceDomain = Annotated[
    str | None,
    typer.Option(
        help="Test set that the others are compared with, for a table of accuracies (models × sets)."
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder of the domains' files. [default: $OODOMETER_DATA]"),
]
StoreFolder = Annotated[
    Path | None,
    typer.Option("--store-dir", help="Folder of the study's store. [default: studies/NAME]"),
]
SOURCE_DATA_HELP = "Labelled dataset of the source; measure takes several, one per source domain."
Limit = Annotated[
    int | None,
    typer.Option(help="Maximum number of models or evaluations to compute in this run."),
]
Workers = Annotated[
    int, typer.Option(help="Number of worker processes, one core each; 0: this process.")
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler to work on: tcp://host:8786.")
]

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


class PipeSafeConsole(Console):
    """A console with which a closed pipe is no failure of ours, as with any program."""

    def on_broken_pipe(self) -> None:
        """Go without a word."""
        raise BrokenPipeError


def console() -> Console:
    """Where tables go."""
    return PipeSafeConsole(highlight=False, no_color=_is_color_disabled())


def error_console() -> Console:
    """Where progress and notes go."""
    return PipeSafeConsole(
        stderr=True, highlight=False, no_color=_is_color_disabled(), quiet=_quiet.get()
    )


def _is_color_disabled() -> bool | None:
    """Whether CLICOLOR forbids colour; rich itself heeds NO_COLOR and TERM."""
    return True if os.environ.get("CLICOLOR") == "0" else None


def split_names(names: Sequence[str] | None) -> list[str] | None:
    """Return the names of a repeatable option whose values may be separated by commas.

    >>> split_names(["ac, doc", "atc-mc"]), split_names(None)
    (['ac', 'doc', 'atc-mc'], None)
    """
    if names is None:
        return None
    return [part.strip() for name in names for part in name.split(",") if part.strip()]


@contextmanager
def quiet_output(enabled: bool) -> Iterator[None]:
    """Neither progress nor notes, if wanted."""
    before = _quiet.set(enabled)
    try:
        yield
    finally:
        _quiet.reset(before)


def print_note(message: str) -> None:
    """A line beside the result: where a file is."""
    error_console().print(Text(printable(message)), soft_wrap=True)


def print_json(result: Any) -> None:
    """A result for machines; what is no number is null, for JSON has no other word for it."""
    typer.echo(json.dumps(_json_safe(result), indent=2, allow_nan=False))


def _json_safe(data: Any) -> Any:
    """Without numbers that JSON lacks.

    >>> _json_safe({"a": [1.5, float("nan")]})
    {'a': [1.5, None]}
    """
    if isinstance(data, Mapping):
        return {key: _json_safe(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_json_safe(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def check_report_path(html: Path | None) -> None:
    """Refuse what would fail after the work, or destroy: a file that is no page is not replaced."""
    if html is not None:
        from oodometer import report

        report.check_available()
        report.check_writable(html)
        if html.exists() and not _is_report_page(html):
            raise InputError(
                f"{html} is there already and is no page. Give another name, such as "
                f"{html.with_suffix('.html').name}, or remove it first."
            )


def _is_report_page(path: Path) -> bool:
    """Whether it begins as our pages do, or is empty."""
    with path.open("rb") as stream:
        start = stream.read(64).lstrip().lower()
    return not start or start.startswith(b"<!doctype html")


HistoryPaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--history",
        help="Past labelled domains, for an interval under shift: a table with columns estimate and "
        "truth, or one file of labelled predictions per domain (repeatable).",
    ),
]
ESTIMATE_COLUMN, TRUTH_COLUMN, SPREAD_COLUMN = "estimate", "truth", "spread"


def load_history(
    paths: Sequence[Path], columns: PredictionColumns
) -> History | list[Predictions] | None:
    """A table of estimates and truths, or labelled outputs of several domains."""
    files = [ScoreFile.open(path) for path in paths]
    tables = [file for file in files if {ESTIMATE_COLUMN, TRUTH_COLUMN} <= set(_column_names(file))]
    if not files:
        return None
    if not tables:
        return [file.predictions(columns, labelled=True) for file in files]
    if len(files) > 1:
        raise InputError(
            f"{tables[0].path.name} is a table of past estimates, and {len(files)} files were given "
            "for --history. Give one such table, or one file of labelled outputs a domain."
        )
    return _read_history_table(tables[0])


def _column_names(file: ScoreFile) -> Sequence[str]:
    content = file.content
    return list(content if isinstance(content, dict) else content.column_names)


def _read_history_table(table: ScoreFile) -> History:
    estimates, truths = (
        _read_float_column(table, name) for name in (ESTIMATE_COLUMN, TRUTH_COLUMN)
    )
    spreads = (
        _read_float_column(table, SPREAD_COLUMN) if SPREAD_COLUMN in _column_names(table) else None
    )
    try:
        return History(estimates, truths, spreads)
    except InputError as error:
        raise InputError(f"{table.path.name}: {error}") from error


def _read_float_column(table: ScoreFile, name: str) -> np.ndarray:
    values = table.column(name)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{table.path.name}: The column {name!r} holds {values[:1].tolist()[0]!r}; numbers from "
            "0 to 1 were expected."
        ) from error


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
        from oodometer.report.gallery import check_gallery_folder

        check_gallery_folder(folder)
