"""Record classes of a store: models, datasets, predictions, results and failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.studies.store.array_store import ArrayStore


class ResultKey(NamedTuple):
    """Unique key of a result, which contains everything that its value depends on.

    Attributes
    ----------
    model : str
        Key of the model.
    source : str
        Key of the labelled source dataset; empty if the measure does not need one.
    dataset : str
        Key of the dataset that the measure was computed on.
    measure : str
        Name of the measure.
    settings : str
        Settings of the measure, as text.
    """

    model: str
    source: str
    dataset: str
    measure: str
    settings: str


@dataclass(frozen=True)
class ModelRecord:
    """Model of a study.

    Parameters
    ----------
    key : str
        Key derived from the model's content.
    name : str
        Name in tables.
    architecture : str
        Name of the architecture.
    trained_on : tuple of str
        Training domains.
    recipe : mapping of str to object
        Configuration that the model was trained with.
    facts : mapping of str to object
        Facts about the training, such as ``converged``.
    """

    key: str
    name: str
    architecture: str
    trained_on: tuple[str, ...]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class DatasetRecord:
    """Labelled dataset of a study.

    Parameters
    ----------
    key : str
        Key derived from the rows and labels.
    name : str
        Name in tables.
    labels : array of int, shape (n,)
        Index of each row's class in `classes`.
    classes : tuple of str
        Names of the classes.
    """

    key: str
    name: str
    labels: Ints
    classes: tuple[str, ...]


@dataclass(frozen=True)
class ResultRecord:
    """Value of a measure, or the reason why there is none.

    Parameters
    ----------
    model : str
        Key of the model.
    source : str
        Key of the labelled source dataset; empty if the measure does not need one.
    dataset : str
        Key of the dataset that the measure was computed on.
    tested_on : str
        Name of the test domain.
    measure : str
        Name of the measure.
    settings : str
        Settings of the measure, as text.
    value : float or None
        Value of the measure.
    low, high : float, optional
        Confidence interval.
    reason : str, optional
        Why there is no value.
    facts : mapping of str to object
        Further values that the measure reports.
    seconds : float
        Computation time.

    Raises
    ------
    InputError
        If there is neither a value nor a reason, or both.
    """

    model: str
    source: str
    dataset: str
    tested_on: str
    measure: str
    settings: str
    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if (self.value is None) != (self.reason is not None):
            raise InputError(
                f"A result has a value or a reason; {self.measure!r} has the value {self.value!r} "
                f"and the reason {self.reason!r}. Pass one of them."
            )

    @property
    def key(self) -> ResultKey:
        return ResultKey(self.model, self.source, self.dataset, self.measure, self.settings)


@dataclass(frozen=True)
class FailureRecord:
    """Error that occurred when a model was evaluated on a dataset.

    Parameters
    ----------
    reason : str
        Error message in one line.
    trace : str
        Traceback of the error.
    """

    reason: str
    trace: str = ""


@dataclass(frozen=True, eq=False)
class EvaluationOutcome:
    """Predictions and results of one model on one dataset, or its failure.

    Parameters
    ----------
    model : str
        Key of the model.
    dataset : str
        Key of the dataset.
    predictions : Predictions, optional
        Outputs of the model on the dataset.
    results : tuple of ResultRecord
        Values of measures.
    failure : FailureRecord, optional
        Error that occurred, if any.
    """

    model: str
    dataset: str
    predictions: Predictions | None = None
    results: tuple[ResultRecord, ...] = ()
    failure: FailureRecord | None = None


@dataclass(frozen=True)
class PredictionReference:
    """Stored predictions, given by the names of their arrays, which workers can read.

    Parameters
    ----------
    array : str
        Name of the array of scores or classes.
    form : str
        Type of the scores: ``probs``, ``logits`` or ``classes``.
    k : int
        Number of classes of the model.
    temperature : float
        Temperature of the predictions.
    class_names : tuple of str or None
        Class names of the model.
    labels : str
        Name of the array of labels.
    classes : tuple of str
        Class names of the dataset.
    """

    array: str
    form: str
    k: int
    temperature: float
    class_names: tuple[str, ...] | None
    labels: str
    classes: tuple[str, ...]

    def read(self, array_store: ArrayStore) -> Predictions:
        """Return the labelled predictions."""
        values = array_store.get(self.array)
        labels = labels_for_model(array_store.get(self.labels), self.classes, self.class_names)
        if self.form == "classes":
            return Predictions.from_classes(
                values, k=self.k, labels=labels, class_names=self.class_names
            )
        construct = Predictions.from_probs if self.form == "probs" else Predictions.from_logits
        predictions = construct(values, labels=labels, class_names=self.class_names)
        return predictions.at_temperature(self.temperature)


def stored_values(predictions: Predictions) -> Array:
    """Return the array to store: scores, or classes if there are no scores."""
    return np.asarray(predictions.classes if predictions.scores is None else predictions.scores)


def labels_for_model(
    labels: Ints, classes: tuple[str, ...], model_classes: tuple[str, ...] | None
) -> Array:
    """Return labels as class names if model and data have the same names, otherwise as indices.

    If only some of the names are equal, the model was trained for another task, and an error is
    raised.

    >>> labels_for_model(np.array([0, 1]), ("cat", "dog"), ("dog", "cat"))
    array(['cat', 'dog'], dtype='<U3')
    >>> labels_for_model(np.array([0, 1]), ("cat", "dog"), ("0", "1"))
    array([0, 1])
    """
    shared = set(classes) & set(model_classes or ())
    if not shared:
        return labels
    unshared = sorted({*classes, *(model_classes or ())} - shared)
    if unshared:
        raise InputError(
            f"The class {unshared[0]!r} is not a class of both the model and the data. Use a model "
            f"of the classes {', '.join(classes)}."
        )
    return np.asarray(classes)[labels]
