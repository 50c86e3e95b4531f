"""LEAP against a least-squares solver of another library."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.estimators.leap import LEAP, _project_onto_simplex, _TableConstraints
from oodometer.testing import toy_predictions


def literal_misfit(flat: Floats, known: _TableConstraints) -> float:
    k = len(known.predicted_rates)
    table, total = flat.reshape(k, k), 0.0
    for y in range(k):
        column = sum(table[i, y] for i in range(k))
        total += (column - known.shares[y]) ** 2
        for i in range(k):
            total += (table[i, y] - known.predicted_given_true[i, y] * column) ** 2
    for i in range(k):
        total += (sum(table[i, y] for y in range(k)) - known.predicted_rates[i]) ** 2
    return total / 2


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_table_is_the_best_that_another_solver_finds(k: int) -> None:
    rng = np.random.default_rng(k)
    given = rng.dirichlet(np.ones(k), size=k).T
    known = _TableConstraints(given, rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k)))
    found = known.solve(given * known.shares, 5000)
    peer = minimize(
        literal_misfit, np.full(k * k, 1 / k**2), (known,), "SLSQP", bounds=[(0, 1)] * k**2,
        constraints={"type": "eq", "fun": lambda flat: flat.sum() - 1},
        options={"maxiter": 2000, "ftol": 1e-14},
    )  # fmt: skip
    assert found.sum() == pytest.approx(1)
    assert found.min() >= 0
    assert known.misfit_and_slope(found)[0] == pytest.approx(literal_misfit(found.ravel(), known))
    assert known.misfit_and_slope(found)[0] == pytest.approx(peer.fun, abs=1e-7)
    assert np.trace(found) == pytest.approx(np.trace(peer.x.reshape(k, k)), abs=2e-3)


def test_the_slope_is_that_of_small_steps() -> None:
    rng = np.random.default_rng(0)
    known = _TableConstraints(
        rng.dirichlet(np.ones(3), 3).T, rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))
    )
    table = rng.random((3, 3))
    slope = known.misfit_and_slope(table)[1]
    for cell in np.ndindex(3, 3):
        moved = [table.copy(), table.copy()]
        moved[0][cell] += 1e-6
        moved[1][cell] -= 1e-6
        rise = (known.misfit_and_slope(moved[0])[0] - known.misfit_and_slope(moved[1])[0]) / 2e-6
        assert slope[cell] == pytest.approx(rise, abs=1e-6)


def test_onto_the_simplex_is_the_nearest_point() -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(size=(4, 2, 2))
    found = _project_onto_simplex(table)
    np.testing.assert_allclose(found.sum(axis=(1, 2)), 1)
    assert (found >= 0).all()
    for _ in range(300):
        other = rng.dirichlet(np.ones(4), size=4).reshape(4, 2, 2)
        near, far = ((found - table) ** 2).sum(axis=(1, 2)), ((other - table) ** 2).sum(axis=(1, 2))
        assert (near <= far + 1e-12).all()


def test_label_shift_is_followed() -> None:
    source = toy_predictions(5000, 3, seed=1)
    target = toy_predictions(5000, 3, class_shares=[0.8, 0.1, 0.1], seed=2)
    found = LEAP().estimate(source, target)
    assert found.value == pytest.approx(target.correct.mean(), abs=0.03)
    assert found.facts["misfit"] < 0.05


def test_too_many_classes_are_refused_with_a_way_out() -> None:
    rows = toy_predictions(400, 301)
    with pytest.raises(
        NotApplicable, match=r"300 classes are the most\. mlls says nearly the same"
    ):
        LEAP().estimate(rows, rows)
