"""Normal numbers from a row's uniform ones."""

from __future__ import annotations

import numpy as np

from oodometer.core.random_streams import RowStreams
from oodometer.core.softmax_kernels import Floats

# A uniform number is a multiple of 2⁻⁵³; half of that stands for 0, which has no normal quantile.
MIN_UNIFORM = 2.0**-54


def standard_normals(draws: RowStreams, count: int) -> Floats:
    """`count` independent standard normal numbers a row, Φ⁻¹(U).

    >>> standard_normals(RowStreams(0, np.array([7], dtype=np.uint64), np.array([1])), 3).shape
    (1, 3)
    """
    from scipy.special import ndtri

    return np.asarray(ndtri(np.maximum(draws.uniforms(count), MIN_UNIFORM)))
