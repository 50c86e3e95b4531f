"""The operations of RandAugment by Pillow, one image at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image as pil
from PIL import ImageEnhance, ImageOps
from PIL.Image import Image as Picture

from oodometer.transforms.color_ops import Image


def affine(picture: Picture, *matrix: float) -> Picture:
    return picture.transform(
        picture.size, pil.Transform.AFFINE, matrix, resample=pil.Resampling.NEAREST
    )


TWINS: dict[str, Callable[[Picture, float], Picture]] = {
    "identity": lambda picture, _: picture,
    "autocontrast": lambda picture, _: ImageOps.autocontrast(picture),
    "equalize": lambda picture, _: ImageOps.equalize(picture),
    "rotate": lambda picture, degrees: picture.rotate(degrees, resample=pil.Resampling.NEAREST),
    "solarize": lambda picture, level: ImageOps.solarize(picture, level),  # type: ignore[arg-type]
    "color": lambda picture, factor: ImageEnhance.Color(picture).enhance(factor),
    "posterize": lambda picture, bits: ImageOps.posterize(picture, round(bits)),
    "contrast": lambda picture, factor: ImageEnhance.Contrast(picture).enhance(factor),
    "brightness": lambda picture, factor: ImageEnhance.Brightness(picture).enhance(factor),
    "sharpness": lambda picture, factor: ImageEnhance.Sharpness(picture).enhance(factor),
    "shear-x": lambda picture, slope: affine(picture, 1, slope, 0, 0, 1, 0),
    "shear-y": lambda picture, slope: affine(picture, 1, 0, 0, slope, 1, 0),
    "translate-x": lambda picture, share: affine(picture, 1, 0, share * picture.width, 0, 1, 0),
    "translate-y": lambda picture, share: affine(picture, 1, 0, 0, 0, 1, share * picture.height),
}


def twin(image: Image, name: str, amount: float) -> Image:
    """Apply one operation to one image by Pillow."""
    return np.asarray(TWINS[name](pil.fromarray(image), amount))


def twins(image: Image, names: list[str], amounts: list[float]) -> Image:
    """Apply several operations to one image by Pillow."""
    picture = pil.fromarray(image)
    for name, amount in zip(names, amounts, strict=True):
        picture = TWINS[name](picture, amount)
    return np.asarray(picture)
