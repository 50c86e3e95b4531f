"""Predicted classes (decisions) of models on the transformed inputs of each neighborhood.

The members of a neighborhood are an example (member 0) and transformed copies of it, called draws.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.inputs import Inputs, RowHashes, hash_rows
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Model
from oodometer.models.bodies import Body
from oodometer.models.feature_cache import CacheSection, FeatureCache
from oodometer.models.heads import (
    DrawnFeatures,
    FeatureDataset,
    FeatureRows,
    HeadModel,
    content_keys,
)
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


@dataclass(frozen=True, eq=False)
class MemberFeatures:
    """Cached features of the members of neighborhoods for one body.

    Member 0 is cached as a row of the dataset, and the others as draws of the transform.
    """

    sampler: NeighborhoodSampler
    body: Body
    cache: FeatureCache | None

    @cached_property
    def _rows(self) -> FeatureDataset:
        return FeatureDataset(self.sampler.dataset, self.body, self.cache)

    @cached_property
    def _draws(self) -> DrawnFeatures:
        sampler = self.sampler
        return DrawnFeatures(
            sampler.dataset,
            self.body,
            self.cache if sampler.cache_key else None,
            sampler.transform,
            sampler.cache_key,
            sampler.seed,
        )

    def read(self, batch: SamplingRound) -> tuple[Floats, bool]:
        """Return the features of all members in the order of the members, and if all are cached."""
        values = np.zeros((len(batch.members), len(batch.examples), self.body.width), np.float32)
        complete = True
        for section, keys, members, draws in self._entries(batch):
            values[members], found = (
                part.reshape(*draws.shape, *part.shape[1:])
                for part in section.read(keys, draws.ravel())
            )
            complete = complete and bool(found.all())
        return values, complete and (self.cache is not None) and self._covers(batch)

    def commit(self, batch: SamplingRound, values: Floats) -> None:
        """Store the features of all members that are not cached yet."""
        for section, keys, members, draws in self._entries(batch):
            section.commit(keys, draws.ravel(), values[members].reshape(draws.size, -1))

    def _covers(self, batch: SamplingRound) -> bool:
        """Return whether every member of the batch can be cached."""
        return self._draws.section is not None or batch.members.stop == 1

    def _entries(
        self, batch: SamplingRound
    ) -> Iterator[tuple[CacheSection, RowHashes, slice, Ints]]:
        """Yield section, keys, positions of the members and draws of the originals and copies."""
        n_first = int(batch.members.start == 0)
        if n_first and self._rows.section is not None:
            keys = content_keys(self._rows.dataset, self.cache)[batch.examples]
            yield self._rows.section, keys, slice(0, 1), np.zeros((1, len(keys)), np.int64)
        draws = np.arange(batch.members.start + n_first, batch.members.stop)
        if len(draws) and self._draws.section is not None:
            keys = self._draws.entry_keys(batch.examples)
            numbers = np.repeat(draws[:, None], len(keys), axis=1)
            yield self._draws.section, np.tile(keys, len(draws)), slice(n_first, None), numbers


class LoadedBatch(NamedTuple):
    """Batch before it is classified.

    inputs     distinct inputs; empty if the features of all models are cached
    members    index of each member among the distinct inputs, shape (members, examples)
    features   cached features of all members, keyed by body, shape (members, examples, width)
    """

    batch: SamplingRound
    inputs: Inputs
    members: Ints
    features: Mapping[str, Floats]


@dataclass(frozen=True, eq=False)
class MemberClassifier:
    """Models and the sampler of the inputs that they classify.

    Heads on pretrained bodies classify features. If all models are heads and all features are
    cached, no input is drawn.
    """

    models: Mapping[str, Model]
    sampler: NeighborhoodSampler

    @cached_property
    def bodies(self) -> dict[str, MemberFeatures]:
        """Features of each body, keyed by body."""
        heads = [model for model in self.models.values() if isinstance(model, HeadModel)]
        return {
            head.body.key: MemberFeatures(self.sampler, head.body, head.cache) for head in heads
        }

    @property
    def _has_other_models(self) -> bool:
        return not all(isinstance(model, HeadModel) for model in self.models.values())

    def load(self, batch: SamplingRound) -> LoadedBatch:
        """Read the cached features of a batch; draw the inputs if a model needs them."""
        read = {key: source.read(batch) for key, source in self.bodies.items()}
        cached = {key: values for key, (values, complete) in read.items() if complete}
        if len(cached) == len(self.bodies) and not self._has_other_models:
            return LoadedBatch(batch, [], np.empty((0, 0), np.int64), cached)
        return LoadedBatch(batch, *self.sampler.sample(batch), cached)

    def classify(self, loaded: LoadedBatch) -> ClassifiedBatch:
        """Classify the distinct inputs of a batch with every model."""
        features = {key: _distinct(self._features(key, loaded)) for key in self.bodies}
        decisions = {}
        for name, model in self.models.items():
            inputs, index = loaded.inputs, loaded.members
            if isinstance(model, HeadModel):
                inputs, index = features[model.body.key]
            decisions[name] = Decisions.from_predictions(predict_batch(model, inputs, name), index)
        if self._has_other_models:
            return len(loaded.inputs), decisions
        return max(len(rows) for rows, _ in features.values()), decisions

    def _features(self, key: str, loaded: LoadedBatch) -> Floats:
        """Return the features of all members of a batch, from the cache or from the body."""
        if key in loaded.features:
            return loaded.features[key]
        source = self.bodies[key]
        values = source.body.features(loaded.inputs)[loaded.members]
        source.commit(loaded.batch, values)
        return values


def _distinct(features: Floats) -> tuple[FeatureRows, Ints]:
    """Return the distinct rows of features (members, examples, d), and the index of each member."""
    rows = features.reshape(-1, features.shape[-1])
    _, first, inverse = np.unique(hash_rows(rows), return_index=True, return_inverse=True)
    return rows[first].view(FeatureRows), inverse.reshape(features.shape[:2])


@dataclass(frozen=True, eq=False)
class _SampleAndClassify:
    """Task of a worker that samples several batches and classifies them."""

    models: Mapping[str, Model]
    sampler: NeighborhoodSampler

    def __call__(self, block: Sequence[SamplingRound]) -> list[ClassifiedBatch]:
        classifier = MemberClassifier(self.models, self.sampler)
        with limit_to_one_thread():
            return [classifier.classify(classifier.load(batch)) for batch in block]

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
    classifier = MemberClassifier(models, sampler)
    # `closing` ends the threads even if a model raises an error or the caller stops early.
    with closing(prefetch(classifier.load, batches, threads)) as loaded_batches:
        for loaded in loaded_batches:
            yield classifier.classify(loaded)


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
