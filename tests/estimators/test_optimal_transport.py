"""The dual solver against a linear program, and bounds of its cost."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from oodometer.core import softmax_kernels
from oodometer.core.array_types import Floats
from oodometer.estimators import _optimal_transport
from oodometer.estimators._optimal_transport import row_costs, solve_transport, subsample_stride


def linear_program(probs: Floats, shares: Floats) -> float:
    """Return the minimal cost by a linear program over all n × k flows."""
    n, k = probs.shape
    rows = sp.kron(sp.eye(n), np.ones((1, k)))
    columns = sp.kron(np.ones((1, n)), sp.eye(k))
    limits = sp.vstack([rows, columns]).tocsr()[:-1]
    right_side = np.concatenate([np.full(n, 1 / n), shares])[:-1]
    result = linprog((1 - probs).ravel(), A_eq=limits, b_eq=right_side, bounds=(0, None))
    return float(result.fun)


def random_problem(seed: int, n: int, k: int, sharpness: float) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    logits = sharpness * rng.normal(size=(n, k))
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    return probs / probs.sum(axis=1, keepdims=True), rng.dirichlet(np.full(k, 0.7))


@pytest.mark.parametrize(("n", "k"), [(1, 2), (7, 5), (60, 2), (200, 3), (300, 10), (400, 20)])
def test_cost_matches_the_linear_program(n: int, k: int) -> None:
    for sharpness in (0.5, 3.0, 20.0):
        probs, shares = random_problem(n + k, n, k, sharpness)
        expected = linear_program(probs, shares)
        for dtype in (np.float32, np.float64):
            case = f"sharpness {sharpness}, {dtype.__name__}"
            result = solve_transport(probs.astype(dtype), shares)
            assert result.cost == pytest.approx(expected, abs=5e-5), case
            assert result.cost <= expected + 1e-6, case
            assert result.gap is not None, case
            assert result.cost + result.gap >= expected - 1e-6, case


@given(seed=st.integers(0, 1000), n=st.integers(1, 40), k=st.integers(2, 6))
@settings(max_examples=30)
def test_cost_is_between_one_minus_mean_confidence_and_one(seed: int, n: int, k: int) -> None:
    probs, shares = random_problem(seed, n, k, 2.0)
    result = solve_transport(probs, shares)
    assert 1 - probs.max(axis=1).mean() - 1e-9 <= result.cost <= 1 + 1e-9
    costs = row_costs(probs, shares)
    assert costs.shape == result.reduced_costs.shape == result.assigned_classes.shape == (n,)
    assert (costs >= -1e-9).all()
    assert (costs <= 1 + 1e-9).all()
    assert result.reduced_costs.mean() + shares @ result.prices == pytest.approx(result.cost)


def test_matching_frequencies_cost_nothing() -> None:
    probs = np.eye(3)[[0, 1, 2, 2]]
    result = solve_transport(probs, np.array([0.25, 0.25, 0.5]))
    assert result.cost == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(row_costs(probs, np.array([0.25, 0.25, 0.5])), 0.0, atol=1e-6)


def test_class_with_frequency_zero_receives_no_rows() -> None:
    probs = np.array([[0.6, 0.3, 0.1], [0.7, 0.2, 0.1]])
    result = solve_transport(probs, np.array([0.0, 1.0, 0.0]))
    assert result.cost == pytest.approx(1 - 0.25, abs=1e-5)
    assert result.assigned_classes.tolist() == [1, 1]


def test_prices_of_a_subsample_lose_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probs, shares = random_problem(3, 6000, 4, 2.0)
    whole = solve_transport(probs, shares).cost
    monkeypatch.setattr(_optimal_transport, "MIN_DUAL_ROWS", 1000)
    monkeypatch.setattr(_optimal_transport, "DUAL_ROWS_PER_CLASS", 10)
    assert subsample_stride(6000, 4) == 6
    part = solve_transport(probs, shares)
    assert part.cost == pytest.approx(whole, abs=1e-3)
    assert part.cost <= whole + 1e-6
    assert part.gap is None
    costs = row_costs(probs, shares)
    assert len(costs) == 6000
    assert costs.mean() == pytest.approx(whole, abs=0.02)


def test_block_size_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, shares = random_problem(5, 300, 7, 2.0)
    whole = solve_transport(probs, shares)
    monkeypatch.setattr(softmax_kernels, "BLOCK_CELLS", 64)
    parts = solve_transport(probs, shares)
    assert parts.cost == pytest.approx(whole.cost, abs=1e-7)
    assert (parts.assigned_classes == whole.assigned_classes).mean() > 0.99
