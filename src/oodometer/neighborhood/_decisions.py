"""What models say of members of neighborhoods, and how it is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Model
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.models.inference import said
from oodometer.neighborhood._neighborhood_sampler import Shown
from oodometer.neighborhood.results import Tally
from oodometer.neighborhood.sampling import Round


@dataclass(frozen=True, eq=False)
class Heard:
    """One model's decisions on the members of some examples, and how sure it is: (members, examples).

    `sure` has confidence and entropy; None where the model gives classes only.
    """

    classes: Ints
    sure: tuple[Floats, Floats] | None
    k: int
    class_names: tuple[str, ...] | None

    @classmethod
    def of(cls, answer: Predictions, places: Ints) -> Heard:
        """Of what a model says of distinct inputs, and where among them each member is."""
        sure = None
        if answer.has_probs:
            confidence, entropy = answer.confidence, -answer.negative_entropy
            sure = confidence.astype(np.float64)[places], entropy.astype(np.float64)[places]
        classes = answer.classes.astype(np.int32)[places]
        return cls(classes, sure, answer.k, answer.class_names)

    @property
    def has_probs(self) -> bool:
        """Whether it says how sure it is."""
        return self.sure is not None


@dataclass(frozen=True, eq=False)
class Answered:
    """What all models say of a batch, by their names, and how many different inputs it had."""

    round: Round
    inputs: int
    heard: Mapping[str, Heard]


def asked(models: Mapping[str, Model], shown: Shown) -> Answered:
    """Show a batch to all models."""
    heard = {
        name: Heard.of(said(model, shown.inputs, name), shown.places)
        for name, model in models.items()
    }
    return Answered(shown.round, len(shown.inputs), heard)


def record(tally: Tally, round_: Round, heard: Heard) -> None:
    """Write down the classes of a batch, and what its probabilities say."""
    examples, members, classes = round_.examples, round_.members, heard.classes
    tally.classes[examples[:, None], list(members)] = classes.T
    if heard.sure is None:
        tally.even[examples] = tally.gap[examples] = np.nan
        return
    confidence, entropy = heard.sure
    if 0 in members:
        tally.confidence[examples], tally.entropy[examples] = confidence[0], entropy[0]
    same = classes == tally.classes[examples, 0]
    even = np.sqrt(tally.confidence[examples] * confidence) * same
    gap = entropy - tally.entropy[examples]
    # Draw by draw, so that rounding is the same however members are cut into batches. The example
    # itself is no draw: what it has in common with itself is left out.
    for place in range(1 if 0 in members else 0, len(members)):
        tally.even[examples] += even[place]
        tally.gap[examples] += gap[place]
