"""Which transforms keep the classes of some data, as a model sees it (Ng et al. 2023, §5.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oodometer import transforms as family
from oodometer.core.array_types import Bools
from oodometer.core.errors import InputError, OodometerError
from oodometer.core.protocols import Dataset, Model, ProgressCallback, Transform
from oodometer.core.stats import auroc
from oodometer.data import as_dataset
from oodometer.models import as_model
from oodometer.models.inference import predict_dataset
from oodometer.neighborhood import sampling
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.results import ENTROPY_LIMIT, ModelInvariance

# More examples than this change the order of transforms little.
DEFAULT_EXAMPLES = 500
# Of transforms that leave so many examples where they are, some ranked digit models at random.
MOSTLY_CONSTANT_SHARE = 0.9


@dataclass(frozen=True)
class TransformSuitability:
    """What a transform does to a model's predictions, and whether it is fit for a measure.

    `fit` is None where that can't be told; `auroc` says how well agreement in the neighborhood
    tells right from wrong, where labels are known.
    """

    transform: str
    fit: bool | None
    reason: str
    entropy_difference: float | None = None
    ni: float | None = None
    auroc: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dict(vars(self))

    @property
    def _sort_key(self) -> tuple[bool, bool, float]:
        rise = math.inf if self.entropy_difference is None else self.entropy_difference
        return self.ni is None, self.fit is False, rise


def suggest_transforms(
    model: Any,
    data: Any,
    *,
    transforms: Sequence[str | Transform] | None = None,
    examples: int = DEFAULT_EXAMPLES,
    draws: int = 5,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> tuple[TransformSuitability, ...]:
    """Every transform that fits the data's kind, best first, unfit ones with the reason.

    They are ordered by how much they raise the entropy of the model's predictions: up to about 0.1
    a neighborhood measure works, above it fails. `data` may be labelled: then each also says how
    well agreement in the neighborhood tells right from wrong. A sample of `examples` is looked at.

    Ask this of data like those the model was trained on. Far from them a model is unsure already,
    its entropy has no room to rise, and nothing looks unfit.
    """
    if examples < 1:
        raise InputError(f"examples must be at least 1; got {examples}.")
    opened, dataset = as_model(model), as_dataset(data)
    sample = dataset.rows(sampling.shuffled_order(dataset.keys, seed)[:examples])
    # A model that fails on the data as they are is no fault of any transform.
    plain = predict_dataset(opened, sample)
    right = plain.correct if plain.is_labelled else None
    chosen = transforms if transforms is not None else family.available_for_kind(dataset.kind)
    members = [family.get(one) if isinstance(one, str) else one for one in chosen]
    found = []
    for done, member in enumerate(members):
        if progress:
            progress(done, len(members), member.name)
        found.append(_evaluate_transform(opened, sample, member, draws, seed, right))
    return tuple(sorted(found, key=lambda one: one._sort_key))


def _evaluate_transform(
    model: Model, sample: Dataset, transform: Transform, draws: int, seed: int, right: Bools | None
) -> TransformSuitability:
    try:
        result = invariance(model, sample, transform=transform, draws=draws, seed=seed)[0]
    except OodometerError as error:
        return TransformSuitability(transform.name, None, f"can't be used here: {error}")
    rise = result.entropy_difference
    fit, reason = _verdict(result, rise)
    told = None if right is None else auroc(result.by_example("pa"), right)
    return TransformSuitability(
        transform.name, fit, reason, rise, result.mean_with_interval("ni").value, told
    )


def _verdict(result: ModelInvariance, rise: float | None) -> tuple[bool | None, str]:
    if result.constant_share == 1.0:
        return False, "no draw moves any decision: all models look alike under it"
    if rise is None:
        return None, "the model gives classes only, so whether the class is kept can't be told"
    if rise > ENTROPY_LIMIT:
        return False, f"raises the entropy of predictions by {rise:.2f}, more than {ENTROPY_LIMIT}"
    if result.constant_share >= MOSTLY_CONSTANT_SHARE:
        return True, "keeps predictions about as sure, but moves few decisions: tells little apart"
    return True, "keeps predictions about as sure as they were"
