"""Rows with several labels, of which any counts as correct.

Frames of ImageNet-Vid-Robust and YTBB-Robust can show objects of several classes. Such a row has a
set of accepted classes. For a given model, the label of the row is the predicted class if it is
accepted, and otherwise the first accepted class, so that accuracy counts any of the labels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from oodometer.core.array_types import Bools
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import TransformedDataset


def encode_label_sets(label_sets: Sequence[Collection[str]], classes: Sequence[str]) -> Bools:
    """Return which classes each row accepts, as a mask of shape (rows, classes).

    >>> encode_label_sets([{"bus"}, {"bus", "car"}], ["car", "bus"])
    array([[False,  True],
           [ True,  True]])
    """
    number_of = {name: number for number, name in enumerate(classes)}
    accepted = np.zeros((len(label_sets), len(classes)), dtype=np.bool_)
    for row, names in enumerate(label_sets):
        for name in names:
            if name not in number_of:
                raise InputError(
                    f"Row {row} has the label {name!r}, which is not a class of the group. Labels are "
                    "names of the classes; correct the label, or add its class."
                )
            accepted[row, number_of[name]] = True
    return accepted


def accepted_classes(dataset: Dataset) -> Bools | None:
    """Return the mask of the classes that each row accepts; None if each row has one label."""
    while isinstance(dataset, TransformedDataset):
        dataset = dataset.dataset
    accepted: Bools | None = getattr(dataset, "accepted", None)
    return accepted


def accept_any_label(
    predictions: Predictions, accepted: Bools, classes: Sequence[str]
) -> Predictions:
    """Return the predictions with the predicted class as the label of each row that accepts it.

    `accepted` has one column for each of `classes`, which are the classes of the domain group.

    >>> probs = [[0.1, 0.9, 0.0], [0.1, 0.0, 0.9]]
    >>> predictions = Predictions.from_probs(probs, labels=[0, 0])
    >>> accepted = np.array([[True, True, False], [True, True, False]])
    >>> accept_any_label(predictions, accepted, ["car", "bus", "dog"]).labels
    array([1, 0])
    """
    names = predictions.class_names
    if names is not None and set(names) == set(classes):
        accepted = accepted[:, [list(classes).index(name) for name in names]]
    is_right = accepted[np.arange(predictions.n), predictions.classes]
    labels = np.where(is_right, predictions.classes, np.asarray(predictions.labels))
    return replace(predictions.without_labels(), labels=labels)
