"""Derived domains: tinted, rotated or otherwise transformed images.

Colored MNIST, in which the correlation of colour and class is reversed for testing, is from
Arjovsky et al. 2019; Rotated MNIST is from Ghifary et al. 2015.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from oodometer.core.array_types import Array, Floats
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs, RowHashes
from oodometer.core.optional_imports import opencv
from oodometer.core.protocols import Dataset
from oodometer.core.random_streams import RowStreams
from oodometer.core.softmax_kernels import row_blocks
from oodometer.data.dataset import (
    BaseDataset,
    DatasetTransform,
    RowSelection,
    TransformedDataset,
    fingerprint_rows,
    to_row_numbers,
)
from oodometer.data.image_folder import Pixels, resize_and_crop

# Ten easily distinguished bright colours.
PALETTE = (
    (230, 60, 60), (70, 200, 90), (90, 120, 255), (250, 220, 60), (240, 130, 40),
    (190, 80, 220), (80, 220, 230), (250, 120, 190), (170, 230, 90), (255, 255, 255),
)  # fmt: skip
RED = (255, 0, 0)
GREEN = (0, 255, 0)


@runtime_checkable
class DomainDerivation(Protocol):
    """Derivation of one domain from another: a frozen dataclass of its settings."""

    def derive(self, dataset: Dataset) -> Dataset:
        """Return the derived domain."""


@dataclass(frozen=True)
class TransformedDomain:
    """Corruption or transform of every row; its draws depend on the content of the row."""

    change: DatasetTransform
    seed: int = 0

    def derive(self, dataset: Dataset) -> Dataset:
        """Return the transformed rows; each is transformed on access."""
        return TransformedDataset(dataset, self.change, self.seed)


@dataclass(frozen=True)
class Rotated:
    """Counter-clockwise rotation about the centre; new pixels are black."""

    # Not float alone: 15 must not become 15.0, because the fingerprint contains the setting.
    degrees: int | float
    name: ClassVar[str] = "rotated"

    def derive(self, dataset: Dataset) -> Dataset:
        """Return the rotated images; each is rotated on access."""
        return TransformedDataset(_require_images(dataset, "rotated"), self)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Return the images, rotated with bilinear interpolation."""
        cv2 = opencv()
        height, width = inputs.shape[1:3]
        centre = ((width - 1) / 2, (height - 1) / 2)
        matrix = cv2.getRotationMatrix2D(centre, self.degrees, 1.0)
        rotated = [
            cv2.warpAffine(np.ascontiguousarray(image), matrix, (width, height)) for image in inputs
        ]
        return np.stack(rotated).reshape(inputs.shape) if rotated else inputs


@dataclass(frozen=True)
class ResizeAndCrop:
    """Resizing and cropping to one shape, (height, width) or (height, width, 3)."""

    shape: tuple[int, ...]
    name: ClassVar[str] = "fit"

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Return the images, scaled to cover the shape and cropped to its centre."""
        images = np.empty((len(inputs), *self.shape), dtype=np.uint8)
        for position, image in enumerate(inputs):
            images[position] = self._resize(np.ascontiguousarray(image))
        return images

    def _resize(self, image: Pixels) -> Pixels:
        flat = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
        if flat.ndim == 3 and len(self.shape) == 2:
            flat = opencv().cvtColor(flat, opencv().COLOR_RGB2GRAY)
        sized = resize_and_crop(flat, (self.shape[0], self.shape[1]))
        return sized if sized.ndim == len(self.shape) else sized[..., None]


@dataclass(frozen=True, eq=False, repr=False)
class TintedDataset(BaseDataset):
    """Images of a dataset, each tinted in its own colour: grey · colour / 255."""

    dataset: Dataset
    tints: Array
    labels: Array | None

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        return f"TintedDataset({self.dataset!r})"

    @property
    def name(self) -> str:
        return self.dataset.name

    @property
    def kind(self) -> InputKind:
        return self.dataset.kind

    @property
    def keys(self) -> RowHashes:
        """Hashes of the rows before tinting."""
        return self.dataset.keys

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all rows and their colours."""
        return fingerprint_rows(
            f"tinted {self.dataset.fingerprint} {self.tints.tobytes().hex()}", self.keys
        )

    def take(self, index: RowSelection) -> Pixels:
        """Return the selected images: uint8 (n, height, width, 3)."""
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        images = self.dataset.take(rows)
        grey = images if images.ndim == 3 else images.max(axis=3)
        tinted = np.empty((*grey.shape, 3), dtype=np.uint8)
        factors = self.tints[rows, None, None] / np.float32(255)
        for block in row_blocks(len(rows), 3 * math.prod(grey.shape[1:])):
            tinted[block] = np.rint(grey[block, ..., None] * factors[block])
        return tinted

    def rows(self, index: RowSelection) -> Self:
        """Return the dataset of the selected images with the same colours."""
        rows = to_row_numbers(index, len(self))
        labels = None if self.labels is None else self.labels[rows]
        return replace(self, dataset=self.dataset.rows(rows), tints=self.tints[rows], labels=labels)


@dataclass(frozen=True)
class RandomColors:
    """Random tint per image, one of ten colours, independent of the class."""

    seed: int = 0

    def derive(self, dataset: Dataset) -> Dataset:
        """Return the tinted images."""
        color_index = (_draw_uniforms(dataset, self.seed, 1)[:, 0] * len(PALETTE)).astype(np.int64)
        tints = np.array(PALETTE, dtype=np.uint8)[color_index]
        return TintedDataset(_require_images(dataset, "tinted"), tints, dataset.labels)


@dataclass(frozen=True)
class ColoredMnist:
    """Colored MNIST: is a digit below 5, with a colour that correlates with the class.

    The class is 1 below 5 and 0 otherwise, flipped for a fraction `noise` of the rows; class 1 is
    green and class 0 red, except for a fraction `flipped` of the rows: 0.1 and 0.2 for training,
    0.9 for testing.
    """

    flipped: float
    noise: float = 0.25
    seed: int = 0

    def derive(self, dataset: Dataset) -> Dataset:
        """Return the tinted images with two classes."""
        if dataset.labels is None:
            raise InputError("Colored MNIST needs labelled digits.")
        flip_label, flip_color = (
            _draw_uniforms(dataset, self.seed, 2) < (self.noise, self.flipped)
        ).T
        labels = (dataset.labels < 5) ^ flip_label
        tints = np.array([RED, GREEN], dtype=np.uint8)[(labels ^ flip_color).astype(np.int64)]
        return TintedDataset(_require_images(dataset, "tinted"), tints, labels.astype(np.int64))


DERIVATIONS: dict[str, type] = {"rotated": Rotated, "painted": RandomColors, "biased": ColoredMnist}


def _require_images(dataset: Dataset, verb: str) -> Dataset:
    if dataset.kind != "images":
        raise InputError(
            f"Only images can be {verb}; got {dataset.kind}. Choose a domain of images."
        )
    return dataset


def _draw_uniforms(dataset: Dataset, seed: int, count: int) -> Floats:
    keys = dataset.keys
    return RowStreams(seed, keys, np.ones(len(keys), dtype=np.int64), "domain").uniforms(count)
