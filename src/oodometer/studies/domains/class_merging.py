"""Evaluate models with the 1000 classes of ImageNet on groups whose classes consist of these.

The score of a class is the highest score among its ImageNet classes, and ImageNet classes that
belong to no class of the group are left out. This is the protocol of the ImageNet Testbed (Taori et
al. 2020) for ObjectNet, ImageNet-Vid-Robust, YTBB-Robust, ImageNet-A and ImageNet-R.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model
from oodometer.studies.domains.class_lists import imagenet_wnids
from oodometer.studies.domains.group import DomainGroup


@dataclass(frozen=True)
class ClassMergingModel:
    """Model with the classes of ImageNet whose outputs are merged to the classes of a group."""

    model: Model
    group: DomainGroup

    @property
    def name(self) -> str:
        return self.model.name

    def classify(self, inputs: Inputs) -> Predictions:
        """Return the predictions for the classes of the group."""
        return merge_classes(self.model.classify(inputs), self.group)


def merge_classes(predictions: Predictions, group: DomainGroup) -> Predictions:
    """Return predictions for the classes of a group, given predictions for those of ImageNet.

    The classes of the model are identified by their names if these are WordNet ids, and otherwise
    by their numbers. Predictions that already have the classes of the group are returned unchanged.

    Raises
    ------
    InputError
        If the predictions have neither the classes of the group nor those of ImageNet, or if they
        have no scores.
    """
    if predictions.k == len(group.classes) or not group.members:
        return predictions
    wnids = imagenet_wnids()
    if predictions.k != len(wnids):
        raise InputError(
            f"The model has {predictions.k} classes; expected the {len(group.classes)} classes of "
            f"{group.name!r} or the {len(wnids)} classes of ImageNet."
        )
    if predictions.scores is None:
        raise InputError(
            f"The model returns {predictions.score_type} only. Its ImageNet classes cannot be merged "
            f"to those of {group.name!r}; use a model that returns probabilities or logits."
        )
    columns = _member_columns(predictions.class_names, group)
    merged = np.stack([predictions.scores[:, of].max(axis=1) for of in columns], axis=1)
    if predictions.score_type == "logits":
        return Predictions.from_logits(merged, class_names=group.classes)
    total = merged.sum(axis=1, keepdims=True)
    uniform = np.full_like(merged, 1 / len(columns))  # rows whose members all have probability 0
    probs = np.divide(merged, total, out=uniform, where=total > 0)
    return Predictions.from_probs(probs, class_names=group.classes)


def _member_columns(class_names: tuple[str, ...] | None, group: DomainGroup) -> list[Ints]:
    """Return the numbers of the model's classes that each class of the group consists of."""
    wnids = imagenet_wnids()
    if class_names is not None and set(class_names) == set(wnids):
        wnids = class_names
    number_of = {wnid: number for number, wnid in enumerate(wnids)}
    return [np.array([number_of[wnid] for wnid in members]) for members in group.members]


def adapt_model(model: Model, group: DomainGroup, dataset: Dataset) -> Model:
    """Return a model with the classes of the group; merge the classes of an ImageNet model.

    One row of the dataset is classified to find out which classes the model has.
    """
    if not group.members or not len(dataset):
        return model
    k = model.classify(dataset.take(slice(0, 1))).k
    is_larger = k == len(imagenet_wnids()) and k != len(group.classes)
    return ClassMergingModel(model, group) if is_larger else model
