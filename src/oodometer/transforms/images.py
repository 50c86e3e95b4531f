"""Changes of images: shifts, cut-outs, crops and the single operations. Ng et al., 2022.

Sizes are shares of the image, so that a magnitude means the same at 8 × 8 and at 224 × 224.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs, infer_kind
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.affine_ops import crop_bilinear, rotate, shear_x, shear_y, shift_bilinear
from oodometer.transforms.color_ops import Image, brightness, color, contrast

IMAGE_KINDS: tuple[InputKind, ...] = ("images",)


def check_magnitude(transform: Transform, maximum: float) -> None:
    """Raise InputError unless the magnitude is a number from 0 to the most there can be."""
    given: Any = transform.magnitude
    if not (isinstance(given, Real) and 0 <= float(given) <= maximum):
        raise InputError(
            f"The magnitude of {transform.name} must be a number from 0 to {maximum:g}; got {given!r}. "
            f"As published it is {type(transform).magnitude:g}."
        )


def require_images(inputs: Inputs, name: str) -> Image:
    """Images as one block of memory, or InputError."""
    kind = infer_kind(inputs)
    if kind != "images":
        raise InputError(
            f"{name} changes images; got {kind}. Images are uint8 arrays (n, height, width) or "
            f"(n, height, width, 3); for {kind} take another transform."
        )
    images: Image = np.ascontiguousarray(inputs)
    return images


def drop_gray_channel(images: Image) -> Image:
    """A view of grey images (n, height, width, 1) as (n, height, width); others as they are."""
    return images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images


def map_images(images: Image, function: Callable[..., Image], *amounts: Array) -> Image:
    """The function of every image and of its own amounts, in a new array."""
    changed = np.empty_like(images)
    rows, into = drop_gray_channel(images), drop_gray_channel(changed)
    for row, image, *own in zip(into, rows, *(a.tolist() for a in amounts), strict=True):
        row[...] = function(image, *own)
    return changed


def draw_signed_uniform(draws: RowStreams, magnitude: float) -> Floats:
    """A number a row, uniform in ± the magnitude."""
    return magnitude * (2 * draws.uniforms(1)[:, 0] - 1)


@dataclass(frozen=True)
class Translate(Transform):
    """Moved in x and in y, each by a draw uniform in ± the magnitude, a share of the size.

    Shifts are read bilinearly between the pixels: whole pixels would leave no draw but 0 at 8 × 8.
    What comes in from outside is 0.
    """

    magnitude: float = 0.10

    name: ClassVar[str] = "translate"
    label: ClassVar[str] = "Translate"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "the object may lie anywhere, and none of it at the very edge"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every image, moved by its own draw."""
        images = require_images(inputs, self.name)
        shares = self.magnitude * (2 * draws.uniforms(2) - 1)
        return map_images(
            images, shift_bilinear, shares[:, 0] * images.shape[2], shares[:, 1] * images.shape[1]
        )


@dataclass(frozen=True)
class Erase(Transform):
    """One rectangle set to 0, of an area uniform in 2 % … magnitude of the image.

    Height over width is log-uniform in 1/3 … 10/3, as far as the image has room. Sides are rounded
    down to whole pixels; of less than a pixel nothing is erased. Zhong et al., AAAI 2020.
    """

    magnitude: float = 0.33

    name: ClassVar[str] = "erase"
    label: ClassVar[str] = "Erase"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "no single part of the object makes its class"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every image, with a rectangle of its own blanked."""
        erased = require_images(inputs, self.name).copy()
        for row, (top, left, height, width) in zip(
            erased, self.rectangles(erased.shape[1:3], draws).tolist(), strict=True
        ):
            row[top : top + height, left : left + width] = 0
        return erased

    def rectangles(self, size: tuple[int, ...], draws: RowStreams) -> Ints:
        """Top, left, height and width of every row's rectangle, in images of a size."""
        tall, wide = size
        u = draws.uniforms(4)
        least = min(0.02, self.magnitude)
        area = tall * wide * (least + (self.magnitude - least) * u[:, 0])
        aspect = np.exp(np.log(1 / 3) + np.log(10) * u[:, 1])
        most = np.maximum(np.minimum(area, wide), 1)
        width = np.floor(np.clip(np.sqrt(area / aspect), np.maximum(area / tall, 1), most))
        height = np.minimum(np.floor(area / width), tall)
        top, left = (tall - height + 1) * u[:, 2], (wide - width + 1) * u[:, 3]
        return np.stack([top, left, height, width], axis=1).astype(np.int64)


