"""Passes: what a network makes of all rows of a dataset, outputs and features at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, ProgressCallback
from oodometer.core.softmax_kernels import Array, Floats
from oodometer.models.inference import DEFAULT_BATCH_ROWS, concat_predictions
from oodometer.models.introspection.network import Network, check_feature_widths

# Outputs and features of a batch; outputs of all rows, and features or why there are none.
BatchForwardPass = tuple[Predictions, Floats]
DatasetForwardPass = tuple[Predictions, Floats | str]


def forward_batches(
    network: Network, dataset: Dataset, layer: str, *, name: str, progress: ProgressCallback | None
) -> list[BatchForwardPass]:
    """What the network makes of one batch after another."""
    parts: list[BatchForwardPass] = []
    for place, inputs in enumerate(dataset.batches(DEFAULT_BATCH_ROWS)):
        parts.append(network.forward_with_features(inputs, layer))
        if progress:
            progress(place * DEFAULT_BATCH_ROWS + len(inputs), len(dataset), f"looking at {name}")
    return parts


def concat_passes(
    parts: Sequence[BatchForwardPass], layer: str, labels: Array | None
) -> DatasetForwardPass:
    """What was made of batches, as of all rows."""
    features = [seen for _, seen in parts]
    check_feature_widths(features, layer)
    return concat_predictions([outputs for outputs, _ in parts], labels), np.concatenate(features)
