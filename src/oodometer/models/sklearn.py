"""A fitted scikit-learn classifier, or a pipeline that ends in one, as a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs, infer_kind
from oodometer.core.optional_imports import require
from oodometer.models.base import ClassNames, ModelAdapter, RawOutputs


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


@dataclass(frozen=True, eq=False, repr=False)
class SklearnModel(ModelAdapter):
    """A fitted estimator: `predict_proba` where it has one, else `predict`.

    Images are flattened to rows of the numbers 0…255 that they are: what scales them belongs in
    the pipeline, or in `prepare`. Of a table the columns are picked by the names it was fitted on.

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
            _raise_not_classifier(self.estimator, self.name)
        gives = ("probs", "classes") if hasattr(self.estimator, "predict_proba") else ("classes",)
        if self.outputs is not None and self.outputs not in gives:
            raise InputError(
                f"The model {self.name!r} can't give {self.outputs}; it gives {gives[0]}. "
                "Leave outputs out."
            )
        self._set("outputs", self.outputs or gives[0])

    def default_name(self) -> str:
        """The class of the estimator, or of a pipeline's last step."""
        steps = getattr(self.estimator, "steps", None)
        return type(steps[-1][1] if steps else self.estimator).__name__

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        """Probabilities, or classes where the estimator has no probabilities."""
        rows = (self.prepare or self._to_estimator_input)(inputs)
        names = _class_names(self.estimator.classes_)
        if self.outputs == "probs":
            return RawOutputs(self.estimator.predict_proba(rows), "probs", names)
        return RawOutputs(_whole_floats_to_ints(self.estimator.predict(rows)), "classes", names)

    def _to_estimator_input(self, inputs: Inputs) -> Any:
        kind = infer_kind(inputs)
        if kind in ("text", "pairs"):
            return inputs
        fitted_on = getattr(self.estimator, "feature_names_in_", None)
        if kind == "table":
            return (
                to_matrix(inputs, self.name)
                if fitted_on is None
                else _to_data_frame(inputs, list(fitted_on))
            )
        rows = self._flatten_images(inputs) if kind == "images" else inputs
        if fitted_on is None or rows.shape[1:] != (len(fitted_on),):
            return rows
        # Names that it was fitted on and does not see would make it warn.
        pandas = require("pandas", extra="tables", purpose="Naming the columns of an array")
        return pandas.DataFrame(rows, columns=list(fitted_on))

    def _flatten_images(self, images: Array) -> Array:
        """Rows of numbers, unless the first step takes images as they are."""
        wanted, d = getattr(self.estimator, "n_features_in_", None), math.prod(images.shape[1:])
        if wanted == d:
            return images.reshape(len(images), -1).astype(np.float64)
        if wanted is None or wanted == images.shape[1]:
            return images
        raise InputError(
            f"The model {self.name!r} was fitted on rows of {wanted} numbers; images of shape "
            f"{images.shape[1:]} have {d}. Give images of the size it was fitted on, or prepare=…."
        )


def _raise_not_classifier(estimator: Any, name: str) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError) as error:
        raise InputError(
            f"The model {name!r} is not fitted. Only a fitted classifier has answers: call its "
            "fit(X, y) first."
        ) from error
    raise InputError(
        f"The model {name!r} has no classes_, so it is no classifier. Give a fitted classifier, or "
        "a function from a batch to probabilities."
    )


def _whole_floats_to_ints(classes: Array) -> Array:
    """Whole floats as whole numbers: class 1.0 is called 1."""
    classes = np.asarray(classes)
    whole = classes.dtype.kind == "f" and np.array_equal(classes, np.floor(classes))
    return classes.astype(np.int64) if whole else classes


def _class_names(classes: Any) -> ClassNames | None:
    """Names of the classes; a list of several targets' classes has none."""
    return (
        None
        if isinstance(classes, list)
        else tuple(str(name) for name in _whole_floats_to_ints(classes))
    )


def _to_data_frame(table: Any, columns: list[str]) -> Any:
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise InputError(
            f"The table has no column {missing[0]!r}, which the model was fitted on. "
            f"It has: {', '.join(table.column_names[:12])}."
        )
    require("pandas", extra="tables", purpose="Showing a table to a model fitted on names")
    return table.select(columns).to_pandas()
