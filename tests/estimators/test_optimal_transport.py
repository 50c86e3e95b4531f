"""The dual solver against the linear programme, and its laws."""

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


def programme(probs: Floats, shares: Floats) -> float:
    """The least cost by a linear programme over all n × k flows."""
    n, k = probs.shape
    rows = sp.kron(sp.eye(n), np.ones((1, k)))
    columns = sp.kron(np.ones((1, n)), sp.eye(k))
    limits = sp.vstack([rows, columns]).tocsr()[:-1]
    wanted = np.concatenate([np.full(n, 1 / n), shares])[:-1]
    found = linprog((1 - probs).ravel(), A_eq=limits, b_eq=wanted, bounds=(0, None))
    return float(found.fun)


def made(seed: int, n: int, k: int, sharpness: float) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    logits = sharpness * rng.normal(size=(n, k))
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    return probs / probs.sum(axis=1, keepdims=True), rng.dirichlet(np.full(k, 0.7))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "k"), [(1, 2), (7, 5), (60, 2), (200, 3), (300, 10), (400, 20)])
@pytest.mark.parametrize("sharpness", [0.5, 3.0, 20.0])
def test_cost_is_that_of_the_linear_programme(
    n: int, k: int, sharpness: float, dtype: type[np.floating]
) -> None:
    probs, shares = made(n + k, n, k, sharpness)
    found = solve_transport(probs.astype(dtype), shares)
    true = programme(probs, shares)
    assert found.cost == pytest.approx(true, abs=5e-5)
    assert found.cost <= true + 1e-6
    assert found.gap is not None
    assert found.cost + found.gap >= true - 1e-6


@given(seed=st.integers(0, 1000), n=st.integers(1, 40), k=st.integers(2, 6))
@settings(max_examples=30)
def test_cost_is_at_least_what_unsure_answers_cost_and_at_most_one(
    seed: int, n: int, k: int
) -> None:
    probs, shares = made(seed, n, k, 2.0)
    found = solve_transport(probs, shares)
    assert 1 - probs.max(axis=1).mean() - 1e-9 <= found.cost <= 1 + 1e-9
    paid = row_costs(probs, shares)
    assert paid.shape == found.reduced_costs.shape == found.assigned_classes.shape == (n,)
    assert (paid >= -1e-9).all()
    assert (paid <= 1 + 1e-9).all()
    assert found.reduced_costs.mean() + shares @ found.prices == pytest.approx(found.cost)


def test_shares_that_answers_have_already_cost_nothing_more() -> None:
    probs = np.eye(3)[[0, 1, 2, 2]]
    found = solve_transport(probs, np.array([0.25, 0.25, 0.5]))
    assert found.cost == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(row_costs(probs, np.array([0.25, 0.25, 0.5])), 0.0, atol=1e-6)


def test_a_class_without_a_share_takes_no_row() -> None:
    probs = np.array([[0.6, 0.3, 0.1], [0.7, 0.2, 0.1]])
    found = solve_transport(probs, np.array([0.0, 1.0, 0.0]))
    assert found.cost == pytest.approx(1 - 0.25, abs=1e-5)
    assert found.assigned_classes.tolist() == [1, 1]


def test_many_rows_are_priced_by_some_of_them_and_lose_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probs, shares = made(3, 6000, 4, 2.0)
    whole = solve_transport(probs, shares).cost
    monkeypatch.setattr(_optimal_transport, "MIN_DUAL_ROWS", 1000)
    monkeypatch.setattr(_optimal_transport, "DUAL_ROWS_PER_CLASS", 10)
    assert subsample_stride(6000, 4) == 6
    part = solve_transport(probs, shares)
    assert part.cost == pytest.approx(whole, abs=1e-3)
    assert part.cost <= whole + 1e-6
    assert part.gap is None
    paid = row_costs(probs, shares)
    assert len(paid) == 6000
    assert paid.mean() == pytest.approx(whole, abs=0.02)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, shares = made(5, 300, 7, 2.0)
    whole = solve_transport(probs, shares)
    monkeypatch.setattr(softmax_kernels, "BLOCK_CELLS", 64)
    parts = solve_transport(probs, shares)
    assert parts.cost == pytest.approx(whole.cost, abs=1e-7)
    assert (parts.assigned_classes == whole.assigned_classes).mean() > 0.99
