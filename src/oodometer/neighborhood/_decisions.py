"""What models say of members of neighborhoods, and how it is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Model
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.models.inference import predict_batch
from oodometer.neighborhood._neighborhood_sampler import SampledBatch
from oodometer.neighborhood.results import DecisionCounts
from oodometer.neighborhood.sampling import SamplingRound


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
