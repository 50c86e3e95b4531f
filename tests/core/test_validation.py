"""Bad input gets a clear error: which array, which row, what was expected."""

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
from oodometer.core.labels import encode_labels
from oodometer.core.predictions import Predictions

USE_LOGITS = "For raw scores use logits (Predictions.from_logits)."
DTYPES = [np.float16, np.float32, np.float64]


def good_probs(n: int = 40, k: int = 3, dtype: npt.DTypeLike = np.float64) -> Array:
    return np.random.default_rng(0).dirichlet(np.ones(k), size=n).astype(dtype)


def refusal_of(probs: Any, **extras: Any) -> str:
    """What from_probs says against it, in one line."""
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
def test_what_is_no_table_of_numbers_is_refused(probs: Any, message: str) -> None:
    assert refusal_of(probs) == message


def test_no_rows_at_all_are_refused() -> None:
    assert "got (0,)" in refusal_of([])


@pytest.mark.parametrize("k", [0, 1])
def test_fewer_than_two_classes_are_refused_with_advice(k: int) -> None:
    assert refusal_of(np.ones((4, k))) == (
        f"probs must have one column per class, at least two; got {k}. "
        "For a single probability p of the second class, pass the two columns 1 - p and p."
    )


def test_a_refusal_names_logits_where_logits_were_given() -> None:
    for logits in ([["a", "b"]], [1.0, 2.0], np.zeros((0, 2)), np.zeros((3, 1)), [[1, 2], [1]]):
        with pytest.raises(InputError, match=r"^logits "):
            Predictions.from_logits(logits)


# Probabilities --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_named_with_its_row_and_class(
    bad: float, dtype: npt.DTypeLike
) -> None:
    probs = good_probs(dtype=dtype)
    probs[17, 2] = bad
    assert refusal_of(probs) == (
        f"probs must be finite; row 17, class 2 is {bad}. Remove or correct such rows."
    )
    with pytest.raises(InputError, match=rf"^logits must be finite; row 17, class 2 is {bad}\."):
        Predictions.from_logits(probs)


@pytest.mark.parametrize(("dtype", "shown"), [(np.float32, "1.2"), (np.float64, "1.2")])
def test_a_row_that_sums_to_1_2_is_refused(dtype: npt.DTypeLike, shown: str) -> None:
    probs = good_probs(dtype=dtype)
    probs[5] = [0.4, 0.4, 0.4]
    message = refusal_of(probs)
    assert message == f"probs must sum to 1 in every row; row 5 sums to {shown}. {USE_LOGITS}"


@pytest.mark.parametrize(("total", "accepted"), [(1.0009, True), (0.9991, True), (1.0011, False), (0.9989, False)])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 10, 200])
def test_the_tolerance_of_a_sum_is_a_thousandth(
    k: int, dtype: npt.DTypeLike, total: float, accepted: bool
) -> None:
    probs = np.full((50, k), 1.0 / k)
    probs[30] *= total
    if accepted:
        assert Predictions.from_probs(probs.astype(dtype)).n == 50
    else:
        assert f"row 30 sums to {total:.4g}" in refusal_of(probs.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [2, 3, 10, 40, 200, 1000])
def test_probabilities_rounded_to_any_float_are_accepted(k: int, dtype: npt.DTypeLike) -> None:
    probs = good_probs(200, k, dtype)
    assert Predictions.from_probs(probs).n == 200
    assert Predictions.from_probs(np.full((3, k), 1.0 / k, dtype=dtype)).n == 3


def test_a_probability_below_0_is_refused_though_its_row_sums_to_1() -> None:
    probs = good_probs()
    probs[9] = [0.5, 0.6, -0.1]
    assert (
        refusal_of(probs) == f"probs must be between 0 and 1; row 9, class 2 is -0.1. {USE_LOGITS}"
    )


def test_rounding_just_outside_of_0_and_1_is_accepted() -> None:
    assert Predictions.from_probs([[1.0 + 5e-7, -5e-7], [0.5, 0.5]]).n == 2
    assert "row 0, class 0 is 1.000002." in refusal_of([[1.0 + 2e-6, -2e-6]])
    assert "row 0, class 1 is -2e-06." in refusal_of([[1.0, -2e-6]])


def test_logits_given_as_probs_are_refused_with_the_way_out() -> None:
    message = refusal_of([[2.5, -1.0, 0.3], [0.1, 0.2, 0.3]])
    assert message == f"probs must be between 0 and 1; row 0, class 0 is 2.5. {USE_LOGITS}"


def test_the_first_offending_row_is_named_whatever_is_wrong_with_it() -> None:
    probs = good_probs()
    probs[30] = np.nan
    probs[20] = [2.0, -1.0, 0.0]
    probs[10] = [0.3, 0.3, 0.3]
    assert "row 10 sums to 0.9" in refusal_of(probs)
    assert "row 3, class 0 is 2." in refusal_of(probs[17:])
    assert "row 9, class 0 is nan" in refusal_of(probs[21:])


