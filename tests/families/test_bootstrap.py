"""The fast bootstrap of every estimator against drawing rows and estimating again, in a loop."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator, StreamingEstimator
from oodometer.core.stats import rng_for
from oodometer.estimators import Mandoline, available
from oodometer.testing import toy_pair, toy_predictions, with_other_toy_models

LOOPS = 300


def slow(member: Estimator, source: Predictions, target: Predictions) -> np.ndarray:
    rng = rng_for(3, "slow")
    values = []
    for _ in range(LOOPS):
        again = source.rows(rng.integers(source.n, size=source.n))
        other = target.rows(rng.integers(target.n, size=target.n))
        values.append(member.estimate(again, other).value)
    return np.array(values)


@pytest.mark.parametrize("member", [*available(), Mandoline(5, "equal-mass")], ids=lambda m: m.name)
@pytest.mark.parametrize("k", [2, 5])
def test_replicates_spread_as_rows_drawn_again_do(member: Estimator, k: int) -> None:
    assert isinstance(member, StreamingEstimator)
    source = with_other_toy_models(toy_predictions(500, k, seed=5), 2.5)
    target = with_other_toy_models(
        toy_predictions(400, k, sharpness=1.8, seed=6), 1.8
    ).without_labels()
    learned = member.learn(source)
    total = member.summarize(learned, target)
    fast = member.resample(learned, total, rng_for(4, "fast"), 2000)
    loop = slow(member, source, target)
    # The standard deviation of 300 replicates is itself known to about 4 %.
    assert fast.std() == pytest.approx(loop.std(), rel=0.2)
    assert abs(fast.mean() - loop.mean()) < 0.5 * loop.std()
    ends = np.quantile(loop, [0.025, 0.975])
    assert np.allclose(np.quantile(fast, [0.025, 0.975]), ends, atol=0.7 * loop.std())


@pytest.mark.parametrize("member", available(), ids=lambda m: m.name)
def test_intervals_cover_the_estimate_of_the_whole_population(member: Estimator) -> None:
    """Of 60 samples from one population, about 95 % of the intervals hold its own estimate."""
    assert isinstance(member, StreamingEstimator)
    big_source = with_other_toy_models(toy_predictions(40_000, seed=10), 2.5)
    big_target = with_other_toy_models(toy_predictions(40_000, sharpness=1.8, seed=11), 1.8)
    truth = member.estimate(big_source, big_target).value
    rng, hits, trials = rng_for(1, "cover"), 0, 60
    for _ in range(trials):
        source = big_source.rows(rng.integers(big_source.n, size=600))
        target = big_target.rows(rng.integers(big_target.n, size=500))
        learned = member.learn(source)
        total = member.summarize(learned, target)
        low, high = np.quantile(member.resample(learned, total, rng, 200), [0.025, 0.975])
        hits += bool(low <= truth <= high)
    # Under a true rate of 95 %, fewer than 51 of 60 happens once in 2,000 tries.
    assert hits >= 51


class Still:
    """A stream in which every draw gives each row exactly once."""

    def multinomial(self, n: int, shares: np.ndarray, size: int) -> np.ndarray:
        return np.tile(np.rint(n * shares).astype(np.int64), (size, 1))

    def normal(self, mean: float, spread: float, size: int) -> np.ndarray:
        return np.full(size, mean)

    def integers(self, low: int, high: int, size: tuple[int, int], dtype: type) -> np.ndarray:
        """Weights are looked up in a table; here stands a 1."""
        return np.full(size, 30_000, dtype=dtype)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("member", [*available(), Mandoline(5, "equal-mass")], ids=lambda m: m.name)
def test_a_replicate_of_the_rows_themselves_is_the_estimate_itself(
    member: Estimator, k: int
) -> None:
    assert isinstance(member, StreamingEstimator)
    for seed in range(5):
        source, target = toy_pair(seed, k)
        learned = member.learn(source)
        total = member.summarize(learned, target)
        drawn = member.resample(learned, total, Still(), 3)  # type: ignore[arg-type]
        value = member.finish(learned, total).value
        assert drawn == pytest.approx(value, abs=1e-9 if member.is_mergeable else 1e-5)
