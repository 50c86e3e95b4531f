"""Linear probe: train only the head on the outputs of the frozen body.

The head is the last linear layer or, for an encoder with an MLP, the whole MLP. The body is the
network without its head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.optional_imports import torch_package
from oodometer.studies.training.architectures import head_name
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.training_data import TrainingSample, TrainingSet

# Number of rows per batch when the features are computed.
FEATURE_BATCH_ROWS = 64


class _HeadReached(Exception):
    """Raised when the forward pass reaches the head, to stop it there."""


def feature_extractor(module: Any) -> Callable[[Any], Any]:
    """Return a function that computes the features: the inputs that the network's head receives.

    The network is evaluated in evaluation mode and without gradients.
    """
    head = module.get_submodule(head_name(module))

    def extract(inputs: Any) -> Any:
        features: list[Any] = []

        def stop(_: Any, arguments: tuple[Any, ...]) -> None:
            features.append(arguments[0])
            raise _HeadReached

        hook = head.register_forward_pre_hook(stop)
        try:
            with torch_package().no_grad():
                module.eval()(inputs)
        except _HeadReached:
            pass
        finally:
            hook.remove()
        return features[0]

    return extract


def dropout_before_head(settings: Mapping[str, Any]) -> float:
    """Return the dropout rate before the head, given the settings of the architecture.

    >>> dropout_before_head({"dropout": 0.1}), dropout_before_head({"head_dropout": (0.0, 0.2)})
    (0.1, 0.0)
    """
    rates = settings.get("head_dropout") or (settings.get("dropout", 0.0),)
    return float(rates[0])


def build_head(module: Any, dropout: float) -> Any:
    """Return a module that applies dropout and then the head."""
    nn = torch_package().nn
    return nn.Sequential(nn.Dropout(dropout), module.get_submodule(head_name(module)))


def extract_features(
    training_data: TrainingSet, sample: TrainingSample, features: Callable[[Array], Any]
) -> tuple[TrainingSet, TrainingSample]:
    """Compute the features of all sampled rows, so that the body is evaluated only once.

    Returns a training set whose inputs are the features, and a sample that contains all its rows.
    """
    n = len(sample.rows)
    batches = (
        sample.rows[start : start + FEATURE_BATCH_ROWS] for start in range(0, n, FEATURE_BATCH_ROWS)
    )
    values: Array = np.concatenate(
        [features(training_data.take(batch)).cpu().numpy() for batch in batches]
    )
    feature_set = TrainingSet(
        inputs=values,
        labels=training_data.labels[sample.rows],
        keys=training_data.keys[sample.rows],
        shape=InputShape("vectors", training_data.shape.classes, values.shape[1:]),
        domains=sample.domains,
    )
    return feature_set, TrainingSample(np.arange(n), sample.labels, sample.domains, sample.facts)