@pytest.mark.parametrize("extra", [-1, 0, 1, 5])
@pytest.mark.parametrize("k", [3, 40])
def test_a_row_is_counted_from_the_first_also_beyond_a_block(k: int, extra: int) -> None:
    row = softmax_kernels.BLOCK_CELLS // k + extra
    probs = np.full((row + 10, k), 1.0 / k, dtype=np.float32)
    probs[row] *= 1.5
    assert f"row {row} sums to 1.5." in refusal_of(probs)
    probs[row] = np.nan
    assert f"row {row}, class 0 is nan" in refusal_of(probs)
    with pytest.raises(InputError, match=f"row {row}, class 0 is nan"):
        Predictions.from_logits(probs)


def test_numbers_too_large_to_add_are_refused_without_a_warning() -> None:
    assert "row 0, class 0 is 1e+308" in refusal_of([[1e308, 1e308], [0.5, 0.5]])


def test_ones_and_zeros_may_be_whole_numbers_or_bools() -> None:
    for dtype in (np.int8, np.int64, np.uint8, np.bool_):
        found = Predictions.from_probs(np.eye(3, dtype=dtype))
        np.testing.assert_array_equal(found.confidence, 1.0)
        np.testing.assert_array_equal(found.classes, [0, 1, 2])
    assert "row 0 sums to 2" in refusal_of(np.array([[1, 1], [0, 1]]))


@given(
    row=st.integers(0, 49),
    column=st.integers(0, 3),
    change=st.floats(0.0011, 5).flatmap(lambda size: st.sampled_from([size, -size])),
    order=st.sampled_from(["C", "F"]),
)
@settings(max_examples=60)
def test_any_single_wrong_value_is_found_and_its_row_named(
    row: int, column: int, change: float, order: str
) -> None:
    probs = good_probs(50, 4)
    probs[row, column] += change
    probs = np.asfortranarray(probs) if order == "F" else probs
    message = refusal_of(probs)
    assert f"; row {row} sums" in message or f"; row {row}, class {column} is" in message


# Logits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_probabilities_given_as_logits_warn_where_the_user_wrote_it(
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
def test_what_does_not_look_like_probabilities_does_not_warn(which: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Predictions.from_logits(not_quite_probs()[which]).score_type == "logits"


def test_huge_float16_logits_pass_without_a_warning() -> None:
    logits = np.full((20, 10), 6e4, dtype=np.float16)
    assert Predictions.from_logits(logits).n == 20


# Labels ---------------------------------------------------------------------------------------

NAMES = ("cat", "dog", "emu")


@pytest.mark.parametrize(
    "labels",
    [
        [2, 0, 1, 1],
        (2, 0, 1, 1),
        np.array([2, 0, 1, 1], dtype=np.uint8),
        np.array([2.0, 0.0, 1.0, 1.0], dtype=np.float16),
        [2.0, 0.0, 1.0, 1.0],
        np.array([2, 0, 1, 1], dtype=object),
        np.array([2, 0.0, np.int64(1), True], dtype=object),
        ["emu", "cat", "dog", "dog"],
        np.array(["emu", "cat", "dog", "dog"], dtype=object),
        np.array([b"emu", b"cat", b"dog", b"dog"]),
    ],
    ids=lambda labels: f"{type(labels).__name__}-{np.asarray(labels).dtype}",
)
def test_labels_may_be_numbers_or_names(labels: Any) -> None:
    found = Predictions.from_probs(good_probs(4), labels=labels, class_names=NAMES).labels
    assert found is not None
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [2, 0, 1, 1])


def test_bools_are_the_classes_0_and_1() -> None:
    found = Predictions.from_probs([[0.1, 0.9], [0.1, 0.9]], labels=[True, False])
    np.testing.assert_array_equal(found.correct, [True, False])
    named = Predictions.from_probs([[0.1, 0.9]], labels=[True], class_names=["ham", "spam"])
    np.testing.assert_array_equal(named.labels, [1])


@pytest.mark.parametrize("names", [("True", "False"), ("true", "false"), ("TRUE", "False")])
def test_bools_go_to_the_classes_called_true_and_false(names: tuple[str, str]) -> None:
    probs = [[0.9, 0.1], [0.9, 0.1]]
    found = Predictions.from_probs(probs, labels=[True, False], class_names=names)
    np.testing.assert_array_equal(found.labels, [0, 1])
    turned = Predictions.from_probs(probs, labels=[True, False], class_names=names[::-1])
    np.testing.assert_array_equal(turned.labels, [1, 0])


@pytest.mark.parametrize("labels", [[7, 3, 3], [7.0, 3.0, 3.0], ["7", "3", "3"]])
def test_numbers_are_names_where_all_class_names_are_numbers(labels: list[Any]) -> None:
    found = Predictions.from_probs(good_probs(3, 2), labels=labels, class_names=["3", "7"])
    np.testing.assert_array_equal(found.labels, [1, 0, 0])


def test_a_place_is_no_label_where_class_names_are_numbers() -> None:
    message = refusal_of(good_probs(3, 2), labels=[3, 7, 1], class_names=["3", "7"])
    assert message == "labels has '1' in row 2, which is not a class. Classes: 3, 7."


