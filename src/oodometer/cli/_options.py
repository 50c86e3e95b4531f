"""Command-line options that several commands use, and option groups.

Each option is an `Annotated` type, so that it has one meaning and one help text in all commands. An
option group is a dataclass whose fields are options that belong together, or other option groups. A
command that is decorated with `with_option_groups` receives an option group as one parameter. On the
command line, this parameter is replaced by the options of the group.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_type_hints

import typer

from oodometer.cli._runtime import set_quiet
from oodometer.core.errors import InputError, UnknownName, out_of_range
from oodometer.core.protocols import Dataset, Model, Transform
from oodometer.core.results import STATUS_SHAPES
from oodometer.data.prediction_files import PredictionColumns, ScoreFile
from oodometer.parallel.pickling import CACHE_FOLDER_VARIABLE

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

MODEL_HELP = (
    "An .onnx file, a local Hugging Face folder, a model folder of a pool, a .skops file, an "
    "http(s) URL, timm:NAME@WEIGHTS (a network of timm), or package.module:function."
)
# Value of MODEL if the files contain outputs or features, so that no model is needed.
NO_MODEL = "none"
MODEL_OR_NONE_HELP = f"{MODEL_HELP} Use none if the files contain outputs or features."
DATA_HELP = "An image folder, or an .npz, .npy, .csv, .tsv, .jsonl, .parquet or .arrow file."
SOURCE_DATA_HELP = (
    "Labelled source dataset; for measure, repeat the option for several source domains."
)
TARGET_DATA_HELP = f"Unlabelled dataset. {DATA_HELP}"
HTML_HELP = "Path of the HTML report to write."


def _set_cache_folder(folder: Path | None) -> Path | None:
    """Set the environment variable of the cache, which worker processes read as well."""
    if folder is not None:
        os.environ[CACHE_FOLDER_VARIABLE] = str(folder.absolute())
    return folder


# Output.
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=set_quiet, help="Show no progress and no notes.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show all methods and other details.")
]
HtmlPath = Annotated[Path | None, typer.Option(help=HTML_HELP)]
OutputPath = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="File to write the result to; its extension selects the format."
    ),
]
ExamplesModelName = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Model whose predictions the examples of the report show. [default: the first model]",
    ),
]

# Computation.
Seed = Annotated[int, typer.Option(help="Random seed.")]
Workers = Annotated[
    int,
    typer.Option(
        help="Number of worker processes; each uses one core. With 0, everything runs in one "
        "process."
    ),
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://host:8786.")
]
Limit = Annotated[
    int | None,
    typer.Option(help="Maximum number of models or evaluations to compute in this run."),
]

# Names of methods.
MethodNames = Annotated[
    list[str] | None,
    typer.Option(
        help="Name of an estimator, or module:name of your own. Repeat the option, or separate names "
        "by commas. The headline is computed in any case. [default: all]"
    ),
]
MeasureNames = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        "-m",
        help="Name of a measure, or module:name of your own. Repeat the option, or separate names by "
        "commas. [default: all]",
    ),
]
MetricNames = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        help="Name of a metric, or all. Repeat the option, or separate names by commas. "
        "[default: all; for estimate, none]",
    ),
]

# Segments and periods of a target, and of the batches of a monitor.
SegmentColumns = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of the target or batch; the accuracy, and each --metric, is also estimated for "
        "each of its values (for each day if the values are times). Repeat the option for the "
        "combinations of several columns."
    ),
]
TimeColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of the target with times; the accuracy is also estimated for each --period, "
        "or for chunks of --chunk-rows rows in the order of time."
    ),
]
Period = Annotated[
    str | None,
    typer.Option(
        help="Length of the segments of --time-column: hour, day, week or month. "
        "[default: day, unless --chunk-rows is given]"
    ),
]

# Files of predictions, datasets, folders.
LabelColumn = Annotated[
    str | None,
    typer.Option(
        help="Column or .npz array with the true classes. [default: label, in files of predictions]"
    ),
]
ClassNamesText = Annotated[
    str | None,
    typer.Option(
        "--class-names",
        help="Names of the classes in the order of their scores, separated by commas.",
    ),
]
OtherModelPaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--other-model",
        help="Predictions of another model on the target. gde needs one model trained with another "
        "random seed; aline-s and aline-d need several models (repeat the option).",
    ),
]
ReferenceDomain = Annotated[
    str | None,
    typer.Option(
        help="For a table of accuracies (models × test sets), the test set that all others are "
        "compared with."
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Folder with the files of the domains. [default: $OODOMETER_DATA]"
    ),
]
StoreFolder = Annotated[
    Path | None,
    typer.Option("--store-dir", help="Folder of the study's store. [default: studies/NAME]"),
]
CacheFolder = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        callback=_set_cache_folder,
        help="Folder of the cached features of pretrained bodies. [default: $OODOMETER_CACHE, or "
        "the user's cache folder]",
    ),
]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="Load pickle files, which can run arbitrary code.")
]

TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Import the Python code that the TOML file names by module:name, which can run "
        "anything.",
    ),
]


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each option group among the parameters of a command by the options of the group."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if is_dataclass(parameter.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name in groups:
            known = {each.name for each in parameters}  # two groups can share an option
            for each in _group_parameters(groups[name]):
                if each.name not in known:
                    parameters.append(each)
                    known.add(each.name)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def call_with_groups(**values: Any) -> None:
        made = {name: _make_group(group, values) for name, group in groups.items()}
        grouped = {each.name for group in groups.values() for each in _group_parameters(group)}
        others = {name: value for name, value in values.items() if name not in grouped}
        command(**others, **made)

    call_with_groups.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call_with_groups.__annotations__ = {one.name: one.annotation for one in parameters}
    return call_with_groups


def _group_parameters(group: Any) -> list[inspect.Parameter]:
    """Return one keyword-only parameter per option of a group and of the groups that it contains."""
    types = get_type_hints(group, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for field in fields(group):
        annotation = types[field.name]
        if is_dataclass(annotation):
            parameters += _group_parameters(annotation)
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(
                inspect.Parameter(field.name, kind, default=field.default, annotation=annotation)
            )
    return parameters


def _make_group(group: Any, values: Mapping[str, Any]) -> Any:
    """Return a group, and the groups that it contains, with the values of their options."""
    types = get_type_hints(group)
    return group(
        **{
            field.name: _make_group(types[field.name], values)
            if is_dataclass(types[field.name])
            else values[field.name]
            for field in fields(group)
        }
    )


def given_options(group: Any) -> dict[str, Any]:
    """Return the options of a group whose values differ from their defaults, by name."""
    given: dict[str, Any] = {}
    for field in fields(group):
        value = getattr(group, field.name)
        if is_dataclass(value):
            given |= given_options(value)
        elif value not in (field.default, [], None):
            given[f"--{field.name.replace('_', '-')}"] = value
    return given


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Options that name the columns of files of predictions."""

    label_column: LabelColumn = None
    prob_columns: Annotated[
        str | None,
        typer.Option(
            help="Name of one list column of probabilities, or prefix of one column per class."
        ),
    ] = None
    logit_columns: Annotated[
        str | None,
        typer.Option(help="Name of one list column of logits, or prefix of one column per class."),
    ] = None
    class_names: ClassNamesText = None
    pred_column: Annotated[
        str | None,
        typer.Option(
            help="Column or .npz array with the class that was decided for each row, if it is not "
            "always the most probable one. [default: pred, if it exists]"
        ),
    ] = None
    threshold: Annotated[
        str | None,
        typer.Option(
            help="Decision threshold: with two classes, the probability from which on the second "
            "class is decided; with more, one number per class, separated by commas."
        ),
    ] = None

    def prediction_columns(self) -> PredictionColumns:
        return PredictionColumns(
            self.label_column,
            self.prob_columns,
            self.logit_columns,
            None if self.class_names is None else tuple(self.class_names.split(",")),
            self.pred_column,
            self._parse_thresholds(),
        )

    def _parse_thresholds(self) -> tuple[float, ...] | None:
        if self.threshold is None:
            return None
        if self.pred_column is not None:
            raise InputError("Both --pred-column and --threshold are given. Give only one of them.")
        try:
            return tuple(float(part) for part in self.threshold.split(","))
        except ValueError as error:
            raise InputError(
                "--threshold must be a number between 0 and 1, or one per class, separated by "
                f"commas; got {self.threshold!r}."
            ) from error


