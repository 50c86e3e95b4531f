"""Softmax kernels against loops over Python floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core import softmax_kernels
from oodometer.core.array_types import Array, Ints, ScoreType
from oodometer.core.softmax_kernels import MIN_PROBABILITY
from tests.support.cases import check_cases

# Two classes, few, many: every code path; MIN_ROWWISE_CLASSES is between 10 and 40.
CLASSES = [2, 3, 10, 40, 200]
FORMS: list[ScoreType] = ["probs", "logits"]
TEMPERATURES = [0.5, 1.0, 3.0]
DTYPES = [np.float16, np.float32, np.float64]


def made_scores(form: ScoreType, n: int, k: int, dtype: npt.DTypeLike, seed: int = 0) -> Array:
    """Return uncertain rows, certain rows, and probabilities of exactly 0."""
    rng = np.random.default_rng([seed, n, k])
    logits = rng.normal(size=(n, k)) * rng.choice([0.1, 1.0, 5.0], size=(n, 1))
    if form == "logits":
        return np.asarray(logits, dtype=dtype)
    probs = np.exp(logits)
    probs[rng.random((n, k)) < 0.1] = 0.0
    probs[np.arange(n), rng.integers(k, size=n)] += 0.5
    return np.asarray((probs / probs.sum(axis=1, keepdims=True)).astype(dtype))


def assert_near(found: npt.ArrayLike, expected: npt.ArrayLike, dtype: npt.DTypeLike) -> None:
    """Assert equality up to rounding in float64, or in float32."""
    rtol, atol = (1e-11, 1e-13) if np.dtype(dtype) == np.float64 else (2e-5, 2e-6)
    np.testing.assert_allclose(
        np.asarray(found, dtype=np.float64), np.asarray(expected), rtol=rtol, atol=atol
    )


def naive_softmax(row: Sequence[float], form: ScoreType, temperature: float) -> list[float]:
    logits = [math.log(max(p, MIN_PROBABILITY)) for p in row] if form == "probs" else list(row)
    largest = max(logits)
    weights = [math.exp((z - largest) / temperature) for z in logits]
    return [weight / math.fsum(weights) for weight in weights]


def naive_probs(row: Sequence[float], form: ScoreType, temperature: float) -> list[float]:
    """Return probabilities, unchanged if there is nothing to compute."""
    untouched = form == "probs" and temperature == 1.0
    return list(row) if untouched else naive_softmax(row, form, temperature)


def naive_top(row: Sequence[float], form: ScoreType, temperature: float) -> tuple[float, int]:
    best = 0
    for j in range(1, len(row)):
        if row[j] > row[best]:
            best = j
    return naive_probs(row, form, temperature)[best], best


def naive_negative_entropy(row: Sequence[float], form: ScoreType, temperature: float) -> float:
    probs = naive_probs(row, form, temperature)
    if len(row) == 2:
        probs = [max(probs), 1.0 - max(probs)]
    # Stored probabilities are clipped before taking the logarithm; computed ones are not.
    floor = MIN_PROBABILITY if form == "probs" and temperature == 1.0 and len(row) > 2 else 0.0
    return math.fsum(p * math.log(max(p, floor)) for p in probs if p > 0.0)


def naive_slopes(
    scores: Array, form: ScoreType, labels: Sequence[int], inverse: float
) -> tuple[float, float, float]:
    """Return mean −log softmax(b·z)_y and its derivatives in b: E[z] − z_y, Var[z]."""
    parts = []
    for row, label in zip(scores.tolist(), labels, strict=True):
        logits = [math.log(max(p, MIN_PROBABILITY)) for p in row] if form == "probs" else row
        largest = max(logits)
        logits = [z - largest for z in logits]
        weights = [math.exp(inverse * z) for z in logits]
        total = math.fsum(weights)
        mean = math.fsum(w * z for w, z in zip(weights, logits, strict=True)) / total
        spread = math.fsum(w * (z - mean) ** 2 for w, z in zip(weights, logits, strict=True))
        nll = math.log(total) - inverse * logits[label]
        parts.append((nll, mean - logits[label], spread / total))
    nll, slope, curvature = (math.fsum(part) / len(parts) for part in zip(*parts, strict=True))
    return nll, slope, curvature


def assert_matches_naive(scores: Array, form: ScoreType, temperature: float) -> None:
    """Compare confidence, class, negative entropy, softmax and its logarithm of every row."""
    rows = scores.tolist()
    confidence, classes = softmax_kernels.confidence_and_class(scores, form, temperature)
    np.testing.assert_array_equal(softmax_kernels.confidence(scores, form, temperature), confidence)
    expected = [naive_top(row, form, temperature) for row in rows]
    np.testing.assert_array_equal(classes, [label for _, label in expected])
    np.testing.assert_array_equal(softmax_kernels.confidence(scores, form, temperature), confidence)
    assert_near(confidence, [value for value, _ in expected], scores.dtype)
    entropy = [naive_negative_entropy(row, form, temperature) for row in rows]
    found = softmax_kernels.negative_entropy(scores, form, temperature)
    assert_near(found, entropy, scores.dtype)
    probs = [naive_softmax(row, form, temperature) for row in rows]
    assert_near(softmax_kernels.softmax(scores, form, temperature), probs, scores.dtype)
    logs = [[math.log(max(p, MIN_PROBABILITY)) for p in row] for row in probs]
    assert_near(softmax_kernels.log_probs(scores, form, temperature), logs, scores.dtype)


# Against the loops ----------------------------------------------------------------------------


def test_all_kernels_match_naive_versions() -> None:
    def check(
        k: int, form: ScoreType, temperature: float, dtype: npt.DTypeLike, order: str
    ) -> None:
        scores = made_scores(form, 30, k, dtype)
        scores = np.asfortranarray(scores) if order == "F" else scores
        assert_matches_naive(scores, form, temperature)

    check_cases(check, product(CLASSES, FORMS, TEMPERATURES, DTYPES, ["C", "F"]))


def test_nll_derivatives_match_naive_version() -> None:
    def check(k: int, form: ScoreType, dtype: npt.DTypeLike) -> None:
        scores = made_scores(form, 80, k, dtype)
        labels = np.random.default_rng(1).integers(k, size=80)
        for inverse in (0.2, 1.0, 2.5):
            found = softmax_kernels.nll_derivatives(scores, form, labels, inverse)
            expected = naive_slopes(scores, form, labels.tolist(), inverse)
            assert_near(found, expected, scores.dtype)

    check_cases(check, product(CLASSES, FORMS, DTYPES))


@pytest.mark.parametrize("extra", [-1, 0, 1, 2])
@pytest.mark.parametrize("k", CLASSES)
def test_block_boundaries_do_not_change_results(k: int, extra: int) -> None:
    n = max(softmax_kernels.BLOCK_CELLS // k, 16) + extra
    assert len(list(softmax_kernels.row_blocks(n, k))) == (2 if extra > 1 else 1)
    scores = made_scores("logits", n, k, np.float64)
    assert_matches_naive(scores[-3:], "logits", 3.0)
    whole, tail = (
        softmax_kernels.softmax(scores, "logits"),
        softmax_kernels.softmax(scores[-3:], "logits"),
    )
    np.testing.assert_allclose(whole[-3:], tail, rtol=1e-12)
    np.testing.assert_array_equal(
        softmax_kernels.confidence_and_class(scores, "logits")[1], scores.argmax(axis=1)
    )
    np.testing.assert_allclose(
        softmax_kernels.confidence_and_class(scores, "logits")[0], whole.max(axis=1), rtol=1e-12
    )
    entropy = softmax_kernels.negative_entropy(scores, "logits")
    np.testing.assert_allclose(entropy, (whole * np.log(whole)).sum(axis=1), atol=1e-12)


def test_many_small_blocks_match_naive_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(k: int, form: ScoreType, n: int) -> None:
        monkeypatch.setattr(softmax_kernels, "BLOCK_CELLS", 16 * k)
        scores = made_scores(form, n, k, np.float64)
        labels = np.random.default_rng(n).integers(k, size=n)
        assert_matches_naive(scores, form, 0.5)
        found = softmax_kernels.nll_derivatives(scores, form, labels, 1.5)
        np.testing.assert_allclose(found, naive_slopes(scores, form, labels.tolist(), 1.5), 1e-11)

    check_cases(check, product(CLASSES, FORMS, [1, 15, 16, 17, 32, 33, 48, 50]))


@pytest.mark.parametrize(("n", "k"), [(0, 3), (1, 2), (16, 10**6), (17, 10**6), (81_921, 1)])
def test_blocks_cover_each_row_once_in_order(n: int, k: int) -> None:
    covered = [
        row for rows in softmax_kernels.row_blocks(n, k) for row in range(rows.start, rows.stop)
    ]
    assert covered == list(range(n))


# Extreme values -------------------------------------------------------------------------------


def test_huge_logits_do_not_overflow() -> None:
    def check(k: int, dtype: npt.DTypeLike, temperature: float) -> None:
        rng = np.random.default_rng(k)
        scores = rng.choice([-1e4, 1e4], size=(40, k))
        scores[:20] += rng.normal(size=(20, k))
        scores[20:30] = 1e4 + rng.normal(size=(10, k))
        assert_matches_naive(scores.astype(dtype), "logits", temperature)

    check_cases(check, product(CLASSES, DTYPES, TEMPERATURES))


def test_huge_logits_have_a_finite_likelihood() -> None:
    def check(k: int, dtype: npt.DTypeLike) -> None:
        scores = np.full((2, k), -1e4, dtype=dtype)
        scores[:, 1] = 1e4
        labels = np.array([0, 1])
        found = softmax_kernels.nll_derivatives(scores, "logits", labels, 1.0)
        # The wrong row contributes the whole difference; probabilities are 0 and 1, so no curvature.
        np.testing.assert_allclose(found, (1e4, 1e4, 0.0), rtol=1e-3)

    check_cases(check, product(CLASSES, DTYPES))


def test_masked_class_has_probability_0() -> None:
    def check(k: int, dtype: type[np.floating[npt.NBitBase]], temperature: float) -> None:
        scores = made_scores("logits", 30, k + 1, dtype)
        kept = scores[:, :-1].copy()
        scores[:, -1] = np.finfo(dtype).min
        probs = softmax_kernels.softmax(scores, "logits", temperature)
        assert_near(
            probs[:, :-1], softmax_kernels.softmax(kept, "logits", temperature), scores.dtype
        )
        assert (probs[:, -1] == 0).all()
        for quantity in (
            softmax_kernels.negative_entropy,
            lambda *given: softmax_kernels.confidence_and_class(*given)[0],
        ):
            found = quantity(scores, "logits", temperature)
            assert_near(found, quantity(kept, "logits", temperature), scores.dtype)
        labels = np.zeros(30, dtype=np.int64)
        slopes = softmax_kernels.nll_derivatives(scores, "logits", labels, 1 / temperature)
        expected = softmax_kernels.nll_derivatives(kept, "logits", labels, 1 / temperature)
        assert_near(slopes, expected, scores.dtype)

    check_cases(check, product(CLASSES, DTYPES, TEMPERATURES))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", CLASSES)
def test_one_hot_row_has_confidence_1_and_entropy_0(k: int, dtype: npt.DTypeLike) -> None:
    probs = np.eye(k, dtype=dtype)
    confidence, classes = softmax_kernels.confidence_and_class(probs, "probs")
    np.testing.assert_array_equal(classes, range(k))
    np.testing.assert_array_equal(confidence, 1.0)
    np.testing.assert_array_equal(softmax_kernels.negative_entropy(probs, "probs"), 0.0)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("k", CLASSES)
def test_zero_probability_is_clipped_at_a_temperature(k: int, temperature: float) -> None:
    probs = np.eye(k)
    rest = MIN_PROBABILITY ** (1 / temperature)
    expected = np.full((k, k), rest)
    np.fill_diagonal(expected, 1.0)
    expected /= 1.0 + (k - 1) * rest
    np.testing.assert_allclose(
        softmax_kernels.softmax(probs, "probs", temperature), expected, rtol=1e-9
    )
    logs = softmax_kernels.log_probs(probs, "probs", temperature)
    np.testing.assert_allclose(logs, np.log(np.maximum(expected, MIN_PROBABILITY)), atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("k", CLASSES)
def test_uniform_row_has_entropy_log_k(k: int, form: ScoreType) -> None:
    scores = np.full((3, k), 1.0 / k)
    for temperature in TEMPERATURES:
        entropy = softmax_kernels.negative_entropy(scores, form, temperature)
        np.testing.assert_allclose(entropy, -math.log(k), rtol=1e-12)


@pytest.mark.parametrize("k", CLASSES)
def test_rounding_outside_0_and_1_gives_finite_results(k: int) -> None:
    probs = np.zeros((2, k))
    probs[:, 0], probs[0, 1], probs[1, 0] = 1.0 + 5e-7, -5e-7, 1.0
    for temperature in TEMPERATURES:
        assert np.isfinite(softmax_kernels.softmax(probs, "probs", temperature)).all()
        entropy = softmax_kernels.negative_entropy(probs, "probs", temperature)
        assert np.isfinite(entropy).all()
        assert (entropy <= 0).all()


def test_int64_scores_keep_their_differences() -> None:
    scores = np.array([[2**24, 2**24 + 1, 0], [2**24 + 1, 2**24, 0]])
    np.testing.assert_array_equal(softmax_kernels.confidence_and_class(scores, "logits")[1], [1, 0])
    expected = 1.0 / (1.0 + math.exp(-1.0))
    np.testing.assert_allclose(
        softmax_kernels.confidence_and_class(scores, "logits")[0], expected, rtol=1e-12
    )


@pytest.mark.parametrize(
    ("dtype", "work"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.longdouble, np.float64),
        (np.int8, np.float32),
        (np.int64, np.float64),
        (np.bool_, np.float32),
    ],
)
def test_results_are_not_narrower_than_the_scores(
    dtype: npt.DTypeLike, work: npt.DTypeLike
) -> None:
    scores = np.eye(3, dtype=dtype)
    assert softmax_kernels.work_dtype(scores) == work
    assert softmax_kernels.softmax(scores, "probs").dtype == work
    assert softmax_kernels.negative_entropy(scores, "logits").dtype == work
    assert softmax_kernels.confidence_and_class(scores, "logits")[0].dtype == work


# Ties, ranks, laws ----------------------------------------------------------------------------


def test_lowest_class_wins_ties() -> None:
    def check(k: int, form: ScoreType, temperature: float) -> None:
        rng = np.random.default_rng(k)
        values = np.array([0.25, 0.25, 0.1]) if form == "probs" else np.array([2.0, 2.0, -1.0])
        scores = rng.choice(values, size=(100, k))
        expected = [row.index(max(row)) for row in scores.tolist()]
        np.testing.assert_array_equal(
            softmax_kernels.confidence_and_class(scores, form, temperature)[1], expected
        )
        even = np.full((4, k), 0.5, dtype=np.float32)
        np.testing.assert_array_equal(
            softmax_kernels.confidence_and_class(even, form, temperature)[1], 0
        )

    check_cases(check, product(CLASSES, FORMS, TEMPERATURES))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("k", CLASSES)
def test_temperature_keeps_the_class(k: int, form: ScoreType) -> None:
    scores = made_scores(form, 300, k, np.float32)
    expected = softmax_kernels.confidence_and_class(scores, form)[1]
    for temperature in (0.05, 0.5, 3.0, 20.0):
        np.testing.assert_array_equal(
            softmax_kernels.confidence_and_class(scores, form, temperature)[1], expected
        )


def assert_entropy_follows_confidence(scores: Array, form: ScoreType, temperature: float) -> None:
    confidence = softmax_kernels.confidence_and_class(scores, form, temperature)[0]
    entropy = softmax_kernels.negative_entropy(scores, form, temperature)
    order = np.argsort(confidence, kind="stable")
    assert (np.diff(entropy[order]) >= 0).all()
    same = np.diff(confidence[order]) == 0
    np.testing.assert_array_equal(np.diff(entropy[order])[same], 0.0)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_binary_entropy_and_confidence_rank_rows_equally(
    dtype: npt.DTypeLike, temperature: float
) -> None:
    rng = np.random.default_rng(0)
    gaps = np.concatenate(
        [10.0 ** rng.uniform(-9, 4, size=5000), rng.normal(size=5000), [0.0, 80.0, 90.0, 1e4]]
    )
    first = rng.normal(size=gaps.size)
    logits = np.stack([first, first + gaps * rng.choice([-1, 1], size=gaps.size)], axis=1)
    assert_entropy_follows_confidence(logits.astype(dtype), "logits", temperature)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_binary_ranking_holds_for_unnormalized_probabilities(
    dtype: npt.DTypeLike, temperature: float
) -> None:
    rng = np.random.default_rng(0)
    first = np.concatenate([rng.random(5000), 10.0 ** rng.uniform(-12, -1, 5000), [0.0, 0.5, 1.0]])
    probs = np.stack([first, 1.0 - first], axis=1)
    probs *= 1.0 + rng.uniform(-1e-3, 1e-3, size=(first.size, 1))
    assert_entropy_follows_confidence(probs.astype(dtype), "probs", temperature)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saturated_binary_float32_logits_keep_their_order(
    dtype: npt.DTypeLike,
) -> None:
    # In float32 all these confidences would be 1.
    gaps = np.arange(18.0, 36.0, 0.5)
    logits = np.stack([np.zeros_like(gaps), gaps], axis=1).astype(dtype)
    assert (np.diff(softmax_kernels.confidence_and_class(logits, "logits")[0]) > 0).all()
    assert (np.diff(softmax_kernels.negative_entropy(logits, "logits")) > 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_entropy_from_confidence_is_float64(dtype: npt.DTypeLike) -> None:
    confidence = np.linspace(0.5, 1.0, 4001).astype(dtype)
    found = softmax_kernels.binary_negative_entropy(confidence)
    wide = confidence.tolist()
    expected = [math.fsum(p * math.log(p) for p in (c, 1 - c) if p > 0) for c in wide]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert (np.diff(found)[np.diff(confidence) > 0] > 0).all()


@given(st.lists(st.floats(0.5, 1.0, width=32), min_size=2, max_size=20))
@settings(max_examples=100)
def test_binary_negative_entropy_is_monotonic_in_confidence(values: list[float]) -> None:
    confidence = np.unique(values)
    assert (np.diff(softmax_kernels.binary_negative_entropy(confidence)) > 0).all()


score_rows = st.integers(2, 6).flatmap(
    lambda k: st.lists(st.lists(st.floats(-50, 50), min_size=k, max_size=k), min_size=1, max_size=5)
)


@given(rows=score_rows, temperature=st.floats(0.05, 20), shift=st.floats(-100, 100))
@settings(max_examples=100)
def test_softmax_sums_to_1_and_is_shift_invariant(
    rows: list[list[float]], temperature: float, shift: float
) -> None:
    scores = np.array(rows)
    probs = softmax_kernels.softmax(scores, "logits", temperature)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=1e-12)
    shifted = softmax_kernels.softmax(scores + shift, "logits", temperature)
    np.testing.assert_allclose(shifted, probs, atol=1e-10)


@given(rows=score_rows, temperature=st.floats(0.05, 20))
@settings(max_examples=100)
def test_confidence_and_entropy_stay_within_their_bounds(
    rows: list[list[float]], temperature: float
) -> None:
    scores = np.array(rows)
    k = scores.shape[1]
    confidence = softmax_kernels.confidence_and_class(scores, "logits", temperature)[0]
    entropy = softmax_kernels.negative_entropy(scores, "logits", temperature)
    assert ((confidence >= 1 / k - 1e-12) & (confidence <= 1.0)).all()
    assert ((entropy >= -math.log(k) - 1e-12) & (entropy <= 0.0)).all()


@given(rows=score_rows, seed=st.integers(0, 99))
@settings(max_examples=50)
def test_confidence_and_entropy_are_permutation_invariant(
    rows: list[list[float]], seed: int
) -> None:
    scores = np.array(rows)
    other = scores[:, np.random.default_rng(seed).permutation(scores.shape[1])]
    for quantity in (
        softmax_kernels.negative_entropy,
        lambda *given: softmax_kernels.confidence_and_class(*given)[0],
    ):
        found = quantity(other, "logits", 2.0)
        np.testing.assert_allclose(found, quantity(scores, "logits", 2.0), rtol=1e-9, atol=1e-13)


def test_the_input_is_never_modified() -> None:
    def check(k: int, form: ScoreType, temperature: float, order: str) -> None:
        for dtype in DTYPES:
            given = made_scores(form, 50, k, dtype)
            scores = np.asfortranarray(given) if order == "F" else given.copy()
            labels: Ints = np.zeros(50, dtype=np.int64)
            softmax_kernels.confidence_and_class(scores, form, temperature)
            softmax_kernels.confidence(scores, form, temperature)
            softmax_kernels.negative_entropy(scores, form, temperature)
            softmax_kernels.softmax(scores, form, temperature)[:] = 0
            softmax_kernels.log_probs(scores, form, temperature)[:] = 0
            softmax_kernels.nll_derivatives(scores, form, labels, 1 / temperature)
            np.testing.assert_array_equal(scores, given)

    check_cases(check, product(CLASSES, FORMS, [1.0, 3.0], ["C", "F"]))


def test_read_only_and_strided_arrays_are_accepted() -> None:
    scores = made_scores("logits", 100, 6, np.float32)[::2, ::2]
    scores.flags.writeable = False
    assert_matches_naive(scores, "logits", 3.0)
