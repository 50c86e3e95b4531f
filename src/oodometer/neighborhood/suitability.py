"""suggest_transforms(): test which transforms preserve the class (Ng et al., TMLR 2023, §5.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oodometer import transforms as family
from oodometer.core.array_types import Bools
from oodometer.core.errors import OodometerError, out_of_range
from oodometer.core.function_members import wrap_function
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.protocols import Dataset, Model, ProgressCallback, Transform
from oodometer.core.stats import auroc
from oodometer.data import as_dataset
from oodometer.models import as_model
from oodometer.models.inference import predict_dataset
from oodometer.neighborhood import sampling
from oodometer.neighborhood._invariance import TransformInput, invariance
from oodometer.neighborhood.results import ENTROPY_LIMIT, ModelInvariance

# Default number of examples. More examples hardly change the order of the transforms.
DEFAULT_EXAMPLES = 500
# If a transform changes no decision on at least this share of the examples, it is called hardly
# informative. In experiments with digits, some such transforms ranked models no better than chance.
MOSTLY_CONSTANT_SHARE = 0.9


@dataclass(frozen=True)
class TransformSuitability:
    """Effect of a transform on a model's predictions, and whether it suits neighborhood measures.

    Parameters
    ----------
    transform : str
        Name of the transform.
    fit : bool or None
        Whether the transform is suitable; None if this cannot be checked.
    reason : str
        Explanation of `fit`.
    entropy_difference : float, optional
        Mean increase of the entropy of predictions under the transform.
    ni : float, optional
        Neighborhood invariance of the model under the transform.
    auroc : float, optional
        AUROC of the agreement in the neighborhood as a predictor of whether the model is correct.
        It is known only if the data have labels.

    Examples
    --------
    >>> TransformSuitability("flip", False, "raises the entropy").to_dict()["fit"]
    False
    """

    transform: str
    fit: bool | None
    reason: str
    entropy_difference: float | None = None
    ni: float | None = None
    auroc: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)

    @property
    def _sort_key(self) -> tuple[bool, bool, float]:
        increase = math.inf if self.entropy_difference is None else self.entropy_difference
        return self.ni is None, self.fit is False, increase


def suggest_transforms(
    model: Any,
    data: Any,
    *,
    transforms: Sequence[TransformInput] | None = None,
    examples: int = DEFAULT_EXAMPLES,
    draws: int = 5,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> tuple[TransformSuitability, ...]:
    """Check which transforms are suitable for neighborhood measures of a model, best first.

    Transforms are sorted by how much they increase the entropy of the predictions. If the increase
    is at most about 0.1, the transform is suitable; if it is larger, the transform probably
    destroys the classes. Use data that are similar to the training data. On other data, the entropy
    is already high and cannot increase much, so every transform looks suitable.

    Parameters
    ----------
    model : object
        Anything that `as_model` accepts.
    data : object
        Anything that `as_dataset` accepts; labels are optional.
    transforms : sequence of str or Transform, optional
        Transforms to check. Default: all transforms for the kind of data.
    examples : int
        Size of the random sample of rows.
    draws : int
        Number of transformed copies per example.
    seed : int
        Random seed.
    progress : callable, optional
        Called as ``progress(done, total, text)``.

    Returns
    -------
    tuple of TransformSuitability
        Suitable transforms, followed by unsuitable transforms and by transforms that could not be
        applied. Each has a reason.

    Raises
    ------
    InputError
        If `examples` is below 1, or the model fails on the data without any transform.

    Examples
    --------
    >>> import numpy as np
    >>> constant = lambda rows: np.tile([0.9, 0.1], (len(rows), 1))
    >>> suggest_transforms(constant, np.eye(4), transforms=["gaussian"])[0].reason
    'no draw changes any decision: it cannot distinguish models'
    """
    if examples < 1:
        raise out_of_range("examples", examples, low=1)
    opened = as_model(model)
    dataset = as_dataset(data)
    sample = dataset.rows(sampling.shuffled_order(dataset.keys, seed)[:examples])
    # Classify the untransformed data first. If the model fails on them, an error is raised, because
    # the failure is not caused by a transform.
    predictions = predict_dataset(opened, sample)
    correct = predictions.correct if predictions.is_labelled else None
    chosen = transforms if transforms is not None else family.available_for_kind(dataset.kind)
    members = [
        family.get(member) if isinstance(member, str) else wrap_function(member, Transform)
        for member in chosen
    ]
    results = []
    for done, member in enumerate(members):
        if progress:
            progress(done, len(members), member.name)
        results.append(
            _evaluate_transform(opened, sample, member, draws=draws, seed=seed, correct=correct)
        )
    return tuple(sorted(results, key=lambda result: result._sort_key))


def _evaluate_transform(
    model: Model,
    sample: Dataset,
    transform: Transform,
    *,
    draws: int,
    seed: int,
    correct: Bools | None,
) -> TransformSuitability:
    try:
        result = invariance(model, sample, transform=transform, draws=draws, seed=seed)[0]
    except OodometerError as error:
        return TransformSuitability(transform.name, None, f"cannot be applied: {error}")
    fit, reason = _verdict(result)
    return TransformSuitability(
        transform=transform.name,
        fit=fit,
        reason=reason,
        entropy_difference=result.entropy_difference,
        ni=result.mean_with_interval("ni").value,
        auroc=None if correct is None else auroc(result.by_example("pa"), correct),
    )


def _verdict(result: ModelInvariance) -> tuple[bool | None, str]:
    """Return whether the transform is suitable (None if unknown), and the reason."""
    increase = result.entropy_difference
    if result.constant_share == 1.0:
        return False, "no draw changes any decision: it cannot distinguish models"
    if increase is None:
        return None, "cannot be checked: the model returns classes only"
    if increase > ENTROPY_LIMIT:
        return (
            False,
            f"raises the entropy of predictions by {increase:.2f}, more than {ENTROPY_LIMIT}",
        )
    if result.constant_share >= MOSTLY_CONSTANT_SHARE:
        return True, "preserves the confidence, but changes few decisions: hardly informative"
    return True, "preserves the confidence of predictions"