@dataclass(frozen=True, kw_only=True)
class DatasetFileOptions:
    """Options that say which parts of a file are the inputs, and how inputs are read."""

    text: Annotated[
        str | None,
        typer.Option(
            help="Column of a table with the texts; for pairs of texts, two columns separated by a "
            "comma."
        ),
    ] = None
    inputs: Annotated[
        str | None,
        typer.Option(
            help="Name of the .npz array with the inputs, or names of table columns separated by "
            "commas."
        ),
    ] = None
    size: Annotated[
        int | None, typer.Option(min=1, help="Width and height of images after resizing.")
    ] = None
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip unreadable images and empty texts.")
    ] = False
    pixel_range: Annotated[
        str | None,
        typer.Option(
            help="For images of floats in .npy and .npz files, lowest and highest value of a pixel, "
            "such as 0,1; or prepared, if the values are given to the model unchanged."
        ),
    ] = None
    channels: Annotated[
        str | None,
        typer.Option(
            metavar="first|last",
            help="Place of the channels in images of floats, if the shape does not show it.",
        ),
    ] = None

    def open(self, location: str | Path, label_column: str | None = None) -> Dataset:
        """Open a dataset, with labels if `label_column` is given."""
        from oodometer.data import as_dataset

        return as_dataset(
            Path(location),
            labels=label_column,
            text=self.text,
            inputs=self.inputs,
            size=self.size,
            skip_bad=self.skip_bad,
            pixel_range=self._parse_pixel_range(),
            channels=self.channels,  # type: ignore[arg-type]
        )

    def _parse_pixel_range(self) -> Any:
        if self.pixel_range is None or self.pixel_range == "prepared":
            return self.pixel_range
        return _parse_floats(self.pixel_range, "--pixel-range")


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options that say what a model returns and how its inputs are prepared."""

    class_names: ClassNamesText = None
    outputs: Annotated[
        str | None, typer.Option(help="Type of the model's outputs: probs, logits or classes.")
    ] = None
    mean: Annotated[
        str | None,
        typer.Option(
            help="For an .onnx file, mean of each color channel, for pixel values from 0 to 1, "
            "separated by commas."
        ),
    ] = None
    std: Annotated[
        str | None,
        typer.Option(
            help="For an .onnx file, standard deviation of each color channel, in the same format "
            "as --mean."
        ),
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option(help="Timeout of a request to an http(s) URL, in seconds. [default: 30]"),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            help="Weights of models timm:NAME: a .safetensors file, a folder with "
            "NAME.safetensors, download (weights that timm downloads) or none (random weights)."
        ),
    ] = None
    cache_dir: CacheFolder = None
    trust_pickle: TrustPickle = False

    def open(self, location: str) -> Model:
        """Open the model given by a path, a URL or package.module:function."""
        from oodometer.models import HttpModel, OnnxModel, as_model

        if self.outputs not in (None, "probs", "logits", "classes"):
            raise InputError(f"--outputs must be probs, logits or classes; got {self.outputs!r}.")
        names = None if self.class_names is None else self.class_names.split(",")
        outputs = cast('Literal["probs", "logits", "classes"] | None', self.outputs)
        if self.timeout is not None:
            if not location.startswith(("http://", "https://")):
                raise InputError(f"--timeout applies to http(s) URLs only; got {location!r}.")
            return HttpModel(location, class_names=names, outputs=outputs, timeout=self.timeout)
        if self.mean is None and self.std is None:
            return as_model(
                location,
                class_names=names,
                outputs=outputs,
                weights=self.weights,
                trust_pickle=self.trust_pickle,
            )
        if not location.endswith(".onnx"):
            raise InputError(f"--mean and --std apply to .onnx files only; got {location!r}.")
        return OnnxModel(
            location,
            class_names=names,
            outputs=outputs,
            mean=_parse_floats(self.mean, "--mean"),
            std=_parse_floats(self.std, "--std"),
        )


def _parse_floats(text: str | None, option: str) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"{option} must be numbers separated by commas, such as 0.5,0.5,0.5; got {text!r}."
        ) from error


def read_outputs(
    path: Path, *, label_column: str | None, class_names: str | None, labelled: bool
) -> Any:
    """Return the predictions or features in a file; it replaces a model and a dataset."""
    from oodometer.data import as_dataset

    if path.suffix.lower() == ".npy":
        return as_dataset(path).take(slice(None))
    file = ScoreFile.open(path)
    if isinstance(file.content, dict) and not {"probs", "logits"} & set(file.content):
        return file.column("features")
    columns = ColumnOptions(label_column=label_column, class_names=class_names)
    return file.predictions(columns.prediction_columns(), labelled=labelled)


def _transform_names() -> list[str]:
    """Return the names of transforms for shell completion."""
    from oodometer import transforms

    return [member.name for member in transforms.available()]


def _strength_names() -> list[str]:
    """Return the strengths of transforms for shell completion."""
    from oodometer.transforms.strength import STRENGTHS

    return list(STRENGTHS)


@dataclass(frozen=True, kw_only=True)
class TransformOptions:
    """Options for the transform that creates the neighborhoods, and for its settings."""

    transform: Annotated[
        str | None,
        typer.Option(
            "--transform",
            "-t",
            help="Name of a transform; the command oodometer transforms lists all names. "
            "module:name is your own transform or function of one example. A name such as MS-SSMBA means fixed strength, without the identity.",
            autocompletion=_transform_names,
        ),
    ] = None
    magnitude: Annotated[
        float | None,
        typer.Option(help="Magnitude of the transform: the upper bound of each random draw."),
    ] = None
    strength: Annotated[
        str | None,
        typer.Option(
            metavar="up_to|fixed",
            help="Strength of each draw, for randaugment, ssmba, eda and random_replace: at most "
            "the magnitude (up_to), or equal to it (fixed). [default: up_to; fixed for MS-… names]",
            autocompletion=_strength_names,
        ),
    ] = None
    identity: Annotated[
        bool | None,
        typer.Option(
            "--identity/--no-identity",
            help="Whether the untransformed example belongs to its neighborhood. [default: yes; no "
            "for MS-… names]",
        ),
    ] = None
    wordnet: Annotated[Path | None, typer.Option(help="Folder of WordNet files, for eda.")] = None
    filler: Annotated[
        Path | None,
        typer.Option(
            help="Local fill-mask model, for the transform ssmba. [default: learned from DATA]"
        ),
    ] = None
    translator: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="FORWARD BACKWARD",
            help="Two local translation models, for the transform backtranslate. [default: "
            "Apertium]",
        ),
    ] = None

    def includes_identity(self) -> bool:
        """Return whether the untransformed example belongs to its neighborhood."""
        from oodometer.transforms.registry import is_smoothness_name

        return not is_smoothness_name(self.transform) if self.identity is None else self.identity

    def make(self, dataset: Dataset) -> Transform:
        """Return the named transform with its settings, or the default transform for the data."""
        from oodometer import transforms as family
        from oodometer.transforms.text.marian import Marian

        name = self.transform or family.DEFAULT_TRANSFORMS[dataset.kind]
        member = load_member(name)
        transform = family.get(name) if isinstance(member, str) else _as_transform(member, name)
        values: dict[str, Any] = {
            "magnitude": self.magnitude,
            "strength": self.strength,
            "wordnet": self.wordnet,
            "model": self.filler,
            "translator": None if self.translator is None else Marian(*self.translator),
        }
        settings = {name: value for name, value in values.items() if value is not None}
        known_names = {field.name for field in fields(transform)} if is_dataclass(transform) else ()
        for name in settings.keys() - set(known_names):
            option = "filler" if name == "model" else name
            raise InputError(
                f"--{option} is not a setting of the transform {transform.name!r}. Leave it out."
            )
        return replace(transform, **settings) if settings else transform  # type: ignore[type-var]


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """Options for the number of draws and for the speed of sampling."""

    draws: Annotated[
        int, typer.Option("--draws", "-n", help="Number of transformed copies per example.")
    ] = 10
    seed: Seed = 0
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Number of inputs that a model classifies at once."),
    ] = None
    threads: Annotated[
        int, typer.Option(min=0, help="Number of threads that transform inputs for the models.")
    ] = 1


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Options for worker processes or a cluster."""

    workers: Workers = 0
    scheduler: Scheduler = None

    @property
    def is_given(self) -> bool:
        return bool(self.workers) or self.scheduler is not None

    def runner(self) -> Runner:
        """Return the runner for the workers, or the serial runner if there are none."""
        from oodometer.parallel.runners import distributed, processes, serial

        if self.workers < 0:
            raise out_of_range("--workers", self.workers, low=0)
        if self.workers and self.scheduler is not None:
            raise InputError(
                "Give --workers or --scheduler, not both: a cluster has workers of its own."
            )
        if self.scheduler is not None:
            return distributed(self.scheduler)
        return processes(self.workers) if self.workers else serial

    def optional_runner(self) -> Runner | None:
        """Return the runner; None means that this process computes, with all its threads."""
        return self.runner() if self.is_given else None


