"""Fast bootstrap of every estimator against a naive bootstrap of rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator, StreamingEstimator
from oodometer.core.stats import rng_for
from oodometer.estimators import Mandoline, available
from oodometer.testing import toy_pair, toy_predictions, with_other_toy_models
from tests.support.cases import assert_conformance

MEMBERS = [*available(), Mandoline(5, "equal-mass")]
N_REPLICATES = 300


def naive_replicates(member: Estimator, source: Predictions, target: Predictions) -> np.ndarray:
    rng = rng_for(3, "slow")
    values = []
    for _ in range(N_REPLICATES):
        drawn_source = source.rows(rng.integers(source.n, size=source.n))
        drawn_target = target.rows(rng.integers(target.n, size=target.n))
        values.append(member.estimate(drawn_source, drawn_target).value)
    return np.array(values)


@pytest.mark.parametrize("member", MEMBERS, ids=lambda m: m.name)
@pytest.mark.parametrize("k", [2, 5])
def test_replicates_match_a_bootstrap_of_rows(member: Estimator, k: int) -> None:
    assert isinstance(member, StreamingEstimator)
    source = with_other_toy_models(toy_predictions(500, k, seed=5), 2.5)
    target = with_other_toy_models(
        toy_predictions(400, k, sharpness=1.8, seed=6), 1.8
    ).without_labels()
    learned = member.learn(source)
    total = member.summarize(learned, target)
    fast = member.resample(learned, total, rng_for(4, "fast"), 2000)
    naive = naive_replicates(member, source, target)
    # The standard error of a standard deviation from 300 replicates is about 4 %.
    assert fast.std() == pytest.approx(naive.std(), rel=0.2)
    if member.name.startswith("cot") and member.name != "cott":
        # Resampling the rows adds the bias of random class frequencies once more.
        fast = fast + member.bias(learned, total, fast)
    assert abs(fast.mean() - naive.mean()) < 0.5 * naive.std()
    ends = np.quantile(naive, [0.025, 0.975])
    assert np.allclose(np.quantile(fast, [0.025, 0.975]), ends, atol=0.7 * naive.std())


@cache
def population() -> tuple[Predictions, Predictions]:
    """Return a large source and target."""
    source = with_other_toy_models(toy_predictions(40_000, seed=10), 2.5)
    target = with_other_toy_models(toy_predictions(40_000, sharpness=1.8, seed=11), 1.8)
    return source, target


@pytest.mark.parametrize("member", available(), ids=lambda m: m.name)
def test_intervals_cover_the_estimate_of_the_population(member: Estimator) -> None:
    """About 95 % of the intervals of 60 samples contain the estimate of the population."""
    assert isinstance(member, StreamingEstimator)
    population_source, population_target = population()
    truth = member.estimate(population_source, population_target).value
    rng, hits, trials = rng_for(1, "cover"), 0, 60
    for _ in range(trials):
        source = population_source.rows(rng.integers(population_source.n, size=600))
        target = population_target.rows(rng.integers(population_target.n, size=500))
        learned = member.learn(source)
        total = member.summarize(learned, target)
        low, high = np.quantile(member.resample(learned, total, rng, 200), [0.025, 0.975])
        hits += bool(low <= truth <= high)
    # With a true rate of 95 %, fewer than 51 of 60 has a probability of 1 in 2,000.
    assert hits >= 51


class IdentityGenerator:
    """Random generator whose draws select each row exactly once."""

    def multinomial(self, n: int, shares: np.ndarray, size: int) -> np.ndarray:
        return np.tile(np.rint(n * shares).astype(np.int64), (size, 1))

    def normal(self, mean: float, spread: float, size: int) -> np.ndarray:
        return np.full(size, mean)

    def integers(self, low: int, high: int, size: tuple[int, int], dtype: type) -> np.ndarray:
        """Return the index of weight 1 in the table of bootstrap weights."""
        return np.full(size, 30_000, dtype=dtype)


def identity_replicates_are_exact(member: Estimator, k: int) -> None:
    """Check that replicates of unchanged rows equal the estimate."""
    assert isinstance(member, StreamingEstimator)
    for seed in range(5):
        source, target = toy_pair(seed, k)
        learned = member.learn(source)
        total = member.summarize(learned, target)
        drawn = member.resample(learned, total, IdentityGenerator(), 3)  # type: ignore[arg-type]
        value = member.finish(learned, total).value
        assert drawn == pytest.approx(value, abs=1e-9 if member.is_mergeable else 1e-5)


def test_replicate_of_unchanged_rows_equals_the_estimate() -> None:
    assert_conformance([identity_replicates_are_exact], MEMBERS, [2, 5])
