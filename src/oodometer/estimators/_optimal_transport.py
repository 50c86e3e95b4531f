"""Moving rows of probabilities to classes of given shares at the least cost: COT's inner problem.

Row i is moved to class c at the cost ½‖p_i − e_c‖₁ = 1 − p_ic, each class taking its share π of the
rows. The dual has one variable a class,

    max_v  mean_i min_c (1 − p_ic − v_c) + π·v,

concave and piecewise linear. Its minimum is smoothed by an ε that falls by steps; each step is
solved by L-BFGS from where the last one ended. At any v the dual is a bound from below, and the
plan of the last step, mended to have the shares asked for, one from above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.softmax_kernels import block_copies, first_maximum

# Each row is one among many of a large table, and its corner is blunt already.
SMOOTHINGS = (0.1, 0.02, 4e-3, 8e-4, 2e-4)
FINE_SMOOTHINGS, MAX_FINE_CELLS = (5e-5, 1e-5), 1_000_000
# How far the share of a class may be from the one asked for, in parts of 1 / classes.
ROUGH_TOLERANCE, FINE_TOLERANCE = 1e-3, 1e-4
# Prices are found on a part of the rows. With r rows a class they lose about 0.1 / r of the cost.
MIN_DUAL_ROWS, DUAL_ROWS_PER_CLASS, MAX_DUAL_CELLS = 20_000, 1000, 20_000_000
ROUNDING_TOLERANCE = 1e-9
# Prices move the plan of a sample by steps; smoothed by this much, they move it evenly.
CURVATURE_SMOOTHING, MAX_CURVATURE_PRODUCTS, MAX_CURVATURE_ROWS = 0.05, 2_000_000_000, 200_000


@dataclass(frozen=True)
class TransportResult:
    """The least cost, which is at most `gap` above `cost`, and where it comes from.

    `prices` are the dual variables. Of every row, `assigned_classes` is the class that it goes to, and `reduced_costs`
    its part of the dual, min_c (1 − p_ic − v_c): their mean plus π·v is the cost. Where prices were
    found on a part of the rows, the gap is not known.
    """

    cost: float
    gap: float | None
    prices: Floats
    reduced_costs: Floats
    assigned_classes: Ints


@dataclass(frozen=True, eq=False)
class DualSolution:
    """The best dual variables found, and the smoothing that they were found at."""

    prices: Floats
    smoothing: float


def solve_transport(
    probs: Floats, shares: Floats, dual: DualSolution | None = None
) -> TransportResult:
    """The cheapest way to give each class its share of the rows.

    >>> rows = np.array([[0.9, 0.1], [0.8, 0.2]])
    >>> found = solve_transport(rows, np.array([0.5, 0.5]))
    >>> round(found.cost, 4), found.assigned_classes.tolist()
    (0.45, [0, 1])
    """
    known = solve_dual(probs, shares) if dual is None else dual
    reduced, to = _reduced_costs(probs, known.prices)
    cost, gap = float(reduced.mean() + shares @ known.prices), None
    if subsample_stride(*probs.shape) == 1:
        paid, taken = _smoothed_plan(probs, known)
        # Rows that a class has too many of can go to another at a cost of 1 at most.
        above = paid.mean() + np.abs(taken - shares).sum() / 2
        gap = float(max(above - cost, 0.0))
    return TransportResult(cost, gap, known.prices, reduced, to)


def row_costs(probs: Floats, shares: Floats, dual: DualSolution | None = None) -> Floats:
    """What the cheapest plan pays to move every row.

    >>> row_costs(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0.5, 0.5])).round(3).tolist()
    [0.1, 0.8]
    """
    return _smoothed_plan(probs, solve_dual(probs, shares) if dual is None else dual)[0]


def solve_dual(probs: Floats, shares: Floats) -> DualSolution:
    """The best prices found.

    They are no worse than none at all, so that COT's error is at least AC's.
    """
    from scipy.optimize import minimize

    n, k = probs.shape
    some = probs[:: subsample_stride(n, k)]
    some = some.astype(np.float64) if some.size < MAX_FINE_CELLS else some.copy()
    steps = SMOOTHINGS + FINE_SMOOTHINGS if some.size < MAX_FINE_CELLS else SMOOTHINGS
    best = found = np.zeros(k)
    highest, at = _reduced_costs(some, best)[0].mean(), steps[-1]
    for smoothing in steps:
        near = ROUGH_TOLERANCE if smoothing > SMOOTHINGS[-1] else FINE_TOLERANCE
        options = {"maxiter": 200, "ftol": 1e-9, "gtol": near / len(found)}
        found = minimize(
            _smoothed_dual, found, (some, shares, smoothing), "L-BFGS-B", jac=True, options=options
        ).x
        value = _reduced_costs(some, found)[0].mean() + shares @ found
        # Of equals the last, whose plan is the sharpest.
        if value >= highest - ROUNDING_TOLERANCE:
            highest, best, at = max(value, highest), found, smoothing
    return DualSolution(best, at)


def curvature(probs: Floats, prices: Floats) -> Floats:
    """How the shares that classes take move with their prices: (k, k), of the smoothed plan."""
    n, k = probs.shape
    some = probs[:: max(-(-n * k * k // MAX_CURVATURE_PRODUCTS), -(-n // MAX_CURVATURE_ROWS))]
    total = np.zeros((k, k))
    for _, block, axis in block_copies(some):
        parts, sums, _ = _soft_assignment(block, prices, CURVATURE_SMOOTHING, axis)
        parts = (parts / np.expand_dims(sums, axis)).astype(np.float64)
        by_class = parts if axis == 0 else parts.T
        total += np.diag(by_class.sum(axis=1)) - by_class @ by_class.T
    return np.asarray(total / (len(some) * CURVATURE_SMOOTHING))


def subsample_stride(n: int, k: int) -> int:
    """Every so-manieth row is looked at for the prices."""
    rows = min(max(MIN_DUAL_ROWS, DUAL_ROWS_PER_CLASS * k), max(MAX_DUAL_CELLS // k, 1))
    return -(-n // rows)


def _reduced_costs(probs: Floats, prices: Floats) -> tuple[Floats, Ints]:
    """min_c (1 − p_ic − v_c) of every row, and the class where it is reached."""
    values, to = np.empty(len(probs)), np.empty(len(probs), dtype=np.int32)
    for rows, block, axis in block_copies(probs):
        best, to[rows] = first_maximum(_add_prices(block, prices, axis), axis)
        values[rows] = 1.0 - best
    return values, to


def _add_prices(block: Floats, prices: Floats, axis: int) -> Floats:
    """p + v, in place."""
    block += np.expand_dims(prices.astype(block.dtype), 1 - axis)
    return block


def _soft_assignment(
    block: Floats, prices: Floats, smoothing: float, axis: int
) -> tuple[Floats, Floats, Floats]:
    """Unscaled parts of every row that go to each class, their sums, and the row's largest.

    The block becomes the parts.
    """
    raised = _add_prices(block, prices, axis)
    top = raised.max(axis=axis)
    raised -= np.expand_dims(top, axis)
    raised *= raised.dtype.type(1 / smoothing)
    np.exp(raised, out=raised)
    return raised, raised.sum(axis=axis), top


def _class_totals(parts: Floats, sums: Floats, axis: int) -> Floats:
    """What each class takes of all rows of a block."""
    return np.asarray(parts @ (1 / sums) if axis == 0 else (1 / sums) @ parts)


def _smoothed_dual(
    prices: Floats, probs: Floats, shares: Floats, smoothing: float
) -> tuple[float, Floats]:
    """The smoothed dual and its slope, with the sign that minimisers want."""
    total, taken = 0.0, np.zeros(len(prices))
    for _, block, axis in block_copies(probs):
        parts, sums, top = _soft_assignment(block, prices, smoothing, axis)
        total += float(top.sum(dtype=np.float64) + smoothing * np.log(sums).sum(dtype=np.float64))
        taken += _class_totals(parts, sums, axis)
    return total / len(probs) - float(shares @ prices), taken / len(probs) - shares


def _smoothed_plan(probs: Floats, dual: DualSolution) -> tuple[Floats, Floats]:
    """What every row pays in the smoothed plan, and the share of rows each class takes."""
    paid, taken = np.empty(len(probs)), np.zeros(len(dual.prices))
    for rows, block, axis in block_copies(probs):
        own = block.copy()
        parts, sums, _ = _soft_assignment(block, dual.prices, dual.smoothing, axis)
        taken += _class_totals(parts, sums, axis)
        paid[rows] = 1.0 - np.multiply(parts, own, out=own).sum(axis=axis) / sums
    return paid, taken / len(probs)
