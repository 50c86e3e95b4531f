"""A step along the hypersphere: the neighborhood of the toy study (NI §5.1).

The distance moved is r · U^(1/(d − 1)), U uniform: to first order in r the new points are uniform
in the ball of radius r around x in the tangent space, which has d − 1 dimensions. A uniform
distance would crowd them around x, the more so the higher the dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs, infer_kind
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams, standard_normals


@dataclass(frozen=True)
class Sphere(Transform):
    """Moves a vector along the sphere it lies on, by a straight distance of at most r.

    x' = x cos θ + ‖x‖ t sin θ, t uniform among the unit vectors at right angles to x. A vector
    of norm 0 or of one number stays where it is; r above 2‖x‖ reaches the opposite point.

    >>> from oodometer.core.inputs import hash_rows
    >>> x = np.array([[3.0, 4.0], [0.0, 0.0]])
    >>> moved = Sphere(0.5).apply(x, RowStreams(0, hash_rows(x), np.array([1, 1])))
    >>> np.linalg.norm(moved, axis=1).round(9).tolist(), bool(np.linalg.norm(moved - x) <= 0.5)
    ([5.0, 0.0], True)
    """

    magnitude: float = 0.01

    name: ClassVar[str] = "sphere"
    label: ClassVar[str] = "Sphere"
    kinds: ClassVar[tuple[InputKind, ...]] = ("vectors",)
    assumes: ClassVar[str] = "no class hangs on a small turn of a vector's direction"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.magnitude) and self.magnitude >= 0):
            raise InputError(
                f"magnitude must be a distance of 0 or more; got {self.magnitude}. Give one such "
                "as 0.01."
            )

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every vector turned by its own draw; its norm is kept to rounding."""
        if infer_kind(inputs) != "vectors":
            raise InputError(
                f"sphere moves vectors; got {infer_kind(inputs)}. Give an array of floats (n, d)."
            )
        flat = inputs.reshape(len(inputs), math.prod(inputs.shape[1:]))
        if self.magnitude == 0 or flat.shape[1] < 2:
            return inputs
        moved = _rotate_rows(flat.astype(np.float64), self.magnitude, draws)
        return moved.astype(inputs.dtype).reshape(inputs.shape)


def _rotate_rows(rows: Floats, max_distance: float, draws: RowStreams) -> Floats:
    d = rows.shape[1]
    norms = _row_norms(rows)
    lengths = np.where(norms > 0, norms, 1.0)
    units = rows / lengths
    tangents = standard_normals(draws.substream("direction"), d)
    tangents -= (tangents * units).sum(axis=1, keepdims=True) * units
    tangents /= _row_norms(tangents)
    # The chord in units of the radius; half of it is the sine of half the angle.
    chords = np.minimum(max_distance / lengths, 2.0) * draws.uniforms(1) ** (1 / (d - 1))
    cosines, sines = 1 - chords**2 / 2, chords * np.sqrt(1 - chords**2 / 4)
    turned: Floats = lengths * (units * cosines + tangents * sines)
    return np.where(norms > 0, turned, rows)


def _row_norms(rows: Floats) -> Floats:
    """Euclidean norms (n, 1), whose squares may be out of range."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    norms: Floats = largest * np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    return norms
