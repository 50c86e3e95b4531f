"""Temperature scaling against a numerical minimizer, calibration error against a loop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from oodometer.core import softmax_kernels
from oodometer.core.array_types import Array, Ints
from oodometer.core.calibration import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    WARM_START_ROWS,
    bin_reliability,
    calibration_error,
    fit_temperature,
)
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import MIN_PROBABILITY


def predictions_at_temperature(
    n: int, k: int, temperature: float, *, seed: int = 0, scale: float = 2.0
) -> tuple[Array, Ints]:
    """Return logits with labels drawn at a temperature."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)) * scale
    chances = softmax_kernels.softmax(logits, "logits", temperature).cumsum(axis=1)
    labels = (rng.random((n, 1)) > chances[:, :-1]).sum(axis=1)
    return logits, labels


def naive_nll(scores: Array, form: str, labels: Ints, temperature: float) -> float:
    logits = (
        np.log(np.maximum(scores.astype(float), MIN_PROBABILITY)) if form == "probs" else scores
    )
    logits = logits.astype(np.float64) / temperature
    top = logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
    return float((log_sum - logits[np.arange(len(labels)), labels]).mean())


def minimized_temperature(scores: Array, form: str, labels: Ints) -> float:
    found: Any = minimize_scalar(
        lambda log_t: naive_nll(scores, form, labels, math.exp(log_t)),
        bounds=(math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return math.exp(found.x)


# The fit --------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("k", [2, 3, 10, 50])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_temperature_of_logits_matches_numerical_minimizer(
    dtype: npt.DTypeLike, k: int, temperature: float
) -> None:
    logits, labels = predictions_at_temperature(800, k, temperature, seed=k)
    logits = logits.astype(dtype)
    found = fit_temperature(Predictions.from_logits(logits, labels=labels))
    expected = minimized_temperature(logits, "logits", labels)
    assert found.value == pytest.approx(expected, rel=1e-4)
    assert found.converged
    assert not found.at_bound
    assert found.nll_before == pytest.approx(naive_nll(logits, "logits", labels, 1.0), rel=1e-5)
    assert found.nll_after == pytest.approx(naive_nll(logits, "logits", labels, expected), rel=1e-5)
    assert found.nll_after <= found.nll_before + 1e-6


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("k", [2, 3, 10, 50])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_temperature_of_probabilities_matches_numerical_minimizer(
    dtype: npt.DTypeLike, k: int, temperature: float
) -> None:
    logits, labels = predictions_at_temperature(800, k, temperature, seed=k)
    probs = softmax_kernels.softmax(logits, "logits").astype(dtype)
    found = fit_temperature(Predictions.from_probs(probs, labels=labels))
    expected = minimized_temperature(probs, "probs", labels)
    assert found.value == pytest.approx(expected, rel=1e-4)
    assert found.converged


def test_logits_and_their_probabilities_have_the_same_temperature() -> None:
    logits, labels = predictions_at_temperature(2000, 5, 2.0)
    from_logits = fit_temperature(Predictions.from_logits(logits, labels=labels))
    probs = softmax_kernels.softmax(logits, "logits")
    from_probs = fit_temperature(Predictions.from_probs(probs, labels=labels))
    assert from_probs.value == pytest.approx(from_logits.value, rel=1e-6)


@pytest.mark.parametrize("planted_temperature", [0.3, 0.8, 1.0, 2.5, 8.0])
@pytest.mark.parametrize("k", [2, 10])
def test_known_temperature_is_recovered(k: int, planted_temperature: float) -> None:
    scale = 2.0 * max(planted_temperature, 1.0)
    logits, labels = predictions_at_temperature(20_000, k, planted_temperature, scale=scale)
    found = fit_temperature(Predictions.from_logits(logits, labels=labels))
    assert found.value == pytest.approx(planted_temperature, rel=0.04)
    assert found.converged


def test_warm_start_on_a_sample_does_not_change_the_fit() -> None:
    n = 3 * WARM_START_ROWS
    logits, labels = predictions_at_temperature(n, 3, 2.0)
    # The warm start uses every third row, and these rows have a different temperature.
    logits[::3], labels[::3] = predictions_at_temperature(WARM_START_ROWS, 3, 0.5, seed=1)
    found = fit_temperature(Predictions.from_logits(logits, labels=labels))
    assert found.value == pytest.approx(minimized_temperature(logits, "logits", labels), rel=1e-4)


@given(factor=st.floats(0.2, 5), seed=st.integers(0, 20))
@settings(max_examples=25)
def test_scaling_logits_scales_the_temperature(factor: float, seed: int) -> None:
    logits, labels = predictions_at_temperature(500, 4, 1.5, seed=seed)
    plain = fit_temperature(Predictions.from_logits(logits, labels=labels))
    scaled = fit_temperature(Predictions.from_logits(logits * factor, labels=labels))
    assert scaled.value == pytest.approx(plain.value * factor, rel=1e-5)


def test_refitting_scaled_logits_gives_temperature_1() -> None:
    logits, labels = predictions_at_temperature(3000, 4, 2.5)
    source = Predictions.from_logits(logits, labels=labels)
    value = fit_temperature(source).value
    again = Predictions.from_logits(logits / value, labels=labels)
    assert fit_temperature(again).value == pytest.approx(1.0, abs=1e-6)


def test_fit_ignores_the_temperature_already_set() -> None:
    logits, labels = predictions_at_temperature(500, 4, 2.5)
    source = Predictions.from_logits(logits, labels=labels)
    assert fit_temperature(source.at_temperature(3.0)) == fit_temperature(source)


# Bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gap", [0.5, 3.0, 10.0, 30.0, 110.0, 900.0, 1e4])
def test_all_correct_rows_end_at_the_lower_bound(gap: float, dtype: npt.DTypeLike) -> None:
    labels = np.random.default_rng(0).integers(3, size=500)
    logits = np.zeros((500, 3), dtype=dtype)
    logits[np.arange(500), labels] = gap
    found = fit_temperature(Predictions.from_logits(logits, labels=labels))
    assert found.value == pytest.approx(MIN_TEMPERATURE, rel=1e-5)
    assert found.at_bound
    assert found.converged
    assert found.nll_after <= found.nll_before


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rest", [0.0, 0.001, 0.2])
def test_all_correct_probabilities_end_at_the_lower_bound(
    rest: float, dtype: npt.DTypeLike
) -> None:
    labels = np.random.default_rng(0).integers(3, size=500)
    probs = np.full((500, 3), rest, dtype=dtype)
    probs[np.arange(500), labels] = 1 - 2 * rest
    found = fit_temperature(Predictions.from_probs(probs, labels=labels))
    assert found.value == pytest.approx(MIN_TEMPERATURE, rel=1e-5)
    assert found.at_bound


@pytest.mark.parametrize("gap", [2.0, 10.0, 1000.0])
def test_confident_errors_end_at_the_upper_bound(gap: float) -> None:
    logits = np.zeros((300, 3))
    logits[:, 0] = gap
    found = fit_temperature(Predictions.from_logits(logits, labels=np.ones(300, dtype=int)))
    assert found.value == pytest.approx(MAX_TEMPERATURE, rel=1e-5)
    assert found.at_bound
    assert found.nll_after < found.nll_before


def test_one_error_among_many_correct_rows_is_not_at_a_bound() -> None:
    labels = np.zeros(1000, dtype=int)
    logits = np.zeros((1000, 2))
    logits[:, 0] = 10.0
    labels[0] = 1
    found = fit_temperature(Predictions.from_logits(logits, labels=labels))
    # At the optimum the confidence is the accuracy: 1 / (1 + exp(-10 / T)) = 0.999.
    assert found.value == pytest.approx(10.0 / math.log(999), rel=1e-5)
    assert not found.at_bound


def test_uniform_rows_have_no_reliable_temperature() -> None:
    found = fit_temperature(Predictions.from_logits(np.zeros((50, 3)), labels=[0, 1] * 25))
    assert found.at_bound
    assert found.nll_after == pytest.approx(math.log(3))


def test_a_single_row_is_enough() -> None:
    found = fit_temperature(Predictions.from_logits([[1.0, 2.0]], labels=[0]))
    assert found.value == pytest.approx(MAX_TEMPERATURE, rel=1e-5)
    assert found.at_bound


def test_masked_classes_do_not_change_the_fit() -> None:
    logits, labels = predictions_at_temperature(500, 4, 2.0)
    masked = np.column_stack([logits, np.full(500, np.finfo(np.float32).min)]).astype(np.float32)
    found = fit_temperature(Predictions.from_logits(masked, labels=labels))
    assert found.value == pytest.approx(minimized_temperature(logits, "logits", labels), rel=1e-4)


# Refusals -------------------------------------------------------------------------------------


def test_fit_needs_labels() -> None:
    for source in (
        Predictions.from_probs([[0.5, 0.5]]),
        Predictions.from_logits([[0.0, 9.0]], labels=[1]).without_labels(),
    ):
        with pytest.raises(InputError) as caught:
            fit_temperature(source)
        assert str(caught.value) == "A temperature is fitted to labels; the source has none."


def test_classes_and_signals_have_no_temperature() -> None:
    for source in (
        Predictions.from_classes([0, 1], k=2, labels=[0, 0]),
        Predictions.from_confidence([0.9, 0.8], k=2, correct=[1, 0]),
    ):
        with pytest.raises(NotApplicable) as caught:
            fit_temperature(source)
        expected = f"a temperature needs probabilities or logits, not {source.score_type}"
        assert str(caught.value) == expected


# Calibration error ----------------------------------------------------------------------------


def naive_calibration_error(confidence: list[float], correct: list[bool], bins: int) -> float:
    total = 0.0
    for b in range(bins):
        inside = [i for i, c in enumerate(confidence) if min(math.floor(c * bins), bins - 1) == b]
        if inside:
            mean = math.fsum(confidence[i] for i in inside) / len(inside)
            accuracy = sum(correct[i] for i in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(mean - accuracy)
    return total


@pytest.mark.parametrize("bins", [1, 7, 10, 15])
@pytest.mark.parametrize("k", [2, 3, 10])
def test_calibration_error_matches_naive_loop(k: int, bins: int) -> None:
    logits, labels = predictions_at_temperature(700, k, 2.0, seed=k)
    source = Predictions.from_logits(logits, labels=labels)
    expected = naive_calibration_error(source.confidence.tolist(), source.correct.tolist(), bins)
    assert calibration_error(source, bins) == pytest.approx(expected, abs=1e-12)
    assert expected > 0.01


@given(
    st.lists(st.tuples(st.sampled_from([0.5, 0.6, 0.7, 0.75, 0.999, 1.0]), st.booleans()), min_size=1),
    st.integers(1, 20),
)  # fmt: skip
@settings(max_examples=60)
def test_calibration_error_at_bin_borders_matches_naive_loop(
    rows: list[tuple[float, bool]], bins: int
) -> None:
    confidence, correct = [c for c, _ in rows], [right for _, right in rows]
    source = Predictions.from_confidence(confidence, k=2, correct=correct)
    found = calibration_error(source, bins)
    assert found == pytest.approx(naive_calibration_error(confidence, correct, bins), abs=1e-12)
    assert 0.0 <= found <= 1.0


def test_reliability_bins_have_shares_confidences_and_accuracies() -> None:
    confidence = np.array([0.95, 0.93, 1.0, 0.55, 0.52])
    share, mean, accuracy = bin_reliability(confidence, np.array([1.0, 0.0, 1.0, 1.0, 0.0]))
    np.testing.assert_allclose(share, [0, 0, 0, 0, 0, 0.4, 0, 0, 0, 0.6])
    np.testing.assert_allclose(mean, [0, 0, 0, 0, 0, 0.535, 0, 0, 0, 0.96])
    np.testing.assert_allclose(accuracy, [0, 0, 0, 0, 0, 0.5, 0, 0, 0, 2 / 3])


def test_temperature_scaling_lowers_the_calibration_error() -> None:
    logits, labels = predictions_at_temperature(20_000, 5, 3.0)
    source = Predictions.from_logits(logits, labels=labels)
    scaled = source.at_temperature(fit_temperature(source).value)
    assert calibration_error(source) > 0.1
    assert calibration_error(scaled) < 0.02


def test_calibration_error_needs_labels_and_confidence() -> None:
    with pytest.raises(InputError, match="have no labels"):
        calibration_error(Predictions.from_probs([[0.5, 0.5]]))
    with pytest.raises(NotApplicable, match="confidence cannot be computed from classes alone"):
        calibration_error(Predictions.from_classes([0], k=2, labels=[0]))
