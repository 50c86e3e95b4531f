"""What models say of members of neighborhoods, and how it is written down."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Model
from oodometer.models.inference import predict_batch
from oodometer.neighborhood.results import DecisionCounts
from oodometer.neighborhood.sampling import (
    NeighborhoodSampler,
    SampledBatch,
    SamplingRound,
    SamplingStep,
)
from oodometer.parallel.runners import (
    Runner,
    group_batches,
    label_payload,
    limit_to_one_thread,
    ordered_map,
)


@dataclass(frozen=True, eq=False)
class BatchDecisions:
    """One model's decisions on the members of some examples, and how sure it is: (members, examples).

    `confidence_and_entropy` has confidence and entropy; None where the model gives classes only.
    """

    classes: Ints
    confidence_and_entropy: tuple[Floats, Floats] | None
    k: int
    class_names: tuple[str, ...] | None

    @classmethod
    def from_predictions(cls, predictions: Predictions, input_index: Ints) -> BatchDecisions:
        """Of what a model says of distinct inputs, and where among them each member is."""
        sure = None
        if predictions.has_probs:
            confidence, entropy = predictions.confidence, -predictions.negative_entropy
            sure = (
                confidence.astype(np.float64)[input_index],
                entropy.astype(np.float64)[input_index],
            )
        classes = predictions.classes.astype(np.int32)[input_index]
        return cls(classes, sure, predictions.k, predictions.class_names)

    @property
    def has_probs(self) -> bool:
        """Whether it says how sure it is."""
        return self.confidence_and_entropy is not None


@dataclass(frozen=True, eq=False)
class BatchResult:
    """What all models say of a batch, by their names, and how many different inputs it had."""

    round: SamplingRound
    n_inputs: int
    decisions: Mapping[str, BatchDecisions]


def classify_batch(models: Mapping[str, Model], batch: SampledBatch) -> BatchResult:
    """Show a batch to all models."""
    heard = {
        name: BatchDecisions.from_predictions(
            predict_batch(model, batch.inputs, name), batch.input_index
        )
        for name, model in models.items()
    }
    return BatchResult(batch.round, len(batch.inputs), heard)


def accumulate(counts: DecisionCounts, round_: SamplingRound, decisions: BatchDecisions) -> None:
    """Write down the classes of a batch, and what its probabilities say."""
    examples, members, classes = round_.examples, round_.members, decisions.classes
    counts.classes[examples[:, None], list(members)] = classes.T
    if decisions.confidence_and_entropy is None:
        counts.effective_invariance[examples] = counts.entropy_gap[examples] = np.nan
        return
    confidence, entropy = decisions.confidence_and_entropy
    if 0 in members:
        counts.confidence[examples], counts.entropy[examples] = confidence[0], entropy[0]
    same = classes == counts.classes[examples, 0]
    even = np.sqrt(counts.confidence[examples] * confidence) * same
    gap = entropy - counts.entropy[examples]
    # Draw by draw, so that rounding is the same however members are cut into batches. The example
    # itself is no draw: what it has in common with itself is left out.
    for place in range(1 if 0 in members else 0, len(members)):
        counts.effective_invariance[examples] += even[place]
        counts.entropy_gap[examples] += gap[place]


RoundBlock = Sequence[SamplingRound]


@dataclass(frozen=True, eq=False)
class _SampleAndClassify:
    """Shows blocks of examples to models."""

    models: Mapping[str, Model]
    sampler: NeighborhoodSampler

    def __call__(self, block: RoundBlock) -> list[BatchResult]:
        """What all models say of a block."""
        with limit_to_one_thread():
            return [classify_batch(self.models, self.sampler.sample(portion)) for portion in block]

    def payload(self) -> dict[str, Any]:
        """Models, data and transform."""
        dataset, transform = self.sampler.dataset, self.sampler.transform
        return {
            **label_payload("model", self.models),
            **label_payload("data", {dataset.name: dataset}),
            **label_payload("transform", {transform.name: transform}),
        }


@contextmanager
def distributed_batches(
    runner: Runner, task: _SampleAndClassify, steps: Sequence[SamplingStep]
) -> Iterator[Callable[[SamplingStep], Generator[BatchResult, None, None]]]:
    """A function that gives what models say in one step after another."""
    cut = [_step_blocks(step) for step in steps]
    counts = iter([len(some) for some in cut])
    with closing(ordered_map(runner, task, list(chain.from_iterable(cut)))) as results:

        def answers(step: SamplingStep) -> Generator[BatchResult, None, None]:
            for _ in range(next(counts)):
                yield from next(results)

        yield answers


def _step_blocks(step: SamplingStep) -> list[RoundBlock]:
    return group_batches(step.batches, max((portion.size for portion in step.batches), default=1))
