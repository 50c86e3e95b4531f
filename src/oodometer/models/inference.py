"""What a model says of a whole dataset, a batch at a time."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, ProgressCallback
from oodometer.core.softmax_kernels import Array

# Inputs shown at a time where nobody says how many.
DEFAULT_BATCH_ROWS = 512


def predict_dataset(
    model: Model,
    dataset: Dataset,
    *,
    labelled: bool = True,
    batch_size: int | None = None,
    progress: ProgressCallback | None = None,
) -> Predictions:
    """Predictions of every row; without `labelled`, the dataset's labels are not even looked at."""
    parts: list[Predictions] = []
    done = 0
    for inputs in dataset.batches(batch_size or DEFAULT_BATCH_ROWS):
        parts.append(predict_batch(model, inputs, model.name))
        check_consistent_outputs(parts[0], parts[-1], model.name)
        done += len(inputs)
        if progress:
            progress(done, len(dataset), f"classifying {dataset.name}")
    return concat_predictions(parts, dataset.labels if labelled else None)


def predict_batch(model: Model, inputs: Inputs, name: str) -> Predictions:
    """What a model says of a batch: one row an input, or it is named and refused."""
    found = model.classify(inputs)
    if found.n != len(inputs):
        raise InputError(
            f"The model {name!r} gave {found.n} rows for {len(inputs)} inputs. "
            "It must give one row an input."
        )
    return found


class OutputSignature(Protocol):
    """An answer, of which it is known whether it has probabilities, and of how many classes."""

    @property
    def has_probs(self) -> bool:
        """Whether it has."""

    @property
    def k(self) -> int:
        """The number of classes."""


def check_consistent_outputs(first: OutputSignature, later: OutputSignature, name: str) -> None:
    """Refuse a model that answers one batch otherwise than another."""
    if first.has_probs != later.has_probs or (first.has_probs and first.k != later.k):
        one, other = (
            f"probabilities of {each.k} classes" if each.has_probs else "classes only"
            for each in (first, later)
        )
        raise InputError(
            f"The model {name!r} gave {one} for one batch and {other} for another. "
            "It must give the same for all."
        )


def concat_predictions(parts: list[Predictions], labels: Array | None = None) -> Predictions:
    """The predictions of several batches as one, labelled anew."""
    names = parts[0].class_names
    if parts[0].scores is None:
        classes = np.concatenate([part.classes for part in parts])
        k = max(part.k for part in parts)
        if names is None and labels is not None and np.asarray(labels).dtype.kind in "iu":
            # Which classes there are is known from those seen alone, and labels are seen too.
            k = max(k, int(np.max(labels)) + 1)
        return Predictions.from_classes(classes, k=k, labels=labels, class_names=names)
    scores = np.concatenate([np.asarray(part.scores) for part in parts])
    door = Predictions.from_probs if parts[0].score_type == "probs" else Predictions.from_logits
    return door(scores, labels=labels, class_names=names).at_temperature(parts[0].temperature)
