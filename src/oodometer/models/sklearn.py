"""Adapter of fitted scikit-learn classifiers and of pipelines that end in one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, unknown_column
from oodometer.core.inputs import Inputs, infer_kind
from oodometer.core.optional_imports import require
from oodometer.models.base import ClassNames, ModelAdapter, RawOutputs


@dataclass(frozen=True, eq=False, repr=False)
class SklearnModel(ModelAdapter):
    """A fitted scikit-learn classifier or pipeline.

    `predict_proba` is called if the estimator has this method, otherwise `predict`. Images are
    flattened to rows of pixel values from 0 to 255. If the pixels need scaling, do it in the
    pipeline or in `prepare`. The columns of a table are selected by the column names that the
    estimator was fitted on.

    Parameters
    ----------
    estimator : object
        Fitted classifier or pipeline.
    name, class_names, outputs, batch_size
        See `ModelAdapter`.
    prepare : callable, optional
        Function that converts a batch to the argument of `predict_proba` or `predict`.

    Raises
    ------
    InputError
        If the estimator is not fitted, is not a classifier, or cannot return outputs of the type
        `outputs`.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> model = SklearnModel(GaussianNB().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"]))
    >>> model.classify(np.array([[0.5], [4.5]])).probs.round(3)
    array([[1., 0.],
           [0., 1.]])
    """

    estimator: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if not hasattr(self.estimator, "classes_"):
            raise _not_classifier_error(self.estimator, self.name)
        available = ["probs"] if hasattr(self.estimator, "predict_proba") else []
        available.append("classes")
        if self.outputs is not None and self.outputs not in available:
            raise InputError(
                f"The model {self.name!r} cannot return {self.outputs}; it returns {available[0]}. "
                "Omit outputs."
            )
        self._set("outputs", self.outputs or available[0])

    def default_name(self) -> str:
        """Return the class name of the estimator, or of a pipeline's last step."""
        steps = getattr(self.estimator, "steps", None)
        return type(steps[-1][1] if steps else self.estimator).__name__

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        rows = (self.prepare or self._to_estimator_input)(inputs)
        names = _class_names(self.estimator.classes_)
        if self.outputs == "probs":
            return RawOutputs(self.estimator.predict_proba(rows), "probs", names)
        return RawOutputs(_whole_floats_to_ints(self.estimator.predict(rows)), "classes", names)

    def _to_estimator_input(self, inputs: Inputs) -> Any:
        kind = infer_kind(inputs)
        if kind in ("text", "pairs"):
            return inputs
        fitted_columns = getattr(self.estimator, "feature_names_in_", None)
        if kind == "table":
            if fitted_columns is None:
                return to_matrix(inputs, self.name)
            return _to_data_frame(inputs, list(fitted_columns))
        rows = self._flatten_images(inputs) if kind == "images" else inputs
        if fitted_columns is None or rows.shape[1:] != (len(fitted_columns),):
            return rows
        # An estimator that was fitted on named columns warns if it receives an array without names.
        pandas = require("pandas", extra="tables", purpose="Naming the columns of an array")
        return pandas.DataFrame(rows, columns=list(fitted_columns))

    def _flatten_images(self, images: Array) -> Array:
        """Return one row of pixels per image, or unchanged images if the estimator takes images."""
        n_expected = getattr(self.estimator, "n_features_in_", None)
        n_pixels = math.prod(images.shape[1:])
        if n_expected == n_pixels:
            return images.reshape(len(images), -1).astype(np.float64)
        if n_expected is None or n_expected == images.shape[1]:
            return images
        raise InputError(
            f"The model {self.name!r} was fitted on rows of {n_expected} numbers; images of shape "
            f"{images.shape[1:]} have {n_pixels}. Pass images of the size it was fitted on, or "
            "prepare=…."
        )


def to_matrix(table: Any, model_name: str) -> Array:
    """Return the columns of a numeric table as a matrix of floats.

    `model_name` appears in error messages.

    >>> import pyarrow
    >>> to_matrix(pyarrow.table({"age": [40, 50], "dose": [0.5, 1.5]}), "toy")
    array([[40. ,  0.5],
           [50. ,  1.5]])
    """
    columns = {column: table.column(column).to_numpy() for column in table.column_names}
    for column, values in columns.items():
        if values.dtype.kind not in "fiub":
            raise InputError(
                f"The model {model_name!r} takes a numeric array, but the column {column!r} is not "
                "numeric. Use a model that was fitted on a data frame, or pass prepare=…."
            )
    return np.column_stack([values.astype(np.float64) for values in columns.values()])


def _to_data_frame(table: Any, columns: list[str]) -> Any:
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        where = "the table, but the model was fitted on it"
        raise unknown_column(missing[0], table.column_names, where=where)
    require("pandas", extra="tables", purpose="Passing a table to a model fitted on a data frame")
    return table.select(columns).to_pandas()


def _not_classifier_error(estimator: Any, name: str) -> InputError:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return InputError(f"The model {name!r} is not fitted. Call its fit(X, y) first.")
    return InputError(
        f"The model {name!r} has no classes_, so it is not a classifier. Pass a fitted classifier, "
        "or a function from a batch to probabilities."
    )


def _whole_floats_to_ints(classes: Array) -> Array:
    """Convert whole floats such as 1.0 to integers, so that the class 1.0 gets the name "1"."""
    classes = np.asarray(classes)
    whole = classes.dtype.kind == "f" and np.array_equal(classes, np.floor(classes))
    return classes.astype(np.int64) if whole else classes


def _class_names(classes: Any) -> ClassNames | None:
    """Return the class names; None for a multi-output estimator, whose `classes_` is a list."""
    if isinstance(classes, list):
        return None
    return tuple(str(name) for name in _whole_floats_to_ints(classes))
