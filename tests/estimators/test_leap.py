"""LEAP against a general solver of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.estimators.leap import LEAP, _project_onto_simplex, _TableConstraints
from oodometer.testing import toy_predictions


def naive_loss(flat: Floats, constraints: _TableConstraints) -> float:
    k = len(constraints.predicted_rates)
    table, total = flat.reshape(k, k), 0.0
    for y in range(k):
        column = sum(table[i, y] for i in range(k))
        total += (column - constraints.shares[y]) ** 2
        for i in range(k):
            total += (table[i, y] - constraints.predicted_given_true[i, y] * column) ** 2
    for i in range(k):
        total += (sum(table[i, y] for y in range(k)) - constraints.predicted_rates[i]) ** 2
    return total / 2


@pytest.mark.parametrize("k", [2, 3, 5])
def test_table_matches_a_general_solver(k: int) -> None:
    rng = np.random.default_rng(k)
    confusion = rng.dirichlet(np.ones(k), size=k).T
    constraints = _TableConstraints(confusion, rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k)))
    result = constraints.solve(confusion * constraints.shares, 5000)
    reference = minimize(
        naive_loss, np.full(k * k, 1 / k**2), (constraints,), "SLSQP", bounds=[(0, 1)] * k**2,
        constraints={"type": "eq", "fun": lambda flat: flat.sum() - 1},
        options={"maxiter": 2000, "ftol": 1e-14},
    )  # fmt: skip
    assert result.sum() == pytest.approx(1)
    assert result.min() >= 0
    assert constraints.loss_and_gradient(result)[0] == pytest.approx(
        naive_loss(result.ravel(), constraints)
    )
    assert constraints.loss_and_gradient(result)[0] == pytest.approx(reference.fun, abs=1e-7)
    assert np.trace(result) == pytest.approx(np.trace(reference.x.reshape(k, k)), abs=2e-3)


def test_gradient_matches_finite_differences() -> None:
    rng = np.random.default_rng(0)
    constraints = _TableConstraints(
        rng.dirichlet(np.ones(3), 3).T, rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))
    )
    table = rng.random((3, 3))
    gradient = constraints.loss_and_gradient(table)[1]
    for cell in np.ndindex(3, 3):
        moved = [table.copy(), table.copy()]
        moved[0][cell] += 1e-6
        moved[1][cell] -= 1e-6
        rise = (
            constraints.loss_and_gradient(moved[0])[0] - constraints.loss_and_gradient(moved[1])[0]
        ) / 2e-6
        assert gradient[cell] == pytest.approx(rise, abs=1e-6)


def test_projection_is_the_nearest_point_of_the_simplex() -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(size=(4, 2, 2))
    result = _project_onto_simplex(table)
    np.testing.assert_allclose(result.sum(axis=(1, 2)), 1)
    assert (result >= 0).all()
    for _ in range(300):
        other = rng.dirichlet(np.ones(4), size=4).reshape(4, 2, 2)
        near, far = (
            ((result - table) ** 2).sum(axis=(1, 2)),
            ((other - table) ** 2).sum(axis=(1, 2)),
        )
        assert (near <= far + 1e-12).all()


def test_estimate_is_accurate_under_label_shift() -> None:
    source = toy_predictions(5000, 3, seed=1)
    target = toy_predictions(5000, 3, class_shares=[0.8, 0.1, 0.1], seed=2)
    result = LEAP().estimate(source, target)
    assert result.value == pytest.approx(target.correct.mean(), abs=0.03)
    assert result.facts["misfit"] < 0.05


def test_not_applicable_to_too_many_classes() -> None:
    rows = toy_predictions(400, 301)
    with pytest.raises(NotApplicable, match="at most 300 classes; got 301"):
        LEAP().estimate(rows, rows)
