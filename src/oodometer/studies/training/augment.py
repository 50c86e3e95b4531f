"""Augmentation of training images: RandAugment and AugMix (Hendrycks et al., ICLR 2020).

AugMix omits the operations that overlap with corruptions (contrast, colour, brightness, sharpness)
and is used as an augmentation only, without the consistency loss of the paper.
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
from oodometer.transforms import RandAugment, affine_ops, color_ops
from oodometer.transforms.color_ops import Image
from oodometer.transforms.images import drop_gray_channel, require_images
from oodometer.transforms.magnitude import check_magnitude

N_CHAINS = 3
MAX_CHAIN_LENGTH = 3
# Upper end of the scale of magnitudes.
MAX_MAGNITUDE = 10.0


class AugMixOperation(NamedTuple):
    """Operation on one image with an amount that is linear in the magnitude from 0 to 10."""

    name: str
    change: Callable[[Image, float], Image]
    at_0: float
    at_10: float
    signed: bool


# Posterizing starts at four bits: with more, the change is not visible.
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
    """Random draws of every row.

    mix_share         m, the weight of the mixed chains relative to the original image, (n,)
    weights           weights of the chains, (n, chains)
    lengths           number of operations per chain, (n, chains)
    operation_index   operations, (n, chains, longest); `amounts` has the same shape
    """

    mix_share: Floats
    weights: Floats
    lengths: Ints
    operation_index: Ints
    amounts: Floats


@dataclass(frozen=True)
class AugMix(Transform):
    """AugMix: (1 − m) x + m Σ wᵢ chainᵢ(x) with m ~ Beta(1, 1) and w ~ Dirichlet(1, 1, 1).

    Each of the three chains applies one to three operations with strengths drawn uniformly from
    0 to `magnitude` on a scale from 0 to 10; at 0 the image is unchanged.
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
        """Return every image mixed with augmented copies of itself."""
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
        """Return the random draws of every row."""
        steps = N_CHAINS * MAX_CHAIN_LENGTH
        u = draws.uniforms(1 + 2 * N_CHAINS + 3 * steps)
        share, weights, lengths, rest = np.split(u, [1, 1 + N_CHAINS, 1 + 2 * N_CHAINS], axis=1)
        # Dirichlet(1, 1, 1): three exponentials divided by their sum.
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
    """Apply the first `length` operations of a chain."""
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
    """Return the augmentation of a name; RandAugment applies two operations, as in its paper.

    >>> augmentation("augmix")
    AugMix(magnitude=3.0)
    """
    members: dict[Augment, Transform | None] = {
        "none": None,
        "randaugment": RandAugment(n_ops=2),
        "augmix": AugMix(),
    }
    return members[name]
