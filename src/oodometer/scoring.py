"""What a model says of a whole dataset, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oodometer.core import Dataset, Model
from oodometer.errors import InputError
from oodometer.predictions import Predictions

Progress = Callable[[int, int, str], None]


def classify_all(
    model: Model, dataset: Dataset, *, batch: int = 512, progress: Progress | None = None
) -> Predictions:
    """Predictions of every row, with the dataset's labels where it has any."""
    parts: list[Predictions] = []
    done = 0
    for inputs in dataset.batches(batch):
        said = model.classify(inputs)
        if said.n != len(inputs):
            raise InputError(
                f"The model {model.name!r} gave {said.n} rows for {len(inputs)} inputs. "
                "It must give one row an input."
            )
        parts.append(said)
        done += said.n
        if progress:
            progress(done, len(dataset), f"classifying {dataset.name}")
    return joined(parts, dataset.labels)


def joined(parts: list[Predictions], labels: object = None) -> Predictions:
    """The predictions of several batches as one, labelled anew."""
    names = parts[0].class_names
    if parts[0].scores is None:
        classes = np.concatenate([part.classes for part in parts])
        k = max(part.k for part in parts)
        return Predictions.from_classes(classes, k=k, labels=labels, class_names=names)
    scores = np.concatenate([np.asarray(part.scores) for part in parts])
    door = Predictions.from_probs if parts[0].form == "probs" else Predictions.from_logits
    return door(scores, labels=labels, class_names=names)
