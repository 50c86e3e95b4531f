"""What all adapters share: batches in, checked predictions out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, OodometerError, UnknownName
from oodometer.core.inputs import Inputs, infer_kind, take
from oodometer.core.predictions import Predictions
from oodometer.parallel.pickling import ReopenOnUnpickle

OutputType = Literal["probs", "logits", "classes"]
OUTPUT_TYPES: tuple[OutputType, ...] = get_args(OutputType)
ClassNames = tuple[str, ...]


class RawOutputs(NamedTuple):
    """Values as the model gave them, what they are, and the class names that the model knows.

    A form of None is told from the shape: (n,) is classes, (n, k) is probabilities.
    """

    values: Any
    output_type: OutputType | None = None
    class_names: ClassNames | None = None


def exception_summary(error: BaseException) -> str:
    """The type of an exception and its message, on one short line.

    >>> exception_summary(KeyError("age"))
    "KeyError: 'age'"
    """
    words = " ".join(str(error).split()).rstrip(". ")
    shown = words if len(words) <= 200 else f"{words[:199]}…"
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__


def check_row_count(raw: RawOutputs, n: int, name: str) -> RawOutputs:
    """The same with its values as an array that has one row an input."""
    values = _to_array(raw.values, name)
    if values.ndim == 0 or len(values) != n:
        rows = "a single value" if values.ndim == 0 else f"{len(values)} rows"
        raise InputError(
            f"The model {name!r} gave {rows} for {n} inputs. It must give one row an input."
        )
    return raw._replace(values=values)


def _to_array(values: Any, name: str) -> Array:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"The model {name!r} gave rows of different lengths. It must give one number a class "
            "in every row."
        ) from error


def concat_outputs(batches: Sequence[RawOutputs], name: str) -> RawOutputs:
    """One answer of those to successive batches."""
    if len(batches) == 1:
        return batches[0]
    shapes = {answer.values.shape[1:] for answer in batches}
    if len(shapes) > 1:
        first, second = sorted(shapes)[:2]
        raise InputError(
            f"The model {name!r} gave rows of shape {first} for one batch and {second} for "
            "another. All rows must have as many classes."
        )
    return batches[0]._replace(values=np.concatenate([answer.values for answer in batches]))


def as_predictions(raw: RawOutputs, name: str, class_names: ClassNames | None) -> Predictions:
    """Predictions of a checked answer; a refusal names the model.

    >>> as_predictions(RawOutputs(np.array([[0.2, 0.8]])), "toy", ("cat", "dog")).class_names
    ('cat', 'dog')
    """
    try:
        return _apply_class_names(_build_predictions(raw, class_names), class_names)
    except InputError as error:
        words = str(error).replace("Predictions.from_logits", 'outputs="logits"')
        raise InputError(f"The model {name!r} gave what can't be used: {words}") from error


def _build_predictions(raw: RawOutputs, class_names: ClassNames | None) -> Predictions:
    values, form, names = raw.values, raw.output_type, raw.class_names or class_names
    form = form or ("classes" if values.ndim == 1 else "probs")
    if form == "classes":
        return _from_hard_classes(values, names)
    if values.ndim == 1:
        raise InputError(
            f"{form} must have a column a class; got one value a row. "
            'If these are classes, pass outputs="classes".'
        )
    door = Predictions.from_probs if form == "probs" else Predictions.from_logits
    return door(values, class_names=names)


def _from_hard_classes(values: Array, names: ClassNames | None) -> Predictions:
    if values.dtype.kind == "O":
        values = np.asarray(values.tolist())
    if names is None and values.dtype.kind in "US":
        raise InputError(
            f"row 0 is {values.tolist()[0]!r}, and which classes there are is not known. "
            "Pass their names, as class_names=[…] or --class-names."
        )
    if values.dtype.kind == "f":
        _check_whole_numbers(values.ravel())
    counted = values.dtype.kind in "iufb"
    k = len(names) if names is not None else max(2, int(values.max()) + 1) if counted else 2
    return Predictions.from_classes(values, k=k, class_names=names)


def _check_whole_numbers(values: Array) -> None:
    wrong = np.flatnonzero(~(np.isfinite(values) & (np.floor(values) == values)))
    if wrong.size:
        raise InputError(
            f"one number a row is a class, and row {wrong[0]} is {values[wrong[0]]}. "
            "For a probability p of the second class give the two columns 1 - p and p."
        )


def _apply_class_names(predictions: Predictions, class_names: ClassNames | None) -> Predictions:
    """In the order of the classes where the model knows them, else with these as new names."""
    known = predictions.class_names
    if class_names is None or known is None or known == class_names:
        return predictions
    shared = set(known) & set(class_names)
    if shared and len(shared) == len(known) == len(class_names):
        return predictions.reorder_classes(class_names)
    if shared or len(known) != len(class_names):
        raise InputError(
            f"its classes are {', '.join(known[:8])}, but class_names= says {', '.join(class_names[:8])}. "
            "Give the same names in any order, or a new name for each in the model's order."
        )
    return replace(predictions, class_names=class_names)


Prepare = Callable[[Inputs], Any]
# As many images at once as have so many pixels, within these bounds: what a network makes of a
# batch then stays in cache. Of 32 by 32 pixels 64 are a fifth faster than 256 on two cores.
BATCH_PIXELS, MIN_BATCH_ROWS, MAX_BATCH_ROWS = 64 * 32 * 32, 16, 256


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelAdapter(ReopenOnUnpickle, ABC):
    """A foreign classifier as a model.

    name          how it is called in tables; told from the thing where it is not given
    class_names   names of the classes: known ones in the order wanted, or new ones, in the model's order
    outputs       "probs", "logits" or "classes"; each adapter says what it takes them for by itself
    prepare       makes of a batch what the thing takes, in place of the adapter's own way
    batch_size    how many rows are shown at once
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
            raise InputError(
                f"batch_size must be 1 or more; got {self.batch_size}. It counts rows."
            )
        if isinstance(self.class_names, str):
            raise InputError(
                f"class_names must be a list of names; got the text {self.class_names!r}. "
                'Write one name a class: ["cat", "dog"].'
            )
        if self.class_names is not None:
            self._set("class_names", tuple(str(name) for name in self.class_names))
        self._set("name", self.name or self.default_name())

    def _set(self, field: str, value: Any) -> None:
        # Settings are frozen; what is opened at the door is put beside them once.
        object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def default_name(self) -> str:
        """The name where the user gives none."""

    @abstractmethod
    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        """What the thing says of some rows."""

    def rows_per_batch(self, inputs: Inputs) -> int:
        """How many rows are shown at once: all, unless `batch` says otherwise."""
        return self.batch_size or len(inputs)

    def classify(self, inputs: Inputs) -> Predictions:
        """What it says of every input of a batch, in order."""
        infer_kind(inputs)
        n = len(inputs)
        if n == 0:
            raise InputError(
                f"The model {self.name!r} was shown no rows. A batch has one row or more."
            )
        step = min(self.rows_per_batch(inputs), n)
        parts = (take(inputs, slice(i, i + step)) for i in range(0, n, step))
        answers = [self._run_batch(part) for part in ([inputs] if step == n else parts)]
        return self.to_predictions(concat_outputs(answers, self.name))

    def to_predictions(self, raw: RawOutputs) -> Predictions:
        """What it said, with the names of the classes."""
        classes = None if self.class_names is None else tuple(self.class_names)
        return as_predictions(raw, self.name, classes)

    def _run_batch(self, inputs: Inputs) -> RawOutputs:
        try:
            answer = self.raw_outputs(inputs)
        except OodometerError:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(
                f"The model {self.name!r} failed on {describe_inputs(inputs)}: {exception_summary(error)}. "
                "Pass prepare=… to make of a batch what the model takes."
            ) from error
        return check_row_count(answer, len(inputs), self.name)


