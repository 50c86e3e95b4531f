"""Maximum mean discrepancies between two samples of features: numerics alone, no checks.

Gretton et al., "A Kernel Two-Sample Test", JMLR 2012; Rahimi & Recht, "Random Features for
Large-Scale Kernel Machines", NeurIPS 2007; Sun & Saenko, "Deep CORAL", ECCV-W 2016.

The Gaussian one takes all pairs, block by block. Distances are float32 products, sums are float64.
A float32 distance is off by some 1e-7 of the rows' squared lengths, whence three cares: features
are centred, so that lengths are no longer than they must be; the distance of a row to itself is 0
and not computed; rows with a neighbor so near that little of its distance is left after rounding
are done again in float64. A distance that float64 can't tell from 0 is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.softmax_kernels import row_blocks
from oodometer.parallel.runners import limit_to_one_thread

# The γ of exp(−γ‖a−b‖²), from the widest kernel to the narrowest.
GAMMAS: Final = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
# Rows and columns of a block: a megabyte of float32, which stays in cache from pass to pass.
BLOCK_ROWS = 512
# Distances below this share of a row's squared length are done again in float64 …
CLOSE_DISTANCE_SHARE = 1e-3
# … and so are blocks of fewer pairs than this, too few for their rounding to even out.
MIN_FLOAT32_PAIRS = 2**14
# A float64 distance below this share is 0.
ZERO_DISTANCE_SHARE = 1e-14
# Where all of a block has γ‖a−b‖² above this, the kernel is below 1e-13, and 0 for narrower ones.
MAX_KERNEL_EXPONENT = 30.0
# Where all of a block has γ‖a−b‖² below this, three terms of the series are as exact as float32.
MAX_SERIES_EXPONENT = 0.01
# exp of less than this is a denormal, with which many processors are slow.
MIN_EXP_ARGUMENT = -80.0
# Rows, and cells, of features that are made float64 at once; columns of a covariance at once.
FLOAT64_BLOCK_ROWS, FLOAT64_BLOCK_CELLS, COVARIANCE_BLOCK_COLUMNS = 4096, 2**23, 1024


@dataclass(frozen=True, eq=False)
class _RowBlock:
    """Some rows of one sample: as given, and centred in float32 with their squared lengths."""

    raw: Array
    centre: Floats
    centred: Floats
    lengths: Floats

    def centred_float64(self, index: Ints | slice) -> Floats:
        """Some of them, centred in float64."""
        return np.asarray(self.raw[index] - self.centre)


def gaussian_mmd(first: Array, second: Array) -> float:
    """Biased MMD² of rows with the kernel k(a, b) = Σ_γ exp(−γ‖a−b‖²).

    mean k(S, S) + mean k(T, T) − 2 mean k(S, T), all pairs, a row with itself among them. It is
    off by some 1e-7 of its value, at worst by 1e-4 of it, or by some 1e-9.

    >>> k = sum(np.exp(-γ) for γ in GAMMAS)
    >>> bool(np.isclose(gaussian_mmd(np.array([[0.0]]), np.array([[1.0]])), 7 + 7 - 2 * k))
    True
    """
    centre = _centre(first, second)
    one, other = _row_blocks(first, centre), _row_blocks(second, centre)
    # Others would wait in a loop for the next block, which is no rest.
    with limit_to_one_thread():
        own = _mean_kernel(one, one) + _mean_kernel(other, other)
        return max(own - 2.0 * _mean_kernel(one, other), 0.0)


def _centre(first: Array, second: Array) -> Floats:
    """The mean of all rows of both."""
    total = first.sum(axis=0, dtype=np.float64) + second.sum(axis=0, dtype=np.float64)
    return np.asarray(total / (len(first) + len(second)))


def _row_blocks(rows: Array, centre: Floats) -> list[_RowBlock]:
    """A sample, block by block."""
    found = []
    for start in range(0, len(rows), BLOCK_ROWS):
        given = rows[start : start + BLOCK_ROWS]
        centred = (given - centre).astype(np.float32)
        lengths = np.einsum("ij,ij->i", centred, centred, dtype=np.float64)
        found.append(_RowBlock(given, centre, centred, lengths.astype(np.float32)))
    return found


def _mean_kernel(first: Sequence[_RowBlock], second: Sequence[_RowBlock]) -> float:
    """The mean of k over all pairs."""
    buffers = np.empty((2, BLOCK_ROWS * BLOCK_ROWS), dtype=np.float32)
    total, count = 0.0, 0
    for left, right, times in _block_pairs(first, second):
        shape = len(left.raw), len(right.raw)
        cells = shape[0] * shape[1]
        distances, room = (buffer[:cells].reshape(shape) for buffer in buffers)
        _fill_distances(left, right, distances)
        total += times * _kernel_sum(distances, room)
        count += times * cells
    return total / count


def _block_pairs(
    first: Sequence[_RowBlock], second: Sequence[_RowBlock]
) -> Iterator[tuple[_RowBlock, _RowBlock, int]]:
    """Pairs of blocks and how often each counts: of a sample with itself, just one half."""
    for place, left in enumerate(first):
        for right in second[place:] if first is second else second:
            yield left, right, 2 if first is second and left is not right else 1


def _fill_distances(left: _RowBlock, right: _RowBlock, out: Floats) -> None:
    """Squared distances of every row on the left to every one on the right."""
    np.matmul(left.centred, right.centred.T, out=out)
    out *= -2.0
    out += left.lengths[:, None]
    out += right.lengths
    if left is right:
        np.fill_diagonal(out, np.inf)
    # Rows that near are as long, so that the length on the left stands for both.
    near = out.min(axis=1) < CLOSE_DISTANCE_SHARE * left.lengths
    close = np.flatnonzero(near | (out.size < MIN_FLOAT32_PAIRS))
    if len(close):
        out[close] = _exact_distances(
            left.centred_float64(close), right.centred_float64(slice(None))
        )
    if left is right:
        np.fill_diagonal(out, 0.0)


def _exact_distances(left: Floats, right: Floats) -> Floats:
    """Squared distances in float64."""
    lengths = np.einsum("ij,ij->i", left, left)[:, None]
    found = lengths + np.einsum("ij,ij->i", right, right) - 2.0 * (left @ right.T)
    found[found < ZERO_DISTANCE_SHARE * lengths] = 0.0
    return np.asarray(found)


def _kernel_sum(distances: Floats, scratch: Floats) -> float:
    """The sum of k over a block; `scratch` is overwritten."""
    nearest, farthest = float(distances.min()), float(distances.max())
    flat = sum(γ * farthest <= MAX_SERIES_EXPONENT for γ in GAMMAS)
    total = _series_sum(distances, GAMMAS[:flat], scratch) if flat else 0.0
    for γ in GAMMAS[flat:]:
        if γ * nearest > MAX_KERNEL_EXPONENT:
            break
        # The tenth power of the last one would save 5 % of the time, and cost a digit.
        np.multiply(distances, np.float32(-γ), out=scratch)
        np.clip(scratch, MIN_EXP_ARGUMENT, 0.0, out=scratch)
        np.exp(scratch, out=scratch)
        total += float(scratch.sum(dtype=np.float64))
    return total


def _series_sum(distances: Floats, gammas: Sequence[float], scratch: Floats) -> float:
    """Σ exp(−x) as Σ 1 − x + x²/2 − x³/6: one exponential less a width, and none near 1.

    A float32 near 1 is coarse, and features that lie close together have all their kernels there.
    """
    sums = [float(distances.sum(dtype=np.float64))]
    np.multiply(distances, distances, out=scratch)
    sums.append(float(scratch.sum(dtype=np.float64)))
    scratch *= distances
    sums.append(float(scratch.sum(dtype=np.float64)))
    once, squares, cubes = sums
    return sum(distances.size - γ * once + γ**2 * squares / 2 - γ**3 * cubes / 6 for γ in gammas)


def random_feature_mmd(
    first: Array, second: Array, *, rng: np.random.Generator, count: int
) -> tuple[float, float]:
    """`gaussian_mmd` from random features, in time linear in the rows, and its standard error.

    exp(−γ‖a−b‖²) is the mean of cos ω·(a−b) over ω ~ N(0, 2γI), so that MMD² is the mean of
    |φ_S(ω) − φ_T(ω)|², φ being the mean of exp(iω·x) over a sample. There are `count` directions,
    each of them stretched to every width. A direction gives an unbiased value of its own; they
    are independent, and the error is that of their mean.

    >>> rows = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> random_feature_mmd(rows, rows[::-1], rng=np.random.default_rng(0), count=8)
    (0.0, 0.0)
    """
    centre = _centre(first, second)
    directions = rng.standard_normal((first.shape[1], count), dtype=np.float32)
    with limit_to_one_thread():
        gaps = _mean_cos_sin(first, centre, directions) - _mean_cos_sin(second, centre, directions)
    values = (gaps**2).sum(axis=(0, 1))
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(count))


def _mean_cos_sin(rows: Array, centre: Floats, directions: Floats) -> Floats:
    """Means of cos and sin of √(2γ) x·direction over a sample: (2, widths, directions)."""
    count = directions.shape[1]
    totals = np.zeros((2, len(GAMMAS), count))
    for part in row_blocks(len(rows), count):
        along = (rows[part] - centre).astype(np.float32) @ directions
        for place, γ in enumerate(GAMMAS):
            angles = along * np.float32(np.sqrt(2.0 * γ))
            totals[0, place] += np.cos(angles).sum(axis=0, dtype=np.float64)
            totals[1, place] += np.sin(angles).sum(axis=0, dtype=np.float64)
    return totals / len(rows)


def mean_covariance_distance(first: Array, second: Array) -> float:
    """‖μ_S − μ_T‖² + ‖cov_S − cov_T‖_F², with unbiased covariances; two rows a side at least.

    >>> mean_covariance_distance(np.array([[-1.0], [1.0]]), np.array([[1.0], [7.0]]))
    272.0
    """
    means = [rows.mean(axis=0, dtype=np.float64) for rows in (first, second)]
    total = float(((means[0] - means[1]) ** 2).sum())
    # Some columns at a time: all of them are as many as the width squared.
    for start in range(0, len(means[0]), COVARIANCE_BLOCK_COLUMNS):
        some = slice(start, start + COVARIANCE_BLOCK_COLUMNS)
        gap = _covariance(first, means[0], some) - _covariance(second, means[1], some)
        total += float((gap**2).sum())
    return total


def _covariance(rows: Array, mean: Floats, columns: slice) -> Floats:
    """Some columns of the covariance."""
    step = max(min(FLOAT64_BLOCK_ROWS, FLOAT64_BLOCK_CELLS // len(mean)), 1)
    total = np.zeros((len(mean), len(mean[columns])))
    for start in range(0, len(rows), step):
        centred = rows[start : start + step] - mean
        total += centred.T @ centred[:, columns]
    return np.asarray(total / (len(rows) - 1))
