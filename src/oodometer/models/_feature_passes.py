"""Passes: what a network makes of all rows of a dataset, outputs and features at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Progress
from oodometer.core.softmax_kernels import Array, Floats
from oodometer.models.inference import ROWS, joined
from oodometer.models.introspection.network import Network, check_widths

# Outputs and features of a batch; outputs of all rows, and features or why there are none.
Part = tuple[Predictions, Floats]
Passed = tuple[Predictions, Floats | str]


def looked(
    network: Network, dataset: Dataset, layer: str, *, name: str, progress: Progress | None
) -> list[Part]:
    """What the network makes of one batch after another."""
    parts: list[Part] = []
    for place, inputs in enumerate(dataset.batches(ROWS)):
        parts.append(network.look(inputs, layer))
        if progress:
            progress(place * ROWS + len(inputs), len(dataset), f"looking at {name}")
    return parts


def together(parts: Sequence[Part], layer: str, labels: Array | None) -> Passed:
    """What was made of batches, as of all rows."""
    features = [seen for _, seen in parts]
    check_widths(features, layer)
    return joined([outputs for outputs, _ in parts], labels), np.concatenate(features)
