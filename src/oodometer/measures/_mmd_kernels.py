"""Numerical kernels of the maximum mean discrepancy (MMD) between two samples of features.

Gretton et al., "A Kernel Two-Sample Test", JMLR 2012; Rahimi & Recht, "Random Features for
Large-Scale Kernel Machines", NeurIPS 2007; Sun & Saenko, "Deep CORAL", ECCV-W 2016.

The Gaussian MMD is computed over all pairs of rows, block by block. Distances are computed by
float32 matrix products and summed in float64. The error of a float32 distance is about 1e-7 of the
squared norms of the rows. Three steps keep this error small: the features are centred, the distance
of a row to itself is set to 0, and the distances of rows with a very close neighbor are recomputed
in float64. Distances below the float64 rounding error are set to 0.
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
# Number of rows and of columns of a block. A block takes 1 MB as float32, which stays in the CPU
# cache.
BLOCK_ROWS = 512
# Rows with a distance below this share of their squared norm are recomputed in float64.
CLOSE_DISTANCE_SHARE = 1e-3
# Blocks with fewer pairs are computed in float64, because too few rounding errors cancel out.
MIN_FLOAT32_PAIRS = 2**14
# A float64 distance below this share of the squared norm is a rounding error and is set to 0.
ZERO_DISTANCE_SHARE = 1e-14
# If γ‖a−b‖² exceeds this value for all pairs of a block, the kernel is below 1e-13 and counts as 0.
MAX_KERNEL_EXPONENT = 30.0
# If γ‖a−b‖² is at most this value for all pairs of a block, the exponential series up to its cubic
# term is as exact as float32.
MAX_SERIES_EXPONENT = 0.01
# exp of smaller arguments is a denormal number, which is slow on many processors.
MIN_EXP_ARGUMENT = -80.0
# Maximum numbers of rows and of feature values that are converted to float64 at once.
FLOAT64_BLOCK_ROWS = 4096
FLOAT64_BLOCK_CELLS = 2**23
# Number of columns of a covariance matrix that are computed at once.
COVARIANCE_BLOCK_COLUMNS = 1024


@dataclass(frozen=True, eq=False)
class _RowBlock:
    """Block of rows of one sample, with the centred rows and their squared norms in float32."""

    raw: Array
    centre: Floats
    centred: Floats
    squared_norms: Floats

    def centred_float64(self, index: Ints | slice) -> Floats:
        return np.asarray(self.raw[index] - self.centre)


def gaussian_mmd(first: Array, second: Array) -> float:
    """Return the biased MMD² of two samples with the kernel k(a, b) = Σ_γ exp(−γ‖a−b‖²).

    For samples S and T, the value is mean k(S, S) + mean k(T, T) − 2 mean k(S, T). The means are
    over all pairs of rows and include the pair of each row with itself. The relative error is about
    1e-7 and at most 1e-4; the absolute error is about 1e-9.

    >>> k = sum(np.exp(-γ) for γ in GAMMAS)
    >>> bool(np.isclose(gaussian_mmd(np.array([[0.0]]), np.array([[1.0]])), 7 + 7 - 2 * k))
    True
    """
    centre = _centre(first, second)
    first_blocks = _row_blocks(first, centre)
    second_blocks = _row_blocks(second, centre)
    # More threads would not help: they would spend their time waiting between the small blocks.
    with limit_to_one_thread():
        within = _mean_kernel(first_blocks, first_blocks) + _mean_kernel(
            second_blocks, second_blocks
        )
        return max(within - 2.0 * _mean_kernel(first_blocks, second_blocks), 0.0)


def _centre(first: Array, second: Array) -> Floats:
    """Return the mean of the rows of both samples together."""
    total = first.sum(axis=0, dtype=np.float64) + second.sum(axis=0, dtype=np.float64)
    return np.asarray(total / (len(first) + len(second)))


def _row_blocks(rows: Array, centre: Floats) -> list[_RowBlock]:
    blocks = []
    for start in range(0, len(rows), BLOCK_ROWS):
        raw = rows[start : start + BLOCK_ROWS]
        centred = (raw - centre).astype(np.float32)
        squared_norms = np.einsum("ij,ij->i", centred, centred, dtype=np.float64)
        blocks.append(_RowBlock(raw, centre, centred, squared_norms.astype(np.float32)))
    return blocks


def _mean_kernel(first: Sequence[_RowBlock], second: Sequence[_RowBlock]) -> float:
    """Return the mean of k over all pairs of rows."""
    buffers = np.empty((2, BLOCK_ROWS * BLOCK_ROWS), dtype=np.float32)
    total = 0.0
    count = 0
    for left, right, multiplicity in _block_pairs(first, second):
        shape = len(left.raw), len(right.raw)
        cells = shape[0] * shape[1]
        distances, scratch = (buffer[:cells].reshape(shape) for buffer in buffers)
        _fill_distances(left, right, distances)
        total += multiplicity * _kernel_sum(distances, scratch)
        count += multiplicity * cells
    return total / count


def _block_pairs(
    first: Sequence[_RowBlock], second: Sequence[_RowBlock]
) -> Iterator[tuple[_RowBlock, _RowBlock, int]]:
    """Yield pairs of blocks and how often each counts.

    Within one sample, the pairs (a, b) and (b, a) give the same sum, so only one of them is
    yielded, and it counts twice.
    """
    for number, left in enumerate(first):
        for right in second[number:] if first is second else second:
            yield left, right, 2 if first is second and left is not right else 1


def _fill_distances(left: _RowBlock, right: _RowBlock, out: Floats) -> None:
    """Write the squared distances between the rows of two blocks into `out`."""
    np.matmul(left.centred, right.centred.T, out=out)
    out *= -2.0
    out += left.squared_norms[:, None]
    out += right.squared_norms
    if left is right:
        np.fill_diagonal(out, np.inf)
    # Close rows have nearly equal norms, so it is enough to compare with the norm of the left row.
    is_close = out.min(axis=1) < CLOSE_DISTANCE_SHARE * left.squared_norms
    inexact = np.flatnonzero(is_close | (out.size < MIN_FLOAT32_PAIRS))
    if len(inexact):
        out[inexact] = _exact_distances(
            left.centred_float64(inexact), right.centred_float64(slice(None))
        )
    if left is right:
        np.fill_diagonal(out, 0.0)


def _exact_distances(left: Floats, right: Floats) -> Floats:
    """Return squared distances in float64."""
    squared_norms = np.einsum("ij,ij->i", left, left)[:, None]
    distances = squared_norms + np.einsum("ij,ij->i", right, right) - 2.0 * (left @ right.T)
    distances[distances < ZERO_DISTANCE_SHARE * squared_norms] = 0.0
    return np.asarray(distances)


def _kernel_sum(distances: Floats, scratch: Floats) -> float:
    """Return the sum of k over a block; `scratch` is overwritten."""
    nearest = float(distances.min())
    farthest = float(distances.max())
    n_series = sum(γ * farthest <= MAX_SERIES_EXPONENT for γ in GAMMAS)
    total = _series_sum(distances, GAMMAS[:n_series], scratch) if n_series else 0.0
    for γ in GAMMAS[n_series:]:
        if γ * nearest > MAX_KERNEL_EXPONENT:
            break
        # This kernel is also the tenth power of the previous one. Computing it that way would save
        # 5 % of the time but lose one digit.
        np.multiply(distances, np.float32(-γ), out=scratch)
        np.clip(scratch, MIN_EXP_ARGUMENT, 0.0, out=scratch)
        np.exp(scratch, out=scratch)
        total += float(scratch.sum(dtype=np.float64))
    return total


def _series_sum(distances: Floats, gammas: Sequence[float], scratch: Floats) -> float:
    """Return Σ exp(−x) by the series Σ 1 − x + x²/2 − x³/6, for kernels close to 1.

    The series needs no exponentials, and it avoids the rounding of float32 values close to 1.
    """
    first = float(distances.sum(dtype=np.float64))
    np.multiply(distances, distances, out=scratch)
    second = float(scratch.sum(dtype=np.float64))
    scratch *= distances
    third = float(scratch.sum(dtype=np.float64))
    return sum(distances.size - γ * first + γ**2 * second / 2 - γ**3 * third / 6 for γ in gammas)


def random_feature_mmd(
    first: Array, second: Array, *, rng: np.random.Generator, count: int
) -> tuple[float, float]:
    """Return an approximation of `gaussian_mmd` and its standard error, in linear time.

    exp(−γ‖a−b‖²) is the mean of cos ω·(a−b) over ω ~ N(0, 2γI). Therefore MMD² is the mean of
    |φ_S(ω) − φ_T(ω)|² over ω, where φ is the mean of exp(iω·x) over the rows x of a sample. Each of
    the `count` independent random directions is scaled for every γ and gives one unbiased value of
    MMD². The function returns the mean of these values and the standard error of that mean.

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
    """Return the means of cos and sin of √(2γ) x·direction, shape (2, n_gammas, n_directions)."""
    count = directions.shape[1]
    totals = np.zeros((2, len(GAMMAS), count))
    for block in row_blocks(len(rows), count):
        projections = (rows[block] - centre).astype(np.float32) @ directions
        for i, γ in enumerate(GAMMAS):
            angles = projections * np.float32(np.sqrt(2.0 * γ))
            totals[0, i] += np.cos(angles).sum(axis=0, dtype=np.float64)
            totals[1, i] += np.sin(angles).sum(axis=0, dtype=np.float64)
    return totals / len(rows)


