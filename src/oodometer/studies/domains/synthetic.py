"""Domains that are made of others: painted, turned or otherwise changed images.

Colored MNIST, in which the colour tells the class and then does not, is of Arjovsky et al. 2019;
Rotated MNIST of Ghifary et al. 2015.
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

# Ten colours that no eye takes for one another, none of them dark.
PALETTE = (
    (230, 60, 60), (70, 200, 90), (90, 120, 255), (250, 220, 60), (240, 130, 40),
    (190, 80, 220), (80, 220, 230), (250, 120, 190), (170, 230, 90), (255, 255, 255),
)  # fmt: skip
RED, GREEN = (255, 0, 0), (0, 255, 0)


@runtime_checkable
class DomainDerivation(Protocol):
    """A frozen dataclass of settings that makes one domain of another."""

    def derive(self, dataset: Dataset) -> Dataset:
        """The domain that it becomes."""


@dataclass(frozen=True)
class TransformedDomain:
    """Every row changed by a corruption or a transform, by a draw that hangs on its content."""

    change: DatasetTransform
    seed: int = 0

    def derive(self, dataset: Dataset) -> Dataset:
        """The rows as they are after the change; each is changed when it is taken."""
        return TransformedDataset(dataset, self.change, self.seed)


@dataclass(frozen=True)
class Rotated:
    """Images turned against the clock about their middle; what comes from outside is black."""

    # Not float alone: 15 must not become 15.0, because the fingerprint contains the setting.
    degrees: int | float
    name: ClassVar[str] = "rotated"

    def derive(self, dataset: Dataset) -> Dataset:
        """The turned images; each is turned when it is taken."""
        return TransformedDataset(_require_images(dataset, "turned"), self)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every image, turned; read bilinearly."""
        cv2 = opencv()
        height, width = inputs.shape[1:3]
        middle = ((width - 1) / 2, (height - 1) / 2)
        matrix = cv2.getRotationMatrix2D(middle, self.degrees, 1.0)
        turned = [
            cv2.warpAffine(np.ascontiguousarray(image), matrix, (width, height)) for image in inputs
        ]
        return np.stack(turned).reshape(inputs.shape) if turned else inputs  # fmt: skip


@dataclass(frozen=True)
class ResizeAndCrop:
    """Images brought to one shape, (height, width) or (height, width, 3)."""

    shape: tuple[int, ...]
    name: ClassVar[str] = "fit"

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every image, scaled until it covers the shape and cut around its middle."""
        images = np.empty((len(inputs), *self.shape), dtype=np.uint8)
        for place, image in enumerate(inputs):
            images[place] = self._resize(np.ascontiguousarray(image))
        return images

    def _resize(self, image: Pixels) -> Pixels:
        flat = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
        if flat.ndim == 3 and len(self.shape) == 2:
            flat = opencv().cvtColor(flat, opencv().COLOR_RGB2GRAY)
        sized = resize_and_crop(flat, (self.shape[0], self.shape[1]))
        return sized if sized.ndim == len(self.shape) else sized[..., None]


@dataclass(frozen=True, eq=False, repr=False)
class TintedDataset(BaseDataset):
    """The images of a dataset, each painted in a colour of its own: grey · colour / 255."""

    dataset: Dataset
    tints: Array
    labels: Array | None

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        return f"TintedDataset({self.dataset!r})"

    @property
    def name(self) -> str:
        """The dataset's."""
        return self.dataset.name

    @property
    def kind(self) -> InputKind:
        """The dataset's."""
        return self.dataset.kind

    @property
    def keys(self) -> RowHashes:
        """Those of the rows before they were painted."""
        return self.dataset.keys

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content of all rows and of their colours."""
        return fingerprint_rows(
            f"tinted {self.dataset.fingerprint} {self.tints.tobytes().hex()}", self.keys
        )

    def take(self, index: RowSelection) -> Pixels:
        """Some images, in that order: uint8 (n, height, width, 3)."""
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        images = self.dataset.take(rows)
        grey = images if images.ndim == 3 else images.max(axis=3)
        painted = np.empty((*grey.shape, 3), dtype=np.uint8)
        shares = self.tints[rows, None, None] / np.float32(255)
        for some in row_blocks(len(rows), 3 * math.prod(grey.shape[1:])):
            painted[some] = np.rint(grey[some, ..., None] * shares[some])
        return painted

    def rows(self, index: RowSelection) -> Self:
        """The dataset of some images, painted alike."""
        some = to_row_numbers(index, len(self))
        labels = None if self.labels is None else self.labels[some]
        return replace(self, dataset=self.dataset.rows(some), tints=self.tints[some], labels=labels)


@dataclass(frozen=True)
class RandomColors:
    """Images in one of ten colours each, which tells nothing of the class."""

    seed: int = 0

    def derive(self, dataset: Dataset) -> Dataset:
        """The painted images."""
        which = (_draw_uniforms(dataset, self.seed, 1)[:, 0] * len(PALETTE)).astype(np.int64)
        tints = np.array(PALETTE, dtype=np.uint8)[which]
        return TintedDataset(_require_images(dataset, "painted"), tints, dataset.labels)


@dataclass(frozen=True)
class ColoredMnist:
    """Colored MNIST: is a digit below 5 or not, seen in red or green, which tells it too.

    The class is 1 below 5 and 0 else, and wrong for a share `noise` of the rows; 1 is green and
    0 red, but for a share `flipped` of the rows: 0.1 and 0.2 to train on, 0.9 to test on.
    """

    flipped: float
    noise: float = 0.25
    seed: int = 0

    def derive(self, dataset: Dataset) -> Dataset:
        """The painted images and their two classes."""
        if dataset.labels is None:
            raise InputError("Digits without labels can't be biased. Give labels.")
        wrong, other = (_draw_uniforms(dataset, self.seed, 2) < (self.noise, self.flipped)).T
        labels = (dataset.labels < 5) ^ wrong
        tints = np.array([RED, GREEN], dtype=np.uint8)[(labels ^ other).astype(np.int64)]
        return TintedDataset(_require_images(dataset, "painted"), tints, labels.astype(np.int64))


DERIVATIONS: dict[str, type] = {"rotated": Rotated, "painted": RandomColors, "biased": ColoredMnist}


def _require_images(dataset: Dataset, verb: str) -> Dataset:
    if dataset.kind != "images":
        raise InputError(f"Only images can be {verb}; got {dataset.kind}. Name a domain of images.")
    return dataset


def _draw_uniforms(dataset: Dataset, seed: int, count: int) -> Floats:
    keys = dataset.keys
    return RowStreams(seed, keys, np.ones(len(keys), dtype=np.int64), "domain").uniforms(count)
