"""Base class of model adapters: split inputs into batches, validate outputs, build Predictions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import (
    InputError,
    OodometerError,
    UnknownName,
    format_error,
    out_of_range,
)
from oodometer.core.inputs import Inputs, infer_kind, take
from oodometer.core.predictions import Predictions
from oodometer.core.validation import RAW_SCORES_ADVICE
from oodometer.parallel.pickling import ReopenOnUnpickle

OutputType = Literal["probs", "logits", "classes"]
OUTPUT_TYPES: tuple[OutputType, ...] = get_args(OutputType)
ClassNames = tuple[str, ...]
Prepare = Callable[[Inputs], Any]

# Batches of images have about this many pixels, so that a network's activations fit into the CPU
# cache. On two cores, batches of 64 images of 32 by 32 pixels run 20% faster than batches of 256.
BATCH_PIXELS = 64 * 32 * 32
MIN_BATCH_ROWS = 16
MAX_BATCH_ROWS = 256


class RawOutputs(NamedTuple):
    """Outputs of a classifier before validation.

    Attributes
    ----------
    values : array-like of shape (n, k) or (n,)
        Either one score per class in each row, (n, k), or one class per row, (n,).
    output_type : {"probs", "logits", "classes"}, optional
        Meaning of the values. By default, values of shape (n,) are classes and values of shape
        (n, k) are probabilities.
    class_names : tuple of str, optional
        Names of the classes, if the classifier knows them.

    Examples
    --------
    >>> RawOutputs([[0.2, 0.8]], "probs").output_type
    'probs'
    """

    values: Any
    output_type: OutputType | None = None
    class_names: ClassNames | None = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelAdapter(ReopenOnUnpickle, ABC):
    """Base class of adapters, which give any classifier the `Model` interface.

    A subclass implements `default_name` and `raw_outputs`.

    Parameters
    ----------
    name : str
        Name of the model in tables and messages. By default, `default_name` derives a name from
        the classifier.
    class_names : sequence of str, optional
        Either the classifier's own class names in the desired order, or new names in the order of
        the classifier's outputs.
    outputs : {"probs", "logits", "classes"}, optional
        Type of the classifier's outputs. Each adapter has its own default.
    prepare : callable, optional
        Function that converts a batch of inputs to the classifier's input format. It replaces the
        adapter's own conversion.
    batch_size : int, optional
        Number of rows per call of the classifier.

    Raises
    ------
    InputError
        If a parameter is invalid.

    Examples
    --------
    >>> class Constant(ModelAdapter):
    ...     def default_name(self):
    ...         return "constant"
    ...     def raw_outputs(self, inputs):
    ...         return RawOutputs([0] * len(inputs), "classes")
    >>> Constant(class_names=["cat", "dog"]).classify(["a text"]).class_names
    ('cat', 'dog')
    """

    name: str = ""
    class_names: Sequence[str] | None = None
    outputs: OutputType | None = None
    prepare: Prepare | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.outputs is not None and self.outputs not in OUTPUT_TYPES:
            raise UnknownName("kind of outputs", str(self.outputs), OUTPUT_TYPES)
        if self.batch_size is not None and self.batch_size < 1:
            raise out_of_range("batch_size", self.batch_size, low=1)
        if isinstance(self.class_names, str):
            raise InputError(
                f"class_names must be a list of names; got the string {self.class_names!r}. "
                'Pass one name per class: ["cat", "dog"].'
            )
        if self.class_names is not None:
            self._set("class_names", tuple(str(name) for name in self.class_names))
        self._set("name", self.name or self.default_name())

    def _set(self, field: str, value: Any) -> None:
        # The dataclass is frozen, so derived values are set by object.__setattr__. Most are set
        # during construction; a fused torch module is set on the first call.
        object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def default_name(self) -> str:
        """Return the model's name for the case that the user has not passed one."""

    @abstractmethod
    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        """Return the classifier's outputs on one batch."""

    def rows_per_batch(self, inputs: Inputs) -> int:
        """Return the number of rows to pass to the classifier per call; by default all rows."""
        return self.batch_size or len(inputs)

    def classify(self, inputs: Inputs) -> Predictions:
        """Return the predictions on the inputs, in the order of the inputs."""
        infer_kind(inputs)
        n = len(inputs)
        if n == 0:
            raise InputError(f"The model {self.name!r} received no rows. Pass at least one row.")
        step = min(self.rows_per_batch(inputs), n)
        if step == n:
            batches = [self._run_batch(inputs)]
        else:
            batches = [
                self._run_batch(take(inputs, slice(start, start + step)))
                for start in range(0, n, step)
            ]
        return self.to_predictions(concat_outputs(batches, self.name))

    def to_predictions(self, raw: RawOutputs) -> Predictions:
        """Validate raw outputs and return them as Predictions with the model's class names."""
        names = None if self.class_names is None else tuple(self.class_names)
        return as_predictions(raw, self.name, names)

    def _run_batch(self, inputs: Inputs) -> RawOutputs:
        try:
            raw = self.raw_outputs(inputs)
        except OodometerError:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(
                f"The model {self.name!r} failed on {describe_inputs(inputs)}: "
                f"{exception_summary(error)}. If it needs another input format, pass prepare=…, a "
                "function from a batch to the model's input."
            ) from error
        return check_row_count(raw, len(inputs), self.name)


# Batches ----------------------------------------------------------------------------------------


