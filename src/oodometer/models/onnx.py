"""Adapter of ONNX files, run by onnxruntime on the CPU."""

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
FLOAT_TYPES = ("tensor(float)", "tensor(double)", "tensor(float16)")
CLASS_TYPES = ("tensor(int64)", "tensor(int32)", "tensor(string)")


@dataclass(frozen=True, eq=False, repr=False)
class OnnxModel(ModelAdapter):
    """A network in an `.onnx` file.

    The axes of images are arranged as the network's input declares them, (n, c, h, w) or
    (n, h, w, c). An input of type uint8 receives the pixels unchanged. A float input receives
    (pixels / 255 - mean) / std. A network with several inputs needs `prepare`.

    If `output` is not given, the first of these that the network has is used:

    1. an output with one mapping from class to probability per row, as converters of scikit-learn
       models write it;
    2. an output of floats with shape (n, k). It is read as probabilities if its name contains
       "prob", and as logits otherwise;
    3. an output with one class per row.

    Parameters
    ----------
    path : str or Path
        Path of the file.
    output : str, optional
        Name of the network's output to read.
    mean, std : sequence of float, optional
        Mean and standard deviation of each channel, for pixel values between 0 and 1.
    name, class_names, outputs, batch_size
        See `ModelAdapter`.
    prepare : callable, optional
        Function that converts a batch to an array, or to a dict from input names to arrays.

    Raises
    ------
    InputError
        If the file cannot be opened, or the network has no output with the name `output`.
    MissingExtra
        If onnxruntime is not installed.

    Examples
    --------
    >>> OnnxModel("digits.onnx", mean=[0.5], std=[0.25])  # doctest: +SKIP
    OnnxModel('digits')
    """

    path: str | Path
    _: KW_ONLY
    output: str | None = None
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scaling(self.mean, self.std)
        names = [output.name for output in self.session.get_outputs()]
        if self.output is not None and self.output not in names:
            raise UnknownName("output", self.output, names)

    def __getstate__(self) -> dict[str, Any]:
        # A session cannot be pickled, so each worker opens the file again. Its path is made
        # absolute, because the working directory of a worker may differ.
        state = {field: value for field, value in vars(self).items() if field != "session"}
        return {**state, "path": Path(self.path).absolute()}

    @cached_property
    def session(self) -> Any:
        """Open the onnxruntime session."""
        runtime = require("onnxruntime", extra="onnx", purpose="Running an ONNX file")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        # Worker processes have OMP_NUM_THREADS=1. If the variable is not set, the number of
        # threads is 0, which means one thread per core to onnxruntime.
        threads = os.environ.get("OMP_NUM_THREADS", "")
        options.intra_op_num_threads = int(threads) if threads.isdecimal() else 0
        try:
            return runtime.InferenceSession(
                str(self.path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise InputError(
                f"Cannot open {str(self.path)!r}: {exception_summary(error)}. It must be a complete "
                "ONNX file of a version that the installed onnxruntime supports."
            ) from error

    def default_name(self) -> str:
        return Path(self.path).stem

    @property
    def fixed_batch_size(self) -> int | None:
        """Return the only batch size that the network accepts, or None if it accepts any size."""
        shape = self.session.get_inputs()[0].shape
        return shape[0] if shape and isinstance(shape[0], int) else None

    def rows_per_batch(self, inputs: Inputs) -> int:
        return self.fixed_batch_size or self.batch_size or default_batch_size(inputs)

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        """Run the network; pad the batch if it is smaller than the network's fixed batch size."""
        n_rows = len(inputs)
        n_fixed = self.fixed_batch_size or 0
        feeds = self._session_inputs(inputs)
        if n_rows < n_fixed:
            feeds = {name: _pad_rows(values, n_fixed) for name, values in feeds.items()}
        output = self._select_output()
        (values,) = self.session.run([output.name], feeds)
        return self._parse_output(output, values[:n_rows] if n_rows < n_fixed else values)

    def _session_inputs(self, inputs: Inputs) -> dict[str, Array]:
        declared = self.session.get_inputs()
        if self.prepare is not None:
            prepared = self.prepare(inputs)
            if isinstance(prepared, Mapping):
                return {str(name): np.asarray(values) for name, values in prepared.items()}
            return {declared[0].name: np.asarray(prepared)}
        if len(declared) != 1:
            names = ", ".join(part.name for part in declared)
            raise InputError(
                f"The model {self.name!r} has {len(declared)} inputs ({names}). "
                "Pass prepare=…, a function from a batch to a dict of arrays by input name."
            )
        spec = OnnxInputSpec.from_declaration(declared[0], self.name, self.mean, self.std)
        return {declared[0].name: spec.to_array(inputs)}

    def _select_output(self) -> Any:
        outputs = self.session.get_outputs()
        if self.output is not None:
            return next(output for output in outputs if output.name == self.output)
        for matches in (_is_probability_map, _is_scores, _is_classes):
            for output in outputs:
                if matches(output):
                    return output
        shown = ", ".join(f"{output.name}: {output.type} {output.shape}" for output in outputs)
        raise InputError(
            f"The model {self.name!r} has no output of scores or classes; its outputs are {shown}. "
            "One must be floats of shape (n, k) or classes of shape (n,)."
        )

    def _parse_output(self, declared: Any, values: Any) -> RawOutputs:
        if _is_probability_map(declared):
            names = tuple(values[0])
            rows = np.array([[row[name] for name in names] for row in values])
            return RawOutputs(rows, self.outputs or "probs", tuple(str(name) for name in names))
        if _is_classes(declared):
            return RawOutputs(values, self.outputs or "classes")
        guess: OutputType = "probs" if "prob" in declared.name.lower() else "logits"
        return RawOutputs(values, self.outputs or guess)


class OnnxInputSpec(NamedTuple):
    """Declared type and shape of a network's input, with the conversion of batches to it.

    In `shape`, None stands for a size that may vary. `name` is the name of the model.
    """

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
        """Read the type and shape from an input of an onnxruntime session."""
        sizes = (size if isinstance(size, int) else None for size in declared.shape)
        return cls(declared.type, tuple(sizes), name, mean, std)

    def to_array(self, inputs: Inputs) -> Array:
        """Convert a batch to the array that the network takes."""
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
        arranged = self._arrange_axes(images)
        for expected, size in zip(self.shape[1:], arranged.shape[1:], strict=True):
            if expected is not None and expected != size:
                raise self._size_error(images)
        if self.type == "tensor(uint8)":
            return np.ascontiguousarray(arranged)
        return self._arrange_axes(self._normalize(images)).astype(
            NUMPY_TYPES[self.type], order="C", copy=False
        )

    def _normalize(self, images: Array) -> Array:
        values = np.divide(images, 255, dtype=np.float32)
        if self.mean is not None and self.std is not None:
            values -= np.asarray(self.mean, dtype=np.float32)
            values /= np.asarray(self.std, dtype=np.float32)
        return values

    @property
    def _is_channels_first(self) -> bool:
        return len(self.shape) == 4 and self.shape[1] in (1, 3)

    def _arrange_axes(self, images: Array) -> Array:
        """Move or drop the channel axis, or flatten the images, to match the declared shape."""
        rank = len(self.shape)
        if self._is_channels_first:
            return np.moveaxis(images, -1, 1)
        if rank == 4 and self.shape[3] in (1, 3):
            return images
        if rank == 3 and images.shape[-1] == 1:
            return images[..., 0]
        if rank == 2:
            return images.reshape(len(images), -1)
        shape = tuple("any" if size is None else size for size in self.shape)
        raise self._input_error(f"an array of shape {shape}, whose channel axis is unknown")

    def _size_error(self, images: Array) -> InputError:
        if len(self.shape) == 2:
            n_pixels = math.prod(images.shape[1:])
            return self._input_error(
                f"rows of {self.shape[1]} numbers; these images have {n_pixels}"
            )
        height, width = self.shape[2:4] if self._is_channels_first else self.shape[1:3]
        channels: int | None = 1
        if len(self.shape) == 4:
            channels = self.shape[1] if self._is_channels_first else self.shape[3]
        h, w, c = images.shape[1:]
        hint = ""
        if height == width and height is not None and channels == c:
            hint = f" (size={height}, or --size {height}, scales the images of a folder)"
        return self._input_error(
            f"images of {height or 'any'} by {width or 'any'} pixels with {channels} channels; "
            f"these are {h} by {w} with {c}{hint}"
        )

    def _input_error(self, expected: str) -> InputError:
        return InputError(
            f"The model {self.name!r} takes {expected}. Pass inputs of that form, or prepare=…, a "
            "function from a batch to the model's array."
        )


def _is_probability_map(output: Any) -> bool:
    return str(output.type).startswith("seq(map(")


def _is_scores(output: Any) -> bool:
    return output.type in FLOAT_TYPES and len(output.shape) == 2


def _is_classes(output: Any) -> bool:
    return output.type in CLASS_TYPES and len(output.shape) < 2


def _pad_rows(values: Array, n_rows: int) -> Array:
    """Repeat the last row until there are `n_rows`."""
    return np.concatenate([values, np.repeat(values[-1:], n_rows - len(values), axis=0)])
