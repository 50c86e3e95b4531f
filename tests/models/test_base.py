"""Behaviour that all adapters share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.protocols import Model
from oodometer.models import FunctionModel
from oodometer.models.base import default_batch_size, describe_inputs


def shares(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True))


def test_adapters_are_models() -> None:
    assert isinstance(FunctionModel(shares), Model)
    assert repr(FunctionModel(shares)) == "FunctionModel('shares')"


@given(st.integers(1, 20), st.integers(1, 25))
def test_batch_size_does_not_change_outputs(n: int, batch: int) -> None:
    rows = np.random.default_rng(n).normal(size=(n, 3))
    sizes: list[int] = []

    def record_size(part: np.ndarray) -> np.ndarray:
        sizes.append(len(part))
        return shares(part)

    whole = FunctionModel(shares).classify(rows)
    assert np.array_equal(
        FunctionModel(record_size, batch_size=batch).classify(rows).probs, whole.probs
    )
    assert sum(sizes) == n
    assert max(sizes) == min(batch, n)


def test_invalid_settings_raise() -> None:
    with pytest.raises(UnknownName, match="No kind of outputs is called 'probabilities'"):
        FunctionModel(shares, outputs="probabilities")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="batch_size must be at least 1; got 0"):
        FunctionModel(shares, batch_size=0)
    with pytest.raises(
        InputError, match="class_names must be a list of names; got the string 'ab'"
    ):
        FunctionModel(shares, class_names="ab")


def test_empty_and_invalid_batches_raise() -> None:
    with pytest.raises(InputError, match="'shares' received no rows"):
        FunctionModel(shares).classify(np.zeros((0, 3)))
    with pytest.raises(InputError, match="is not a batch of inputs"):
        FunctionModel(shares).classify({"a": 1})


def test_exceptions_of_the_classifier_are_reported_on_one_line() -> None:
    def broken(rows: np.ndarray) -> np.ndarray:
        raise KeyError("weight")

    with pytest.raises(
        InputError, match=r"'broken' failed on 2 vectors of shape \(3,\): KeyError: 'weight'"
    ) as refusal:
        FunctionModel(broken).classify(np.zeros((2, 3)))
    assert isinstance(refusal.value.__cause__, KeyError)


def test_batches_of_large_images_have_fewer_rows() -> None:
    shapes = {(1, 8, 8, 3): 256, (1, 32, 32): 64, (1, 64, 64): 16, (1, 224, 224, 3): 16}
    for shape, rows in shapes.items():
        assert default_batch_size(np.zeros(shape, dtype=np.uint8)) == rows
    assert default_batch_size(np.zeros((1, 5))) == 256
    assert default_batch_size(["a text"]) == 256


def test_description_of_a_batch() -> None:
    assert describe_inputs(np.zeros((2, 8, 8), dtype=np.uint8)) == "2 images of shape (8, 8)"
    assert describe_inputs([("a", "b")]) == "1 pairs of texts"
    assert describe_inputs(pa.table({"x": [1, 2]})) == "2 rows of a table"


def test_system_exit_of_a_model_is_an_error_that_names_it() -> None:
    def quits(inputs: list[str]) -> list[int]:
        raise SystemExit(3)

    with pytest.raises(InputError, match="'quits' failed on 1 rows of text: SystemExit: 3"):
        FunctionModel(quits).classify(["a"])
