"""RandAugment: random image operations, each chosen from fourteen (Cubuk et al., CVPRW 2020)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs
from oodometer.core.keys import OMIT_DEFAULT, settings_repr
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.transforms import affine_ops, color_ops
from oodometer.transforms.color_ops import Image
from oodometer.transforms.images import IMAGE_KINDS, drop_gray_channel, require_images
from oodometer.transforms.magnitude import check_magnitude
from oodometer.transforms.strength import Strength, check_strength

# Largest magnitude on the scale of the paper.
MAX_MAGNITUDE = 30.0
# Images whose longer side has at least this many pixels get three operations in a row, as images of
# ImageNet do in the paper.
LARGE_IMAGE_PIXELS = 128


class RandAugmentOperation(NamedTuple):
    """Operation `change(image, amount)` on one image.

    The amount depends linearly on the magnitude: it is `at_0` at magnitude 0 and `at_30` at
    magnitude 30. If `signed` is True, the difference from `at_0` gets a random sign. The factor of
    the brightness, for example, is between 0.1 and 1.9.
    """

    name: str
    change: Callable[[Image, float], Image]
    at_0: float
    at_30: float
    signed: bool


# The amount is an angle in degrees for rotate, a slope for shear, a fraction of the size for
# translate, a number of bits for posterize, a threshold for solarize, and a factor otherwise.
OPERATIONS: tuple[RandAugmentOperation, ...] = (
    RandAugmentOperation("identity", lambda image, _: image, 0, 0, False),
    RandAugmentOperation(
        "autocontrast", lambda image, _: color_ops.autocontrast(image), 0, 0, False
    ),
    RandAugmentOperation("equalize", lambda image, _: color_ops.equalize(image), 0, 0, False),
    RandAugmentOperation("rotate", affine_ops.rotate, 0, 30, True),
    RandAugmentOperation("solarize", color_ops.solarize, 256, 0, False),
    RandAugmentOperation("color", color_ops.color, 1, 1.9, True),
    RandAugmentOperation("posterize", color_ops.posterize, 8, 4, False),
    RandAugmentOperation("contrast", color_ops.contrast, 1, 1.9, True),
    RandAugmentOperation("brightness", color_ops.brightness, 1, 1.9, True),
    RandAugmentOperation("sharpness", color_ops.sharpness, 1, 1.9, True),
    RandAugmentOperation("shear-x", affine_ops.shear_x, 0, 0.3, True),
    RandAugmentOperation("shear-y", affine_ops.shear_y, 0, 0.3, True),
    RandAugmentOperation("translate-x", affine_ops.translate_x, 0, 0.3, True),
    RandAugmentOperation("translate-y", affine_ops.translate_y, 0, 0.3, True),
)


@dataclass(frozen=True)
class RandAugment(Transform):
    """Apply `n_ops` random operations in a row to every image.

    Each operation has its own strength. It is uniform between 0 and the magnitude, or equal to the
    magnitude.

    Parameters
    ----------
    magnitude : float
        Largest strength, from 0 to 30. At magnitude 0 images are not changed at all, although some
        operations, such as autocontrast, have no strength.
    n_ops : int, optional
        Number of operations. Default: 1 if the longer side of the images has fewer than 128
        pixels, else 3.
    strength : {"up_to", "fixed"}
        Whether strengths are uniform up to the magnitude (Ng et al., 2023), or equal to the
        magnitude, with a random sign (Cubuk et al., 2020; Ng et al., 2022).

    Examples
    --------
    >>> RandAugment(10, n_ops=2)
    RandAugment(magnitude=10, n_ops=2)
    """

    magnitude: float = 15.0
    n_ops: int | None = None
    strength: Strength = field(default="up_to", metadata=OMIT_DEFAULT)

    name: ClassVar[str] = "randaugment"
    label: ClassVar[str] = "RandAug"
    kinds: ClassVar[tuple[InputKind, ...]] = IMAGE_KINDS
    assumes: ClassVar[str] = (
        "the class does not depend on lighting, color, tilt or position, as is usual for photographs"
    )

    __repr__ = settings_repr

    def __post_init__(self) -> None:
        check_magnitude(self, MAX_MAGNITUDE)
        check_strength(self)
        if self.n_ops is not None and not (isinstance(self.n_ops, int) and self.n_ops >= 1):
            raise InputError(
                f"n_ops must be a whole number of at least 1, or None; got {self.n_ops!r}. None means "
                f"1 for images smaller than {LARGE_IMAGE_PIXELS} pixels, else 3."
            )

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        changed = require_images(inputs, self.name).copy()
        if self.magnitude == 0:
            return changed
        rows = drop_gray_channel(changed)
        n_ops = self.n_ops or (1 if max(rows.shape[1:3]) < LARGE_IMAGE_PIXELS else 3)
        chosen, amounts = self.draw_operations(n_ops, draws)
        # Images with the same operation are processed together. This saves a quarter of the time,
        # because the code of the operation stays in the CPU cache.
        for step in range(n_ops):
            for number, operation in enumerate(OPERATIONS):
                index = np.flatnonzero(chosen[:, step] == number)
                for row, amount in zip(index.tolist(), amounts[index, step].tolist(), strict=True):
                    rows[row] = operation.change(rows[row], amount)
        return changed

    def draw_operations(self, n_ops: int, draws: RowStreams) -> tuple[Ints, Floats]:
        """Draw the indices of each row's operations, and their amounts; both are (n, n_ops)."""
        which, strength, sign = np.moveaxis(draws.uniforms(3 * n_ops).reshape(-1, n_ops, 3), 2, 0)
        if self.strength == "fixed":
            strength = np.ones_like(strength)
        chosen = (which * len(OPERATIONS)).astype(np.int64)
        start, reach, signs = np.array([(o.at_0, o.at_30 - o.at_0, o.signed) for o in OPERATIONS]).T
        direction = np.where((signs[chosen] > 0) & (sign < 0.5), -1, 1)
        return chosen, start[chosen] + direction * reach[chosen] * strength * (
            self.magnitude / MAX_MAGNITUDE
        )
