"""Invalid input raises an error with the array, the row and what is valid."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core import softmax_kernels, validation
from oodometer.core.array_types import Array, Floats
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions

USE_LOGITS = validation.RAW_SCORES_ADVICE
DTYPES = [np.float16, np.float32, np.float64]


def good_probs(n: int = 40, k: int = 3, dtype: npt.DTypeLike = np.float64) -> Array:
    return np.random.default_rng(0).dirichlet(np.ones(k), size=n).astype(dtype)


def error_of(probs: Any, **extras: Any) -> str:
    """Return the error message of from_probs, which must be one line."""
    with pytest.raises(InputError) as caught:
        Predictions.from_probs(probs, **extras)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Shapes and types -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ([["a", "b"]], "probs must be numbers; got an array of <U1."),
        ("text", "probs must be numbers; got an array of <U4."),
        ([[0.5, None]], "probs must be numbers; got an array of object."),
        ([[0.5 + 1j, 0.5]], "probs must be numbers; got an array of complex128."),
        (None, "probs must be numbers; got an array of object."),
        (
            [0.5, 0.5],
            "probs must have shape (n, k), one row per example and one column per class; got (2,).",
        ),
        (
            np.zeros((2, 2, 2)),
            "probs must have shape (n, k), one row per example and one column per class; got (2, 2, 2).",
        ),
        (np.zeros((0, 3)), "probs has no rows; expected at least one."),
        (
            [[0.5, 0.5], [0.2, 0.3, 0.5]],
            "probs must have the same number of values in every row; row 0 has 2, row 1 has 3.",
        ),
        ([[0.5, 0.5], 1.0], "probs must have the same number of values in every row; row 0 has 2, row 1 has 1."),
        ([[0.5, [0.5]], [0.5, 0.5]], "probs must have the same number of values in every row."),
    ],
)  # fmt: skip
def test_invalid_score_matrices_raise(probs: Any, message: str) -> None:
    assert error_of(probs) == message


def test_empty_list_raises() -> None:
    assert "got (0,)" in error_of([])


@pytest.mark.parametrize("k", [0, 1])
def test_fewer_than_two_columns_raise_with_advice(k: int) -> None:
    assert error_of(np.ones((4, k))) == (
        f"probs must have one column per class, at least two; got {k}. "
        "For a single probability p of the second class, pass the two columns 1 - p and p."
    )


def test_error_names_logits_if_logits_were_passed() -> None:
    for logits in ([["a", "b"]], [1.0, 2.0], np.zeros((0, 2)), np.zeros((3, 1)), [[1, 2], [1]]):
        with pytest.raises(InputError, match=r"^logits "):
            Predictions.from_logits(logits)


# Probabilities --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_value_is_reported_with_row_and_class(bad: float, dtype: npt.DTypeLike) -> None:
    probs = good_probs(dtype=dtype)
    probs[17, 2] = bad
    assert error_of(probs) == (
        f"probs must be finite; row 17, class 2 is {bad}. Remove or correct such rows."
    )
    with pytest.raises(InputError, match=rf"^logits must be finite; row 17, class 2 is {bad}\."):
        Predictions.from_logits(probs)


@pytest.mark.parametrize(("dtype", "shown"), [(np.float32, "1.2"), (np.float64, "1.2")])
def test_row_that_sums_to_1_2_raises(dtype: npt.DTypeLike, shown: str) -> None:
    probs = good_probs(dtype=dtype)
    probs[5] = [0.4, 0.4, 0.4]
    message = error_of(probs)
    assert message == f"probs must sum to 1 in every row; row 5 sums to {shown}. {USE_LOGITS}"


@pytest.mark.parametrize(("total", "accepted"), [(1.0049, True), (0.9951, True), (1.0051, False), (0.9949, False)])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 10, 200])
def test_sum_tolerance_is_0_005(k: int, dtype: npt.DTypeLike, total: float, accepted: bool) -> None:
    probs = np.full((50, k), 1.0 / k)
    probs[30] *= total
    if accepted:
        assert Predictions.from_probs(probs.astype(dtype)).n == 50
    else:
        assert f"row 30 sums to {total:.4g}" in error_of(probs.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [2, 3, 10, 40, 200, 1000])
def test_probabilities_rounded_to_any_float_type_are_accepted(k: int, dtype: npt.DTypeLike) -> None:
    probs = good_probs(200, k, dtype)
    assert Predictions.from_probs(probs).n == 200
    assert Predictions.from_probs(np.full((3, k), 1.0 / k, dtype=dtype)).n == 3


def test_negative_probability_raises_even_if_the_row_sums_to_1() -> None:
    probs = good_probs()
    probs[9] = [0.5, 0.6, -0.1]
    assert error_of(probs) == f"probs must be between 0 and 1; row 9, class 2 is -0.1. {USE_LOGITS}"


def test_rounding_errors_outside_0_and_1_are_accepted() -> None:
    assert Predictions.from_probs([[1.0 + 5e-7, -5e-7], [0.5, 0.5]]).n == 2
    assert "row 0, class 0 is 1.000002." in error_of([[1.0 + 2e-6, -2e-6]])
    assert "row 0, class 1 is -2e-06." in error_of([[1.0, -2e-6]])


def test_logits_passed_as_probs_raise_with_advice() -> None:
    message = error_of([[2.5, -1.0, 0.3], [0.1, 0.2, 0.3]])
    assert message == f"probs must be between 0 and 1; row 0, class 0 is 2.5. {USE_LOGITS}"


def test_first_invalid_row_is_reported() -> None:
    probs = good_probs()
    probs[30] = np.nan
    probs[20] = [2.0, -1.0, 0.0]
    probs[10] = [0.3, 0.3, 0.3]
    assert "row 10 sums to 0.9" in error_of(probs)
    assert "row 3, class 0 is 2." in error_of(probs[17:])
    assert "row 9, class 0 is nan" in error_of(probs[21:])


@pytest.mark.parametrize("extra", [-1, 0, 1, 5])
@pytest.mark.parametrize("k", [3, 40])
def test_row_numbers_are_right_beyond_the_first_block(k: int, extra: int) -> None:
    row = softmax_kernels.BLOCK_CELLS // k + extra
    probs = np.full((row + 10, k), 1.0 / k, dtype=np.float32)
    probs[row] *= 1.5
    assert f"row {row} sums to 1.5." in error_of(probs)
    probs[row] = np.nan
    assert f"row {row}, class 0 is nan" in error_of(probs)
    with pytest.raises(InputError, match=f"row {row}, class 0 is nan"):
        Predictions.from_logits(probs)


def test_overflowing_sums_raise_without_a_warning() -> None:
    assert "row 0, class 0 is 1e+308" in error_of([[1e308, 1e308], [0.5, 0.5]])


def test_integer_and_bool_probabilities_are_accepted() -> None:
    for dtype in (np.int8, np.int64, np.uint8, np.bool_):
        found = Predictions.from_probs(np.eye(3, dtype=dtype))
        np.testing.assert_array_equal(found.confidence, 1.0)
        np.testing.assert_array_equal(found.classes, [0, 1, 2])
    assert "row 0 sums to 2" in error_of(np.array([[1, 1], [0, 1]]))


@given(
    row=st.integers(0, 49),
    column=st.integers(0, 3),
    change=st.floats(0.0051, 5).flatmap(lambda size: st.sampled_from([size, -size])),
    order=st.sampled_from(["C", "F"]),
)
@settings(max_examples=60)
def test_any_single_invalid_value_is_reported(
    row: int, column: int, change: float, order: str
) -> None:
    probs = good_probs(50, 4)
    probs[row, column] += change
    probs = np.asfortranarray(probs) if order == "F" else probs
    message = error_of(probs)
    assert f"; row {row} sums" in message or f"; row {row}, class {column} is" in message


def test_percentages_are_reported_as_such() -> None:
    message = error_of(100 * good_probs())
    assert "these look like percentages. Divide them by 100." in message
    second = 100 * good_probs()[:, 0]
    assert "look like percentages" in error_of(np.stack([1 - second, second], axis=1))
    assert "percentages" not in error_of(100 * good_probs() - 1)
    assert "percentages" not in error_of(np.array([[3.0, 40.0], [2.0, 5.0]]))


# Logits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_probabilities_passed_as_logits_warn_at_the_call(
    dtype: npt.DTypeLike,
) -> None:
    with pytest.warns(UserWarning, match="they look like probabilities") as caught:
        Predictions.from_logits(good_probs(dtype=dtype))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "use probs (Predictions.from_probs" in str(caught[0].message)


def not_quite_probs() -> list[Floats]:
    off = good_probs()
    off[39] *= 1.01
    shifted = good_probs()
    shifted[39] += [0.5, -0.5, 0.0]
    return [off, shifted, good_probs(9), good_probs() * 7]


@pytest.mark.parametrize("which", range(4))
def test_other_logits_do_not_warn(which: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Predictions.from_logits(not_quite_probs()[which]).score_type == "logits"


def test_huge_float16_logits_do_not_warn() -> None:
    logits = np.full((20, 10), 6e4, dtype=np.float16)
    assert Predictions.from_logits(logits).n == 20


# Features, ids, row statistics ----------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros(4), "of float64 of shape (4,)"),
        (np.zeros((3, 2)), "(4, d); got an array of float64 of shape (3, 2)."),
        (np.array([["a"]] * 4), "features must be numbers of shape (4, d)"),
        ([[1.0], [2.0, 3.0], [1.0], [1.0]], "row 0 has 1, row 1 has 2."),
        (
            [[0.0, 1.0], [0.0, 1.0], [0.0, np.nan], [0.0, 1.0]],
            "features must be finite; row 2, column 1 is nan.",
        ),
    ],
)
def test_invalid_features_raise(features: Any, message: str) -> None:
    assert message in error_of(good_probs(4), features=features)


def test_ids_must_have_one_value_per_row() -> None:
    assert error_of(good_probs(4), ids=["a"]) == "There are 4 rows but 1 ids."
    assert error_of(good_probs(1), ids="a") == (
        "ids must have shape (n,), one value per row; got ()."
    )


@pytest.mark.parametrize(
    ("confidence", "message"),
    [
        ([0.9, np.nan], "confidence must be between 0.5 and 1; row 1 is nan."),
        ([0.9, 1.1], "confidence must be between 0.5 and 1; row 1 is 1.1."),
        ([0.9, 0.2], "confidence must be between 0.5 and 1; row 1 is 0.2."),
        ([], "confidence must be numbers, one per row, at least one."),
        (None, "confidence must be numbers, one per row, at least one."),
        (["high"], "confidence must be numbers, one per row, at least one."),
        ([[0.9]], "confidence must have shape (n,), one value per row; got (1, 1)."),
    ],
)
def test_invalid_confidence_raises(confidence: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Predictions.from_confidence(confidence, k=2)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        ({"negative_entropy": [0.5, -0.1]}, "negative_entropy must be between -1.099 and 0; row 0 is 0.5."),
        ({"negative_entropy": [-0.1, -2.0]}, "negative_entropy must be between -1.099 and 0; row 1 is -2.0."),
        ({"negative_entropy": [-0.1]}, "There are 2 rows but 1 negative_entropy."),
        ({"correct": [1, 2]}, "correct must be between 0 and 1; row 1 is 2."),
        ({"correct": [1.0, 0.5]}, "correct must be True or False in every row; row 1 is 0.5."),
        ({"correct": [True]}, "There are 2 rows but 1 correct."),
        ({"correct": ["yes", "no"]}, "correct must be numbers, one per row, at least one."),
    ],
)  # fmt: skip
def test_invalid_entropy_or_correctness_raises(signals: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Predictions.from_confidence([0.9, 0.6], k=3, **signals)
    assert str(caught.value) == message


@pytest.mark.parametrize("k", [-1, 0, 1])
def test_class_count_below_2_raises(k: int) -> None:
    message = f"^k must be at least 2; got {k}.$"
    with pytest.raises(InputError, match=message):
        Predictions.from_confidence([1.0], k=k)
    with pytest.raises(InputError, match=message):
        Predictions.from_classes([0], k=k)
    with pytest.raises(InputError, match=message):
        Predictions.from_classes([0], k=k, class_names=["a", "b"])


@pytest.mark.parametrize(
    ("classes", "given", "message"),
    [
        ([], {"k": 2}, "classes has no rows; expected at least one."),
        (None, {"k": 2}, "classes has no rows; expected at least one."),
        ([0, 1], {}, "The number of classes is not known. Pass k or class_names."),
        ([0, 5], {"k": 3}, "classes must be between 0 and 2; row 1 is 5."),
        ([0, 1], {"k": 2, "class_names": ["a"]}, "There are 2 classes but 1 class names."),
        (["a", "c"], {"class_names": ["a", "b"]}, "classes has 'c' in row 1, which is not a class. Classes: a, b."),
        ([0, 1], {"k": 2, "labels": [0, 2]}, "labels must be between 0 and 1; row 1 is 2."),
        ([0, 1], {"k": 2, "labels": [0]}, "There are 2 rows but 1 labels."),
        ([0, 1], {"k": 2, "ids": [0]}, "There are 2 rows but 1 ids."),
        ([[0, 1]], {"k": 2}, "classes must have shape (n,), one value per row; got (1, 2)."),
    ],
)  # fmt: skip
def test_invalid_classes_raise(classes: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Predictions.from_classes(classes, **given)
    assert str(caught.value) == message


# Two sides ------------------------------------------------------------------------------------


def test_different_class_counts_raise() -> None:
    validation.check_same_class_count(3, 3, "the source", "the target")
    with pytest.raises(InputError) as caught:
        validation.check_same_class_count(3, 4, "the source", "the target")
    assert str(caught.value) == (
        "the source has 3 classes, the target has 4. "
        "Both must be outputs for the same set of classes."
    )


@pytest.mark.parametrize(
    ("ids", "other", "shown"),
    [
        ([1, 2, 3], [1, 3, 2], "row 1 is 2 in one and 3 in the other"),
        (["a", "b"], ["a", "c"], "row 1 is 'b' in one and 'c' in the other"),
        ([1, 2], ["1", "2"], "row 0 is 1 in one and '1' in the other"),
    ],
)
def test_different_ids_are_reported_with_the_row(
    ids: list[Any], other: list[Any], shown: str
) -> None:
    validation.check_same_ids(np.array(ids), np.array(ids))
    with pytest.raises(InputError) as caught:
        validation.check_same_ids(np.array(ids), np.array(other))
    assert str(caught.value) == f"The ids of the two models differ: {shown}. Sort both by id."


@pytest.mark.parametrize("k", [2, 5, 40])
def test_probability_above_1_raises_even_within_the_sum_tolerance(k: int) -> None:
    probs = np.eye(k)
    probs[1, 1] = 1.0005
    with pytest.raises(
        InputError, match=r"probs must be between 0 and 1; row 1, class 1 is 1.0005"
    ):
        Predictions.from_probs(probs)
