"""What a store keeps: models, datasets, what models said of them, and the values made of that."""

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
    """What no two results have alike: all that a value hangs on."""

    model: str
    source: str
    dataset: str
    measure: str
    settings: str


@dataclass(frozen=True)
class ModelRecord:
    """A model: its key (of its content), its name in tables, and how it was made."""

    key: str
    name: str
    architecture: str
    trained_on: tuple[str, ...]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class DatasetRecord:
    """Rows: their key (of their content and labels), a name, and the number of each row's class."""

    key: str
    name: str
    labels: Ints
    classes: tuple[str, ...]


@dataclass(frozen=True)
class ResultRecord:
    """The value of a measure, or the reason why there is none.

    `source` is the dataset whose labels were known, or "" where none was needed.
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
                f"and the reason {self.reason!r}. Give one of them."
            )

    @property
    def key(self) -> ResultKey:
        """What no other result has."""
        return ResultKey(self.model, self.source, self.dataset, self.measure, self.settings)


@dataclass(frozen=True)
class FailureRecord:
    """Why a model gave nothing on a dataset, and where in the code."""

    reason: str
    trace: str = ""


@dataclass(frozen=True, eq=False)
class EvaluationOutcome:
    """What came of one model on one dataset: what it said, values, and what went wrong."""

    model: str
    dataset: str
    predictions: Predictions | None = None
    results: tuple[ResultRecord, ...] = ()
    failure: FailureRecord | None = None


@dataclass(frozen=True)
class PredictionReference:
    """Where the predictions of a model on a dataset are; a worker reads them from the arrays."""

    array: str
    form: str
    k: int
    temperature: float
    class_names: tuple[str, ...] | None
    labels: str
    classes: tuple[str, ...]

    def read(self, array_store: ArrayStore) -> Predictions:
        """The predictions, labelled."""
        values, numbers = array_store.get(self.array), array_store.get(self.labels)
        labels = labels_for_model(numbers, self.classes, self.class_names)
        shared: dict[str, Any] = {"labels": labels, "class_names": self.class_names}
        if self.form == "classes":
            return Predictions.from_classes(values, k=self.k, **shared)
        door = Predictions.from_probs if self.form == "probs" else Predictions.from_logits
        return door(values, **shared).at_temperature(self.temperature)


def stored_values(predictions: Predictions) -> Array:
    """What is kept of predictions: scores, or classes where there are no scores."""
    return np.asarray(predictions.classes if predictions.scores is None else predictions.scores)


def labels_for_model(
    labels: Ints, classes: tuple[str, ...], model_classes: tuple[str, ...] | None
) -> Array:
    """The labels as a model has them: by name where it has the same names, else by number.

    A model that has some of the names, and others besides, was made for something else.

    >>> labels_for_model(np.array([0, 1]), ("cat", "dog"), ("dog", "cat"))
    array(['cat', 'dog'], dtype='<U3')
    >>> labels_for_model(np.array([0, 1]), ("cat", "dog"), ("0", "1"))
    array([0, 1])
    """
    shared = set(classes) & set(model_classes or ())
    if not shared:
        return labels
    odd = sorted({*classes, *(model_classes or ())} - shared)
    if odd:
        raise InputError(
            f"The class {odd[0]!r} is not both the model's and the data's. Give a model of the "
            f"classes {', '.join(classes)}."
        )
    return np.asarray(classes)[labels]
