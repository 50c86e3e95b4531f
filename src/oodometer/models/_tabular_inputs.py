"""A table of numbers as an array, for models that know no column names."""

from __future__ import annotations

from typing import Any

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.softmax_kernels import Array


def to_matrix(table: Any, model_name: str) -> Array:
    """The columns side by side, as floats; `model_name` is the model that asks.

    >>> import pyarrow
    >>> to_matrix(pyarrow.table({"age": [40, 50], "dose": [0.5, 1.5]}), "toy")
    array([[40. ,  0.5],
           [50. ,  1.5]])
    """
    columns = {column: table.column(column).to_numpy() for column in table.column_names}
    for column, values in columns.items():
        if values.dtype.kind not in "fiub":
            raise InputError(
                f"The model {model_name!r} takes numbers without names, and the column {column!r} holds "
                "none. Give a model that was fitted on a data frame, or pass prepare=…."
            )
    return np.column_stack([values.astype(np.float64) for values in columns.values()])
