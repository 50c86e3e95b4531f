"""What training gives: weights, how it went, and files that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oodometer.core.softmax_kernels import Array
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.config import TrainingConfig


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model as plain data, which a worker can send.

    converged   whether the target cross-entropy was reached; without a target, always
    classes     the names of the classes, in order
    facts       epochs, loss and accuracy on the training data, seconds
    files       what must lie beside the weights, such as a tokenizer, by name
    """

    recipe: TrainingConfig
    shape: InputShape
    classes: tuple[str, ...]
    weights: Mapping[str, Array]
    converged: bool
    facts: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
