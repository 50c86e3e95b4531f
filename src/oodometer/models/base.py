"""What all adapters share: batches in, checked predictions out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oodometer.core.errors import InputError, OodometerError, UnknownName
from oodometer.core.inputs import Inputs, infer_kind, take
from oodometer.core.predictions import Predictions
from oodometer.models._raw_outputs import (
    OUTPUT_TYPES,
    OutputType,
    RawOutputs,
    as_predictions,
    check_row_count,
    concat_outputs,
    exception_summary,
)
from oodometer.parallel.pickling import ReopenOnUnpickle

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
