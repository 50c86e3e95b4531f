"""Statistics against scipy, scikit-learn, numpy and loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as peer

from oodometer.core import stats
from oodometer.core.errors import InputError

FEW = st.sampled_from([0.0, 0.1, 0.25, 0.25000001, 0.5, 0.9, 1.0])

# Streams --------------------------------------------------------------------------------------


def test_stream_depends_on_its_path_only() -> None:
    names = ["atc-mc", "atc-ne", "doc", "im"]
    forwards = {name: stats.rng_for(7, "bootstrap", name).random(5).tolist() for name in names}
    backwards = {}
    for name in reversed(names):
        _ = stats.rng_for(7, "something else", name).random(1000)
        backwards[name] = stats.rng_for(7, "bootstrap", name).random(5).tolist()
    assert forwards == backwards


def test_different_seeds_and_paths_give_different_streams() -> None:
    paths: list[tuple[Any, ...]] = [
        (0,), (1,), (0, "a"), (0, "b"), (0, "a", "b"), (0, "b", "a"), (0, "ab"), (0, "a", 1),
        (1, "a"), (0, 1), (10,), (0, "segment", "x"), (0, "segment", "y"),
    ]  # fmt: skip
    first = {stats.rng_for(*path).random() for path in paths}
    assert len(first) == len(paths)


def test_stream_has_fixed_values() -> None:
    # Results for a seed are guaranteed; this number must not change.
    drawn = stats.rng_for(0, "bootstrap", "atc-mc").integers(10**6, size=3)
    assert drawn.tolist() == [169194, 268182, 939960]


# Counts ---------------------------------------------------------------------------------------


def naive_counts(edges: list[float], values: list[float]) -> list[int]:
    ends = [-math.inf, *edges, math.inf]
    return [
        sum(1 for value in values if low <= value < high) for low, high in itertools.pairwise(ends)
    ]


@given(edges=st.lists(FEW, max_size=6), values=st.lists(FEW | st.floats(-1, 2), max_size=30))
@settings(max_examples=150)
def test_histogram_matches_naive_counts(edges: list[float], values: list[float]) -> None:
    edges = sorted(edges)
    found = stats.histogram(np.array(edges), np.array(values))
    assert found.tolist() == naive_counts(edges, values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_histogram_of_many_values_sums_to_n(dtype: npt.DTypeLike) -> None:
    rng = np.random.default_rng(0)
    values = rng.random(5000).astype(dtype)
    edges = np.sort(rng.choice(values, size=40, replace=False))
    found = stats.histogram(edges, values)
    assert found.tolist() == naive_counts(edges.tolist(), values.tolist())
    assert found.sum() == 5000
    halves = stats.histogram(edges, values[:1234]) + stats.histogram(edges, values[1234:])
    np.testing.assert_array_equal(halves, found)


def test_float32_values_are_compared_exactly_with_float64_edges() -> None:
    edge = np.array([0.1])
    below, above = np.float32(0.1), np.nextafter(np.float32(0.1), np.float32(0))
    values = np.array([below, above], dtype=np.float32)
    assert stats.histogram(edge, values).tolist() == naive_counts([0.1], values.tolist())


# Intervals ------------------------------------------------------------------------------------


@given(n=st.integers(1, 5000), share=st.floats(0, 1))
@settings(max_examples=100)
def test_wilson_interval_matches_scipy(n: int, share: float) -> None:
    successes = round(share * n)
    expected = peer.binomtest(successes, n).proportion_ci(0.95, method="wilson")
    low, high = stats.wilson_interval(successes, n)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0.0 <= low <= successes / n + 1e-12
    assert successes / n - 1e-12 <= high <= 1.0


def test_z95_is_the_normal_quantile() -> None:
    assert pytest.approx(peer.norm.ppf(0.975), abs=1e-15) == stats.Z95


# Kolmogorov and Smirnov -----------------------------------------------------------------------


@given(first=st.lists(FEW, min_size=1, max_size=25), second=st.lists(FEW, min_size=1, max_size=25))
@settings(max_examples=100)
def test_ks_distance_is_exact_with_ties(first: list[float], second: list[float]) -> None:
    found = stats.ks_distance(np.array(first), np.array(second))
    literal = max(
        abs(
            sum(1 for x in first if x <= point) / len(first)
            - sum(1 for x in second if x <= point) / len(second)
        )
        for point in first + second
    )
    assert found == pytest.approx(literal, abs=1e-12)


@pytest.mark.parametrize(("n", "m"), [(5, 7), (30, 500), (2000, 2000), (20_000, 20_000)])
def test_ks_distance_matches_scipy(n: int, m: int) -> None:
    rng = np.random.default_rng([n, m])
    first, second = rng.beta(5, 2, size=n), rng.beta(4, 2, size=m)
    expected = peer.ks_2samp(first, second, method="asymp").statistic
    assert stats.ks_distance(first, second) == pytest.approx(expected, abs=1e-12)
    assert stats.ks_distance(second, first) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "m"), [(60_000, 60_000), (20_001, 60_000), (60_000, 50)])
@pytest.mark.parametrize("decimals", [2, 3, 16])
def test_ks_distance_of_many_rows_is_accurate(n: int, m: int, seed: int, decimals: int) -> None:
    rng = np.random.default_rng([n, m, seed])
    first = rng.beta(5, 2, size=n).round(decimals)
    second = rng.beta(5 - 0.2 * seed, 2, size=m).round(decimals)
    expected = peer.ks_2samp(first, second, method="asymp").statistic
    assert stats.ks_distance(first, second) == pytest.approx(expected, abs=1e-4)


def test_ks_distance_is_0_for_equal_and_1_for_disjoint_samples() -> None:
    values = np.random.default_rng(0).random(50_000)
    few = values[:20_000]
    assert stats.ks_distance(values, values[::-1]) == 0.0
    assert stats.ks_distance(few, few + 2.0) == 1.0
    assert stats.ks_distance(few.astype(np.float32), few + 2.0) == 1.0
    assert stats.ks_distance(values, values + 2.0) == pytest.approx(1.0, abs=1e-4)


# Resampling -----------------------------------------------------------------------------------


def test_bootstrap_counts_keep_total_shape_and_empty_cells() -> None:
    counts = np.array([[5, 0], [90, 200], [0, 705]])
    drawn = stats.bootstrap_counts(np.random.default_rng(0), counts, 4000)
    assert drawn.shape == (4000, 3, 2)
    np.testing.assert_array_equal(drawn.sum(axis=(1, 2)), 1000)
    np.testing.assert_array_equal(drawn[:, counts == 0], 0)
    share = counts / 1000
    error = np.sqrt(share * (1 - share) * 1000 / 4000)
    assert (np.abs(drawn.mean(axis=0) - counts) <= 5 * error).all()
    np.testing.assert_allclose(drawn.var(axis=0), 1000 * share * (1 - share), rtol=0.15)


def test_bootstrap_counts_of_one_filled_cell_are_constant() -> None:
    drawn = stats.bootstrap_counts(np.random.default_rng(0), np.array([0, 7, 0]), 20)
    np.testing.assert_array_equal(drawn, [[0, 7, 0]] * 20)


def test_bootstrap_counts_support_many_cells() -> None:
    counts = np.random.default_rng(1).integers(0, 3, size=5000)
    drawn = stats.bootstrap_counts(np.random.default_rng(0), counts, 3)
    np.testing.assert_array_equal(drawn.sum(axis=1), counts.sum())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_moments_add_up_over_batches(dtype: npt.DTypeLike) -> None:
    values = np.random.default_rng(0).random(1000).astype(dtype)
    n, total, squares = stats.moments(values)
    assert n == 1000
    assert total == pytest.approx(math.fsum(values.tolist()), rel=1e-12)
    assert squares == pytest.approx(math.fsum(x * x for x in values.tolist()), rel=1e-12)
    parts = stats.moments(values[:300]) + stats.moments(values[300:])
    np.testing.assert_allclose(parts, stats.moments(values), rtol=1e-12)


def test_bootstrap_means_have_mean_and_standard_error() -> None:
    values = np.random.default_rng(0).beta(5, 2, size=400)
    drawn = stats.bootstrap_means(np.random.default_rng(1), stats.moments(values), 20_000)
    error = values.std() / math.sqrt(400)
    assert drawn.shape == (20_000,)
    assert drawn.mean() == pytest.approx(values.mean(), abs=5 * error / math.sqrt(20_000))
    assert drawn.std() == pytest.approx(error, rel=0.03)
    rng = np.random.default_rng(2)
    literal = [values[rng.integers(400, size=400)].mean() for _ in range(2000)]
    assert drawn.std() == pytest.approx(np.std(literal), rel=0.1)


def test_bootstrap_means_of_a_constant_are_constant() -> None:
    drawn = stats.bootstrap_means(np.random.default_rng(0), stats.moments(np.full(77, 0.3)), 10)
    np.testing.assert_allclose(drawn, 0.3, atol=1e-8)


def test_paired_means_match_resampled_rows() -> None:
    values = np.random.default_rng(0).normal(size=(2, 40)) + np.array([[0.0], [3.0]])
    drawn = stats.paired_bootstrap_means(np.random.default_rng(1), values, 4000)
    assert drawn.shape == (4000, 2)
    assert drawn.mean(axis=0) == pytest.approx(values.mean(axis=1), abs=0.01)
    assert drawn.std(axis=0) == pytest.approx(values.std(axis=1) / np.sqrt(40), rel=0.05)


def test_paired_means_share_draws_for_any_block_size() -> None:
    """Draw 300,000 columns 13 at a time; a row and its double stay in step."""
    row = np.random.default_rng(0).random(300_000)
    drawn = stats.paired_bootstrap_means(np.random.default_rng(1), np.stack([row, 2 * row]), 15)
    assert drawn.shape == (15, 2)
    assert drawn[:, 1] == pytest.approx(2 * drawn[:, 0])
    assert len(np.unique(drawn[:, 0])) == 15


def test_win_probability_counts_ties_as_half() -> None:
    assert (
        stats.win_probability(np.array([1.0, 2.0, 3.0, 0.0]), np.array([1.0, 1.0, 4.0, 0.0])) == 0.5
    )


@given(st.lists(st.floats(0.001, 100), min_size=1, max_size=30), st.floats(0.1, 10))
@settings(max_examples=50)
def test_effective_sample_fraction_matches_kish_and_is_scale_free(
    weights: list[float], unit: float
) -> None:
    found = stats.effective_sample_fraction(np.array(weights))
    literal = sum(weights) ** 2 / (len(weights) * sum(weight**2 for weight in weights))
    assert found == pytest.approx(literal, rel=1e-9)
    assert 1 / len(weights) - 1e-9 <= found <= 1 + 1e-9
    assert stats.effective_sample_fraction(np.array(weights) * unit) == pytest.approx(
        found, rel=1e-9
    )


# Robust lines ---------------------------------------------------------------------------------


def naive_line(x: list[float], y: list[float]) -> tuple[float, float]:
    medians = []
    for i in range(len(x)):
        slopes = [(y[j] - y[i]) / (x[j] - x[i]) for j in range(len(x)) if x[j] != x[i]]
        medians.append(np.median(slopes))
    slope = float(np.median(medians))
    return slope, float(np.median([b - slope * a for a, b in zip(x, y, strict=True)]))


points = st.lists(
    st.tuples(st.integers(-20, 20).map(lambda i: i / 10), st.floats(-5, 5)), min_size=3, max_size=15
).filter(lambda rows: len({x for x, _ in rows}) >= 3)


@given(points)
@settings(max_examples=80)
def test_repeated_median_line_matches_naive_version_with_ties(
    rows: list[tuple[float, float]],
) -> None:
    x, y = [a for a, _ in rows], [b for _, b in rows]
    found = stats.repeated_median_line(x, y)
    assert (found.slope, found.intercept) == pytest.approx(naive_line(x, y), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("n", [3, 4, 17, 100])
def test_repeated_median_line_matches_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.random(n)
    y = 0.8 * x + 0.1 + rng.standard_t(2, size=n) * 0.1
    found, expected = stats.repeated_median_line(x, y), peer.siegelslopes(y, x)
    assert found.slope == pytest.approx(expected.slope, rel=1e-9)
    assert found.intercept == pytest.approx(expected.intercept, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_repeated_median_line_resists_outliers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.permutation(np.linspace(0, 1, 21))
    y = 2.0 * x - 0.5
    y[:9] = rng.uniform(-1000, 1000, size=9)
    found = stats.repeated_median_line(x, y)
    assert (found.slope, found.intercept) == pytest.approx((2.0, -0.5), abs=1e-9)
    assert found(0.5) == pytest.approx(0.5, abs=1e-9)
    assert naive_line(x.tolist(), y.tolist()) == pytest.approx((2.0, -0.5), abs=1e-9)


def test_line_fit_does_not_modify_its_input() -> None:
    x, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 4.0])
    stats.repeated_median_line(x, y)
    assert (x.tolist(), y.tolist()) == ([0.0, 1.0, 2.0], [1.0, 2.0, 4.0])


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2, 3], [1, 2], "A line needs as many x as y; got (3,) and (2,)."),
        ([[1, 2, 3]], [[1, 2, 3]], "A line needs as many x as y; got (1, 3) and (1, 3)."),
        ([1, 2, np.nan], [1, 2, 3], "A line needs finite points; some are NaN or infinite."),
        ([1, 2, 3], [1, np.inf, 3], "A line needs finite points; some are NaN or infinite."),
        ([1, 2], [1, 2], "A line needs three distinct points; got 2. Add more domains or models."),
        ([], [], "A line needs three distinct points; got 0. Add more domains or models."),
        ([1, 1, 2, 2], [1, 2, 3, 4], "A line needs three distinct points; got 2. Add more domains or models."),
    ],
)  # fmt: skip
def test_invalid_line_points_raise(x: Any, y: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        stats.repeated_median_line(x, y)
    assert str(caught.value) == message


def test_least_squares_line_matches_numpy() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=30), rng.normal(size=30)
    slope, intercept = np.polyfit(x, y, 1)
    line = stats.least_squares_line(x, y)
    assert (line.slope, line.intercept) == pytest.approx((slope, intercept))


def test_auroc_matches_scikit_learn() -> None:
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(1)
    scores, positive = rng.integers(0, 5, 60) / 5, rng.random(60) < 0.4
    assert stats.auroc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))
    assert stats.auroc(scores, np.ones(60, dtype=bool)) is None


def test_weighted_auroc_matches_a_loop_over_pairs() -> None:
    rng = np.random.default_rng(2)
    scores, positive = rng.integers(0, 5, 40) / 5, rng.random(40) < 0.4
    weights = rng.integers(0, 4, 40).astype(float)
    won = total = 0.0
    for i in np.flatnonzero(positive):
        for j in np.flatnonzero(~positive):
            pair = weights[i] * weights[j]
            total += pair
            won += pair * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
    area = stats.auroc(scores, positive, weights)
    assert area == pytest.approx(won / total)
    assert abs(won / total - roc(scores, positive)) > 0.005
    assert stats.auroc(scores, positive, np.full(40, 2.5)) == pytest.approx(roc(scores, positive))


def roc(scores: Any, positive: Any) -> float:
    area = stats.auroc(scores, positive)
    assert area is not None
    return area


def test_weighted_auroc_needs_weight_on_both_sides() -> None:
    scores, positive = np.array([0.1, 0.4, 0.6]), np.array([True, False, False])
    assert stats.auroc(scores, positive, np.array([0.0, 1.0, 1.0])) is None
    assert stats.auroc(scores, positive, np.array([1.0, 0.0, 0.0])) is None
    assert stats.auroc(scores, positive, np.array([1.0, 0.0, 1.0])) == 0.0


def test_bootstrap_weights_are_poisson_distributed() -> None:
    drawn = stats.poisson_bootstrap_weights(np.random.default_rng(0), (1000, 1000))
    found = np.bincount(drawn.ravel(), minlength=9)[:9] / drawn.size
    # Three standard errors of a million draws.
    chances = peer.poisson.pmf(np.arange(9), 1.0)
    assert (np.abs(found - chances) < 3 * np.sqrt(chances / drawn.size) + 2**-16).all()
    every = stats._poisson_quantile_table().astype(float)
    assert every.mean() == pytest.approx(1.0, abs=1e-5)
    assert every.var() == pytest.approx(1.0, abs=1e-4)


def test_normal_approximation_matches_the_drawn_replicates() -> None:
    rng, asked = np.random.default_rng(0), []

    def draw(count: int) -> Any:
        asked.append(count)
        return rng.normal(3.0, 0.5, size=count)

    found = stats.bootstrap_normal_approx(draw, rng, 20_000, 400)
    assert asked == [400]
    assert (found.mean(), found.std()) == (
        pytest.approx(3.0, abs=0.1),
        pytest.approx(0.5, rel=0.15),
    )
    assert len(stats.bootstrap_normal_approx(draw, rng, 400, 400)) == asked[-1] == 400
