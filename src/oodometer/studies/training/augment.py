"""How training images are changed: RandAugment, and AugMix. Hendrycks et al., ICLR 2020.

AugMix leaves out the operations that corruptions share (contrast, colour, brightness, sharpness),
and is taken without the paper's loss for consistency, as an augmentation alone.
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

N_CHAINS, MAX_CHAIN_LENGTH = 3, 3
# The scale of magnitudes ends here.
MAX_MAGNITUDE = 10.0


class AugMixOperation(NamedTuple):
    """A change of one image by an amount, which goes in a line from magnitude 0 to 10."""

    name: str
    change: Callable[[Image, float], Image]
    at_0: float
    at_10: float
    signed: bool


# Posterizing begins at four bits: with more, nothing is seen.
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
    """What every row is to become.

    mix_share         m, how much of the mix there is beside the image itself, (n,)
    weights           how the chains are mixed, (n, chains)
    lengths           how many operations each chain has, (n, chains)
    operation_index   the operations, (n, chains, longest), and their amounts
    """

    mix_share: Floats
    weights: Floats
    lengths: Ints
    operation_index: Ints
    amounts: Floats


@dataclass(frozen=True)
class AugMix(Transform):
    """(1 − m) x + m Σ wᵢ chainᵢ(x), m ~ Beta(1, 1), w ~ Dirichlet(1, 1, 1).

    Each of the three chains is one to three operations, one after the other, of a strength uniform
    in 0 … magnitude on the scale 0 … 10; at 0 nothing is changed.
    """

    magnitude: float = 3.0

    name: ClassVar[str] = "augmix"
    label: ClassVar[str] = "AugMix"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)
    assumes: ClassVar[str] = "tilt, place and tones may change a little: photographs, mostly"

    def __post_init__(self) -> None:
        check_magnitude(self, MAX_MAGNITUDE)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every image, mixed with changed copies of its own."""
        changed = require_images(inputs, self.name).copy()
        if self.magnitude == 0:
            return changed
        rows, plan = drop_gray_channel(changed), self.draw_plan(draws)
        lengths, chosen, amounts = (part.tolist() for part in plan[2:])
        parts = np.concatenate(
            [1 - plan.mix_share[:, None], plan.mix_share[:, None] * plan.weights], axis=1
        )
        for row, image in enumerate(rows):
            copies = [
                image,
                *map(_apply_chain, [image] * N_CHAINS, lengths[row], chosen[row], amounts[row]),
            ]
            rows[row] = _mix_images(copies, parts[row])
        return changed

    def draw_plan(self, draws: RowStreams) -> AugMixPlan:
        """What every row is to become, of its own draws."""
        steps = N_CHAINS * MAX_CHAIN_LENGTH
        u = draws.uniforms(1 + 2 * N_CHAINS + 3 * steps)
        share, weights, lengths, rest = np.split(u, [1, 1 + N_CHAINS, 1 + 2 * N_CHAINS], axis=1)
        # Dirichlet(1, 1, 1) is three exponentials, divided by their sum.
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


def _apply_chain(image: Image, length: int, chosen: list[int], amounts: list[float]) -> Image:
    """The first so many operations of a chain, one after the other."""
    for place, amount in zip(chosen[:length], amounts, strict=False):
        image = AUGMIX_OPERATIONS[place].change(image, amount)
    return image


def _mix_images(copies: list[Image], parts: Floats) -> Image:
    """The sum of copies, each times its part, rounded."""
    total: Floats = np.zeros(copies[0].shape, dtype=np.float32)
    for copy, part in zip(copies, parts.astype(np.float32), strict=True):
        total += copy * part
    return np.rint(total).clip(0, 255).astype(np.uint8)


def augmentation(name: Augment) -> Transform | None:
    """The change that a recipe names; RandAugment has two operations, as its authors took.

    >>> augmentation("augmix")
    AugMix(magnitude=3.0)
    """
    members: dict[Augment, Transform | None] = {
        "none": None,
        "randaugment": RandAugment(n_ops=2),
        "augmix": AugMix(),
    }
    return members[name]
