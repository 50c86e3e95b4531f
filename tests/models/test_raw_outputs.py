"""Raw outputs of classifiers as Predictions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.models.base import (
    ClassNames,
    RawOutputs,
    as_predictions,
    check_row_count,
    concat_outputs,
    exception_summary,
)


def read(raw: RawOutputs, classes: ClassNames | None = None) -> Predictions:
    return as_predictions(check_row_count(raw, len(raw.values), "toy"), "toy", classes)


def test_output_type_defaults_by_shape() -> None:
    assert read(RawOutputs(np.array([[0.2, 0.8]]))).score_type == "probs"
    assert read(RawOutputs(np.array([1, 0]))).score_type == "classes"
    assert read(RawOutputs(np.array([[0.2, 0.9]]), "logits")).score_type == "logits"


def test_unnamed_hard_classes_are_two_or_the_largest_seen() -> None:
    assert read(RawOutputs([0, 0])).k == 2
    assert read(RawOutputs([0, 4])).k == 5
    assert read(RawOutputs([0.0, 2.0])).classes.tolist() == [0, 2]


def test_hard_classes_as_strings_need_class_names() -> None:
    with pytest.raises(
        InputError, match=r"'toy'.*row 0 is 'cat'.*class_names=\[…\] or --class-names"
    ):
        read(RawOutputs(["cat", "dog"]))
    assert read(RawOutputs(["cat", "dog"]), ("dog", "cat")).classes.tolist() == [1, 0]
    assert read(
        RawOutputs(np.array(["b", "a"], dtype=object), class_names=("a", "b"))
    ).classes.tolist() == [
        1,
        0,
    ]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (RawOutputs([[0.2, 0.9]]), r'sums to 1\.1.*returns logits, pass outputs="logits"'),
        (RawOutputs([[np.nan, 0.9]]), "must be finite; row 0, class 0 is nan"),
        (RawOutputs([[np.nan, 0.9]], "logits"), "must be finite"),
        (RawOutputs([0, 0.37]), r"row 1 is 0\.37.*columns 1 - p and p"),
        (RawOutputs([0.0, np.inf]), "row 1 is inf"),
        (RawOutputs([None, None]), "must be class numbers or class names; row 0 is None"),
        (RawOutputs([1, None]), "must be class numbers or class names; row 1 is None"),
        (RawOutputs([-1, 0]), "row 0 is -1"),
        (RawOutputs([[0.5], [0.5]]), "at least two; got 1"),
        (RawOutputs([1.0, 2.0], "logits"), 'one column per class.*outputs="classes"'),
        (RawOutputs(np.zeros((2, 2, 2))), r"got \(2, 2, 2\)"),
        (RawOutputs([[0, 1], [1, 0]], "classes"), "one value per row"),
        (RawOutputs([[1, 2], [1]]), "rows of different lengths"),
        (RawOutputs([[0.5, 0.5]], class_names=("a", "b", "c")), "2 classes but 3 class names"),
    ],
)
def test_invalid_outputs_raise_and_name_the_model(raw: RawOutputs, words: str) -> None:
    with pytest.raises(InputError, match=f"The model 'toy' returned .*({words})") as refusal:
        read(raw)
    assert "\n" not in str(refusal.value)


def test_number_of_rows_must_match_the_inputs() -> None:
    with pytest.raises(InputError) as refusal:
        check_row_count(RawOutputs(np.zeros((31, 2))), 32, "score")
    assert str(refusal.value) == (
        "The model 'score' returned 31 rows for 32 inputs. It must return one row per input."
    )
    with pytest.raises(InputError, match="returned a single value for 2 inputs"):
        check_row_count(RawOutputs(1), 2, "score")


def test_batches_must_have_the_same_number_of_classes() -> None:
    parts = [RawOutputs(np.zeros((2, 3))), RawOutputs(np.zeros((2, 4)))]
    with pytest.raises(InputError, match=r"'toy' returned rows of shape \(3,\) .* \(4,\)"):
        concat_outputs(parts, "toy")


def test_known_class_names_reorder_the_classes() -> None:
    known = RawOutputs([[0.1, 0.2, 0.7]], class_names=("a", "b", "c"))
    predictions = read(known, ("c", "a", "b"))
    assert predictions.class_names == ("c", "a", "b")
    assert predictions.probs.tolist() == [[0.7, 0.1, 0.2]]


def test_new_class_names_rename_and_partly_known_ones_raise() -> None:
    known = RawOutputs([[0.1, 0.9]], class_names=("0", "1"))
    assert read(known, ("cat", "dog")).class_names == ("cat", "dog")
    for classes in (("0", "dog"), ("cat", "dog", "cow")):
        with pytest.raises(InputError, match="its classes are 0, 1, but class_names= is"):
            read(known, classes)


@given(st.permutations(["a", "b", "c", "d"]), st.integers(0, 2**32 - 1))
def test_order_of_class_names_does_not_change_predictions(order: list[str], seed: int) -> None:
    probs = np.random.default_rng(seed).dirichlet(np.ones(4), size=5)
    plain = read(RawOutputs(probs, class_names=("a", "b", "c", "d")))
    reordered = read(RawOutputs(probs, class_names=("a", "b", "c", "d")), tuple(order))
    expected = ["abcd"[j] for j in plain.classes]
    assert [order[j] for j in reordered.classes] == expected
    assert np.array_equal(np.sort(reordered.probs, axis=1), np.sort(plain.probs, axis=1))


def test_exception_summary_is_one_short_line() -> None:
    assert exception_summary(ValueError("two\nlines")) == "ValueError: two lines"
    assert exception_summary(ValueError("so.")) == "ValueError: so"
    assert exception_summary(ValueError()) == "ValueError"
    assert len(exception_summary(ValueError("x" * 5000))) < 230
