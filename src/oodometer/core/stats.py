"""Counts, intervals, resampling and robust lines."""

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

# Up to so many edges, rows are counted edge by edge.
MAX_SCAN_EDGES = 24
# The standard normal's 97.5 % point, for 95 % intervals.
Z95 = 1.959963984540054


def rng_for(seed: int, *path: object) -> np.random.Generator:
    """The random stream of one task: the same whatever else is drawn, and in whatever order.

    >>> a, b = rng_for(0, "atc-mc"), rng_for(0, "atc-mc")
    >>> a.random() == b.random()
    True
    """
    text = "\0".join(str(part) for part in (seed, *path))
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))


def histogram(edges: Floats, values: Floats, where: Bools | None = None) -> Ints:
    """How many values lie below the first edge, in [edge, next edge), …, from the last edge on.

    With `where`, only the values marked there are counted.

    >>> histogram(np.array([1.0, 2.0]), np.array([0.5, 1.0, 1.5, 2.0, 9.0]))
    array([1, 2, 2])
    """
    if where is not None:
        values = np.compress(where, values)  # four times as fast as values[where]
    if len(edges) <= MAX_SCAN_EDGES:
        above = [np.count_nonzero(values >= edge) for edge in _round_edges_up(edges, values.dtype)]
        return -np.diff([len(values), *above, 0])
    # Only what lies between the outer edges needs to be sorted; often that is little.
    between = np.sort(np.compress((values >= edges[0]) & (values < edges[-1]), values))
    counts = np.zeros(len(edges) + 1, dtype=np.int64)
    counts[0] = np.count_nonzero(values < edges[0])
    counts[-1] = len(values) - counts[0] - len(between)
    counts[1:-1] = np.diff(np.searchsorted(between, edges, side="left"))
    return counts


def equal_mass_edges(values: Floats, bins: int) -> Floats:
    """Inner edges that cut values into bins of as many each; fewer, where values are crowded.

    >>> equal_mass_edges(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), 2).tolist()
    [2.0]
    """
    return np.unique(np.quantile(values, np.arange(1, bins) / bins))


def _round_edges_up(edges: Floats, dtype: npt.DTypeLike) -> Floats:
    """Edges as the next number of a type, so that numbers of it are compared as they are."""
    near = edges.astype(dtype)
    return np.where(near < edges, np.nextafter(near, np.asarray(np.inf, dtype)), near)