def split_names(names: Sequence[str] | None) -> list[str] | None:
    """Return the names of a repeatable option whose values may be separated by commas.

    >>> split_names(["ac, doc", "atc-mc"]), split_names(None)
    (['ac', 'doc', 'atc-mc'], None)
    """
    if names is None:
        return None
    return [part.strip() for name in names for part in name.split(",") if part.strip()]


def load_member(name: str) -> Any:
    """Return the object at `module:name`; return any other name unchanged."""
    if ":" not in name:
        return name
    from oodometer.models.function import import_member, is_import_path

    return import_member(name) if is_import_path(name) else name


def split_members(names: Sequence[str] | None) -> list[Any] | None:
    """Return the names of `split_names`, with the objects at `module:name` imported."""
    listed = split_names(names)
    return None if listed is None else [load_member(name) for name in listed]


def _as_transform(member: Any, name: str) -> Transform:
    from oodometer.core.function_members import wrap_function

    transform = wrap_function(member, Transform)
    if not isinstance(transform, Transform):
        raise InputError(
            f"--transform {name} is a {type(member).__name__}; expected a function of one example or "
            "a Transform."
        )
    return transform


def one_or_several(names: Sequence[Any] | None) -> Any:
    """Return a single name or member as it is, and several as a sequence.

    With a string, the library raises an error if the method is not applicable; with a sequence, it
    skips the method.

    >>> one_or_several(["ece"]), one_or_several(["ece", "nll"]), one_or_several(None)
    ('ece', ['ece', 'nll'], None)
    """
    return names[0] if names is not None and len(names) == 1 else names