def test_negative_numbers_may_be_class_names() -> None:
    found = Predictions.from_probs(good_probs(2, 2), labels=[1, -1], class_names=["-1", "1"])
    np.testing.assert_array_equal(found.labels, [1, 0])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 3, -1, 0], "labels must be between 0 and 2; row 1 is 3."),
        ([0, -1, 3, 0], "labels must be between 0 and 2; row 1 is -1."),
        ([0.0, 1.0, 2.0, 5.0], "labels must be between 0 and 2; row 3 is 5."),
        ([0, 1.5, 2, 0.5], "labels must be class numbers or class names; row 1 is 1.5."),
        ([0, 1, np.nan, 0], "labels must be class numbers or class names; row 2 is nan."),
        ([0, 1, np.inf, 0], "labels must be class numbers or class names; row 2 is inf."),
        ([0, 1, 1e30, 0], "labels must be class numbers or class names; row 2 is 1e+30."),
        ([0, None, 1, 0], "labels must be class numbers or class names; row 1 is None."),
        ([0, 1, 2], "There are 4 rows but 3 labels."),
        ([[0], [1], [2], [0]], "labels must have shape (n,), one value per row; got (4, 1)."),
        (2, "labels must have shape (n,), one value per row; got ()."),
        (
            [[0], [1, 2], [0], [0]],
            "labels must have the same number of values in every row; row 0 has 1, row 1 has 2.",
        ),
        (
            ["cat", "dog", "dog", "cat"],
            "labels are text ('cat' in row 0) but the classes have no names. Pass class_names, "
            "or name the score columns after the classes (prob_cat, prob_dog); for a model, pass "
            "class_names=[…] (--class-names).",
        ),
    ],
)
def test_a_label_that_is_no_class_is_refused(labels: Any, message: str) -> None:
    assert refusal_of(good_probs(4), labels=labels) == message


def test_an_unknown_name_is_named_with_the_first_row_that_has_it() -> None:
    labels = ["cat", "yak", "dog", "ant", "yak"]
    assert refusal_of(good_probs(5), labels=labels, class_names=NAMES) == (
        "labels has 'yak' in row 1, which is not a class. Classes: cat, dog, emu."
    )


def test_of_many_classes_only_some_are_shown() -> None:
    names = [f"class{j}" for j in range(20)]
    message = refusal_of(good_probs(1, 20), labels=["none"], class_names=names)
    assert message.endswith("Classes: " + ", ".join(names[:8]) + ", ….")


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=20))
@settings(max_examples=30)
def test_labels_by_name_are_the_names_places(labels: list[str]) -> None:
    found = encode_labels(labels, len(labels), 3, NAMES)
    assert found is not None
    assert found.tolist() == [NAMES.index(label) for label in labels]


# Class names, features, ids, signals ----------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b", "a"], "The class name 'a' occurs more than once; class names must be unique."),
        (["a", "b"], "There are 3 classes but 2 class names."),
        ([], "There are 3 classes but 0 class names."),
        ([1, "1", 2], "The class name '1' occurs more than once; class names must be unique."),
    ],
)
def test_class_names_are_one_a_class_and_none_twice(names: list[Any], message: str) -> None:
    assert refusal_of(good_probs(), class_names=names) == message


def test_class_names_become_text() -> None:
    found = Predictions.from_probs(good_probs(), class_names=np.array([3, 5, 8]).tolist())
    assert found.class_names == ("3", "5", "8")


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
def test_bad_features_are_refused(features: Any, message: str) -> None:
    assert message in refusal_of(good_probs(4), features=features)


def test_ids_must_be_one_a_row() -> None:
    assert refusal_of(good_probs(4), ids=["a"]) == "There are 4 rows but 1 ids."
    assert refusal_of(good_probs(1), ids="a") == (
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
def test_a_bad_confidence_is_refused(confidence: Any, message: str) -> None:
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
def test_bad_signals_are_refused(signals: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Predictions.from_confidence([0.9, 0.6], k=3, **signals)
    assert str(caught.value) == message


@pytest.mark.parametrize("k", [-1, 0, 1])
def test_a_classifier_of_fewer_than_two_classes_is_refused(k: int) -> None:
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
def test_bad_decisions_are_refused(classes: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Predictions.from_classes(classes, **given)
    assert str(caught.value) == message


# Two sides ------------------------------------------------------------------------------------


def test_different_numbers_of_classes_are_told() -> None:
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
def test_different_ids_are_told_with_the_row(ids: list[Any], other: list[Any], shown: str) -> None:
    validation.check_same_ids(np.array(ids), np.array(ids))
    with pytest.raises(InputError) as caught:
        validation.check_same_ids(np.array(ids), np.array(other))
    assert str(caught.value) == f"The ids of the two models differ: {shown}. Sort both by id."


@pytest.mark.parametrize("k", [2, 5, 40])
def test_a_probability_above_1_is_refused_even_where_the_sum_is_near_enough(k: int) -> None:
    probs = np.eye(k)
    probs[1, 1] = 1.0005
    with pytest.raises(
        InputError, match=r"probs must be between 0 and 1; row 1, class 1 is 1.0005"
    ):
        Predictions.from_probs(probs)
