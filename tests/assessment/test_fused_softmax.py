"""The fused pass: bit for bit what Predictions computes one thing at a time."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oodometer.assessment import _fused_softmax
from oodometer.core import softmax_kernels
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions


def made(seed: int, n: int, k: int, form: str) -> Any:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)) * rng.choice([0.1, 3.0, 30.0])
    logits[:: max(n // 3, 1), 0] = logits[:: max(n // 3, 1), -1]  # ties
    if form == "logits":
        return logits
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    probs[probs < 1e-9] = 0.0
    return probs


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 300),
    k=st.sampled_from([2, 3, 10, 32, 33, 50]),
    form=st.sampled_from(["probs", "logits"]),
    dtype=st.sampled_from([np.float64, np.float32, np.float16]),
    by_class=st.booleans(),
    temperature=st.sampled_from([1.0, 0.3, 2.5]),
)
@example(seed=0, n=257, k=10, form="probs", dtype=np.float64, by_class=False, temperature=1.0)
def test_every_signal_is_the_same_to_the_last_bit(
    seed: int,
    n: int,
    k: int,
    form: Literal["probs", "logits"],
    dtype: Any,
    by_class: bool,
    temperature: float,
) -> None:
    scores = made(seed, n, k, form).astype(dtype)
    if by_class:  # as columns lie that were read one by one
        scores = np.ascontiguousarray(scores.T).T
    before = scores.copy()
    door = Predictions.from_probs if form == "probs" else Predictions.from_logits
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(
            softmax_kernels, "BLOCK_CELLS", 64 * k
        )  # several blocks, the last of them shorter
        one = door(scores).at_temperature(temperature)
        found = _fused_softmax.validated_predictions(scores, form, temperature=temperature)
    np.testing.assert_array_equal(found.confidence, one.confidence)
    np.testing.assert_array_equal(found.classes, one.classes)
    np.testing.assert_array_equal(found.negative_entropy, one.negative_entropy)
    np.testing.assert_array_equal(scores, before)
    assert (found.n, found.k, found.temperature) == (n, k, temperature)
    assert found.confidence.dtype == one.confidence.dtype
    assert found.classes.dtype == one.classes.dtype


def broken(form: str, k: int) -> list[Any]:
    scores = made(0, 40, k, form)
    cases = []
    for value in (np.nan, np.inf, -np.inf):
        cases.append(scores.copy())
        cases[-1][17, 1] = value
    if form == "probs":
        for value in (1.2, -0.4, 0.5):
            cases.append(scores.copy())
            cases[-1][23, 0] += value
    return cases


@pytest.mark.parametrize("k", [2, 4, 40])
@pytest.mark.parametrize("form", ["probs", "logits"])
def test_what_the_usual_door_refuses_is_refused_in_the_same_words(
    form: Literal["probs", "logits"], k: int
) -> None:
    door = Predictions.from_probs if form == "probs" else Predictions.from_logits
    for scores in broken(form, k):
        with pytest.raises(InputError) as usual:
            door(scores)
        with pytest.raises(InputError) as ours:
            _fused_softmax.validated_predictions(scores, form, temperature=2.0)
        assert str(ours.value) == str(usual.value)


def test_tables_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="no rows"):
        _fused_softmax.validated_predictions(np.empty((0, 3)), "probs")
    with pytest.raises(InputError, match="at least two"):
        _fused_softmax.validated_predictions(np.ones((3, 1)), "probs")
    with pytest.raises(InputError, match="3 classes but 2 class names"):
        _fused_softmax.validated_predictions(
            np.full((2, 3), 1 / 3), "probs", class_names=("a", "b")
        )


def test_a_masked_class_weighs_nothing_and_is_no_warning() -> None:
    lowest = np.finfo(np.float32).min
    logits = np.array([[0.0, lowest, 0.0], [1.0, 0.0, lowest]], dtype=np.float32)
    found = _fused_softmax.validated_predictions(logits, "logits", temperature=0.5)
    np.testing.assert_allclose(found.confidence, [0.5, 1 / (1 + np.exp(-2.0))], rtol=1e-6)


def test_logits_that_look_like_probabilities_are_not_warned_of_batch_by_batch() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _fused_softmax.validated_predictions(np.full((20, 4), 0.25), "logits")
