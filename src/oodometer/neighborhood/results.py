"""What is known of models' neighborhoods: decisions, measures made of them, how sure they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.stats import wilson_interval

MISSING_CLASS = -1
# Comparing all members of a neighborhood with each other takes N² cells a row; so many at a time.
MAX_BLOCK_CELLS = 2_000_000


def _row_slices(m: int, members: int) -> Iterator[slice]:
    step = max(MAX_BLOCK_CELLS // max(members * members, 1), 1)
    return (slice(start, start + step) for start in range(0, m, step))


def same_class_counts(classes: Ints) -> Ints:
    """For every member: how many of its neighborhood are in its class, itself included.

    >>> same_class_counts(np.array([[4, 4, 7]]))
    array([[2, 2, 1]], dtype=int32)
    """
    counts = np.empty(classes.shape, dtype=np.int32)
    for rows in _row_slices(*classes.shape):
        block = classes[rows]
        counts[rows] = (block[:, :, None] == block[:, None, :]).sum(axis=2)
    return counts


def neighborhood_invariance(classes: Ints) -> Floats:
    """NI: the share of the neighborhood's own most frequent class.

    >>> neighborhood_invariance(np.array([[4, 4, 7, 4]]))
    array([0.75])
    """
    return np.asarray(same_class_counts(classes).max(axis=1) / classes.shape[1])


def negative_entropy(classes: Ints) -> Floats:
    """NE: Σ_j p_j log p_j, which is the mean over members of log(c / N).

    >>> negative_entropy(np.array([[4, 4, 4], [4, 4, 4]]))
    array([0., 0.])
    """
    return np.asarray(np.log(same_class_counts(classes) / classes.shape[1]).mean(axis=1))


def pair_agreement(classes: Ints) -> Floats:
    """The share of pairs of two different members that are in one class; −1 is left out.

    Σ_j n_j (n_j − 1) / (N (N − 1)); NaN where there are fewer than two members.

    >>> pair_agreement(np.array([[4, 4, 7], [4, -1, 4]]))
    array([0.33333333, 1.        ])
    """
    drawn = classes != MISSING_CLASS
    n = drawn.sum(axis=1)
    alike = (same_class_counts(classes) * drawn).sum(axis=1) - n
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(alike / (n * (n - 1)))


def pairwise_agreement(classes: Ints, *, identity: bool) -> Floats:
    """PA of the whole neighborhood, unbiased already when a part of its draws is there.

    Column 0 is the identity, the others are draws. The neighborhood of N members has one identity,
    so 2/N of its pairs have it and the rest are of two draws; both shares are estimated from the
    draws at hand. When all of them are there this is Σ_j n_j (n_j − 1) / (N (N − 1)). Without the
    identity as a member it is the second share alone.

    >>> pairwise_agreement(np.array([[4, 4, 7, 4]]), identity=True)
    array([0.5])
    """
    draws = classes[:, 1:]
    if not identity:
        return pair_agreement(draws)
    drawn = (draws != MISSING_CLASS).sum(axis=1)
    weight = 2.0 / classes.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        with_identity = (draws == classes[:, :1]).sum(axis=1) / drawn
    if weight == 1.0:
        return np.asarray(with_identity)
    return np.asarray(weight * with_identity + (1.0 - weight) * pair_agreement(draws))


InvarianceMeasure = Literal["ni", "ne", "ei", "pa"]
MEASURES: tuple[InvarianceMeasure, ...] = ("ni", "ne", "ei", "pa")
# Above this mean rise of the prediction's entropy a transform destroys classes (Ng et al., §5.4).
ENTROPY_LIMIT = 0.1
# A model that puts nearly all in one class, whatever is done to them, is invariant for nothing.
DEGENERATE_SHARE = 0.95


@dataclass(frozen=True)
class MeanWithInterval:
    """The mean of a measure over examples, its standard error and 95 % interval.

    Both are of the luck of which examples were drawn: another set of the same kind would differ.
    """

    value: float
    standard_error: float
    low: float
    high: float

    @classmethod
    def from_values(
        cls, values: Floats, floor: float = 0.0, ceiling: float = 1.0
    ) -> MeanWithInterval:
        """Of per-example values that lie between a floor and a ceiling.

        The interval is Wilson's for as many yes-or-no examples as would tell the mean as well.
        The variance is taken with one more example at either end, so that a hundred examples
        that are all alike do not pass for certainty.

        >>> MeanWithInterval.from_values(np.array([1.0, 0.5, 1.0, 0.5])).value
        0.75
        """
        n, width = len(values), ceiling - floor
        mean = float(values.mean())
        spread = float(values.std(ddof=1)) if n > 1 else width
        shares = np.concatenate([(values - floor) / width, [0.0, 1.0]])
        middle = float(shares.mean())
        worth = n * middle * (1.0 - middle) / float(shares.var())
        low, high = wilson_interval(worth * (mean - floor) / width, worth)
        return cls(mean, spread / float(np.sqrt(n)), floor + width * low, floor + width * high)

    @property
    def half_width(self) -> float:
        """How far the farther end of the interval is from the value."""
        return max(self.high - self.value, self.value - self.low)

    def to_dict(self) -> dict[str, float]:
        """Plain values, for JSON."""
        return {
            "value": self.value,
            "standard_error": self.standard_error,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True, eq=False)
class DecisionCounts:
    """One model's decisions: column 0 on the examples themselves, the others on their draws.

    `entropy_gap` has H(p(g(x))) − H(p(x)) and `effective_invariance` the effective invariance, each summed over the draws
    of an example; both are NaN where the model gives no probabilities.
    """

    classes: Ints
    confidence: Floats
    entropy: Floats
    effective_invariance: Floats
    entropy_gap: Floats

    @classmethod
    def empty(cls, n: int, draws: int) -> DecisionCounts:
        """Nothing decided yet."""
        classes = np.full((n, 1 + draws), MISSING_CLASS, dtype=np.int32)
        return cls(classes, np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))

    def widen(self, draws: int) -> DecisionCounts:
        """A copy with room for more draws."""
        n, have = self.classes.shape
        wide = np.full((n, max(1 + draws, have)), MISSING_CLASS, dtype=np.int32)
        wide[:, :have] = self.classes
        rest = (self.confidence, self.entropy, self.effective_invariance, self.entropy_gap)
        return DecisionCounts(wide, *(part.copy() for part in rest))

    @property
    def n_draws(self) -> Ints:
        """How many draws of each example were classified."""
        return np.asarray((self.classes[:, 1:] != MISSING_CLASS).sum(axis=1))

    def rows(self, where: Bools | Ints) -> DecisionCounts:
        """Of some examples."""
        rest = (self.confidence, self.entropy, self.effective_invariance, self.entropy_gap)
        return DecisionCounts(self.classes[where], *(part[where] for part in rest))


@dataclass(frozen=True, eq=False)
class ModelInvariance:
    """How invariant one model's decisions are in the neighborhoods of a dataset.

    `counts` has the examples looked at, in the dataset's order, and `positions` where they stand.
    """

    model: str
    counts: DecisionCounts
    positions: Ints
    identity: bool = True
    class_names: tuple[str, ...] | None = None

    @property
    def complete(self) -> bool:
        """Whether every example has all of its draws."""
        return bool((self.counts.n_draws == self.counts.classes.shape[1] - 1).all())

    def by_example(self, measure: str) -> Floats:
        """The measure of every example, in the order of `positions`."""
        name = measure.lower()
        if name == "pa":
            return pairwise_agreement(self.counts.classes, identity=self.identity)
        if name == "ei":
            return self._effective_invariance()
        if name not in MEASURES:
            raise UnknownName("measure", measure, MEASURES)
        if not self.complete:
            raise NotApplicable(
                f"{name} hangs on the number of draws, and examples have but a part of theirs; "
                "pa does not"
            )
        members = self.counts.classes if self.identity else self.counts.classes[:, 1:]
        return neighborhood_invariance(members) if name == "ni" else negative_entropy(members)

    def _effective_invariance(self) -> Floats:
        if np.isnan(self.counts.effective_invariance).any():
            raise NotApplicable("ei needs probabilities; the model gives classes only")
        return np.asarray(self.counts.effective_invariance / self.counts.n_draws)

    def mean_with_interval(self, measure: str) -> MeanWithInterval:
        """The mean of a measure over the examples; NotApplicable where there is none."""
        members = self.counts.classes.shape[1] - (not self.identity)
        floor = -float(np.log(members)) if measure.lower() == "ne" else 0.0
        return MeanWithInterval.from_values(
            self.by_example(measure), floor, 0.0 if floor < 0.0 else 1.0
        )

    def all_measures(self) -> Iterator[tuple[str, MeanWithInterval]]:
        """Every measure that has an answer."""
        for name in MEASURES:
            try:
                yield name, self.mean_with_interval(name)
            except NotApplicable:
                continue

    @property
    def entropy_difference(self) -> float | None:
        """The mean rise of the prediction's entropy under the transform; None without probs."""
        if np.isnan(self.counts.entropy_gap).any():
            return None
        return float(self.counts.entropy_gap.sum() / self.counts.n_draws.sum())

    @property
    def top_class(self) -> tuple[int, float]:
        """The class most examples are put in, and their share."""
        found, counts = np.unique(self.counts.classes[:, 0], return_counts=True)
        most = int(counts.argmax())
        return int(found[most]), float(counts[most] / counts.sum())

    @property
    def constant_share(self) -> float:
        """The share of examples that no draw moves to another class."""
        classes = self.counts.classes
        still = (classes == classes[:, :1]) | (classes == MISSING_CLASS)
        return float(still.all(axis=1).mean())

    @property
    def degenerate(self) -> bool:
        """Whether the model is (nearly) the constant one, for which invariance means nothing."""
        return min(self.constant_share, self.top_class[1]) >= DEGENERATE_SHARE

    def warnings(self) -> tuple[str, ...]:
        """When not to believe it."""
        rise, (top, share) = self.entropy_difference, self.top_class
        found = []
        if rise is None:
            found.append(
                "whether the transform is suitable can't be told: the model gives no probabilities"
            )
        elif rise > ENTROPY_LIMIT:
            found.append(
                f"the transform is unsuitable: it raises the entropy of predictions by {rise:.2f}, "
                f"more than {ENTROPY_LIMIT}; it may destroy the classes"
            )
        if self.degenerate:
            name = self.class_names[top] if self.class_names else str(top)
            found.append(
                f"{share:.0%} of the examples are put in class {name} whatever is done to them: "
                "invariance means nothing for such a model"
            )
        if not self.complete:
            found.append(
                "ni and ne are left out: they hang on the number of draws, and pa does not"
            )
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        top, share = self.top_class
        return {
            "model": self.model,
            **{name: reading.to_dict() for name, reading in self.all_measures()},
            "entropy_difference": self.entropy_difference,
            "constant_share": self.constant_share,
            "top_class": top,
            "top_class_share": share,
            "degenerate": self.degenerate,
            "notes": list(self.warnings()),
        }


