"""An ONNX file as a model, run by onnxruntime on the processor."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.inputs import Inputs
from oodometer.core.optional_imports import require
from oodometer.core.softmax_kernels import Array
from oodometer.models._onnx_inputs import Feed
from oodometer.models._raw_outputs import Answer, Form, one_line
from oodometer.models.base import Adapter, check_scaling, rows_that_fit


@dataclass(frozen=True, eq=False, repr=False)
class OnnxModel(Adapter):
    """A network in an `.onnx` file.

    Images are laid out as the declared shape says, (n, c, h, w) or (n, h, w, c), as they are where
    it takes uint8 and divided by 255 where it takes floats, then less `mean` and divided by `std`
    where given. Several inputs need a `prepare` that
    gives a dict. Read is the output called `output`, else probabilities by class (as scikit-learn
    converters write), else the first table of floats: logits, or probabilities if its name says
    "prob"; else the first list of classes.
    """

    path: str | Path
    _: KW_ONLY
    output: str | None = None
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scaling(self.mean, self.std)
        known = [found.name for found in self.session.get_outputs()]
        if self.output is not None and self.output not in known:
            raise UnknownName("output", self.output, known)

    def __getstate__(self) -> dict[str, Any]:
        # An open session can't be sent to a worker; it opens its own, wherever it works.
        kept = {field: value for field, value in vars(self).items() if field != "session"}
        return {**kept, "path": Path(self.path).absolute()}

    @cached_property
    def session(self) -> Any:
        """The open network."""
        runtime = require("onnxruntime", extra="onnx", purpose="Scoring an ONNX file")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        # Workers are told to have one thread each, as programs of linear algebra are.
        options.intra_op_num_threads = _threads()
        try:
            return runtime.InferenceSession(
                str(self.path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise InputError(
                f"{str(self.path)!r} can't be opened: {one_line(error)}. It must be a whole ONNX "
                "file of a version that the installed onnxruntime knows."
            ) from error

    def given_name(self) -> str:
        """The file's name."""
        return Path(self.path).stem

    @property
    def fixed_rows(self) -> int | None:
        """How many rows it takes, where it takes no other number."""
        shape = self.session.get_inputs()[0].shape
        return shape[0] if shape and isinstance(shape[0], int) else None

    def rows_at_once(self, inputs: Inputs) -> int:
        """As many as it is fixed to, else as many as memory holds, unless `batch` says otherwise."""
        return self.fixed_rows or self.batch or rows_that_fit(inputs)

    def answer(self, inputs: Inputs) -> Answer:
        """What the network says, short batches padded where it takes no other."""
        n, rows, feeds = len(inputs), self.fixed_rows or 0, self._feeds(inputs)
        if n < rows:
            feeds = {key: _padded(values, rows) for key, values in feeds.items()}
        wanted = self._wanted()
        (values,) = self.session.run([wanted.name], feeds)
        return self._read(wanted, values[:n] if n < rows else values)

    def _feeds(self, inputs: Inputs) -> dict[str, Array]:
        declared = self.session.get_inputs()
        if self.prepare is not None:
            prepared = self.prepare(inputs)
            if isinstance(prepared, Mapping):
                return {str(key): np.asarray(values) for key, values in prepared.items()}
            return {declared[0].name: np.asarray(prepared)}
        if len(declared) != 1:
            names = ", ".join(part.name for part in declared)
            raise InputError(
                f"The model {self.name!r} has {len(declared)} inputs ({names}); a batch fits one. "
                "Pass prepare=…, a function from the batch to a dict of arrays by input."
            )
        return {
            declared[0].name: Feed.of(declared[0], self.name, self.mean, self.std).values(inputs)
        }

    def _wanted(self) -> Any:
        """The output to read."""
        found = self.session.get_outputs()
        if self.output is not None:
            return next(part for part in found if part.name == self.output)
        for fits in (_is_by_class, _is_scores, _is_classes):
            for part in found:
                if fits(part):
                    return part
        shown = ", ".join(f"{part.name}: {part.type} {part.shape}" for part in found)
        raise InputError(
            f"The model {self.name!r} has no output of scores or classes; it has {shown}. "
            "One must be floats (n, k) or classes (n,)."
        )

    def _read(self, wanted: Any, values: Any) -> Answer:
        if _is_by_class(wanted):
            names = tuple(values[0])
            rows = np.array([[row[name] for name in names] for row in values])
            return Answer(rows, self.outputs or "probs", tuple(str(name) for name in names))
        form: Form = "probs" if "prob" in wanted.name.lower() else "logits"
        return Answer(values, self.outputs or ("classes" if _is_classes(wanted) else form))


def _threads() -> int:
    """How many the environment asks for; 0 is as many as there are cores."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() else 0


def _is_by_class(part: Any) -> bool:
    return str(part.type).startswith("seq(map(")


def _is_scores(part: Any) -> bool:
    floats = ("tensor(float)", "tensor(double)", "tensor(float16)")
    return part.type in floats and len(part.shape) == 2


def _is_classes(part: Any) -> bool:
    return part.type in ("tensor(int64)", "tensor(int32)", "tensor(string)") and len(part.shape) < 2


def _padded(values: Array, rows: int) -> Array:
    return np.concatenate([values, np.repeat(values[-1:], rows - len(values), axis=0)])