@dataclass(frozen=True)
class FlipCrop(Transform):
    """Flipped left to right half of the time; then a crop, brought back to the size bilinearly.

    The magnitude is the largest share of the area that is cut away: what stays is uniform in
    1 − magnitude … 1. Width over height is log-uniform in 3/4 … 4/3, as far as there is room.
    """

    magnitude: float = 0.92

    name: ClassVar[str] = "flip_crop"
    label: ClassVar[str] = "FC"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = (
        "a part tells the class, and so does the mirror image: no letters, no digits"
    )

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every image, cropped and perhaps flipped by its own draw."""
        images = require_images(inputs, self.name)
        if self.magnitude == 0:
            return images.copy()
        return map_images(images, crop_bilinear, *self.windows(images.shape[1:3], draws).T)

    def windows(self, size: tuple[int, ...], draws: RowStreams) -> Floats:
        """Left, width, top and height of every row's window; a flipped one has a negative width."""
        tall, wide = size
        u = draws.uniforms(5)
        area = tall * wide * (1 - self.magnitude * u[:, 0])
        aspect = np.exp(np.log(4 / 3) * (2 * u[:, 1] - 1))
        width = np.clip(np.sqrt(area * aspect), area / tall, wide)
        height = area / width
        left, top = (wide - width) * u[:, 2], (tall - height) * u[:, 3]
        flip = u[:, 4] < 0.5
        across = np.where(flip, left + width, left), np.where(flip, -width, width)
        return np.stack([*across, top, height], axis=1)


@dataclass(frozen=True)
class Rotate(Transform):
    """Turned about the middle by an angle uniform in ± the magnitude, in degrees."""

    magnitude: float = 30.0

    name: ClassVar[str] = "rotate"
    label: ClassVar[str] = "Rotate"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "the object may be tilted, and still be what it is"

    def __post_init__(self) -> None:
        check_magnitude(self, 180)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every image, turned by its own angle."""
        return map_images(
            require_images(inputs, self.name), rotate, draw_signed_uniform(draws, self.magnitude)
        )


@dataclass(frozen=True)
class Shear(Transform):
    """Sheared along x or along y, at even odds, by a slope uniform in ± the magnitude."""

    magnitude: float = 0.3

    name: ClassVar[str] = "shear"
    label: ClassVar[str] = "Shear"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "the object may be slanted, and still be what it is"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every image, sheared by its own slope."""

        def sheared(image: Image, slope: float, along: float) -> Image:
            return (shear_x if along < 0.5 else shear_y)(image, slope)

        u = draws.uniforms(2)
        slopes = self.magnitude * (2 * u[:, 0] - 1)
        return map_images(require_images(inputs, self.name), sheared, slopes, u[:, 1])


@dataclass(frozen=True)
class Brightness(Transform):
    """Made darker or brighter, by a factor uniform in 1 ± the magnitude."""

    magnitude: float = 0.4

    name: ClassVar[str] = "brightness"
    label: ClassVar[str] = "Brightness"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "how bright an image is says nothing of the class"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every image, changed by its own factor."""
        return map_images(
            require_images(inputs, self.name),
            brightness,
            1 + draw_signed_uniform(draws, self.magnitude),
        )


@dataclass(frozen=True)
class Contrast(Transform):
    """Made flatter or harsher, by a factor uniform in 1 ± the magnitude."""

    magnitude: float = 0.4

    name: ClassVar[str] = "contrast"
    label: ClassVar[str] = "Contrast"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "how harsh its contrast is says nothing of the class"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every image, changed by its own factor."""
        return map_images(
            require_images(inputs, self.name),
            contrast,
            1 + draw_signed_uniform(draws, self.magnitude),
        )


@dataclass(frozen=True)
class Color(Transform):
    """Made paler or more colourful, by a factor uniform in 1 ± the magnitude.

    A grey image stays as it is.
    """

    magnitude: float = 0.4

    name: ClassVar[str] = "color"
    label: ClassVar[str] = "Color"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "how vivid its colours are says nothing of the class"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every image, changed by its own factor."""
        return map_images(
            require_images(inputs, self.name), color, 1 + draw_signed_uniform(draws, self.magnitude)
        )
