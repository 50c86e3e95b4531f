"""Batches laid out as the input of an ONNX network declares it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs, infer_kind
from oodometer.core.softmax_kernels import Array
from oodometer.models._tabular_inputs import to_matrix

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
