"""Domains that are derived from other domains by tinting, rotating or transforming the images.

Colored MNIST is from Arjovsky et al. 2019: the color correlates with the class, and the test
domain reverses this correlation. Rotated MNIST is from Ghifary et al. 2015.
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

# Ten bright colors that are easy to distinguish, as (red, green, blue).
PALETTE = (
    (230, 60, 60), (70, 200, 90), (90, 120, 255), (250, 220, 60), (240, 130, 40),
    (190, 80, 220), (80, 220, 230), (250, 120, 190), (170, 230, 90), (255, 255, 255),
)  # fmt: skip
RED = (255, 0, 0)
GREEN = (0, 255, 0)


@runtime_checkable
class DomainDerivation(Protocol):
    """Interface of a rule that derives one domain from another.

    A derivation is a frozen dataclass of its settings.
    """

    def derive(self, dataset: Dataset) -> Dataset:
        """Return the rows of the derived domain, given the rows of the original domain."""


@dataclass(frozen=True)
class TransformedDomain:
    """Derivation that applies a corruption or a transform to every row.

    The random draws for a row depend on the seed and on the content of the row.
    """

    change: DatasetTransform
    seed: int = 0

    def derive(self, dataset: Dataset) -> Dataset:
        """Return a dataset that transforms each row when it is accessed."""
        return TransformedDataset(dataset, self.change, self.seed)


@dataclass(frozen=True)
class Rotated:
    """Derivation that rotates images counter-clockwise about the center and fills with black."""

    # The type float alone would turn 15 into 15.0 and so change the dataset's fingerprint, which
    # contains the setting as text.
    degrees: int | float
    name: ClassVar[str] = "rotated"

    def derive(self, dataset: Dataset) -> Dataset:
        """Return a dataset that rotates each image when it is accessed."""
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
    """Transform that resizes and crops images to `shape`: (height, width) or (height, width, 3)."""

    shape: tuple[int, ...]
    name: ClassVar[str] = "fit"

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Scale each image until it covers the shape, and cut out its center."""
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
    """Dataset of images that are tinted: each pixel is gray value · color / 255.

    `tints` holds one color (red, green, blue) per image.
    """

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
        """Hash of all images and their tints."""
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
        """Return the dataset of the selected images; each image keeps its tint."""
        rows = to_row_numbers(index, len(self))
        labels = None if self.labels is None else self.labels[rows]
        return replace(self, dataset=self.dataset.rows(rows), tints=self.tints[rows], labels=labels)


@dataclass(frozen=True)
class RandomColors:
    """Derivation that tints each image in one of ten colors, drawn independently of the class."""

    seed: int = 0

    def derive(self, dataset: Dataset) -> Dataset:
        """Return the tinted images."""
        color_index = (_draw_uniforms(dataset, self.seed, 1)[:, 0] * len(PALETTE)).astype(np.int64)
        tints = np.array(PALETTE, dtype=np.uint8)[color_index]
        return TintedDataset(_require_images(dataset, "tinted"), tints, dataset.labels)


@dataclass(frozen=True)
class ColoredMnist:
    """Colored MNIST: classify whether a digit is below 5; the color correlates with the class.

    The class is 1 for digits below 5 and 0 for the others; for a fraction `noise` of the rows it is
    flipped. Images of class 1 are green and images of class 0 are red; for a fraction `flipped` of
    the rows the colors are exchanged. In the paper, `flipped` is 0.1 and 0.2 in the two training
    domains and 0.9 in the test domain.
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
