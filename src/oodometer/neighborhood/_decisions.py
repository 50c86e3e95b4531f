"""Predicted classes (decisions) of models on the transformed inputs of each neighborhood.

The members of a neighborhood are an example (member 0) and transformed copies of it, called draws.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Model
from oodometer.models.inference import predict_batch
from oodometer.neighborhood.sampling import NeighborhoodSampler, SamplingRound
from oodometer.parallel.prefetch import prefetch
from oodometer.parallel.runners import (
    Runner,
    group_batches,
    label_payload,
    limit_to_one_thread,
    ordered_map,
)


@dataclass(frozen=True, eq=False)
class Decisions:
    """Predictions of one model on a batch; all arrays have shape (members, examples).

    `confidence` and `entropy` are None if the model returns classes only.
    """

    classes: Ints
    confidence: Floats | None
    entropy: Floats | None
    k: int
    class_names: tuple[str, ...] | None

    @classmethod
    def from_predictions(cls, predictions: Predictions, index: Ints) -> Decisions:
        """Return the predictions of all members, given the index of each among distinct inputs."""
        confidence = entropy = None
        if predictions.has_probs:
            confidence = predictions.confidence.astype(np.float64)[index]
            entropy = -predictions.negative_entropy.astype(np.float64)[index]
        return cls(
            classes=predictions.classes.astype(np.int32)[index],
            confidence=confidence,
            entropy=entropy,
            k=predictions.k,
            class_names=predictions.class_names,
        )

    @property
    def has_probs(self) -> bool:
        return self.confidence is not None


# Number of distinct inputs of a batch, and the decisions of each model by its name.
ClassifiedBatch = tuple[int, dict[str, Decisions]]


def classify_batch(models: Mapping[str, Model], inputs: Inputs, index: Ints) -> ClassifiedBatch:
    """Classify the distinct inputs of a batch with every model."""
    decisions = {
        name: Decisions.from_predictions(predict_batch(model, inputs, name), index)
        for name, model in models.items()
    }
    return len(inputs), decisions


@dataclass(frozen=True, eq=False)
class _SampleAndClassify:
    """Task of a worker that samples several batches and classifies them."""

    models: Mapping[str, Model]
    sampler: NeighborhoodSampler

    def __call__(self, block: Sequence[SamplingRound]) -> list[ClassifiedBatch]:
        with limit_to_one_thread():
            return [classify_batch(self.models, *self.sampler.sample(batch)) for batch in block]

    def payload(self) -> dict[str, Any]:
        dataset, transform = self.sampler.dataset, self.sampler.transform
        return {
            **label_payload("model", self.models),
            **label_payload("data", {dataset.name: dataset}),
            **label_payload("transform", {transform.name: transform}),
        }


def classify_in_process(
    models: Mapping[str, Model],
    sampler: NeighborhoodSampler,
    steps: Iterable[Sequence[SamplingRound]],
    threads: int,
) -> Generator[ClassifiedBatch, None, None]:
    """Yield the decisions on each batch of the steps.

    While the models classify a batch, threads sample the next batches.
    """
    batches = chain.from_iterable(steps)
    # `closing` ends the threads even if a model raises an error or the caller stops early.
    with closing(prefetch(sampler.sample, batches, threads)) as samples:
        for inputs, index in samples:
            yield classify_batch(models, inputs, index)


def classify_in_workers(
    models: Mapping[str, Model],
    sampler: NeighborhoodSampler,
    steps: Iterable[Sequence[SamplingRound]],
    runner: Runner,
) -> Generator[ClassifiedBatch, None, None]:
    """Yield the decisions on each batch of the steps, computed by the workers of a runner."""
    blocks = [
        block
        for step in steps
        for block in group_batches(step, max((batch.size for batch in step), default=1))
    ]
    with closing(ordered_map(runner, _SampleAndClassify(models, sampler), blocks)) as results:
        for result in results:
            yield from result
