"""Transforms of images: translation, erasing, cropping, rotation, shear and color operations.

They follow Ng et al., 2022. Sizes are fractions of the image's size, so that a magnitude has the
same meaning at 8 × 8 and at 224 × 224 pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs, infer_kind
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.affine_ops import crop_bilinear, rotate, shear_x, shear_y, shift_bilinear
from oodometer.transforms.color_ops import Image, brightness, color, contrast
from oodometer.transforms.magnitude import check_magnitude

IMAGE_KINDS: tuple[InputKind, ...] = ("images",)


def require_images(inputs: Inputs, name: str) -> Image:
    """Return the images as a contiguous array; raise if the inputs are not images."""
    kind = infer_kind(inputs)
    if kind != "images":
        raise InputError(
            f"{name} applies to images; got {kind}. Images are uint8 arrays of shape (n, height, "
            f"width) or (n, height, width, 3); for {kind}, choose another transform."
        )
    images: Image = np.ascontiguousarray(inputs)
    return images


def drop_gray_channel(images: Image) -> Image:
    """Return gray images of shape (n, height, width, 1) as a view of shape (n, height, width).

    Other images are returned unchanged.
    """
    return images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images


def map_images(images: Image, function: Callable[..., Image], *amounts: Array) -> Image:
    """Return a new array with the result of `function` for each image.

    The function receives the image and its entry of each array in `amounts`.
    """
    changed = np.empty_like(images)
    sources = drop_gray_channel(images)
    targets = drop_gray_channel(changed)
    columns = [column.tolist() for column in amounts]
    for target, source, *values in zip(targets, sources, *columns, strict=True):
        target[...] = function(source, *values)
    return changed


def draw_signed_uniform(draws: RowStreams, magnitude: float) -> Floats:
    """Draw one number per row, uniform between −magnitude and magnitude."""
    return magnitude * (2 * draws.uniforms(1)[:, 0] - 1)


@dataclass(frozen=True)
class Translate(Transform):
    """Shift images horizontally and vertically by random fractions of their size.

    Each of the two shifts is uniform between −magnitude and magnitude. Bilinear interpolation is
    used, because at 8 × 8 pixels the shifts would otherwise be rounded to 0. The area that is left
    empty is filled with 0.

    Parameters
    ----------
    magnitude : float
        Largest shift as a fraction of the width and height, from 0 to 1.

    Examples
    --------
    >>> from oodometer.core.inputs import hash_rows
    >>> image = np.full((1, 9, 9), 100, dtype=np.uint8)
    >>> draws = RowStreams(0, hash_rows(image), draw_index=np.array([1]))
    >>> int(Translate(0.2).apply(image, draws)[0, 4, 4])
    100
    """

    magnitude: float = 0.10

    name: ClassVar[str] = "translate"
    label: ClassVar[str] = "Translate"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = (
        "the class does not depend on the object's position, and the object does not touch the border"
    )

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        images = require_images(inputs, self.name)
        shifts = self.magnitude * (2 * draws.uniforms(2) - 1)
        return map_images(
            images, shift_bilinear, shifts[:, 0] * images.shape[2], shifts[:, 1] * images.shape[1]
        )


@dataclass(frozen=True)
class Erase(Transform):
    """Set a random rectangle of each image to 0 (random erasing; Zhong et al., AAAI 2020).

    The rectangle's area, as a fraction of the image, is uniform between 0.02 and the magnitude. Its
    ratio of height to width is log-uniform between 1/3 and 10/3, as far as the image is large
    enough. Width and height are rounded down to whole pixels. If the area is less than one pixel,
    nothing is erased.

    Parameters
    ----------
    magnitude : float
        Largest area as a fraction of the image, from 0 to 1.

    Examples
    --------
    >>> from oodometer.core.inputs import hash_rows
    >>> image = np.full((1, 9, 9), 100, dtype=np.uint8)
    >>> draws = RowStreams(0, hash_rows(image), draw_index=np.array([1]))
    >>> bool((Erase(0.1).apply(image, draws) == 0).mean() <= 0.1)
    True
    """

    magnitude: float = 0.33

    name: ClassVar[str] = "erase"
    label: ClassVar[str] = "Erase"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "no single part of the object determines its class"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        erased = require_images(inputs, self.name).copy()
        for row, (top, left, height, width) in zip(
            erased, self.rectangles(erased.shape[1:3], draws).tolist(), strict=True
        ):
            row[top : top + height, left : left + width] = 0
        return erased

    def rectangles(self, size: tuple[int, ...], draws: RowStreams) -> Ints:
        """Return the top, left, height and width of one rectangle per image, in pixels.

        `size` is the height and width of the images.
        """
        tall, wide = size
        u = draws.uniforms(4)
        min_share = min(0.02, self.magnitude)
        area = tall * wide * (min_share + (self.magnitude - min_share) * u[:, 0])
        aspect = np.exp(np.log(1 / 3) + np.log(10) * u[:, 1])
        max_width = np.maximum(np.minimum(area, wide), 1)
        width = np.floor(np.clip(np.sqrt(area / aspect), np.maximum(area / tall, 1), max_width))
        height = np.minimum(np.floor(area / width), tall)
        top = (tall - height + 1) * u[:, 2]
        left = (wide - width + 1) * u[:, 3]
        return np.stack([top, left, height, width], axis=1).astype(np.int64)


@dataclass(frozen=True)
class FlipCrop(Transform):
    """Flip images horizontally with probability 1/2, crop them, and resize them to their old size.

    The crop's area, as a fraction of the image, is uniform between 1 − magnitude and 1. Its ratio
    of width to height is log-uniform between 3/4 and 4/3, as far as the image is large enough. The
    crop is resized with bilinear interpolation.

    Parameters
    ----------
    magnitude : float
        Largest fraction of the area that is cropped away, from 0 to 1.

    Examples
    --------
    >>> from oodometer.core.inputs import hash_rows
    >>> image = np.full((1, 9, 9), 100, dtype=np.uint8)
    >>> draws = RowStreams(0, hash_rows(image), draw_index=np.array([1]))
    >>> bool((FlipCrop(0.5).apply(image, draws) == image).all())
    True
    """

    magnitude: float = 0.92

    name: ClassVar[str] = "flip_crop"
    label: ClassVar[str] = "FC"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = (
        "a crop or a mirror image still shows the same class (not so for letters and digits)"
    )

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        images = require_images(inputs, self.name)
        if self.magnitude == 0:
            return images.copy()
        return map_images(images, crop_bilinear, *self.windows(images.shape[1:3], draws).T)

    def windows(self, size: tuple[int, ...], draws: RowStreams) -> Floats:
        """Return the left, width, top and height of one window per image, in pixels.

        A negative width means that the image is flipped; `left` is then the window's right edge.
        """
        tall, wide = size
        u = draws.uniforms(5)
        area = tall * wide * (1 - self.magnitude * u[:, 0])
        aspect = np.exp(np.log(4 / 3) * (2 * u[:, 1] - 1))
        width = np.clip(np.sqrt(area * aspect), area / tall, wide)
        height = area / width
        left = (wide - width) * u[:, 2]
        top = (tall - height) * u[:, 3]
        flip = u[:, 4] < 0.5
        start = np.where(flip, left + width, left)
        signed_width = np.where(flip, -width, width)
        return np.stack([start, signed_width, top, height], axis=1)


@dataclass(frozen=True)
class Rotate(Transform):
    """Rotate images about their center by an angle uniform between −magnitude and magnitude.

    Parameters
    ----------
    magnitude : float
        Largest angle in degrees, from 0 to 180.

    Examples
    --------
    >>> from oodometer.core.inputs import hash_rows
    >>> image = np.full((1, 9, 9), 100, dtype=np.uint8)
    >>> draws = RowStreams(0, hash_rows(image), draw_index=np.array([1]))
    >>> int(Rotate(15).apply(image, draws)[0, 4, 4])
    100
    """

    magnitude: float = 30.0

    name: ClassVar[str] = "rotate"
    label: ClassVar[str] = "Rotate"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "the class does not depend on the object's tilt"

    def __post_init__(self) -> None:
        check_magnitude(self, 180)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return map_images(
            require_images(inputs, self.name), rotate, draw_signed_uniform(draws, self.magnitude)
        )


@dataclass(frozen=True)
class Shear(Transform):
    """Shear images along x or along y, each with probability 1/2.

    The slope is uniform between −magnitude and magnitude.

    Parameters
    ----------
    magnitude : float
        Largest slope, from 0 to 1.

    Examples
    --------
    >>> from oodometer.core.inputs import hash_rows
    >>> image = np.full((1, 9, 9), 100, dtype=np.uint8)
    >>> draws = RowStreams(0, hash_rows(image), draw_index=np.array([1]))
    >>> int(Shear(0.1).apply(image, draws)[0, 0, 0])
    100
    """

    magnitude: float = 0.3

    name: ClassVar[str] = "shear"
    label: ClassVar[str] = "Shear"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "the class does not depend on the object's slant"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        def shear(image: Image, slope: float, axis: float) -> Image:
            return shear_x(image, slope) if axis < 0.5 else shear_y(image, slope)

        u = draws.uniforms(2)
        slopes = self.magnitude * (2 * u[:, 0] - 1)
        return map_images(require_images(inputs, self.name), shear, slopes, u[:, 1])


@dataclass(frozen=True)
class Brightness(Transform):
    """Scale the brightness by a factor uniform between 1 − magnitude and 1 + magnitude.

    Parameters
    ----------
    magnitude : float
        Largest distance of the factor from 1, itself from 0 to 1.

    Examples
    --------
    >>> from oodometer.core.inputs import hash_rows
    >>> image = np.full((1, 9, 9), 100, dtype=np.uint8)
    >>> draws = RowStreams(0, hash_rows(image), draw_index=np.array([1]))
    >>> bool((abs(Brightness(0.2).apply(image, draws) - 100.0) <= 20).all())
    True
    """

    magnitude: float = 0.4

    name: ClassVar[str] = "brightness"
    label: ClassVar[str] = "Brightness"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "the class does not depend on brightness"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return map_images(
            require_images(inputs, self.name),
            brightness,
            1 + draw_signed_uniform(draws, self.magnitude),
        )


@dataclass(frozen=True)
class Contrast(Transform):
    """Scale the contrast by a factor uniform between 1 − magnitude and 1 + magnitude.

    Parameters
    ----------
    magnitude : float
        Largest distance of the factor from 1, itself from 0 to 1.

    Examples
    --------
    >>> from oodometer.core.inputs import hash_rows
    >>> image = np.full((1, 9, 9), 100, dtype=np.uint8)
    >>> draws = RowStreams(0, hash_rows(image), draw_index=np.array([1]))
    >>> bool((Contrast(0.2).apply(image, draws) == image).all())
    True
    """

    magnitude: float = 0.4

    name: ClassVar[str] = "contrast"
    label: ClassVar[str] = "Contrast"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "the class does not depend on contrast"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return map_images(
            require_images(inputs, self.name),
            contrast,
            1 + draw_signed_uniform(draws, self.magnitude),
        )


@dataclass(frozen=True)
class Color(Transform):
    """Scale the saturation by a factor uniform between 1 − magnitude and 1 + magnitude.

    Gray images are not changed.

    Parameters
    ----------
    magnitude : float
        Largest distance of the factor from 1, itself from 0 to 1.

    Examples
    --------
    >>> from oodometer.core.inputs import hash_rows
    >>> image = np.full((1, 9, 9), 100, dtype=np.uint8)
    >>> draws = RowStreams(0, hash_rows(image), draw_index=np.array([1]))
    >>> bool((Color(0.2).apply(image, draws) == image).all())
    True
    """

    magnitude: float = 0.4

    name: ClassVar[str] = "color"
    label: ClassVar[str] = "Color"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = "the class does not depend on color saturation"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return map_images(
            require_images(inputs, self.name), color, 1 + draw_signed_uniform(draws, self.magnitude)
        )
