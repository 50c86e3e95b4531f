"""Tables as arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from oodometer.core.errors import InputError
from oodometer.models.sklearn import to_matrix


def test_numeric_columns_become_a_float_matrix() -> None:
    table = pa.table({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False]})
    assert to_matrix(table, "toy").tolist() == [[1.0, 0.5, 1.0], [2.0, 1.5, 0.0]]
    assert np.isnan(to_matrix(pa.table({"a": [1.0, None]}), "toy")[1, 0])


@pytest.mark.parametrize("column", [pa.array(["x", "y"]), pa.array(["x", "y"]).dictionary_encode()])
def test_categorical_columns_raise(column: pa.Array) -> None:
    with pytest.raises(InputError, match="'toy' takes a numeric array, but the column 'b'"):
        to_matrix(pa.table({"a": [1, 2], "b": column}), "toy")
