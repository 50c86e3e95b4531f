"""Convert images of floats, whose range the user states, to pixels from 0 to 255."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.softmax_kernels import row_blocks

# (lowest, highest) value of a pixel, or "prepared" if the values are given to the model unchanged.
PixelRange = tuple[float, float] | Literal["prepared"]
Channels = Literal["first", "last"]
# Numbers of channels of an image.
CHANNEL_COUNTS = (1, 3)
# Values may be outside of the stated range by this share of its width, because of rounding.
RANGE_TOLERANCE = 1e-4


def looks_like_images(array: Array) -> bool:
    """Return whether floats have the shape of images with 1 or 3 channels, first or last."""
    return (
        array.dtype.kind == "f"
        and array.ndim == 4
        and (array.shape[1] in CHANNEL_COUNTS or array.shape[3] in CHANNEL_COUNTS)
    )


def check_range_is_stated(array: Array) -> None:
    """Raise if floats have the shape of images, because the range of their pixels is not known."""
    if looks_like_images(array):
        raise InputError(
            f"Images of floats need the range of their pixels; got {array.dtype} of shape "
            f"{array.shape}. Pass pixel_range=(0, 1), (0, 255) or (-1, 1) (--pixel-range 0,1); or, if "
            "the values were normalized for the model, pixel_range='prepared' (--pixel-range "
            "prepared)."
        )


def convert_images(array: Array, pixel_range: PixelRange, channels: Channels | None) -> Array:
    """Return uint8 images with channels last; with "prepared", return the array unchanged.

    >>> convert_images(np.array([[[[0.0, 0.5, 1.0]]]]), (0, 1), "last").tolist()
    [[[[0, 128, 255]]]]
    """
    if array.dtype.kind != "f" or array.ndim not in (3, 4):
        raise InputError(
            "pixel_range is for images of floats of shape (n, height, width), (n, height, width, "
            f"channels) or (n, channels, height, width); got {array.dtype} of shape {array.shape}. "
            "Leave it out."
        )
    if isinstance(pixel_range, str):
        if pixel_range != "prepared":
            raise _invalid_range(pixel_range)
        return array
    low, high = _check_range(pixel_range)
    if array.ndim == 4 and _channel_axis(array, channels) == 1:
        array = np.moveaxis(array, 1, 3)
    images: Array = np.empty(array.shape, dtype=np.uint8)
    for rows in row_blocks(len(array), math.prod(array.shape[1:])):
        _check_values(array[rows], low, high, rows.start)
        scaled = (array[rows].astype(np.float64) - low) * (255 / (high - low))
        images[rows] = np.clip(np.floor(scaled + 0.5), 0, 255).astype(np.uint8)
    return images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images


def _invalid_range(value: object) -> InputError:
    return InputError(
        f"pixel_range must be two numbers such as (0, 1), the lowest and the highest value of a pixel, "
        f"or 'prepared'; got {value!r}."
    )


def _check_range(pixel_range: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in pixel_range)
    except (TypeError, ValueError) as error:
        raise _invalid_range(pixel_range) from error
    if not low < high < math.inf:
        raise _invalid_range(pixel_range)
    return low, high


def _channel_axis(array: Array, channels: Channels | None) -> int:
    if channels not in (None, "first", "last"):
        raise InputError(f"channels must be 'first' or 'last'; got {channels!r}.")
    axes = [axis for axis in (1, 3) if array.shape[axis] in CHANNEL_COUNTS]
    if channels is not None:
        axes = [axis for axis in axes if axis == (1 if channels == "first" else 3)]
    if len(axes) == 1:
        return axes[0]
    if axes:
        raise InputError(
            f"Images of shape {array.shape[1:]} can have their channels first or last. Pass "
            "channels='first' or channels='last' (--channels)."
        )
    raise InputError(
        f"Images must have 1 or 3 channels; got {array.shape[1:]} with channels "
        f"{channels or 'first or last'}."
    )


def _check_values(block: Array, low: float, high: float, first_row: int) -> None:
    margin = RANGE_TOLERANCE * (high - low)
    with np.errstate(invalid="ignore"):
        valid = (block >= low - margin) & (block <= high + margin)
    if not valid.all():
        place = np.unravel_index(int(np.argmin(valid)), block.shape)
        raise InputError(
            f"A pixel of image {first_row + place[0]} is {block[place]:.4g}, outside of "
            f"pixel_range=({low:g}, {high:g}). State the range of these images. If they were "
            "normalized by a mean and a standard deviation, pass pixel_range='prepared', or undo it."
        )
