"""Typical range: weights, regression and quantiles against literal twins, and the history."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from oodometer.assessment.conformal_interval import MIN_SPREAD, History, ShiftInterval
from oodometer.assessment.typical_range import (
    COLUMNS,
    COVARIATES,
    LEVEL,
    REFERENCE_WEIGHT,
    SIZE_BANDWIDTH,
    Covariates,
    PastErrors,
    ReferenceErrors,
    similarity,
    typical_range,
    weighted_quantile,
)
from oodometer.core.array_types import Floats
from oodometer.core.results import Estimate
from oodometer.core.stats import Z95

NEAR = Covariates(0.01, 0.0, 0.0, 0.0)
FAR = Covariates(0.01, 0.3, 0.2, 0.25)
REGIMES = ("none", "label", "shift", "both")


def synthetic_reference(seed: int = 0, *, too_high: float = 0.0, n: int = 600) -> ReferenceErrors:
    """Return cases whose errors grow with the covariates; `too_high` moves all of them down."""
    rng = np.random.default_rng(seed)
    columns = {
        "standard_error": rng.uniform(0.002, 0.03, n),
        "domain_auc": np.maximum(rng.uniform(-0.2, 0.5, n), 0),
        "remaining_auc": np.maximum(rng.uniform(-0.3, 0.4, n), 0),
        "confidence_distance": np.maximum(rng.uniform(-0.2, 0.5, n), 0),
    }
    size = columns["standard_error"] + 0.1 * columns["domain_auc"]
    truth = rng.uniform(0.4, 0.9, n)
    errors = size * (rng.normal(size=n) - too_high)
    columns |= {"truth": truth, "estimate": truth - errors}
    # Suites and regimes of very different numbers of cases.
    suites = rng.choice(["a", "b", "c"], n, p=[0.7, 0.2, 0.1]).tolist()
    regimes = rng.choice(REGIMES, n, p=[0.1, 0.2, 0.6, 0.1]).tolist()
    return ReferenceErrors(suites, regimes, columns)


REFERENCE = synthetic_reference()


def range_with(history: History | None = None, **options: Any) -> ShiftInterval:
    options = {"reference": REFERENCE, **options}
    return typical_range(0.7, options.pop("covariates", NEAR), history=history, **options)


def width(interval: ShiftInterval) -> float:
    return interval.high - interval.low


def history_of(errors: Floats, **columns: Any) -> History:
    """Return past domains with given values of accuracy minus estimate."""
    truths = np.full(len(errors), 0.6)
    return History(truths - errors, truths, **columns)


# Literal twins ----------------------------------------------------------------------------------


def naive_weights(suites: list[str], regimes: list[str]) -> list[float]:
    weights = []
    for suite, regime in zip(suites, regimes, strict=True):
        of_suite = {r for s, r in zip(suites, regimes, strict=True) if s == suite}
        same = sum(s == suite and r == regime for s, r in zip(suites, regimes, strict=True))
        weights.append(1 / len(set(suites)) / len(of_suite) / same)
    return weights


def naive_features(columns: Any, row: int) -> list[float]:
    error = max(columns["standard_error"][row], 1e-4)
    return [math.log(error), *(math.sqrt(columns[name][row]) for name in COVARIATES[1:])]


def naive_regression(reference: ReferenceErrors) -> LinearRegression:
    columns = reference.columns
    rows = range(len(reference.suites))
    sizes = []
    for row in rows:
        error = abs(columns["truth"][row] - columns["estimate"][row])
        sizes.append(math.log(max(error, 0.5 * max(columns["standard_error"][row], 1e-4))))
    weights = naive_weights(list(reference.suites), list(reference.regimes))
    return LinearRegression().fit(
        [naive_features(columns, row) for row in rows], sizes, sample_weight=weights
    )


def naive_quantile(pairs: list[tuple[float, float]], level: float) -> float:
    total, passed = sum(weight for _, weight in pairs), 0.0
    for value, weight in sorted(pairs):
        passed += weight
        if passed >= level * total * (1 - 1e-12):
            return value
    return max(pairs)[0]


def naive_similarity(first: float, second: float) -> float:
    return math.exp(-0.5 * min(abs(math.log(first / second)) / SIZE_BANDWIDTH, 6) ** 2)


def naive_range(value: float, covariates: Covariates, reference: ReferenceErrors) -> list[float]:
    model = naive_regression(reference)
    columns = reference.columns
    present = {name: [getattr(covariates, name)] for name in COVARIATES}
    size = math.exp(model.predict([naive_features(present, 0)])[0])
    weights = naive_weights(list(reference.suites), list(reference.regimes))
    pairs = []
    for row in range(len(reference.suites)):
        own = math.exp(model.predict([naive_features(columns, row)])[0])
        error = columns["truth"][row] - columns["estimate"][row]
        pairs.append((error / own, weights[row] * naive_similarity(own, size)))
    sampling = 1.959964 * covariates.standard_error
    low = min(size * naive_quantile(pairs, (1 - LEVEL) / 2), -sampling)
    high = max(size * naive_quantile(pairs, (1 + LEVEL) / 2), sampling)
    return [max(value + low, 0.0), min(value + high, 1.0)]


def test_weights_match_a_loop_over_suites_and_regimes() -> None:
    expected = naive_weights(list(REFERENCE.suites), list(REFERENCE.regimes))
    assert REFERENCE.weights == pytest.approx(expected)
    assert REFERENCE.weights.sum() == pytest.approx(1.0)


def test_suites_and_their_regimes_have_the_same_weight() -> None:
    suites, regimes = np.array(REFERENCE.suites), np.array(REFERENCE.regimes)
    for suite in "abc":
        assert REFERENCE.weights[suites == suite].sum() == pytest.approx(1 / 3)
        for regime in REGIMES:
            chosen = (suites == suite) & (regimes == regime)
            assert REFERENCE.weights[chosen].sum() == pytest.approx(1 / 12)


def test_suite_with_fewer_regimes_has_the_same_weight() -> None:
    columns = {name: np.full(5, 0.1) for name in COLUMNS}
    reference = ReferenceErrors(
        ["a", "a", "a", "b", "b"], ["none", "none", "label", "none", "none"], columns
    )
    assert reference.weights == pytest.approx([1 / 8, 1 / 8, 1 / 4, 1 / 4, 1 / 4])


def test_regression_matches_scikit_learn() -> None:
    model = naive_regression(REFERENCE)
    assert REFERENCE.coefficients == pytest.approx([model.intercept_, *model.coef_], abs=1e-8)
    present = {name: [getattr(FAR, name)] for name in COVARIATES}
    expected = math.exp(model.predict([naive_features(present, 0)])[0])
    assert REFERENCE.size(FAR) == pytest.approx(expected)


@given(
    rows=st.lists(st.tuples(st.integers(-5, 5), st.floats(0.01, 3.0)), min_size=1, max_size=30),
    level=st.floats(0.01, 0.99),
)
def test_weighted_quantile_matches_a_loop(rows: list[tuple[int, float]], level: float) -> None:
    values, weights = np.array(rows, dtype=float).T
    pairs = [(float(value), float(weight)) for value, weight in rows]
    # Sums in another order may differ in the last bits, next to a level that is reached exactly.
    allowed = {naive_quantile(pairs, level + change) for change in (-1e-9, 0.0, 1e-9)}
    assert weighted_quantile(values, weights, level) in allowed


def test_weighted_quantile_of_integer_weights_equals_that_of_repeated_values() -> None:
    rng = np.random.default_rng(0)
    values, counts = rng.normal(size=40), rng.integers(1, 5, 40)
    repeated = np.repeat(values, counts)
    for level in (0.05, 0.31, 0.5, 0.95):
        expected = np.quantile(repeated, level, method="inverted_cdf")
        assert weighted_quantile(values, counts.astype(float), level) == expected


@pytest.mark.parametrize("covariates", [NEAR, FAR, Covariates(0.02, 0.1, 0.0, 0.05)])
def test_range_matches_the_literal_twin(covariates: Covariates) -> None:
    result = typical_range(0.7, covariates, reference=REFERENCE)
    assert [result.low, result.high] == pytest.approx(
        naive_range(0.7, covariates, REFERENCE), abs=1e-6
    )
    assert (result.level, result.n_suites, result.n_domains) == (LEVEL, 3, 0)
    assert result.expected_error == pytest.approx(REFERENCE.size(covariates))


def test_similarity_decreases_with_the_ratio_of_sizes_and_never_vanishes() -> None:
    sizes = np.array([0.01, 0.02, 0.04, 1.0])
    expected = [naive_similarity(size, 0.02) for size in sizes]
    assert similarity(sizes, 0.02) == pytest.approx(expected)
    assert similarity(np.array([1e-9, 1e9]), 0.02).min() > 0


# Covariates -------------------------------------------------------------------------------------


def regime_estimate(**changes: Any) -> Estimate:
    facts = {"regime_auc": 0.7, "regime_auc_reweighted": 0.5}
    return replace(Estimate(0.8, "regime", low=0.76, high=0.84, facts=facts), **changes)


def test_covariates_are_reduced_by_what_chance_gives() -> None:
    result = Covariates.of(regime_estimate(), n_source=1000, n_target=500, distance=0.2)
    assert result is not None
    noise = math.sqrt(1 / 1000 + 1 / 500)
    assert result.standard_error == pytest.approx(0.04 / Z95)
    # Two standard errors of an AUROC of 0.5, and the 99 % quantile of the distance.
    assert result.domain_auc == pytest.approx(0.2 - 2 * noise / math.sqrt(12))
    assert result.remaining_auc == 0.0
    assert result.confidence_distance == pytest.approx(0.2 - 1.63 * noise)


@pytest.mark.parametrize("changes", [{"method": "cot"}, {"low": None}, {"high": None}])
def test_other_methods_and_missing_intervals_have_no_covariates(changes: dict[str, Any]) -> None:
    estimate = regime_estimate(**changes)
    assert Covariates.of(estimate, n_source=100, n_target=100, distance=0.1) is None


# The range --------------------------------------------------------------------------------------


def test_range_covers_new_cases_of_the_same_kind_at_the_nominal_level() -> None:
    reference, cases = synthetic_reference(1, n=4000), synthetic_reference(2, n=3000)
    hits = np.zeros(3000)
    for row in range(3000):
        covariates = Covariates(*(float(cases.columns[name][row]) for name in COVARIATES))
        result = typical_range(
            float(cases.columns["estimate"][row]), covariates, reference=reference
        )
        hits[row] = result.low <= cases.columns["truth"][row] <= result.high
    # The standard error of the coverage is about 1.5 points, because suite c has 300 cases.
    assert LEVEL - 0.04 <= cases.weights @ hits <= LEVEL + 0.05


def test_range_grows_with_the_shift_and_is_at_least_the_confidence_interval() -> None:
    near, far = range_with(), range_with(covariates=FAR)
    assert width(far) > 2 * width(near)
    exact = {name: np.full(50, 0.1) for name in COVARIATES} | {
        name: np.full(50, 0.5) for name in ("estimate", "truth")
    }
    perfect = ReferenceErrors(["a"] * 50, ["none"] * 50, exact)
    result = range_with(covariates=Covariates(0.03, 0.1, 0.1, 0.1), reference=perfect)
    ends = [0.7 - Z95 * 0.03, 0.7 + Z95 * 0.03]
    assert [result.low, result.high] == pytest.approx(ends, abs=1e-9)


def test_range_is_within_0_and_1() -> None:
    for value in (0.0, 0.02, 0.98, 1.0):
        result = typical_range(value, FAR, reference=REFERENCE)
        assert 0 <= result.low <= value <= result.high <= 1


def test_estimates_that_were_too_high_extend_the_lower_side() -> None:
    symmetric, high = (synthetic_reference(3, too_high=shift, n=2000) for shift in (0.0, 1.0))
    results = [range_with(covariates=FAR, reference=each) for each in (symmetric, high)]
    below, above = ([0.7 - r.low for r in results], [r.high - 0.7 for r in results])
    assert below[0] == pytest.approx(above[0], rel=0.25)
    assert below[1] > 2 * above[1]
    shares = [r.too_high_share for r in results]
    assert shares[0] == pytest.approx(0.5, abs=0.06)
    assert shares[1] is not None
    assert shares[1] > 0.75


def test_cases_of_a_similar_size_decide_the_shape_of_the_range() -> None:
    """Estimates of large expected error are too high, those of small expected error too low."""
    rng = np.random.default_rng(0)
    n = 1000
    auc = np.repeat([0.0, 0.4], n // 2)
    size = np.where(auc > 0, 0.1, 0.01)
    errors = size * np.where(auc > 0, -1, 1) * rng.uniform(0.5, 1.5, n)
    columns = {
        "standard_error": np.full(n, 0.005),
        "domain_auc": auc,
        "remaining_auc": np.zeros(n),
        "confidence_distance": np.zeros(n),
        "truth": np.full(n, 0.6),
        "estimate": 0.6 - errors,
    }
    reference = ReferenceErrors(["a"] * n, ["none"] * n, columns)
    small, large = (
        range_with(covariates=Covariates(0.005, each, 0.0, 0.0), reference=reference)
        for each in (0.0, 0.4)
    )
    assert (small.too_high_share, large.too_high_share) == pytest.approx((0.0, 1.0), abs=0.01)
    assert small.high - 0.7 > 0.7 - small.low
    assert 0.7 - large.low > large.high - 0.7


# History ----------------------------------------------------------------------------------------


def alternating(size: float, n: int) -> Floats:
    return size * np.where(np.arange(n) % 2 == 0, 1.0, -1.0)


def test_history_of_small_errors_narrows_the_range_and_of_large_errors_widens_it() -> None:
    plain = range_with(covariates=FAR)
    small = range_with(history_of(alternating(0.002, 40)), covariates=FAR)
    large = range_with(history_of(alternating(0.25, 40)), covariates=FAR)
    assert width(small) < 0.8 * width(plain) < width(plain) < 0.8 * width(large)
    assert (small.n_domains, small.correction) == (40, 0.0)


def test_more_past_domains_count_more() -> None:
    widths = [
        width(
            range_with(
                history_of(alternating(2e-4, n)), covariates=replace(FAR, standard_error=1e-4)
            )
        )
        for n in (6, 20, 200)
    ]
    assert widths[0] > widths[1] > widths[2]


@pytest.mark.parametrize("n", [6, 20])
def test_reference_cases_count_as_much_as_a_number_of_past_domains(n: int) -> None:
    """Past domains without error leave the tails to the reference cases, which weigh less."""
    covariates = Covariates(1e-4, 0.3, 0.2, 0.25)
    size = REFERENCE.size(covariates)
    history = history_of(alternating(1e-9, n), expected_errors=np.full(n, size))
    result = range_with(history, covariates=covariates)
    ratios, weights = REFERENCE.errors / REFERENCE.sizes, REFERENCE.weights_near(size)
    pairs = list(zip(ratios.tolist(), weights.tolist(), strict=True))
    level = (1 - LEVEL) / 2 * (n + REFERENCE_WEIGHT) / REFERENCE_WEIGHT
    ends = [0.7 + size * naive_quantile(pairs, each) for each in (level, 1 - level)]
    assert [result.low, result.high] == pytest.approx(ends, abs=1e-9)


@pytest.mark.parametrize("side", [1, -1])
def test_consistent_bias_corrects_the_estimate(side: int) -> None:
    errors = side * 0.08 + alternating(0.01, 12)
    result = range_with(history_of(errors))
    assert result.correction == pytest.approx(side * 0.08)
    assert result.bias == pytest.approx(-side * 0.08)
    plain = range_with()
    middle = (result.low + result.high) / 2
    assert abs(middle - (plain.low + plain.high) / 2 - side * 0.08) < 0.03


def test_inconsistent_bias_does_not_correct_the_estimate() -> None:
    errors = 0.01 + alternating(0.1, 12)
    result = range_with(history_of(errors))
    assert result.correction == 0.0
    assert result.bias == pytest.approx(-0.01)


@pytest.mark.parametrize(("deviations", "is_corrected"), [(1.9, False), (2.1, True)])
def test_bias_is_consistent_from_two_standard_errors(deviations: float, is_corrected: bool) -> None:
    spread = alternating(0.05, 10)
    error = float(spread.std(ddof=1)) / math.sqrt(10)
    past = PastErrors.of(history_of(spread + deviations * error), 0.05, None)
    assert (past.bias != 0) == is_corrected
    assert past.mean_error == pytest.approx(-deviations * error)


def test_errors_left_by_a_correction_are_widened_by_its_uncertainty() -> None:
    """The mean of n errors removes 1/n of their variance, and is itself uncertain by 1/n."""
    errors = 0.08 + alternating(0.01, 10)
    past = PastErrors.of(history_of(errors), 0.04, None)
    assert past.ratios == pytest.approx(alternating(0.01, 10) / 0.04 * math.sqrt(11 / 9))
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(20_000, 11))
    left = draws[:, :10] - draws[:, :10].mean(axis=1, keepdims=True)
    new = draws[:, 10] - draws[:, :10].mean(axis=1)
    assert (left * math.sqrt(11 / 9)).std() == pytest.approx(new.std(), rel=0.02)


def test_expected_errors_scale_past_errors_and_decide_their_weight() -> None:
    sizes = np.array([0.01, 0.02, 0.04, 0.08, 0.04, 0.02])
    errors = alternating(1.0, 6) * sizes
    past = PastErrors.of(history_of(errors, expected_errors=sizes), 0.04, None)
    assert past.ratios == pytest.approx(alternating(1.0, 6))
    assert past.weights == pytest.approx([naive_similarity(size, 0.04) for size in sizes])
    # Spreads are not used if the expected errors are known.
    both = history_of(errors, spreads=np.full(6, 0.3), expected_errors=sizes)
    assert PastErrors.of(both, 0.04, 0.1).ratios == pytest.approx(past.ratios)
    assert not range_with(both, spread=0.1).scaled_by_spread


def test_past_domains_of_another_expected_error_hardly_count() -> None:
    size = REFERENCE.size(FAR)
    errors = alternating(1e-4, 40)
    similar, other = (
        range_with(history_of(errors, expected_errors=np.full(40, each)), covariates=FAR)
        for each in (size, size / 20)
    )
    plain = range_with(covariates=FAR)
    assert width(similar) < 0.8 * width(plain)
    assert width(other) == pytest.approx(width(plain), rel=0.05)


def test_spreads_scale_past_errors_by_their_root() -> None:
    spreads = np.array([0.01, 0.1, 0.1, 0.4, 0.4])
    errors = alternating(0.02, 5)
    past = PastErrors.of(history_of(errors, spreads=spreads), 0.05, 0.1)
    sizes = [0.05 * math.sqrt(max(s, MIN_SPREAD) / 0.1) for s in spreads]
    assert past.ratios == pytest.approx([e / s for e, s in zip(errors, sizes, strict=True)])
    assert range_with(history_of(errors, spreads=spreads), spread=0.1).scaled_by_spread
    without = PastErrors.of(history_of(errors), 0.05, 0.1)
    assert without.ratios == pytest.approx(errors / 0.05)
    assert without.weights == pytest.approx(np.ones(5))


def test_batches_of_the_source_narrow_the_range_and_never_correct_it() -> None:
    size = REFERENCE.size(FAR)
    errors = np.full(20, 0.2 * size)
    batches = history_of(errors, expected_errors=np.full(20, size))
    result = range_with(source_batches=batches, covariates=FAR)
    assert (result.correction, result.bias, result.n_domains) == (0.0, 0.0, 0)
    assert result.n_source_batches == 20
    assert width(result) < 0.8 * width(range_with(covariates=FAR))


# The table of the package -----------------------------------------------------------------------


def test_table_of_the_package_is_complete() -> None:
    reference = ReferenceErrors.load()
    assert reference.n_suites >= 12
    assert len(reference.suites) >= 3000
    assert set(reference.columns) == set(COLUMNS)
    assert set(reference.regimes) <= set(REGIMES)
    for name, values in reference.columns.items():
        assert len(values) == len(reference.suites) == len(reference.regimes)
        assert np.isfinite(values).all(), name
        assert (values >= 0).all(), name
        assert (values <= 1).all(), name
    assert np.isfinite(reference.coefficients).all()


def test_errors_of_the_package_grow_with_the_shift() -> None:
    reference = ReferenceErrors.load()
    sizes = [reference.size(each) for each in (NEAR, FAR)]
    assert 0 < sizes[0] < sizes[1] < 0.5
    assert width(typical_range(0.7, NEAR)) < width(typical_range(0.7, FAR))


def test_default_reference_is_the_table_of_the_package() -> None:
    explicit = typical_range(0.7, FAR, reference=ReferenceErrors.load())
    assert typical_range(0.7, FAR) == explicit
