"""An ONNX file as a model, run by onnxruntime on the processor."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.inputs import Inputs, infer_kind
from oodometer.core.optional_imports import require
from oodometer.models.base import (
    ModelAdapter,
    OutputType,
    RawOutputs,
    check_scaling,
    default_batch_size,
    exception_summary,
)
from oodometer.models.sklearn import to_matrix

NUMPY_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
}


class OnnxInputSpec(NamedTuple):
    """The type and shape of an input (a size that may vary is None), and whose it is."""

    type: str
    shape: tuple[int | None, ...]
    name: str
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None

    @classmethod
    def from_declaration(
        cls,
        declared: Any,
        name: str,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> OnnxInputSpec:
        """What a session declares."""
        sizes = (size if isinstance(size, int) else None for size in declared.shape)
        return cls(declared.type, tuple(sizes), name, mean, std)

    def to_array(self, inputs: Inputs) -> Array:
        """A batch as this input takes it."""
        kind = infer_kind(inputs)
        if self.type == "tensor(string)":
            return self._string_array(inputs, kind)
        if self.type not in NUMPY_TYPES or kind in ("text", "pairs"):
            raise self._input_error(f"{self.type}, not {kind}")
        if kind == "images":
            return self._image_array(inputs)
        rows = to_matrix(inputs, self.name) if kind == "table" else inputs
        return np.asarray(rows, dtype=NUMPY_TYPES[self.type])

    def _string_array(self, inputs: Inputs, kind: str) -> Array:
        if kind != "text":
            raise self._input_error(f"strings, not {kind}")
        texts = np.array(inputs, dtype=object)
        return texts[:, None] if len(self.shape) == 2 else texts

    def _image_array(self, images: Array) -> Array:
        images = images[..., None] if images.ndim == 3 else images
        laid = self._arrange_axes(images)
        for wanted, size in zip(self.shape[1:], laid.shape[1:], strict=True):
            if wanted is not None and wanted != size:
                raise self._size_error(images)
        if self.type == "tensor(uint8)":
            return np.ascontiguousarray(laid)
        return self._arrange_axes(self._normalize(images)).astype(
            NUMPY_TYPES[self.type], order="C", copy=False
        )

    def _normalize(self, images: Array) -> Array:
        values = np.divide(images, 255, dtype=np.float32)
        if self.mean is not None and self.std is not None:
            values -= np.asarray(self.mean, dtype=np.float32)
            values /= np.asarray(self.std, dtype=np.float32)
        return values

    def _arrange_axes(self, images: Array) -> Array:
        """Channels first, channels last, none, or flat: as the declared shape says."""
        rank, shape = len(self.shape), self.shape
        if rank == 4 and shape[1] in (1, 3):
            return np.moveaxis(images, -1, 1)
        if rank == 4 and shape[3] in (1, 3):
            return images
        if rank == 3 and images.shape[-1] == 1:
            return images[..., 0]
        if rank == 2:
            return images.reshape(len(images), -1)
        shown = tuple("any" if size is None else size for size in shape)
        raise self._input_error(
            f"an array of shape {shown}, and where its channels lie is not said"
        )

    def _size_error(self, images: Array) -> InputError:
        shape = self.shape
        if len(shape) == 2:
            return self._input_error(f"rows of {shape[1]} numbers; these images have "
                               f"{math.prod(images.shape[1:])}")  # fmt: skip
        last = len(shape) == 4 and shape[1] not in (1, 3)
        height, width = shape[1:3] if last or len(shape) == 3 else shape[2:4]
        channels = 1 if len(shape) == 3 else shape[3] if last else shape[1]
        h, w, c = images.shape[1:]
        square = height == width and height is not None and channels == c
        return self._input_error(
            f"images of {height or 'any'} by {width or 'any'} pixels with {channels} channels; "
            f"these are {h} by {w} with {c}"
            + (f" (size={height}, or --size {height}, scales a folder's images)" if square else "")
        )

    def _input_error(self, expected: str) -> InputError:
        return InputError(
            f"The model {self.name!r} takes {expected}. Give it what it takes, or pass prepare=…, a "
            "function from the batch to its array."
        )


@dataclass(frozen=True, eq=False, repr=False)
class OnnxModel(ModelAdapter):
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
        options.intra_op_num_threads = _thread_count()
        try:
            return runtime.InferenceSession(
                str(self.path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise InputError(
                f"{str(self.path)!r} can't be opened: {exception_summary(error)}. It must be a whole ONNX "
                "file of a version that the installed onnxruntime knows."
            ) from error

    def default_name(self) -> str:
        """The file's name."""
        return Path(self.path).stem

    @property
    def fixed_batch_size(self) -> int | None:
        """How many rows it takes, where it takes no other number."""
        shape = self.session.get_inputs()[0].shape
        return shape[0] if shape and isinstance(shape[0], int) else None

    def rows_per_batch(self, inputs: Inputs) -> int:
        """As many as it is fixed to, else as many as memory holds, unless `batch` says otherwise."""
        return self.fixed_batch_size or self.batch_size or default_batch_size(inputs)

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        """What the network says, short batches padded where it takes no other."""
        n, rows, feeds = len(inputs), self.fixed_batch_size or 0, self._session_inputs(inputs)
        if n < rows:
            feeds = {key: _pad_rows(values, rows) for key, values in feeds.items()}
        wanted = self._select_output()
        (values,) = self.session.run([wanted.name], feeds)
        return self._parse_output(wanted, values[:n] if n < rows else values)

    def _session_inputs(self, inputs: Inputs) -> dict[str, Array]:
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
            declared[0].name: OnnxInputSpec.from_declaration(
                declared[0], self.name, self.mean, self.std
            ).to_array(inputs)
        }

    def _select_output(self) -> Any:
        """The output to read."""
        found = self.session.get_outputs()
        if self.output is not None:
            return next(part for part in found if part.name == self.output)
        for fits in (_is_probability_map, _is_scores, _is_classes):
            for part in found:
                if fits(part):
                    return part
        shown = ", ".join(f"{part.name}: {part.type} {part.shape}" for part in found)
        raise InputError(
            f"The model {self.name!r} has no output of scores or classes; it has {shown}. "
            "One must be floats (n, k) or classes (n,)."
        )

    def _parse_output(self, declared: Any, values: Any) -> RawOutputs:
        if _is_probability_map(declared):
            names = tuple(values[0])
            rows = np.array([[row[name] for name in names] for row in values])
            return RawOutputs(rows, self.outputs or "probs", tuple(str(name) for name in names))
        form: OutputType = "probs" if "prob" in declared.name.lower() else "logits"
        return RawOutputs(values, self.outputs or ("classes" if _is_classes(declared) else form))


def _thread_count() -> int:
    """How many the environment asks for; 0 is as many as there are cores."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() else 0


def _is_probability_map(part: Any) -> bool:
    return str(part.type).startswith("seq(map(")


def _is_scores(part: Any) -> bool:
    floats = ("tensor(float)", "tensor(double)", "tensor(float16)")
    return part.type in floats and len(part.shape) == 2


def _is_classes(part: Any) -> bool:
    return part.type in ("tensor(int64)", "tensor(int32)", "tensor(string)") and len(part.shape) < 2


def _pad_rows(values: Array, rows: int) -> Array:
    return np.concatenate([values, np.repeat(values[-1:], rows - len(values), axis=0)])
