"""Shared statistics: bootstrap, confidence intervals, distances between samples, line fits."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.results import Score

# 97.5 % quantile of the standard normal distribution, for 95 % intervals.
Z95 = 1.959963984540054
# Default number of bootstrap replicates of a metric.
N_REPLICATES = 200
# An interval narrower than this has a width only because of rounding.
MIN_INTERVAL_WIDTH = 1e-12
# Histograms with at most this many edges are counted edge by edge, without sorting.
MAX_SCAN_EDGES = 24
# Maximum number of rows per sample at which the Kolmogorov-Smirnov distance is evaluated.
MAX_KS_POINTS = 20_000
# Maximum number of multinomial counts that the paired bootstrap draws at a time.
MAX_PAIRED_DRAWS = 4_000_000


def rng_for(seed: int, *path: object) -> np.random.Generator:
    """Return the random generator of a task, derived from the seed and a path that names the task.

    The random numbers of a task do not depend on other tasks or on the order of tasks.

    >>> first, second = rng_for(0, "atc-mc"), rng_for(0, "atc-mc")
    >>> first.random() == second.random()
    True
    """
    text = "\0".join(str(part) for part in (seed, *path))
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))


def histogram(edges: Floats, values: Floats, where: Bools | None = None) -> Ints:
    """Count the values in each bin: below the first edge, in [edge, next edge), from the last edge.

    If `where` is given, only the values for which it is true are counted.

    >>> histogram(np.array([1.0, 2.0]), np.array([0.5, 1.0, 1.5, 2.0, 9.0]))
    array([1, 2, 2])
    """
    if where is not None:
        values = np.compress(where, values)  # four times as fast as values[where]
    if len(edges) <= MAX_SCAN_EDGES:
        above = [np.count_nonzero(values >= edge) for edge in _round_up(edges, values.dtype)]
        return -np.diff([len(values), *above, 0])
    # Only the values between the first and the last edge are sorted, which are often few.
    between = np.sort(np.compress((values >= edges[0]) & (values < edges[-1]), values))
    counts = np.zeros(len(edges) + 1, dtype=np.int64)
    counts[0] = np.count_nonzero(values < edges[0])
    counts[-1] = len(values) - counts[0] - len(between)
    counts[1:-1] = np.diff(np.searchsorted(between, edges, side="left"))
    return counts


def equal_mass_edges(values: Floats, bins: int) -> Floats:
    """Return the inner edges of bins with equal numbers of values; tied values give fewer edges.

    >>> equal_mass_edges(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), 2).tolist()
    [2.0]
    """
    return np.unique(np.quantile(values, np.arange(1, bins) / bins))


def _round_up(edges: Floats, dtype: npt.DTypeLike) -> Floats:
    """Return edges rounded up to the type of the values, so that no value must be converted."""
    rounded = edges.astype(dtype)
    return np.where(rounded < edges, np.nextafter(rounded, np.asarray(np.inf, dtype)), rounded)


def moments(values: Floats) -> Floats:
    """Return (n, Σx, Σx²), whose sum over batches gives the mean and its standard error."""
    wide = values.astype(np.float64)
    # einsum uses one thread; starting several threads for every batch would take longer.
    return np.array([len(wide), wide.sum(), np.einsum("i,i", wide, wide)])


# Bootstrap -----------------------------------------------------------------------------------


def bootstrap_counts(rng: np.random.Generator, counts: Ints, size: int) -> Ints:
    """Return `size` bootstrap replicates of an array of counts, as (size, *counts.shape)."""
    flat = counts.ravel()
    filled = np.flatnonzero(flat)
    total = int(flat.sum())
    replicates = np.zeros((size, flat.size), dtype=np.int64)
    replicates[:, filled] = rng.multinomial(total, flat[filled] / total, size=size)
    return replicates.reshape(size, *counts.shape)


def bootstrap_means(rng: np.random.Generator, sums: Floats, size: int) -> Floats:
    """Return replicates of a mean, drawn from its normal approximation given (n, Σx, Σx²)."""
    n, total, squares = sums
    mean = total / n
    standard_error = np.sqrt(max(squares / n - mean * mean, 0.0) / n)
    return np.asarray(rng.normal(mean, standard_error, size=size))


def bootstrap_normal_approx(
    draw: Callable[[int], Floats], rng: np.random.Generator, count: int, max_draws: int
) -> Floats:
    """Return `count` replicates, of which the costly function `draw` draws at most `max_draws`.

    If `count` exceeds `max_draws`, the result is a sample from the normal distribution that has the
    mean and the standard deviation of `max_draws` replicates.

    >>> rng = np.random.default_rng(0)
    >>> bootstrap_normal_approx(np.zeros, rng, 3, 5).tolist()
    [0.0, 0.0, 0.0]
    >>> bootstrap_normal_approx(np.ones, rng, 3, 2).tolist()
    [1.0, 1.0, 1.0]
    """
    if count <= max_draws:
        return draw(count)
    replicates = draw(max_draws)
    return np.asarray(rng.normal(replicates.mean(), replicates.std(ddof=1), size=count))


@cache
def _poisson_quantile_table() -> Array:
    """Return the quantiles of the Poisson distribution with mean 1 at 2¹⁶ equal steps."""
    probabilities = [math.exp(-1) / math.factorial(number) for number in range(12)]
    midpoints = (np.arange(2**16) + 0.5) / 2**16
    return np.searchsorted(np.cumsum(probabilities), midpoints, side="right").astype(np.uint8)


def poisson_bootstrap_weights(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
    """Return bootstrap weights of rows: independent Poisson numbers with mean 1, as bytes.

    A table of quantiles is ten times as fast as numpy's Poisson generator; the mean and the
    variance of its numbers are 1 to five digits.

    >>> weights = poisson_bootstrap_weights(np.random.default_rng(0), (1000, 1000))
    >>> round(float(weights.mean()), 2), round(float(weights.var()), 2)
    (1.0, 1.0)
    """
    return np.asarray(_poisson_quantile_table()[rng.integers(0, 2**16, size=size, dtype=np.uint16)])


def paired_bootstrap_means(rng: np.random.Generator, values: Floats, size: int) -> Floats:
    """Return bootstrap replicates of the mean of each row of an (m, n) array, as (size, m).

    Every replicate uses the same resampled columns for all m rows, so the means of different rows
    can be compared within each replicate.

    >>> paired_bootstrap_means(np.random.default_rng(0), np.array([[1.0, 1.0], [2.0, 2.0]]), 3)
    array([[1., 2.], [1., 2.], [1., 2.]])
    """
    n = values.shape[1]
    step = max(MAX_PAIRED_DRAWS // n, 1)
    means = [
        rng.multinomial(n, np.full(n, 1 / n), size=min(step, size - start)) @ values.T / n
        for start in range(0, size, step)
    ]
    return np.concatenate(means)


# Confidence intervals ------------------------------------------------------------------------


def wilson_interval(successes: float, n: float, *, z: float = Z95) -> tuple[float, float]:
    """Return the confidence interval of a proportion (Wilson, 1927), by default at level 95 %.

    >>> tuple(round(end, 4) for end in wilson_interval(8, 10))
    (0.4902, 0.9433)
    """
    share = successes / n
    z2 = z * z
    center = (share + z2 / (2 * n)) / (1 + z2 / n)
    half_width = z * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, float(center - half_width)), min(1.0, float(center + half_width))


def accuracy_interval(
    value: float, variance: float, *, center: float, n_source: int, n_target: int
) -> tuple[float, float]:
    """Return the 95 % interval of the accuracy on the target rows, given an estimate of it.

    `variance` is that of the estimate minus the accuracy on these rows, at an accuracy of `center`.
    As in the intervals of Wilson (1927) and of Krishnamoorthy & Peng (2011), the variance at
    another accuracy a is proportional to m (1 − m), where m is the mean of `center` and a, weighted
    by the numbers of source and target rows. The interval contains every a with
    |a − value| ≤ 1.96 sqrt(variance at a).

    >>> low, high = accuracy_interval(0.9, 0.0018, center=0.9, n_source=100, n_target=100)
    >>> round(low, 3), round(high, 3)
    (0.801, 0.969)
    """
    scale = Z95 * Z95 * variance / (center * (1 - center))
    u = n_target / (n_source + n_target)
    offset = (1 - u) * center
    square = 1 + scale * u * u
    linear = 2 * value + scale * u * (1 - 2 * offset)
    constant = value * value - scale * offset * (1 - offset)
    root = math.sqrt(max(linear * linear - 4 * square * constant, 0.0))
    low, high = (linear - root) / (2 * square), (linear + root) / (2 * square)
    return max(0.0, min(low, value)), min(1.0, max(high, value))


def interval_from_replicates(value: float, replicates: Floats) -> tuple[float, float]:
    """Return a 95 % bootstrap interval that contains the percentile and the basic interval.

    The percentile interval is too narrow if the bootstrap is biased, for example for F1 in classes
    with few rows. The basic interval is too narrow near the bounds of the statistic.

    >>> interval_from_replicates(0.5, np.array([0.25, 0.5]))
    (0.25625, 0.74375)
    """
    low, high = np.quantile(replicates, (0.025, 0.975))
    return float(min(low, 2 * value - high)), float(max(high, 2 * value - low))


def absolute_sum_interval(parts: Floats, replicates: Floats) -> tuple[float, float]:
    """Return a 95 % interval of Σ |part| from bootstrap replicates of shape (replicates, parts).

    Sampling error makes such a sum too large, and resampling makes it larger again. A percentile
    interval would therefore never include 0, even if the true sum is 0. By the triangle inequality,
    the sum is too large by at most Σ |error| and too small by at most −Σ sign(part) · error. The
    interval uses the quantiles of these two bounds.

    >>> absolute_sum_interval(np.array([0.5, -0.25]), np.array([[0.5, -0.25], [0.5, -0.25]]))
    (0.75, 0.75)
    """
    errors = replicates - parts
    excess = np.abs(errors).sum(axis=1)
    shortfall = -(errors @ np.sign(parts))
    value = np.abs(parts).sum()
    return float(value - np.quantile(excess, 0.975)), float(value + np.quantile(shortfall, 0.975))


def score_with_interval(
    value: float,
    interval: tuple[float, float],
    *,
    max_value: float = 1.0,
    notes: tuple[str, ...] = (),
    facts: Mapping[str, float] | None = None,
) -> Score:
    """Return a score with its interval clipped to [0, `max_value`]; without one if its width is 0.

    >>> score_with_interval(0.75, (0.5, 1.25)).high, score_with_interval(1.0, (1.0, 1.0)).high
    (1.0, None)
    """
    low, high = interval
    if high - low > MIN_INTERVAL_WIDTH:
        return Score(value, max(low, 0.0), min(high, max_value), notes, facts or {})
    note = "all bootstrap replicates are equal, so there is no interval"
    return Score(value, notes=(*notes, note), facts=facts or {})


# Comparisons of samples ------------------------------------------------------------------------


def win_probability(first: Floats, other: Floats) -> float:
    """Return the share of rows in which the value in `first` is larger; ties count as half.

    >>> win_probability(np.array([3.0, 1.0]), np.array([2.0, 1.0]))
    0.75
    """
    return float((first > other).mean() + 0.5 * (first == other).mean())


def effective_sample_fraction(weights: Floats) -> float:
    """Return the effective sample size (Σw)² / Σw² as a share of the rows (Kish, 1965).

    >>> effective_sample_fraction(np.array([1.0, 1.0, 0.0, 0.0]))
    0.5
    """
    return float(weights.sum() ** 2 / (len(weights) * np.dot(weights, weights)))


def ks_distance(first: Floats, other: Floats) -> float:
    """Return the largest difference between two empirical distribution functions.

    In a sample of more than 20,000 rows, at most 20,000 values with evenly spaced ranks are
    compared, which underestimates the distance by less than 0.0001.

    >>> ks_distance(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    0.5
    """
    return sorted_ks_distance(np.sort(first), np.sort(other))


def sorted_ks_distance(first: Floats, other: Floats) -> float:
    """Return the distance of `ks_distance` for samples that are in ascending order."""
    points = np.concatenate([x[:: math.ceil(len(x) / MAX_KS_POINTS)] for x in (first, other)])
    share_first = np.searchsorted(first, points, side="right") / len(first)
    share_other = np.searchsorted(other, points, side="right") / len(other)
    return float(np.abs(share_first - share_other).max())


def auroc(scores: Floats, positive: Bools, weights: Floats | None = None) -> float | None:
    """Return the area under the ROC curve; None unless there are positive and negative rows.

    The area is the share of pairs, each of a positive and a negative row, in which the positive row
    has the higher score; ties count as half. With weights, a pair counts by the product of the
    weights of its rows.

    >>> auroc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    positives = scores[positive]
    order = np.argsort(scores[~positive])
    negatives = scores[~positive][order]
    if not len(positives) or not len(negatives):
        return None
    below = np.searchsorted(negatives, positives, side="left")
    up_to = np.searchsorted(negatives, positives, side="right")
    if weights is None:
        return float((below + up_to).mean() / (2 * len(negatives)))
    cumulative = np.concatenate([[0.0], np.cumsum(weights[~positive][order])])
    shares = (cumulative[below] + cumulative[up_to]) / 2
    total = weights[positive].sum() * cumulative[-1]
    return float(weights[positive] @ shares / total) if total > 0 else None


# Lines ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """Line y = slope · x + intercept.

    >>> Line(slope=2.0, intercept=-0.5)(0.5)
    0.5
    """

    slope: float
    intercept: float

    def __call__(self, x: float) -> float:
        return self.slope * x + self.intercept


def _check_line_points(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the coordinates of points as arrays; raise if no line can be fitted to the points."""
    x = np.array(x, dtype=np.float64)
    y = np.array(y, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise InputError(f"A line needs as many x as y; got {x.shape} and {y.shape}.")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("A line needs finite points; some are NaN or infinite.")
    n_distinct = len(np.unique(x))
    if n_distinct < 3:
        raise InputError(
            f"A line needs three distinct points; got {n_distinct}. Add more domains or models."
        )
    return x, y


def least_squares_line(x: npt.ArrayLike, y: npt.ArrayLike) -> Line:
    """Return the line with the least squared errors in y.

    >>> least_squares_line([0.0, 1.0, 2.0], [0.5, 1.0, 1.5])
    Line(slope=0.5, intercept=0.5)
    """
    x, y = _check_line_points(x, y)
    centered = x - x.mean()
    slope = float(centered @ y / (centered @ centered))
    return Line(slope, float(y.mean() - slope * x.mean()))


def repeated_median_line(x: npt.ArrayLike, y: npt.ArrayLike) -> Line:
    """Return the repeated-median line, a robust line fit (Siegel, 1982).

    For each point, the median of the slopes to all other points is computed; the slope of the line
    is the median of these medians. Up to half of the points may be outliers.

    >>> repeated_median_line([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 4.0, 6.0, -90.0])
    Line(slope=2.0, intercept=0.0)
    """
    x, y = _check_line_points(x, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = (y[:, None] - y) / (x[:, None] - x)
    slopes[x[:, None] == x] = np.nan
    slope = float(np.median(np.nanmedian(slopes, axis=1)))
    return Line(slope, float(np.median(y - slope * x)))
