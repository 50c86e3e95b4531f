"""Label encoding: class numbers, class names, missing labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.labels import encode_labels, is_blank, normalize_labels
from oodometer.core.predictions import Predictions


def good_probs(n: int = 40, k: int = 3) -> Array:
    return np.random.default_rng(0).dirichlet(np.ones(k), size=n)


def error_of(probs: Any, **extras: Any) -> str:
    """Return the error message of from_probs, which must be one line."""
    with pytest.raises(InputError) as caught:
        Predictions.from_probs(probs, **extras)
    message = str(caught.value)
    assert "\n" not in message
    return message


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
def test_labels_are_numbers_or_names(labels: Any) -> None:
    found = Predictions.from_probs(good_probs(4), labels=labels, class_names=NAMES).labels
    assert found is not None
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [2, 0, 1, 1])


def test_bool_labels_are_classes_0_and_1() -> None:
    found = Predictions.from_probs([[0.1, 0.9], [0.1, 0.9]], labels=[True, False])
    np.testing.assert_array_equal(found.correct, [True, False])
    named = Predictions.from_probs([[0.1, 0.9]], labels=[True], class_names=["ham", "spam"])
    np.testing.assert_array_equal(named.labels, [1])


@pytest.mark.parametrize("names", [("True", "False"), ("true", "false"), ("TRUE", "False")])
def test_bool_labels_match_class_names_true_and_false(names: tuple[str, str]) -> None:
    probs = [[0.9, 0.1], [0.9, 0.1]]
    found = Predictions.from_probs(probs, labels=[True, False], class_names=names)
    np.testing.assert_array_equal(found.labels, [0, 1])
    turned = Predictions.from_probs(probs, labels=[True, False], class_names=names[::-1])
    np.testing.assert_array_equal(turned.labels, [1, 0])


@pytest.mark.parametrize("labels", [[7, 3, 3], [7.0, 3.0, 3.0], ["7", "3", "3"]])
def test_number_labels_are_names_if_class_names_are_numbers(labels: list[Any]) -> None:
    found = Predictions.from_probs(good_probs(3, 2), labels=labels, class_names=["3", "7"])
    np.testing.assert_array_equal(found.labels, [1, 0, 0])


def test_class_numbers_raise_if_class_names_are_numbers() -> None:
    message = error_of(good_probs(3, 2), labels=[3, 7, 1], class_names=["3", "7"])
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
def test_invalid_labels_raise(labels: Any, message: str) -> None:
    assert error_of(good_probs(4), labels=labels) == message


def test_unknown_label_is_reported_with_its_first_row() -> None:
    labels = ["cat", "yak", "dog", "ant", "yak"]
    assert error_of(good_probs(5), labels=labels, class_names=NAMES) == (
        "labels has 'yak' in row 1, which is not a class. Classes: cat, dog, emu."
    )


def test_long_lists_of_classes_are_truncated() -> None:
    names = [f"class{j}" for j in range(20)]
    message = error_of(good_probs(1, 20), labels=["none"], class_names=names)
    assert message.endswith("Classes: " + ", ".join(names[:8]) + ", ….")


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=20))
@settings(max_examples=30)
def test_labels_by_name_become_positions_in_class_names(labels: list[str]) -> None:
    found = encode_labels(labels, len(labels), 3, NAMES)
    assert found is not None
    assert found.tolist() == [NAMES.index(label) for label in labels]


# Class names ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b", "a"], "The class name 'a' occurs more than once; class names must be unique."),
        (["a", "b"], "There are 3 classes but 2 class names."),
        ([], "There are 3 classes but 0 class names."),
        ([1, "1", 2], "The class name '1' occurs more than once; class names must be unique."),
    ],
)
def test_class_names_must_be_complete_and_unique(names: list[Any], message: str) -> None:
    assert error_of(good_probs(), class_names=names) == message


def test_class_names_become_text() -> None:
    found = Predictions.from_probs(good_probs(), class_names=np.array([3, 5, 8]).tolist())
    assert found.class_names == ("3", "5", "8")


# Class numbers as text ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "names", "numbers"),
    [
        (["1", "0"], None, [1, 0]),
        (["1", " 0 "], ("cat", "dog"), [1, 0]),
        (["dog", "cat"], ("cat", "dog"), [1, 0]),
        (["7", "3"], ("3", "7"), [1, 0]),
        ([" 7", "3"], ("3", "7"), [1, 0]),
        (["07", "03"], ("3", "7"), [1, 0]),
        (["1", "0"], ("3", "7"), [1, 0]),
        (["0", "cat"], ("cat", "0"), [1, 0]),
        ([1, 0], ("cat", "dog"), [1, 0]),
    ],
)
def test_numeric_text_is_a_class_number_unless_it_is_a_class_name(
    labels: list[Any], names: tuple[str, ...] | None, numbers: list[int]
) -> None:
    codes = encode_labels(np.array(labels), 2, 2, names, numeric_text=True)
    assert codes is not None
    assert codes.tolist() == numbers
    assert codes.dtype == np.int64


def test_numeric_text_out_of_range_raises() -> None:
    with pytest.raises(InputError, match=r"labels must be between 0 and 1; row 1 is 2"):
        encode_labels(["0", "2"], 2, 2, ("cat", "dog"), numeric_text=True)


def test_numeric_text_is_not_accepted_by_default() -> None:
    with pytest.raises(InputError, match="labels has '1' in row 0, which is not a class"):
        encode_labels(["1", "0"], 2, 2, ("cat", "dog"))
    with pytest.raises(InputError, match=r"labels are text \('1' in row 0\)"):
        encode_labels(["1", "0"], 2, 2, None)


def test_no_labels_stay_none() -> None:
    assert encode_labels(None, 2, 2, None) is None
    assert normalize_labels(None, 2) is None


# Labels of datasets, before classes are known -------------------------------------------------


def test_labels_of_datasets_become_arrays_of_numbers_or_text() -> None:
    text = normalize_labels(np.array(["a", "b"], dtype=object), 2)
    assert text is not None
    assert text.dtype.kind == "U"
    numbers = normalize_labels([1, 0])
    assert numbers is not None
    assert numbers.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 0, 1], "labels must have one value per row; got shape (3,) for 2 rows."),
        ("y", "labels='y' is the name of a column, but this data has no columns."),
        (["a", None], "labels has no value in row 1."),
        ([np.nan, 1.0], "labels has no value in row 0."),
    ],
)
def test_invalid_labels_of_datasets_raise(labels: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        normalize_labels(labels, 2)
    assert str(caught.value).startswith(message)


def test_blank_labels_are_none_nan_and_blank_text() -> None:
    blank = [None, float("nan"), np.nan, "", " \t"]
    assert [value for value in blank if not is_blank(value)] == []
    assert not any(is_blank(value) for value in (0, 0.0, False, "0", "nan"))