def mean_covariance_distance(first: Array, second: Array) -> float:
    """Return ‖μ_S − μ_T‖² + ‖cov_S − cov_T‖_F², where cov is the unbiased covariance matrix.

    Each sample must have at least two rows.

    >>> mean_covariance_distance(np.array([[-1.0], [1.0]]), np.array([[1.0], [7.0]]))
    272.0
    """
    first_mean = first.mean(axis=0, dtype=np.float64)
    second_mean = second.mean(axis=0, dtype=np.float64)
    total = float(((first_mean - second_mean) ** 2).sum())
    # The covariance matrix is computed in blocks of columns to limit memory, because its size is
    # the square of the number of features.
    for start in range(0, len(first_mean), COVARIANCE_BLOCK_COLUMNS):
        columns = slice(start, start + COVARIANCE_BLOCK_COLUMNS)
        gap = _covariance(first, first_mean, columns) - _covariance(second, second_mean, columns)
        total += float((gap**2).sum())
    return total


def _covariance(rows: Array, mean: Floats, columns: slice) -> Floats:
    """Return the given columns of the unbiased covariance matrix."""
    step = max(min(FLOAT64_BLOCK_ROWS, FLOAT64_BLOCK_CELLS // len(mean)), 1)
    total = np.zeros((len(mean), len(mean[columns])))
    for start in range(0, len(rows), step):
        centred = rows[start : start + step] - mean
        total += centred.T @ centred[:, columns]
    return np.asarray(total / (len(rows) - 1))
