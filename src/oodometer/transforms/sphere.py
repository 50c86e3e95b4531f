"""Random step of a vector x on its sphere, the vectors with the same norm (Ng et al., TMLR 2023).

Section 5.1 of the paper describes the step. Its distance is r · U^(1/(d − 1)), where U is uniform
between 0 and 1. For small r, the new points are therefore almost uniform in a ball of radius r
around x in the tangent space, which has d − 1 dimensions. If the distance itself were uniform, the
points would be concentrated around x, especially in high dimensions.
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
from oodometer.transforms.magnitude import check_magnitude


@dataclass(frozen=True)
class Sphere(Transform):
    """Move each vector x to a random vector with the same norm, at a distance of at most r.

    The new vector is x' = x cos θ + ‖x‖ t sin θ, where t is uniform among the unit vectors
    orthogonal to x. Vectors of norm 0 or dimension 1 are not changed. No vector on the sphere is
    farther from x than −x, at the distance 2‖x‖; a larger r is treated as 2‖x‖.

    Parameters
    ----------
    magnitude : float
        Largest Euclidean distance r between x and x', at least 0.

    Examples
    --------
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
    assumes: ClassVar[str] = "the class does not depend on small rotations of the vector"

    def __post_init__(self) -> None:
        check_magnitude(self)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        if infer_kind(inputs) != "vectors":
            raise InputError(
                f"sphere applies to vectors; got {infer_kind(inputs)}. Pass a float array of shape "
                "(n, d)."
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
    # The chord is the distance between x and x' divided by ‖x‖. Half of it is sin(θ / 2).
    chords = np.minimum(max_distance / lengths, 2.0) * draws.uniforms(1) ** (1 / (d - 1))
    cosines = 1 - chords**2 / 2
    sines = chords * np.sqrt(1 - chords**2 / 4)
    rotated: Floats = lengths * (units * cosines + tangents * sines)
    return np.where(norms > 0, rotated, rows)


def _row_norms(rows: Floats) -> Floats:
    """Return the Euclidean norms (n, 1); rows are scaled first, so that squares do not overflow."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    norms: Floats = largest * np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    return norms
