"""Optimal transport of predicted probabilities to classes with given frequencies.

Every row i of probabilities p_i is assigned to a class. Assigning it to class c costs
½‖p_i − e_c‖₁ = 1 − p_ic, where e_c is the one-hot vector of c. Class c must receive a share π_c of
the rows. The mean cost is minimized by solving the dual problem, which has one variable v_c (the
price) per class:

    max_v  mean_i min_c (1 − p_ic − v_c) + π·v
 The dual is concave and piecewise linear. For the solver, the inner minimum is replaced by a smooth
one with the parameter ε, which decreases in steps. Each step is solved by L-BFGS and starts from
the previous solution. The value of the dual at any v is a lower bound of the cost. The smoothed
assignment (plan) of the last step, corrected to the required class frequencies, gives an upper
bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.softmax_kernels import block_copies, first_maximum

# Values of ε. Large tables of probabilities do not need smaller values, because the mean over many
# rows is already smooth.
SMOOTHINGS = (0.1, 0.02, 4e-3, 8e-4, 2e-4)
# Further values of ε for tables with fewer cells (rows × classes) than MAX_FINE_CELLS.
FINE_SMOOTHINGS = (5e-5, 1e-5)
MAX_FINE_CELLS = 1_000_000
# Tolerance of a class frequency for large and small ε, as a multiple of 1 / number of classes.
ROUGH_TOLERANCE = 1e-3
FINE_TOLERANCE = 1e-4
# Limits on the subsample of rows on which prices are fitted. Compared with optimal prices, prices
# fitted on r rows per class lose about 0.1 / r of the cost.
MIN_DUAL_ROWS = 20_000
DUAL_ROWS_PER_CLASS = 1000
MAX_DUAL_CELLS = 20_000_000
ROUNDING_TOLERANCE = 1e-9


@dataclass(frozen=True)
class TransportResult:
    """Solution of a transport problem.

    `cost` is a lower bound of the transport cost, and the true cost is at most `gap` higher. `gap`
    is None if the prices were fitted on a subsample. `prices` are the dual variables v.
    `reduced_costs` has each row's term of the dual, min_c (1 − p_ic − v_c), and `assigned_classes`
    has the class for which this minimum is attained. The mean of the reduced costs plus π·v is
    `cost`.
    """

    cost: float
    gap: float | None
    prices: Floats
    reduced_costs: Floats
    assigned_classes: Ints


@dataclass(frozen=True, eq=False)
class DualSolution:
    """Best dual variables (prices), and the smoothing ε with which they were found."""

    prices: Floats
    smoothing: float


def solve_transport(
    probs: Floats, shares: Floats, dual: DualSolution | None = None
) -> TransportResult:
    """Return the transport of minimal cost in which each class receives its share of the rows.

    >>> rows = np.array([[0.9, 0.1], [0.8, 0.2]])
    >>> result = solve_transport(rows, np.array([0.5, 0.5]))
    >>> round(result.cost, 4), result.assigned_classes.tolist()
    (0.45, [0, 1])
    """
    if dual is None:
        dual = solve_dual(probs, shares)
    costs, classes = reduced_costs(probs, dual.prices)
    cost = float(costs.mean() + shares @ dual.prices)
    gap = None
    if subsample_stride(*probs.shape) == 1:
        plan_costs, plan_shares = _smoothed_plan(probs, dual)
        # Rows that a class has too many of can be assigned to other classes at a cost of at most 1
        # per row.
        upper = plan_costs.mean() + np.abs(plan_shares - shares).sum() / 2
        gap = float(max(upper - cost, 0.0))
    return TransportResult(cost, gap, dual.prices, costs, classes)


def row_costs(probs: Floats, shares: Floats, dual: DualSolution | None = None) -> Floats:
    """Return the cost of each row under the optimal assignment.

    >>> row_costs(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0.5, 0.5])).round(3).tolist()
    [0.1, 0.8]
    """
    costs, _ = _smoothed_plan(probs, solve_dual(probs, shares) if dual is None else dual)
    return costs


def solve_dual(probs: Floats, shares: Floats) -> DualSolution:
    """Return the best prices found.

    They are at least as good as prices of zero, so the COT estimate is at most the average
    confidence (AC).
    """
    from scipy.optimize import minimize

    n, k = probs.shape
    rows = probs[:: subsample_stride(n, k)]
    is_small = rows.size < MAX_FINE_CELLS
    rows = rows.astype(np.float64) if is_small else rows.copy()
    smoothings = SMOOTHINGS + FINE_SMOOTHINGS if is_small else SMOOTHINGS
    prices = np.zeros(k)
    best = DualSolution(prices, smoothings[-1])
    best_value = reduced_costs(rows, prices)[0].mean()
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
        value = reduced_costs(rows, prices)[0].mean() + shares @ prices
        # Of equally good prices the last ones are kept, because they were found with the smallest
        # ε.
        if value >= best_value - ROUNDING_TOLERANCE:
            best_value = max(value, best_value)
            best = DualSolution(prices, smoothing)
    return best


def subsample_stride(n: int, k: int) -> int:
    """Return the stride s such that every s-th of n rows is used to fit the prices of k classes."""
    rows = min(max(MIN_DUAL_ROWS, DUAL_ROWS_PER_CLASS * k), max(MAX_DUAL_CELLS // k, 1))
    return -(-n // rows)


def reduced_costs(probs: Floats, prices: Floats) -> tuple[Floats, Ints]:
    """Return min_c (1 − p_ic − v_c) of every row, and the class for which it is attained."""
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
    """Return the softmax weights of (p + v) / ε per row before normalization.

    Also return the sums of the weights and the maxima of p + v per row. The block is overwritten by
    the weights.
    """
    weights = _add_prices(block, prices, axis)
    top = weights.max(axis=axis)
    weights -= np.expand_dims(top, axis)
    weights *= weights.dtype.type(1 / smoothing)
    np.exp(weights, out=weights)
    return weights, weights.sum(axis=axis), top


def _class_totals(parts: Floats, sums: Floats, axis: int) -> Floats:
    """Return the number of rows that each class receives from a block of rows."""
    return np.asarray(parts @ (1 / sums) if axis == 0 else (1 / sums) @ parts)


def _smoothed_dual(
    prices: Floats, probs: Floats, shares: Floats, smoothing: float
) -> tuple[float, Floats]:
    """Return the negative value of the smoothed dual, up to a constant, and its gradient."""
    total = 0.0
    class_totals = np.zeros(len(prices))
    for _, block, axis in block_copies(probs):
        parts, sums, top = _soft_assignment(block, prices, smoothing, axis)
        total += float(top.sum(dtype=np.float64) + smoothing * np.log(sums).sum(dtype=np.float64))
        class_totals += _class_totals(parts, sums, axis)
    value = total / len(probs) - float(shares @ prices)
    return value, class_totals / len(probs) - shares


def _smoothed_plan(probs: Floats, dual: DualSolution) -> tuple[Floats, Floats]:
    """Return the cost of each row under the smoothed assignment, and the share of each class."""
    costs = np.empty(len(probs))
    class_totals = np.zeros(len(dual.prices))
    for rows, block, axis in block_copies(probs):
        original = block.copy()
        parts, sums, _ = _soft_assignment(block, dual.prices, dual.smoothing, axis)
        class_totals += _class_totals(parts, sums, axis)
        costs[rows] = 1.0 - np.multiply(parts, original, out=original).sum(axis=axis) / sums
    return costs, class_totals / len(probs)