def check_scaling(mean: Sequence[float] | None, std: Sequence[float] | None) -> None:
    """Both or neither, and nothing is divided by 0."""
    if (mean is None) != (std is None):
        raise InputError("mean and std go together; only one was given. Give both or neither.")
    if std is not None and not all(part > 0 for part in std):
        raise InputError(f"std must be above 0 in every channel; got {list(std)}.")


def default_batch_size(inputs: Inputs) -> int:
    """How many rows a network is shown at once: 256, or fewer large images.

    >>> import numpy as np
    >>> default_batch_size(np.zeros((1000, 32, 32, 3), dtype=np.uint8))
    64
    """
    pixels = math.prod(inputs.shape[1:3]) if infer_kind(inputs) == "images" else 1
    return max(MIN_BATCH_ROWS, min(MAX_BATCH_ROWS, BATCH_PIXELS // pixels))


def describe_inputs(inputs: Inputs) -> str:
    """A batch in a few words.

    >>> describe_inputs(["a", "b"])
    '2 rows of text'
    """
    kind = infer_kind(inputs)
    if kind in ("images", "vectors"):
        return f"{len(inputs)} {kind} of shape {inputs.shape[1:]}"
    words = {"text": "rows of text", "pairs": "pairs of texts", "table": "rows of a table"}
    return f"{len(inputs)} {words[kind]}"
