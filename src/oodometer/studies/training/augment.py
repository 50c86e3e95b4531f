"""Augmentation of training images: RandAugment, AugMix (Hendrycks et al., ICLR 2020), flip-crop.

As in the paper, AugMix does not use the operations that resemble corruptions of the test data
(contrast, color, brightness, sharpness).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.inputs import InputKind, Inputs
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.studies.training.config import Augment
from oodometer.transforms import FlipCrop, RandAugment, affine_ops, color_ops
from oodometer.transforms.color_ops import Image
from oodometer.transforms.images import drop_gray_channel, require_images
from oodometer.transforms.magnitude import check_magnitude

N_CHAINS = 3
MAX_CHAIN_LENGTH = 3
# Magnitudes are on a scale from 0 to this value.
MAX_MAGNITUDE = 10.0


class AugMixOperation(NamedTuple):
    """Operation on one image; its amount is a linear function of the magnitude.

    at_0, at_10   amounts at the magnitudes 0 and 10
    signed        whether the sign of the amount is random
    """

    name: str
    change: Callable[[Image, float], Image]
    at_0: float
    at_10: float
    signed: bool


# At magnitude 0, posterizing keeps four bits; with more bits, the change would not be visible.
AUGMIX_OPERATIONS: tuple[AugMixOperation, ...] = (
    AugMixOperation("autocontrast", lambda image, _: color_ops.autocontrast(image), 0, 0, False),
    AugMixOperation("equalize", lambda image, _: color_ops.equalize(image), 0, 0, False),
    AugMixOperation("posterize", color_ops.posterize, 4, 1, False),
    AugMixOperation("rotate", affine_ops.rotate, 0, 30, True),
    AugMixOperation("solarize", color_ops.solarize, 256, 0, False),
    AugMixOperation("shear-x", affine_ops.shear_x, 0, 0.3, True),
    AugMixOperation("shear-y", affine_ops.shear_y, 0, 0.3, True),
    AugMixOperation("translate-x", affine_ops.translate_x, 0, 1 / 3, True),
    AugMixOperation("translate-y", affine_ops.translate_y, 0, 1 / 3, True),
)


class AugMixPlan(NamedTuple):
    """Random draws of AugMix for n images.

    mix_share         weight m of the mixture; the original image has the weight 1 − m, shape (n,)
    weights           weight of each chain in the mixture, shape (n, chains)
    lengths           number of operations in each chain, shape (n, chains)
    operation_index   index of each operation, shape (n, chains, maximum length)
    amounts           amount of each operation, shape (n, chains, maximum length)
    """

    mix_share: Floats
    weights: Floats
    lengths: Ints
    operation_index: Ints
    amounts: Floats


@dataclass(frozen=True)
class AugMix(Transform):
    """AugMix: (1 − m) x + m Σ wᵢ chainᵢ(x) with m ~ Beta(1, 1) and w ~ Dirichlet(1, 1, 1).

    Each of the three chains applies one to three random operations one after another. The magnitude
    of each operation is drawn uniformly between 0 and `magnitude`, on a scale from 0 to 10. If
    `magnitude` is 0, the image is unchanged.
    """

    magnitude: float = 3.0

    name: ClassVar[str] = "augmix"
    label: ClassVar[str] = "AugMix"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)
    assumes: ClassVar[str] = (
        "small changes of tilt, position and tone keep the label, as in most photographs"
    )

    def __post_init__(self) -> None:
        check_magnitude(self, MAX_MAGNITUDE)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Mix each image with augmented copies of itself."""
        changed = require_images(inputs, self.name).copy()
        if self.magnitude == 0:
            return changed
        rows = drop_gray_channel(changed)
        plan = self.draw_plan(draws)
        lengths, operations, amounts = (part.tolist() for part in plan[2:])
        weights = np.concatenate(
            [1 - plan.mix_share[:, None], plan.mix_share[:, None] * plan.weights], axis=1
        )
        for row, image in enumerate(rows):
            copies = [
                image,
                *map(_apply_chain, [image] * N_CHAINS, lengths[row], operations[row], amounts[row]),
            ]
            rows[row] = _mix_images(copies, weights[row])
        return changed

    def draw_plan(self, draws: RowStreams) -> AugMixPlan:
        """Return the random draws for all rows."""
        steps = N_CHAINS * MAX_CHAIN_LENGTH
        u = draws.uniforms(1 + 2 * N_CHAINS + 3 * steps)
        share, weights, lengths, rest = np.split(u, [1, 1 + N_CHAINS, 1 + 2 * N_CHAINS], axis=1)
        # Three exponential variables divided by their sum have the distribution Dirichlet(1, 1, 1).
        weights = -np.log1p(-weights)
        which, strength, sign = np.moveaxis(rest.reshape(-1, N_CHAINS, MAX_CHAIN_LENGTH, 3), 3, 0)
        chosen = (which * len(AUGMIX_OPERATIONS)).astype(np.int64)
        start, reach, signs = np.array(
            [(o.at_0, o.at_10 - o.at_0, o.signed) for o in AUGMIX_OPERATIONS]
        ).T
        turned = np.where((signs[chosen] > 0) & (sign < 0.5), -1, 1)
        return AugMixPlan(
            mix_share=share[:, 0],
            weights=weights / weights.sum(axis=1, keepdims=True),
            lengths=1 + (lengths * MAX_CHAIN_LENGTH).astype(np.int64),
            operation_index=chosen,
            amounts=start[chosen]
            + turned * reach[chosen] * strength * (self.magnitude / MAX_MAGNITUDE),
        )


def _apply_chain(image: Image, length: int, operations: list[int], amounts: list[float]) -> Image:
    """Apply the first `length` operations of a chain to an image."""
    for index, amount in zip(operations[:length], amounts, strict=False):
        image = AUGMIX_OPERATIONS[index].change(image, amount)
    return image


def _mix_images(copies: list[Image], weights: Floats) -> Image:
    """Return the rounded weighted sum of images."""
    total: Floats = np.zeros(copies[0].shape, dtype=np.float32)
    for copy, weight in zip(copies, weights.astype(np.float32), strict=True):
        total += copy * weight
    return np.rint(total).clip(0, 255).astype(np.uint8)


def augmentation(name: Augment) -> Transform | None:
    """Return the augmentation with the given name; None for "none".

    RandAugment applies two operations, as in its paper. "flip-crop" flips half of the images and
    crops them to between 8 % and 100 % of their area, as in Ng et al. (2023).

    >>> augmentation("augmix")
    AugMix(magnitude=3.0)
    """
    members: dict[Augment, Transform | None] = {
        "none": None,
        "randaugment": RandAugment(n_ops=2),
        "augmix": AugMix(),
        "augmix-jsd": AugMix(),
        "flip-crop": FlipCrop(),
    }
    return members[name]