def wilson_interval(successes: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a proportion.

    >>> tuple(round(end, 4) for end in wilson_interval(8, 10))
    (0.4902, 0.9433)
    """
    share, z2 = successes / n, Z95 * Z95
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def bootstrap_counts(rng: np.random.Generator, counts: Ints, size: int) -> Ints:
    """Counts after drawing as many rows again with replacement, `size` times: (size, …)."""
    flat = counts.ravel()
    filled, total = np.flatnonzero(flat), int(flat.sum())
    drawn = np.zeros((size, flat.size), dtype=np.int64)
    drawn[:, filled] = rng.multinomial(total, flat[filled] / total, size=size)
    return drawn.reshape(size, *counts.shape)


def bootstrap_means(rng: np.random.Generator, sums: Floats, size: int) -> Floats:
    """Means after drawing n rows again, from (n, Σx, Σx²), by the central limit theorem."""
    n, total, squares = sums
    mean = total / n
    spread = np.sqrt(max(squares / n - mean * mean, 0.0) / n)
    return np.asarray(rng.normal(mean, spread, size=size))


def bootstrap_normal_approx(
    draw: Callable[[int], Floats], rng: np.random.Generator, count: int, max_draws: int
) -> Floats:
    """Replicates of which each is costly: `max_draws` of them, the others by the normal law of these.

    >>> rng = np.random.default_rng(0)
    >>> bootstrap_normal_approx(np.zeros, rng, 3, 5).tolist(), bootstrap_normal_approx(np.ones, rng, 3, 2).tolist()
    ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    """
    if count <= max_draws:
        return draw(count)
    drawn = draw(max_draws)
    return np.asarray(rng.normal(drawn.mean(), drawn.std(ddof=1), size=count))


@cache
def _poisson_quantile_table() -> Array:
    """As many equally likely numbers as 16 bits can tell: to that fineness Poisson's, of mean 1."""
    chances = [math.exp(-1) / math.factorial(number) for number in range(12)]
    middles = (np.arange(2**16) + 0.5) / 2**16
    return np.searchsorted(np.cumsum(chances), middles, side="right").astype(np.uint8)


def poisson_bootstrap_weights(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
    """How often each of some rows is drawn, each by itself: Poisson's numbers of mean 1, as bytes.

    Ten times as fast as numpy's; their mean is 1 and their variance 1 to five digits.

    >>> drawn = poisson_bootstrap_weights(np.random.default_rng(0), (1000, 1000))
    >>> round(float(drawn.mean()), 2), round(float(drawn.var()), 2)
    (1.0, 1.0)
    """
    return np.asarray(_poisson_quantile_table()[rng.integers(0, 2**16, size=size, dtype=np.uint16)])


def paired_bootstrap_means(rng: np.random.Generator, values: Floats, size: int) -> Floats:
    """Means of the rows of (m, n) values after drawing the n columns again, `size` times: (size, m).

    All rows share the draws, so that their means can be compared draw by draw.

    >>> paired_bootstrap_means(np.random.default_rng(0), np.array([[1.0, 1.0], [2.0, 2.0]]), 3)
    array([[1., 2.], [1., 2.], [1., 2.]])
    """
    n = values.shape[1]
    step = max(4_000_000 // n, 1)
    means = [
        rng.multinomial(n, np.full(n, 1 / n), size=min(step, size - start)) @ values.T / n
        for start in range(0, size, step)
    ]
    return np.concatenate(means)


def win_probability(first: Floats, other: Floats) -> float:
    """How often the first is larger than the second beside it; where both are equal, half.

    >>> win_probability(np.array([3.0, 1.0]), np.array([2.0, 1.0]))
    0.75
    """
    return float((first > other).mean() + 0.5 * (first == other).mean())


def moments(values: Floats) -> Floats:
    """(n, Σx, Σx²): what a mean and its standard error need; adds up over batches."""
    wide = values.astype(np.float64)
    # By one thread: several, woken for every batch, cost more than they save.
    return np.array([len(wide), wide.sum(), np.einsum("i,i", wide, wide)])


def effective_sample_fraction(weights: Floats) -> float:
    """Kish's effective sample size as a share of the rows.

    >>> effective_sample_fraction(np.array([1.0, 1.0, 0.0, 0.0]))
    0.5
    """
    return float(weights.sum() ** 2 / (len(weights) * np.dot(weights, weights)))


def ks_distance(first: Floats, other: Floats) -> float:
    """The largest gap between two empirical distribution functions.

    Beyond 20,000 rows a side it is looked for at that many evenly ranked rows of each, which
    misses it by less than 0.0001.

    >>> ks_distance(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    0.5
    """
    a, b = np.sort(first), np.sort(other)
    points = np.concatenate([a[:: -(-len(a) // 20_000)], b[:: -(-len(b) // 20_000)]])
    share_a = np.searchsorted(a, points, side="right") / len(a)
    share_b = np.searchsorted(b, points, side="right") / len(b)
    return float(np.abs(share_a - share_b).max())


def auroc(scores: Floats, positive: Bools) -> float | None:
    """How often a positive row scores above a negative one, ties by half; None without both.

    >>> auroc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    above, below = scores[positive], np.sort(scores[~positive])
    if not len(above) or not len(below):
        return None
    wins = np.searchsorted(below, above, side="left") + np.searchsorted(below, above, side="right")
    return float(wins.mean() / (2 * len(below)))


@dataclass(frozen=True)
class Line:
    """y = slope · x + intercept.

    >>> Line(slope=2.0, intercept=-0.5)(0.5)
    0.5
    """

    slope: float
    intercept: float

    def __call__(self, x: float) -> float:
        """The y at x."""
        return self.slope * x + self.intercept


def _check_line_points(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Points that a line can be fitted to."""
    x, y = np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise InputError(f"A line needs as many x as y; got {x.shape} and {y.shape}.")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("A line needs finite points; some are NaN or infinite.")
    distinct = len(np.unique(x))
    if distinct < 3:
        raise InputError(
            f"A line needs three distinct points; got {distinct}. Add more domains or models."
        )
    return x, y


def least_squares_line(x: npt.ArrayLike, y: npt.ArrayLike) -> Line:
    """The line with the least squared errors in y.

    >>> least_squares_line([0.0, 1.0, 2.0], [0.5, 1.0, 1.5])
    Line(slope=0.5, intercept=0.5)
    """
    x, y = _check_line_points(x, y)
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    return Line(slope, float(y.mean() - slope * x.mean()))


def repeated_median_line(x: npt.ArrayLike, y: npt.ArrayLike) -> Line:
    """Siegel's line: the median over points of the median slope to all others.

    Half of the points may be anything without moving it far.

    >>> repeated_median_line([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 4.0, 6.0, -90.0])
    Line(slope=2.0, intercept=0.0)
    """
    x, y = _check_line_points(x, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = (y[:, None] - y) / (x[:, None] - x)
    slopes[x[:, None] == x] = np.nan
    slope = float(np.median(np.nanmedian(slopes, axis=1)))
    return Line(slope, float(np.median(y - slope * x)))


# How often rows are drawn again.
N_REPLICATES = 200
# What is narrower than this is rounding.
MIN_INTERVAL_WIDTH = 1e-12


def interval_from_replicates(value: float, replicates: Floats) -> tuple[float, float]:
    """The ends for a value, from the values of rows drawn again: the wider of two ways.

    Percentiles miss where drawing again is biased, as F1 is in classes of few rows; percentiles of
    the errors, taken off the value, miss near the ends of what is possible.

    >>> interval_from_replicates(0.5, np.array([0.25, 0.5]))
    (0.25625, 0.74375)
    """
    low, high = np.quantile(replicates, (0.025, 0.975))
    return float(min(low, 2 * value - high)), float(max(high, 2 * value - low))


def absolute_sum_interval(parts: Floats, replicates: Floats) -> tuple[float, float]:
    """The ends for Σ |part|, from the parts of rows drawn again, (replicates, parts).

    Chance makes such a sum too large, and once more where rows are drawn from rows: percentiles
    would never reach down to a true 0. But by the triangle inequality the sum is too large by
    Σ |error| at most and too small by −Σ sign(part) · error at most, and both can be drawn.

    >>> absolute_sum_interval(np.array([0.5, -0.25]), np.array([[0.5, -0.25], [0.5, -0.25]]))
    (0.75, 0.75)
    """
    errors = replicates - parts
    above, below = np.abs(errors).sum(axis=1), -(errors @ np.sign(parts))
    value = np.abs(parts).sum()
    low, high = value - np.quantile(above, 0.975), value + np.quantile(below, 0.975)
    return float(low), float(high)


def score_with_interval(
    value: float,
    interval: tuple[float, float],
    *,
    max_value: float = 1.0,
    notes: tuple[str, ...] = (),
    facts: Mapping[str, float] | None = None,
) -> Score:
    """A score from 0 to `max_value` with its interval; with none where rows drawn again are all alike.

    >>> score_with_interval(0.75, (0.5, 1.25)).high, score_with_interval(1.0, (1.0, 1.0)).high
    (1.0, None)
    """
    low, high = interval
    if high - low > MIN_INTERVAL_WIDTH:
        return Score(value, max(low, 0.0), min(high, max_value), notes, facts or {})
    alike = "rows drawn again all give the same value, so there is no interval"
    return Score(value, notes=(*notes, alike), facts=facts or {})
