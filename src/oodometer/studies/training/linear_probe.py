"""Learning the head alone: all before it stays as it is, so what goes into it is found once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.optional_imports import torch_package
from oodometer.studies.training.architectures import head_name
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.training_data import TrainingSample, TrainingSet

# So many rows are shown to the frozen part at once.
FEATURE_BATCH_ROWS = 64


class _HeadReached(Exception):
    """The head was reached: what comes after it is not needed."""


def feature_extractor(module: Any) -> Callable[[Any], Any]:
    """A function of shown inputs to what goes into the head, in evaluation mode."""
    head = module.get_submodule(head_name(module))

    def found(shown: Any) -> Any:
        kept: list[Any] = []

        def stop(_: Any, given: tuple[Any, ...]) -> None:
            kept.append(given[0])
            raise _HeadReached

        hook = head.register_forward_pre_hook(stop)
        try:
            with torch_package().no_grad():
                module.eval()(shown)
        except _HeadReached:
            pass
        finally:
            hook.remove()
        return kept[0]

    return found


def build_head(module: Any, dropout: float) -> Any:
    """The head itself, with the dropout that comes before it."""
    nn = torch_package().nn
    return nn.Sequential(nn.Dropout(dropout), module.get_submodule(head_name(module)))


def extract_features(
    training_data: TrainingSet, sample: TrainingSample, features: Callable[[Array], Any]
) -> tuple[TrainingSet, TrainingSample]:
    """The rows of a sample as what goes into the head, and the sample as all of them."""
    n = len(sample.rows)
    found: Array = np.concatenate(
        [
            features(training_data.take(sample.rows[start : start + FEATURE_BATCH_ROWS]))
            .cpu()
            .numpy()
            for start in range(0, n, FEATURE_BATCH_ROWS)
        ]
    )
    shape = InputShape("vectors", training_data.shape.classes, found.shape[1:])
    rows = TrainingSet(
        found, training_data.labels[sample.rows], training_data.keys[sample.rows], shape
    )
    return rows, TrainingSample(np.arange(n), sample.labels, sample.facts)
