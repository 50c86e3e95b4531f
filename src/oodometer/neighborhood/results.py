"""InvarianceResult: neighborhood invariance (NI) and related scores of each model, with intervals.

A neighborhood has several members: an example and transformed copies of it, called draws. The
measures ni and ne are by Ng et al., TMLR 2023, and ei is by Deng et al., NeurIPS 2022. The expected
value of pa does not depend on the number of draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.jsonable import fields_to_jsonable, to_jsonable
from oodometer.core.result_views import ResultViews, TableRows
from oodometer.core.stats import wilson_interval
from oodometer.neighborhood.sampling import NeighborhoodSampler

InvarianceMeasure = Literal["ni", "ne", "ei", "pa"]
MEASURES: tuple[InvarianceMeasure, ...] = ("ni", "ne", "ei", "pa")

# Names of measures in neighborhoods of draws at fixed strength, without the identity: local
# manifold smoothness and its negative entropy (Ng et al., 2022).
SMOOTHNESS_NAMES = {"ni": "ms", "ne": "mse"}

# Class number of a member that has not been classified.
MISSING_CLASS = -1
# If a transform increases the mean entropy of the predictions by more than this, it probably
# destroys the classes (Ng et al., section 5.4).
ENTROPY_LIMIT = 0.1
# A model is called degenerate if it assigns one class to at least this share of the examples, and
# if at least this share of the examples keep their class in all draws.
DEGENERATE_SHARE = 0.95
# Comparing all N members of a neighborhood with each other takes N² array cells per neighborhood.
# Neighborhoods are processed in blocks of at most this many cells.
MAX_BLOCK_CELLS = 2_000_000


def measure_name(measure: str, *, identity: bool, strength: str | None) -> str:
    """Return the published name of a measure in neighborhoods of these settings.

    >>> measure_name("ne", identity=False, strength="fixed")
    'mse'
    """
    smoothness = not identity and strength != "up_to"
    return SMOOTHNESS_NAMES.get(measure, measure) if smoothness else measure


def neighborhood_invariance(classes: Ints) -> Floats:
    """Return NI per neighborhood (row): the share of members with the most frequent class.

    >>> neighborhood_invariance(np.array([[4, 4, 7, 4]]))
    array([0.75])
    """
    return np.asarray(same_class_counts(classes).max(axis=1) / classes.shape[1])


def negative_entropy(classes: Ints) -> Floats:
    """Return NE per neighborhood (row): the negative entropy Σ_j p_j log p_j of its classes.

    p_j is the share of members with class j. NE is computed as the mean of log(c / N) over the N
    members, where c is the number of members that have the same class as the member.

    >>> negative_entropy(np.array([[4, 4, 4], [4, 4, 4]]))
    array([0., 0.])
    """
    return np.asarray(np.log(same_class_counts(classes) / classes.shape[1]).mean(axis=1))


def pairwise_agreement(classes: Ints, *, identity: bool) -> Floats:
    """Return PA (pairwise agreement) per neighborhood (row): the share of pairs with equal classes.

    Column 0 is the example itself (the identity), and all other columns are draws. If `identity` is
    true, a share of 2/N of the pairs of N members consist of the example and a draw, and all other
    pairs consist of two draws. For each of these two types of pairs, the agreement is estimated
    from the draws that have been classified, so PA is unbiased even if some draws are missing. If
    no draw is missing, PA is Σ_j n_j (n_j − 1) / (N (N − 1)), where n_j is the number of members
    with class j. If `identity` is false, PA is the agreement between draws.

    >>> pairwise_agreement(np.array([[4, 4, 7, 4]]), identity=True)
    array([0.5])
    """
    draws = classes[:, 1:]
    if not identity:
        return pair_agreement(draws)
    n_draws = (draws != MISSING_CLASS).sum(axis=1)
    identity_weight = 2.0 / classes.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        with_identity = (draws == classes[:, :1]).sum(axis=1) / n_draws
    if identity_weight == 1.0:
        return np.asarray(with_identity)
    return np.asarray(
        identity_weight * with_identity + (1.0 - identity_weight) * pair_agreement(draws)
    )


def pair_agreement(classes: Ints) -> Floats:
    """Return, for each row, the share of pairs of members that have the same class.

    Members with class −1 are ignored. The share is Σ_j n_j (n_j − 1) / (N (N − 1)), where n_j of
    the N members have class j. It is NaN if there are fewer than two members.

    >>> pair_agreement(np.array([[4, 4, 7], [4, -1, 4]]))
    array([0.33333333, 1.        ])
    """
    is_known = classes != MISSING_CLASS
    n = is_known.sum(axis=1)
    n_agreeing = (same_class_counts(classes) * is_known).sum(axis=1) - n
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(n_agreeing / (n * (n - 1)))


def same_class_counts(classes: Ints) -> Ints:
    """Return, for each member, the number of members in its neighborhood that have its class.

    The member itself is counted.

    >>> same_class_counts(np.array([[4, 4, 7]]))
    array([[2, 2, 1]], dtype=int32)
    """
    counts = np.empty(classes.shape, dtype=np.int32)
    for rows in _row_slices(*classes.shape):
        block = classes[rows]
        counts[rows] = (block[:, :, None] == block[:, None, :]).sum(axis=2)
    return counts


def _row_slices(n_rows: int, n_members: int) -> Iterator[slice]:
    step = max(MAX_BLOCK_CELLS // max(n_members * n_members, 1), 1)
    return (slice(start, start + step) for start in range(0, n_rows, step))


@dataclass(frozen=True)
class MeanWithInterval:
    """Mean of a measure over examples, with its standard error and 95 % confidence interval.

    The standard error and the interval reflect the sampling of examples, not the sampling of draws.
    """

    value: float
    standard_error: float
    low: float
    high: float

    @classmethod
    def from_values(
        cls, values: Floats, floor: float = 0.0, ceiling: float = 1.0
    ) -> MeanWithInterval:
        """Compute the mean and its interval from one value per example.

        All values are between `floor` and `ceiling`. The interval is a Wilson interval for the
        number of binary observations whose mean would have the same variance. The variance is
        computed with two additional observations, one at `floor` and one at `ceiling`, so that the
        interval does not have zero width if all values are equal.

        >>> MeanWithInterval.from_values(np.array([1.0, 0.5, 1.0, 0.5])).value
        0.75
        """
        n = len(values)
        width = ceiling - floor
        mean = float(values.mean())
        deviation = float(values.std(ddof=1)) if n > 1 else width
        shares = np.concatenate([(values - floor) / width, [0.0, 1.0]])
        center = float(shares.mean())
        effective_n = n * center * (1.0 - center) / float(shares.var())
        low, high = wilson_interval(effective_n * (mean - floor) / width, effective_n)
        return cls(
            value=mean,
            standard_error=deviation / float(np.sqrt(n)),
            low=floor + width * low,
            high=floor + width * high,
        )

    @property
    def half_width(self) -> float:
        """Return the distance from the value to the farther end of the interval."""
        return max(self.high - self.value, self.value - self.low)

    def to_dict(self) -> dict[str, float]:
        return fields_to_jsonable(self)


@dataclass(frozen=True, eq=False)
class DecisionCounts:
    """Predictions of one model on examples and on their draws.

    Column 0 of `classes` has the classes of the examples, and all other columns have the classes of
    draws. `confidence` and `entropy` are those of the prediction on the example itself.
    `effective_invariance` is summed over the draws of an example, and so is `entropy_gap`, the
    entropy of the prediction on a draw minus the entropy of the prediction on the example. These
    two sums are NaN if the model returns no probabilities.
    """

    classes: Ints
    confidence: Floats
    entropy: Floats
    effective_invariance: Floats
    entropy_gap: Floats

    @classmethod
    def empty(cls, n: int, draws: int) -> DecisionCounts:
        """Return the counts of `n` examples before anything has been classified."""
        classes = np.full((n, 1 + draws), MISSING_CLASS, dtype=np.int32)
        return cls(classes, np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))

    @property
    def n_draws(self) -> Ints:
        """Return the number of classified draws per example."""
        return np.asarray((self.classes[:, 1:] != MISSING_CLASS).sum(axis=1))

    @property
    def _sums(self) -> tuple[Floats, Floats, Floats, Floats]:
        return self.confidence, self.entropy, self.effective_invariance, self.entropy_gap

    def rows(self, index: Bools | Ints) -> DecisionCounts:
        """Return the counts of selected examples."""
        return DecisionCounts(self.classes[index], *(values[index] for values in self._sums))

    def expand(self, n: int, draws: int, positions: Ints) -> DecisionCounts:
        """Return a larger copy with `n` rows and room for `draws` draws.

        The examples of this object are at the rows `positions` of the copy.
        """
        n_members = self.classes.shape[1]
        expanded = DecisionCounts.empty(n, max(draws, n_members - 1))
        expanded.classes[positions, :n_members] = self.classes
        for target, values in zip(expanded._sums, self._sums, strict=True):
            target[positions] = values
        return expanded

    def add(
        self,
        examples: Ints,
        members: range,
        classes: Ints,
        confidence: Floats | None,
        entropy: Floats | None,
    ) -> None:
        """Add the decisions on a batch, given as arrays of shape (members, examples)."""
        self.classes[examples[:, None], list(members)] = classes.T
        if confidence is None or entropy is None:
            self.effective_invariance[examples] = np.nan
            self.entropy_gap[examples] = np.nan
            return
        if 0 in members:
            self.confidence[examples] = confidence[0]
            self.entropy[examples] = entropy[0]
        is_same = classes == self.classes[examples, 0]
        invariance = np.sqrt(self.confidence[examples] * confidence) * is_same
        gap = entropy - self.entropy[examples]
        # The sums are updated one draw at a time, so that rounding does not depend on the batches.
        # Member 0 is the example itself, not a draw.
        for row, member in enumerate(members):
            if member > 0:
                self.effective_invariance[examples] += invariance[row]
                self.entropy_gap[examples] += gap[row]


@dataclass(frozen=True, eq=False)
class ModelInvariance:
    """Invariance of one model's decisions in the neighborhoods of a dataset.

    `counts` has the sampled examples in the order of the dataset, and `positions` has the row
    number of each of them in the dataset.
    """

    model: str
    counts: DecisionCounts
    positions: Ints
    identity: bool = True
    class_names: tuple[str, ...] | None = None

    @property
    def complete(self) -> bool:
        """Return whether all draws of every example have been classified."""
        return bool((self.counts.n_draws == self.counts.classes.shape[1] - 1).all())

    def by_example(self, measure: str) -> Floats:
        """Return the value of a measure for each example, in the order of `positions`."""
        name = measure.lower()
        if name == "pa":
            return pairwise_agreement(self.counts.classes, identity=self.identity)
        if name == "ei":
            return self._effective_invariance()
        if name not in MEASURES:
            raise UnknownName("measure", measure, MEASURES)
        if not self.complete:
            raise NotApplicable(
                f"{name} depends on the number of draws, and only part of them were classified; "
                "pa does not"
            )
        members = self.counts.classes if self.identity else self.counts.classes[:, 1:]
        return neighborhood_invariance(members) if name == "ni" else negative_entropy(members)

    def _effective_invariance(self) -> Floats:
        if np.isnan(self.counts.effective_invariance).any():
            raise NotApplicable("ei needs probabilities; the model returns classes only")
        return np.asarray(self.counts.effective_invariance / self.counts.n_draws)

    def mean_with_interval(self, measure: str) -> MeanWithInterval:
        """Return the mean of a measure over the examples, or raise if it is not applicable."""
        n_members = self.counts.classes.shape[1] - (not self.identity)
        floor = -float(np.log(n_members)) if measure.lower() == "ne" else 0.0
        return MeanWithInterval.from_values(
            self.by_example(measure), floor, 0.0 if floor < 0.0 else 1.0
        )

    def all_measures(self) -> Iterator[tuple[str, MeanWithInterval]]:
        """Yield the name and mean of each applicable measure."""
        for name in MEASURES:
            try:
                yield name, self.mean_with_interval(name)
            except NotApplicable:
                continue

    @property
    def entropy_difference(self) -> float | None:
        """Return the mean increase of the entropy from example to draw, None if it is unknown."""
        if np.isnan(self.counts.entropy_gap).any():
            return None
        return float(self.counts.entropy_gap.sum() / self.counts.n_draws.sum())

    @property
    def top_class(self) -> tuple[int, float]:
        """Return the class that is assigned to the most examples, and its share of the examples."""
        classes, counts = np.unique(self.counts.classes[:, 0], return_counts=True)
        top = int(counts.argmax())
        return int(classes[top]), float(counts[top] / counts.sum())

    @property
    def constant_share(self) -> float:
        """Return the share of examples for which all draws have the same class as the example."""
        classes = self.counts.classes
        is_constant = (classes == classes[:, :1]) | (classes == MISSING_CLASS)
        return float(is_constant.all(axis=1).mean())

    @property
    def degenerate(self) -> bool:
        """Return whether the model is nearly constant, which makes invariance meaningless."""
        return min(self.constant_share, self.top_class[1]) >= DEGENERATE_SHARE

    def warnings(self) -> tuple[str, ...]:
        """Return the reasons not to rely on the measures."""
        increase = self.entropy_difference
        messages = []
        if increase is None:
            messages.append(
                "cannot check whether the transform is suitable: the model returns no probabilities"
            )
        elif increase > ENTROPY_LIMIT:
            messages.append(
                f"the transform is unsuitable: it raises the entropy of predictions by "
                f"{increase:.2f}, more than {ENTROPY_LIMIT}; it may destroy the classes"
            )
        if self.degenerate:
            top, share = self.top_class
            name = self.class_names[top] if self.class_names else str(top)
            messages.append(
                f"the model is nearly constant: {share:.0%} of the examples are assigned to class "
                f"{name}, transformed or not; invariance is meaningless for such a model"
            )
        if not self.complete:
            messages.append(
                "ni and ne are skipped: they depend on the number of draws, and pa does not"
            )
        return tuple(messages)

    def to_dict(self) -> dict[str, Any]:
        top, share = self.top_class
        return {
            "model": self.model,
            **to_jsonable(dict(self.all_measures())),
            "entropy_difference": self.entropy_difference,
            "constant_share": self.constant_share,
            "top_class": top,
            "top_class_share": share,
            "degenerate": self.degenerate,
            "notes": list(self.warnings()),
        }


@dataclass(frozen=True)
class SamplingCost:
    """Number of examples, of sampled inputs, and of distinct inputs that each model classified."""

    examples: int
    drawn: int
    classified: int
    requested_half_width: float | None = None
    precision_reached: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class InvarianceResult(ResultViews):
    """Invariance of several models in the same neighborhoods of one dataset.

    Iterating over the result yields the `ModelInvariance` of each model. The result can be indexed
    by the name or the number of a model.

    Parameters
    ----------
    data, fingerprint : str
        Name and fingerprint of the dataset.
    n : int
        Number of rows of the dataset.
    transform, label : str
        Name of the transform, and the short name that is part of measure names such as NI-RandAug.
    magnitude : float
        Magnitude of the transform.
    draws : int
        Number of transformed copies per example.
    identity : bool
        Whether the example itself belongs to its neighborhood.
    seed : int
        Random seed.
    sampling_cost : SamplingCost
        Number of inputs that were sampled and classified.
    skipped : int
        Number of files of the dataset that could not be read.
    results : tuple of ModelInvariance
        Results per model.
    settings : str
        All settings of the transform and, if it has learned from data, the fingerprint of the data.
    strength : {"up_to", "fixed"}, optional
        Strength of the transform. None if the transform does not have this setting.
    sampler : NeighborhoodSampler, optional
        Data and transform, which the report needs to show examples. It is left out when the result
        is pickled.

    Examples
    --------
    >>> from oodometer import invariance
    >>> constant = lambda rows: [0] * len(rows)
    >>> result = invariance({"constant": constant}, np.eye(4), transform="gaussian", draws=3)
    >>> result.models, result["constant"].mean_with_interval("ni").value
    (('constant',), 1.0)
    """

    renderer: ClassVar[str] = "oodometer.report.neighborhood_views"
    transient_fields: ClassVar[tuple[str, ...]] = ("sampler",)

    data: str
    fingerprint: str
    n: int
    transform: str
    label: str
    magnitude: float
    draws: int
    identity: bool
    seed: int
    sampling_cost: SamplingCost
    skipped: int
    results: tuple[ModelInvariance, ...]
    settings: str = ""
    strength: str | None = None
    sampler: NeighborhoodSampler | None = None

    def __iter__(self) -> Iterator[ModelInvariance]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of the models."""
        return tuple(result.model for result in self.results)

    def __getitem__(self, model: str | int) -> ModelInvariance:
        if isinstance(model, int):
            return self.results[model]
        by_name = dict(zip(self.models, self.results, strict=True))
        if model not in by_name:
            raise UnknownName("model", model, by_name)
        return by_name[model]

    def measure_label(self, measure: str) -> str:
        """Return the name of a measure that is shown in tables, such as NI-RandAug."""
        return f"{self.measure_prefix(measure)}-{self.label}"

    def measure_prefix(self, measure: str) -> str:
        """Return the short name of a measure, such as NI, or MS for local manifold smoothness."""
        return measure_name(measure, identity=self.identity, strength=self.strength).upper()

    def __str__(self) -> str:
        lines = []
        for result in self.results:
            measures = [
                f"{self.measure_label(name)} {mean.value:.3f}"
                for name, mean in result.all_measures()
            ]
            lines.append(f"{result.model}: {', '.join(measures)}")
            lines += [f"  {warning}" for warning in result.warnings()]
        return "\n".join(lines)

    def key_values(self) -> dict[str, Any]:
        measure = self.main_measure
        values = {result.model: result.mean_with_interval(measure).value for result in self}
        return {
            "transform": self.transform,
            "data": self.data,
            "n": self.n,
            "draws": self.draws,
            "models": len(self),
            "best": max(values, key=lambda name: values[name]),
            self.measure_prefix(measure).lower(): max(values.values()),
        }

    @property
    def main_measure(self) -> str:
        """Return "ni" if every model classified all draws, else "pa", which allows missing draws."""
        return "ni" if all(result.complete for result in self) else "pa"

    def tables(self) -> dict[str, TableRows]:
        """Return the table `models`: one row per model and measure."""
        rows = [
            {"model": result.model, "measure": self.measure_label(name), **mean.to_dict()}
            for result in self
            for name, mean in result.all_measures()
        ]
        return {"models": rows}

    def to_dict(self) -> dict[str, Any]:
        values = fields_to_jsonable(replace(self, sampler=None))
        del values["sampler"]
        cost = values.pop("sampling_cost")
        models = values.pop("results")
        return {**values, "sampling_cost": cost, "models": models}

    def full_counts(self, draws: int) -> list[DecisionCounts]:
        """Return one `DecisionCounts` per model for all rows, with room for `draws` draws."""
        return [
            result.counts.expand(self.n, max(draws, self.draws), result.positions)
            for result in self.results
        ]

    def first_difference(self, settings: Mapping[str, object]) -> str | None:
        """Return the name of the first given setting that differs from this result, or None."""
        for name, value in settings.items():
            if getattr(self, name) != value:
                return name
        return None

    def check_resumable(self, settings: Mapping[str, object]) -> None:
        """Raise if a run with the given settings cannot be continued from this result."""
        name = self.first_difference(settings)
        if name is not None:
            raise InputError(
                f"Cannot resume: the earlier run had {name} {getattr(self, name)!r}, this one has "
                f"{settings[name]!r}. Use the same settings, or omit resume to start again."
            )
