"""Optimal transport of probability rows to classes with given frequencies, solved by its dual.

Assigning row i to class c costs ½‖p_i − e_c‖₁ = 1 − p_ic, and class c receives a share π_c of the
rows. The dual has one variable (price) per class,

    max_v  mean_i min_c (1 − p_ic − v_c) + π·v,

and is concave and piecewise linear. The minimum is smoothed by an ε that decreases in steps; each
step is solved by L-BFGS from the previous solution. The dual at any v is a lower bound of the cost;
the plan of the last step, corrected to the required class frequencies, gives an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.softmax_kernels import block_copies, first_maximum

# Values of ε. Large tables need no finer ones: the mean over many rows is smooth already.
SMOOTHINGS = (0.1, 0.02, 4e-3, 8e-4, 2e-4)
# Further values for tables below this many cells (rows × classes).
FINE_SMOOTHINGS = (5e-5, 1e-5)
MAX_FINE_CELLS = 1_000_000
# Tolerance of a class frequency, as a multiple of 1 / number of classes.
ROUGH_TOLERANCE = 1e-3
FINE_TOLERANCE = 1e-4
# Prices are fitted on a subsample. With r rows per class, they lose about 0.1 / r of the cost.
MIN_DUAL_ROWS = 20_000
DUAL_ROWS_PER_CLASS = 1000
MAX_DUAL_CELLS = 20_000_000
ROUNDING_TOLERANCE = 1e-9
# Without smoothing, class frequencies are step functions of the prices, with zero derivative.
CURVATURE_SMOOTHING = 0.05
MAX_CURVATURE_PRODUCTS = 2_000_000_000
MAX_CURVATURE_ROWS = 200_000


@dataclass(frozen=True)
class TransportResult:
    """Lower bound `cost` of the transport cost, which is at most `gap` higher.

    `prices` are the dual variables. `reduced_costs` has each row's term of the dual,
    min_c (1 − p_ic − v_c), and `assigned_classes` the class of its minimum; the mean reduced cost
    plus π·v is the cost. `gap` is None if the prices were fitted on a subsample.
    """

    cost: float
    gap: float | None
    prices: Floats
    reduced_costs: Floats
    assigned_classes: Ints


@dataclass(frozen=True, eq=False)
class DualSolution:
    """Best dual variables, and the smoothing ε at which they were found."""

    prices: Floats
    smoothing: float


def solve_transport(
    probs: Floats, shares: Floats, dual: DualSolution | None = None
) -> TransportResult:
    """Return the transport of minimal cost that assigns each class its share of the rows.

    >>> rows = np.array([[0.9, 0.1], [0.8, 0.2]])
    >>> result = solve_transport(rows, np.array([0.5, 0.5]))
    >>> round(result.cost, 4), result.assigned_classes.tolist()
    (0.45, [0, 1])
    """
    if dual is None:
        dual = solve_dual(probs, shares)
    reduced_costs, classes = _reduced_costs(probs, dual.prices)
    cost = float(reduced_costs.mean() + shares @ dual.prices)
    gap = None
    if subsample_stride(*probs.shape) == 1:
        plan_costs, plan_shares = _smoothed_plan(probs, dual)
        # Excess rows of a class can be assigned to another class at a cost of at most 1.
        upper = plan_costs.mean() + np.abs(plan_shares - shares).sum() / 2
        gap = float(max(upper - cost, 0.0))
    return TransportResult(cost, gap, dual.prices, reduced_costs, classes)


def row_costs(probs: Floats, shares: Floats, dual: DualSolution | None = None) -> Floats:
    """Return the cost of each row in the optimal plan.

    >>> row_costs(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0.5, 0.5])).round(3).tolist()
    [0.1, 0.8]
    """
    costs, _ = _smoothed_plan(probs, solve_dual(probs, shares) if dual is None else dual)
    return costs


def solve_dual(probs: Floats, shares: Floats) -> DualSolution:
    """Return the best prices found; at least as good as zero prices, so COT is at most AC."""
    from scipy.optimize import minimize

    n, k = probs.shape
    rows = probs[:: subsample_stride(n, k)]
    is_small = rows.size < MAX_FINE_CELLS
    rows = rows.astype(np.float64) if is_small else rows.copy()
    smoothings = SMOOTHINGS + FINE_SMOOTHINGS if is_small else SMOOTHINGS
    prices = np.zeros(k)
    best = DualSolution(prices, smoothings[-1])
    best_value = _reduced_costs(rows, prices)[0].mean()
    for smoothing in smoothings:
        tolerance = ROUGH_TOLERANCE if smoothing > SMOOTHINGS[-1] else FINE_TOLERANCE
        prices = minimize(
            _smoothed_dual,
            prices,
            (rows, shares, smoothing),
            "L-BFGS-B",
            jac=True,
            options={"maxiter": 200, "ftol": 1e-9, "gtol": tolerance / k},
        ).x
        value = _reduced_costs(rows, prices)[0].mean() + shares @ prices
        # Of equally good prices the last are kept: their plan is smoothed the least.
        if value >= best_value - ROUNDING_TOLERANCE:
            best_value = max(value, best_value)
            best = DualSolution(prices, smoothing)
    return best


def curvature(probs: Floats, prices: Floats) -> Floats:
    """Return the derivative (k, k) of the class frequencies of the smoothed plan by the prices."""
    n, k = probs.shape
    rows = probs[:: max(-(-n * k * k // MAX_CURVATURE_PRODUCTS), -(-n // MAX_CURVATURE_ROWS))]
    total = np.zeros((k, k))
    for _, block, axis in block_copies(rows):
        parts, sums, _ = _soft_assignment(block, prices, CURVATURE_SMOOTHING, axis)
        parts = (parts / np.expand_dims(sums, axis)).astype(np.float64)
        by_class = parts if axis == 0 else parts.T
        total += np.diag(by_class.sum(axis=1)) - by_class @ by_class.T
    return np.asarray(total / (len(rows) * CURVATURE_SMOOTHING))


def subsample_stride(n: int, k: int) -> int:
    """Return k such that every k-th row is used to fit the prices."""
    rows = min(max(MIN_DUAL_ROWS, DUAL_ROWS_PER_CLASS * k), max(MAX_DUAL_CELLS // k, 1))
    return -(-n // rows)


def _reduced_costs(probs: Floats, prices: Floats) -> tuple[Floats, Ints]:
    """Return min_c (1 − p_ic − v_c) of every row, and the class of the minimum."""
    costs = np.empty(len(probs))
    classes = np.empty(len(probs), dtype=np.int32)
    for rows, block, axis in block_copies(probs):
        best, classes[rows] = first_maximum(_add_prices(block, prices, axis), axis)
        costs[rows] = 1.0 - best
    return costs, classes


def _add_prices(block: Floats, prices: Floats, axis: int) -> Floats:
    """Add the prices to a block in place, and return the block."""
    block += np.expand_dims(prices.astype(block.dtype), 1 - axis)
    return block


def _soft_assignment(
    block: Floats, prices: Floats, smoothing: float, axis: int
) -> tuple[Floats, Floats, Floats]:
    """Return unnormalized softmax weights of p + v by row, their sums, and the row maxima.

    The block is overwritten by the weights.
    """
    weights = _add_prices(block, prices, axis)
    top = weights.max(axis=axis)
    weights -= np.expand_dims(top, axis)
    weights *= weights.dtype.type(1 / smoothing)
    np.exp(weights, out=weights)
    return weights, weights.sum(axis=axis), top


def _class_totals(parts: Floats, sums: Floats, axis: int) -> Floats:
    """Return the number of rows of a block that each class receives."""
    return np.asarray(parts @ (1 / sums) if axis == 0 else (1 / sums) @ parts)


def _smoothed_dual(
    prices: Floats, probs: Floats, shares: Floats, smoothing: float
) -> tuple[float, Floats]:
    """Return the negated smoothed dual and its gradient."""
    total = 0.0
    class_totals = np.zeros(len(prices))
    for _, block, axis in block_copies(probs):
        parts, sums, top = _soft_assignment(block, prices, smoothing, axis)
        total += float(top.sum(dtype=np.float64) + smoothing * np.log(sums).sum(dtype=np.float64))
        class_totals += _class_totals(parts, sums, axis)
    value = total / len(probs) - float(shares @ prices)
    return value, class_totals / len(probs) - shares


def _smoothed_plan(probs: Floats, dual: DualSolution) -> tuple[Floats, Floats]:
    """Return the cost of each row in the smoothed plan, and the share of rows per class."""
    costs = np.empty(len(probs))
    class_totals = np.zeros(len(dual.prices))
    for rows, block, axis in block_copies(probs):
        original = block.copy()
        parts, sums, _ = _soft_assignment(block, dual.prices, dual.smoothing, axis)
        class_totals += _class_totals(parts, sums, axis)
        costs[rows] = 1.0 - np.multiply(parts, original, out=original).sum(axis=axis) / sums
    return costs, class_totals / len(probs)