# Gates.
ACCURACY = "accuracy"
USES = ("value", "low", "typical-low")
PLACES = ("any", "last", "overall")
# Order of the statuses, from good to bad.
STATUSES = tuple(STATUS_SHAPES)


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """Options that turn an estimate into an exit code."""

    fail_below: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit with code 1 if the estimated accuracy is below this fraction; METRIC=FRACTION "
            "for a --metric, such as f1=0.5. Repeat the option for several conditions."
        ),
    ] = None
    fail_drop: Annotated[
        float | None,
        typer.Option(
            help="Exit with code 1 if the accuracy is lower than on the source by more than this "
            "fraction."
        ),
    ] = None
    fail_on: Annotated[
        str | None,
        typer.Option(help="Exit with code 1 if the status is warning or worse, or critical."),
    ] = None
    use: Annotated[
        str,
        typer.Option(
            help="Number that the conditions compare: value, low (lower end of the confidence "
            "interval) or typical-low (lower end of the typical range)."
        ),
    ] = "value"
    fail_at: Annotated[
        str | None,
        typer.Option(
            help="Segments, periods or batches that the conditions concern: any, last (of the "
            "periods) or overall (none). [default: any; for a monitor, the last batch]"
        ),
    ] = None

    def check(self) -> None:
        """Raise if an option is not valid."""
        _ = self.limits
        if self.fail_drop is not None and not 0 <= self.fail_drop <= 1:
            raise InputError(f"--fail-drop must be a fraction from 0 to 1; got {self.fail_drop:g}.")
        if self.fail_on is not None and self.fail_on not in STATUSES[1:]:
            raise UnknownName("status", self.fail_on, STATUSES[1:])
        if self.use not in USES:
            raise UnknownName("--use", self.use, USES)
        if self.fail_at is not None and self.fail_at not in PLACES:
            raise UnknownName("--fail-at", self.fail_at, PLACES)

    @property
    def is_given(self) -> bool:
        """Return whether there is a condition."""
        return bool(self.fail_below) or self.fail_drop is not None or self.fail_on is not None

    @property
    def limits(self) -> dict[str, float]:
        """Return the smallest allowed value of each metric."""
        limits = {}
        for text in self.fail_below or ():
            metric, _, number = text.rpartition("=")
            try:
                limit = float(number)
            except ValueError as error:
                raise InputError(
                    f"--fail-below must be a fraction or METRIC=FRACTION; got {text!r}."
                ) from error
            if not 0 <= limit <= 1:
                hint = f" Did you mean {limit / 100:g}?" if 1 < limit <= 100 else ""
                raise InputError(
                    f"--fail-below must be a fraction from 0 to 1; got {limit:g}.{hint}"
                )
            limits[metric.strip() or ACCURACY] = limit
        return limits