@dataclass(frozen=True)
class SamplingCost:
    """What was spent: inputs drawn, and inputs each model classified (identical ones once)."""

    examples: int
    drawn: int
    classified: int
    requested_half_width: float | None = None
    precision_reached: bool = True


@dataclass(frozen=True, eq=False)
class InvarianceResult:
    """Models beside one another in the same neighborhoods of one dataset.

    `settings` are all of the transform's, and what it learned from.
    """

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
    results: tuple[ModelInvariance, ...] = field(repr=False)
    settings: str = ""

    def __iter__(self) -> Iterator[ModelInvariance]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def models(self) -> tuple[str, ...]:
        """The models' names."""
        return tuple(one.model for one in self.results)

    def __getitem__(self, model: str | int) -> ModelInvariance:
        if isinstance(model, int):
            return self.results[model]
        found = {one.model: one for one in self.results}
        if model not in found:
            raise UnknownName("model", model, found)
        return found[model]

    def measure_label(self, measure: str) -> str:
        """A measure's name in tables: NI-RandAug."""
        return f"{measure.upper()}-{self.label}"

    def __str__(self) -> str:
        lines = [
            f"{one.model}: "
            + ", ".join(
                f"{self.measure_label(name)} {r.value:.3f}" for name, r in one.all_measures()
            )
            + "".join(f"\n  {note}" for note in one.warnings())
            for one in self.results
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = {
            name: getattr(self, name)
            for name in ("data", "fingerprint", "n", "transform", "label", "magnitude", "draws",
                         "identity", "seed", "skipped", "settings")
        }  # fmt: skip
        spent = {
            name: getattr(self.sampling_cost, name) for name in SamplingCost.__dataclass_fields__
        }
        return {**plain, "sampling_cost": spent, "models": [one.to_dict() for one in self.results]}

    def full_counts(self, draws: int) -> list[DecisionCounts]:
        """What later work can go on from: whole-dataset tallies with room for so many draws."""
        whole = []
        for one in self.results:
            tally = DecisionCounts.empty(self.n, max(draws, self.draws))
            have = one.counts.widen(draws)
            for part, known in zip(_arrays(tally), _arrays(have), strict=True):
                part[one.positions] = known
            whole.append(tally)
        return whole

    def first_difference(self, current: Mapping[str, object]) -> str | None:
        """The first of these settings in which this run was another."""
        return next((name for name, value in current.items() if getattr(self, name) != value), None)

    def check_resumable(self, current: Mapping[str, object]) -> None:
        """Refuse to go on with a run of something else."""
        name = self.first_difference(current)
        if name is not None:
            raise InputError(
                f"The earlier run had {name} {getattr(self, name)!r}, this one has {current[name]!r}. "
                "Only the same run can be gone on with: leave resume out to start anew."
            )


def _arrays(counts: DecisionCounts) -> tuple[Any, ...]:
    return (
        counts.classes,
        counts.confidence,
        counts.entropy,
        counts.effective_invariance,
        counts.entropy_gap,
    )