def default_batch_size(inputs: Inputs) -> int:
    """Return the default number of rows per batch: 256, or down to 16 for large images.

    >>> import numpy as np
    >>> default_batch_size(np.zeros((1000, 32, 32, 3), dtype=np.uint8))
    64
    """
    pixels = math.prod(inputs.shape[1:3]) if infer_kind(inputs) == "images" else 1
    return max(MIN_BATCH_ROWS, min(MAX_BATCH_ROWS, BATCH_PIXELS // pixels))


def describe_inputs(inputs: Inputs) -> str:
    """Return a short description of a batch for messages.

    >>> describe_inputs(["a", "b"])
    '2 rows of text'
    """
    kind = infer_kind(inputs)
    if kind in ("images", "vectors"):
        return f"{len(inputs)} {kind} of shape {inputs.shape[1:]}"
    nouns = {"text": "rows of text", "pairs": "pairs of texts", "table": "rows of a table"}
    return f"{len(inputs)} {nouns[kind]}"


def check_scaling(mean: Sequence[float] | None, std: Sequence[float] | None) -> None:
    """Raise unless mean and std are both given or both absent, and std is positive."""
    if (mean is None) != (std is None):
        raise InputError(
            "mean and std must be passed together; only one was. Pass both or neither."
        )
    if std is not None and not all(value > 0 for value in std):
        raise InputError(f"std must be above 0 in every channel; got {list(std)}.")


# Raw outputs as Predictions ---------------------------------------------------------------------


def exception_summary(error: BaseException) -> str:
    """Return the type and the message of an exception on one line of at most 200 characters.

    >>> exception_summary(KeyError("age"))
    "KeyError: 'age'"
    """
    summary = format_error(error).rstrip(". ")
    return summary if len(summary) <= 200 else f"{summary[:199]}…"


def check_row_count(raw: RawOutputs, n: int, name: str) -> RawOutputs:
    """Return the outputs with their values as an array; raise unless there is one row per input."""
    values = _to_array(raw.values, name)
    if values.ndim == 0 or len(values) != n:
        rows = "a single value" if values.ndim == 0 else f"{len(values)} rows"
        raise InputError(
            f"The model {name!r} returned {rows} for {n} inputs. It must return one row per input."
        )
    return raw._replace(values=values)


def _to_array(values: Any, name: str) -> Array:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"The model {name!r} returned rows of different lengths. It must return one number per "
            "class in every row."
        ) from error


def concat_outputs(batches: Sequence[RawOutputs], name: str) -> RawOutputs:
    """Concatenate the raw outputs of successive batches; raise if their shapes differ."""
    if len(batches) == 1:
        return batches[0]
    shapes = sorted({batch.values.shape[1:] for batch in batches})
    if len(shapes) > 1:
        raise InputError(
            f"The model {name!r} returned rows of shape {shapes[0]} for one batch and {shapes[1]} "
            "for another. All rows must have the same number of classes."
        )
    return batches[0]._replace(values=np.concatenate([batch.values for batch in batches]))


def as_predictions(raw: RawOutputs, name: str, class_names: ClassNames | None) -> Predictions:
    """Return Predictions from raw outputs that have one row per input.

    `name` is the name of the model and appears in error messages.

    >>> as_predictions(RawOutputs(np.array([[0.2, 0.8]])), "toy", ("cat", "dog")).class_names
    ('cat', 'dog')
    """
    try:
        return _apply_class_names(_build_predictions(raw, class_names), class_names)
    except InputError as error:
        message = str(error).replace(
            RAW_SCORES_ADVICE, 'If the model returns logits, pass outputs="logits".'
        )
        raise InputError(f"The model {name!r} returned invalid outputs: {message}") from error


def _build_predictions(raw: RawOutputs, class_names: ClassNames | None) -> Predictions:
    values = raw.values
    names = raw.class_names or class_names
    output_type = raw.output_type or ("classes" if values.ndim == 1 else "probs")
    if output_type == "classes":
        return _from_hard_classes(values, names)
    if values.ndim == 1:
        raise InputError(
            f"{output_type} must have one column per class; got one value per row. "
            'If these are classes, pass outputs="classes".'
        )
    if output_type == "probs":
        return Predictions.from_probs(values, class_names=names)
    return Predictions.from_logits(values, class_names=names)


def _from_hard_classes(values: Array, names: ClassNames | None) -> Predictions:
    if values.dtype.kind == "O":
        values = np.asarray(values.tolist())
    if names is None and values.dtype.kind in "US":
        raise InputError(
            f"row 0 is {values.tolist()[0]!r}, but the set of classes is unknown. "
            "Pass the names of the classes, as class_names=[…] or --class-names."
        )
    if values.dtype.kind == "f":
        _check_whole_numbers(values.ravel())
    k = 2
    if names is not None:
        k = len(names)
    elif values.dtype.kind in "iufb":
        k = max(k, int(values.max()) + 1)
    return Predictions.from_classes(values, k=k, class_names=names)


def _check_whole_numbers(values: Array) -> None:
    wrong = np.flatnonzero(~(np.isfinite(values) & (np.floor(values) == values)))
    if wrong.size:
        raise InputError(
            f"one number per row is a class, but row {wrong[0]} is {values[wrong[0]]}. "
            "For a probability p of the second class, return the two columns 1 - p and p."
        )


def _apply_class_names(predictions: Predictions, class_names: ClassNames | None) -> Predictions:
    """Reorder the classes if `class_names` are the model's own names; otherwise rename them."""
    known = predictions.class_names
    if class_names is None or known is None or known == class_names:
        return predictions
    shared = set(known) & set(class_names)
    if shared and len(shared) == len(known) == len(class_names):
        return predictions.reorder_classes(class_names)
    if shared or len(known) != len(class_names):
        raise InputError(
            f"its classes are {', '.join(known[:8])}, but class_names= is "
            f"{', '.join(class_names[:8])}. Pass the same names in any order, or a new name for "
            "each class in the model's order."
        )
    return replace(predictions, class_names=class_names)
