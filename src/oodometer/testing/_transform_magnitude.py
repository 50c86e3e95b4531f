"""Measure how strongly a transform changed its inputs, for the conformance check of transforms.

The strength is in the unit of the transform's magnitude, for example in degrees for a rotation.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from oodometer.core.array_types import Array, Floats
from oodometer.core.inputs import Inputs
from oodometer.core.protocols import Transform

IMAGE_SIDE_PIXELS = 64


class MagnitudeMeter(NamedTuple):
    """Function that measures the change of inputs, with suitable inputs and a tolerance."""

    make_inputs: Callable[[int, np.random.Generator], Inputs]
    extent: Callable[[Inputs, Inputs], Floats]
    tolerance: float = 0.0


def _square_images(n: int, rng: np.random.Generator) -> Array:
    """Return black images with a bright square in the center."""
    images = np.zeros((n, IMAGE_SIDE_PIXELS, IMAGE_SIDE_PIXELS), dtype=np.uint8)
    images[:, 28:36, 28:36] = 200
    return images


def _translation(before: Array, after: Array) -> Floats:
    def centres(images: Array) -> Floats:
        weights = images.astype(float)
        where = np.arange(IMAGE_SIDE_PIXELS)
        total = weights.sum(axis=(1, 2))
        return np.stack([weights.sum(axis=a) @ where / total for a in (1, 2)], axis=1)

    return np.asarray(np.abs(centres(after) - centres(before)).max(axis=1) / IMAGE_SIDE_PIXELS)


def _white_images(n: int, rng: np.random.Generator) -> Array:
    return np.full((n, IMAGE_SIDE_PIXELS, IMAGE_SIDE_PIXELS, 3), 255, dtype=np.uint8)


def _share_of_pixels(before: Array, after: Array) -> Floats:
    return np.asarray((before != after).any(axis=3).mean(axis=(1, 2)))


def _gradient_images(n: int, rng: np.random.Generator) -> Array:
    """Return images whose first two channels increase with x and y, to locate moved pixels."""
    y, x = np.mgrid[0:IMAGE_SIDE_PIXELS, 0:IMAGE_SIDE_PIXELS]
    image = np.stack([60 + 2 * x, 60 + 2 * y, np.full_like(x, 128)], axis=2).astype(np.uint8)
    return np.repeat(image[None], n, axis=0)


def _jacobians(after: Array) -> Floats:
    """Return ∂(original x, original y)/∂(x, y) in the center of each image, as (n, 2, 2)."""
    middle = after[:, 22:42, 22:42, :2].astype(float) / 2.0
    along_x = (middle[:, :, -4:] - middle[:, :, :4]).mean(axis=(1, 2)) / 16
    along_y = (middle[:, -4:] - middle[:, :4]).mean(axis=(1, 2)) / 16
    return np.stack([along_x, along_y], axis=2)


def _rotation_degrees(before: Array, after: Array) -> Floats:
    turns = _jacobians(after)
    return np.asarray(np.degrees(np.abs(np.arctan2(turns[:, 1, 0], turns[:, 0, 0]))))


def _shear_factor(before: Array, after: Array) -> Floats:
    slopes = _jacobians(after)
    return np.asarray(np.maximum(np.abs(slopes[:, 0, 1]), np.abs(slopes[:, 1, 0])))


def _cropped_share(before: Array, after: Array) -> Floats:
    return np.asarray(1.0 - np.abs(np.linalg.det(_jacobians(after))))


def _two_tone_images(n: int, rng: np.random.Generator) -> Array:
    """Return images in which the pixels of one half are 90 and those of the other half are 110."""
    images = np.full((n, IMAGE_SIDE_PIXELS, IMAGE_SIDE_PIXELS, 3), 90, dtype=np.uint8)
    images[:, :, IMAGE_SIDE_PIXELS // 2 :] = 110
    return images


def _brightness_change(before: Array, after: Array) -> Floats:
    return np.asarray(np.abs(after.mean(axis=(1, 2, 3)) / 100.0 - 1.0))


def _contrast_change(before: Array, after: Array) -> Floats:
    halves = after[:, :, -1].mean(axis=(1, 2)) - after[:, :, 0].mean(axis=(1, 2))
    return np.asarray(np.abs(halves / 20.0 - 1.0))


def _uniform_color_images(n: int, rng: np.random.Generator) -> Array:
    """Return images of a single color that is far from black, white and gray."""
    return np.full((n, IMAGE_SIDE_PIXELS, IMAGE_SIDE_PIXELS, 3), (160, 110, 60), dtype=np.uint8)


def _saturation_change(before: Array, after: Array) -> Floats:
    means = after.mean(axis=(1, 2))
    return np.asarray(np.abs((means[:, 0] - means[:, 2]) / 100.0 - 1.0))


def _texts(n: int, rng: np.random.Generator) -> list[str]:
    """Return texts of forty words, in sentences of ten."""
    words = rng.choice(
        [f"{a}{b}{c}" for a in "bdfglm" for b in "aeiou" for c in "nrst"], (n, 4, 10)
    )
    return [" ".join(" ".join(sentence) + "." for sentence in text) for text in words]


def _share_of_words(before: list[str], after: list[str]) -> Floats:
    return np.array(
        [_changed_word_share(a.split(), b.split()) for a, b in zip(before, after, strict=True)]
    )


def _changed_word_share(before: list[str], after: list[str]) -> float:
    """Return the share of words replaced, inserted or deleted; a swap counts as one change."""
    if len(before) == len(after):
        changed = sum(a != b for a, b in zip(before, after, strict=True))
        is_swap = Counter(before) == Counter(after)
        return (changed / 2 if is_swap else changed) / len(before)
    ops = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for op, a, b, c, d in ops if op != "equal") / len(before)


def _share_of_words_per_edit(before: list[str], after: list[str]) -> Floats:
    """Return the share of words that one edit of `eda` removed or added, at fixed strength.

    Two of the four edits remove words (synonyms, deletion), and two add words (synonyms,
    insertion). Swaps do neither.
    """
    shares = []
    for texts in zip(before, after, strict=True):
        old, new = (Counter(text.replace(".", " ").split()) for text in texts)
        shares.append(max((old - new).total(), (new - old).total()) / (2 * old.total()))
    return np.array(shares)


def _random_vectors(n: int, rng: np.random.Generator) -> Array:
    return rng.normal(size=(n, 20))


def _distance(before: Array, after: Array) -> Floats:
    return np.asarray(np.linalg.norm(after - before, axis=1))


def _share_of_columns(before: Array, after: Array) -> Floats:
    return np.asarray((before != after).mean(axis=1))


def _noise_scale(before: Array, after: Array) -> Floats:
    """Return the noise level over all rows, because the noise of a single row is unbounded."""
    return np.array([((after - before).std(axis=0) / before.std(axis=0)).mean()])


MAGNITUDE_METERS: dict[str, MagnitudeMeter] = {
    "translate": MagnitudeMeter(_square_images, _translation, 0.002),
    "erase": MagnitudeMeter(_white_images, _share_of_pixels),
    "flip_crop": MagnitudeMeter(_gradient_images, _cropped_share, 0.03),
    "rotate": MagnitudeMeter(_gradient_images, _rotation_degrees, 1.0),
    "shear": MagnitudeMeter(_gradient_images, _shear_factor, 0.02),
    "brightness": MagnitudeMeter(_two_tone_images, _brightness_change, 0.01),
    "contrast": MagnitudeMeter(_two_tone_images, _contrast_change, 0.1),
    "color": MagnitudeMeter(_uniform_color_images, _saturation_change, 0.02),
    "eda": MagnitudeMeter(_texts, _share_of_words),
    "random_replace": MagnitudeMeter(_texts, _share_of_words),
    "ssmba": MagnitudeMeter(_texts, _share_of_words),
    "sphere": MagnitudeMeter(_random_vectors, _distance, 1e-12),
    "marginal_swap": MagnitudeMeter(_random_vectors, _share_of_columns),
    "gaussian": MagnitudeMeter(_random_vectors, _noise_scale, 0.01),
}
# Meter of the only transform whose draws exceed the magnitude in total at fixed strength.
FIXED_EDA_METER = MagnitudeMeter(_texts, _share_of_words_per_edit)


def find_meter(member: Transform) -> MagnitudeMeter | None:
    """Return the function that measures the changes of a transform, if there is one."""
    if member.name == "eda" and getattr(member, "strength", None) == "fixed":
        return FIXED_EDA_METER
    return MAGNITUDE_METERS.get(member.name)
