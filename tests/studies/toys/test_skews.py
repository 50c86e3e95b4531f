"""Geometric and statistical skew: closed forms, slow optimizers, and the published shape."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.stats import rng_for
from oodometer.studies.toys import SkewRow, SkewsToy, skew_rows
from oodometer.studies.toys.skews import GroupedRows, descend, max_margin_weights

SMALL = SkewsToy(sizes=(30, 300, 30_000), epochs=(10, 100, 1000), repeats=20)


@pytest.fixture(scope="module")
def rows() -> list[SkewRow]:
    return list(skew_rows(SMALL))


def signed_rows(rows: GroupedRows) -> Floats:
    """Return both features of every row, times the label."""
    majority = np.column_stack([rows.majority, np.ones(len(rows.majority))])
    minority = np.column_stack([rows.minority, -np.ones(len(rows.minority))])
    return np.concatenate([majority, minority])


@pytest.mark.parametrize("seed", range(6))
def test_max_margin_weights_match_a_numerical_optimizer(seed: int) -> None:
    toy = SkewsToy(p_sp=0.8, c=[1.0, 30.0][seed % 2])
    data = toy.draw(25, rng_for(seed, "rows"))
    signed = signed_rows(data)
    found = minimize(
        lambda w: w @ w, [5.0, 0.0], method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
        constraints={"type": "ineq", "fun": lambda w: signed @ w - 1},
    )  # fmt: skip
    assert max_margin_weights(data) == pytest.approx(found.x, abs=1e-5)


def test_max_margin_weights_use_one_constraint_if_it_suffices() -> None:
    """b ≥ a + 2/a: the majority alone determines the weights (a, 1) / (a² + 1)."""
    alone = GroupedRows(np.array([1.0]), np.array([3.5]))
    assert max_margin_weights(alone) == (0.5, 0.5)
    assert max_margin_weights(GroupedRows(np.array([1.0]), np.array([]))) == (0.5, 0.5)


def test_descent_matches_a_loop_over_rows() -> None:
    toy = SkewsToy(epochs=(3, 40), rate=0.7)
    for n in (40, 1000):
        data = toy.draw(n, rng_for(0, "rows", n))
        signed, weights, expected = signed_rows(data), np.zeros(2), []
        for epoch in range(1, 41):
            slopes = 1 / (1 + np.exp(signed @ weights))
            weights = weights + 0.7 * (slopes[:, None] * signed).mean(axis=0)
            if epoch in toy.epochs:
                expected.append(weights[1] / weights[0])
        # With 40 rows no bin has more than one row.
        tolerance = 1e-9 if n == 40 else 2e-4
        assert descend([data], toy, None)[0] == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("n", [5, 60])
def test_expected_margin_matches_many_samples(n: int) -> None:
    toy, rng = SkewsToy(), np.random.default_rng(0)
    margins = [toy.draw(n, rng).minority_margin(toy.c) for _ in range(20_000)]
    assert np.mean(margins) == pytest.approx(toy.expected_margin(n), abs=0.006)


def test_margin_is_far_above_gamma_with_few_rows_and_equals_it_with_many(
    rows: list[SkewRow],
) -> None:
    assert rows[0].margin > 2 * SMALL.gamma
    assert rows[-1].margin == pytest.approx(SMALL.gamma, rel=0.02)
    assert rows[0].margin > rows[1].margin > rows[2].margin


def test_max_margin_classifier_uses_the_spurious_feature_with_few_rows(
    rows: list[SkewRow],
) -> None:
    assert rows[0].max_margin > 0.1
    assert 0 <= rows[-1].max_margin < 0.001


def test_descent_keeps_a_spurious_weight_with_many_rows(rows: list[SkewRow]) -> None:
    ratios = list(rows[-1].descent.values())
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] > 0.1 > 100 * rows[-1].max_margin


def test_rows_depend_only_on_the_seed_and_progress_is_reported() -> None:
    tiny = SkewsToy(sizes=(20,), epochs=(150,), repeats=2)
    reported: list[tuple[int, int]] = []
    first = list(skew_rows(tiny, seed=1, progress=lambda a, b, _: reported.append((a, b))))
    assert first == list(skew_rows(tiny, seed=1)) != list(skew_rows(tiny, seed=2))
    assert reported == [(100, 150), (150, 150)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p_sp": 1.0}, "p_sp must be above 0.5 and below 1"),
        ({"gamma": 0.0}, "gamma must be above 0 and below 1.0"),
        ({"rate": -1.0}, "rate must be above 0"),
        ({"repeats": 0}, "repeats must be at least 1"),
        ({"sizes": ()}, "sizes is empty"),
        ({"epochs": (5, 0)}, "epochs must be at least 1; got 0"),
    ],
)
def test_invalid_settings_raise(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SkewsToy(**settings)  # type: ignore[arg-type]
