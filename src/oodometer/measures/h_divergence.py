"""H-divergence: how well a head on the features tells source from target. DG §7.2, Algorithms 1, 3.

As many rows of either side are taken, and split half and half by their content. Features are
standardised by mean and deviation of the training half; a column that does not vary there is 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.measures._domain_classifiers import HeadName, fit_head
from oodometer.measures.subject import VEDANTAM_2021, Subject
from oodometer.models.model_view import ModelView

Half = Literal["test", "train"]
# Rows a side; 512 features then take the larger heads some seconds.
MAX_SIDE_ROWS = 2000
# Wider features would take a larger head gigabytes and hours.
MAX_FEATURES = 8192
# Two rows a side to learn from, two to be tested on.
MIN_SIDE_ROWS = 4


@dataclass(frozen=True, eq=False)
class SplitFeatures:
    """Standardised features to learn from and to be tested on, (side, rows, d), source first.

    `source` is the source's rows in that order, those to learn from first.
    """

    train: Floats
    test: Floats
    source: ModelView
    notes: tuple[str, ...]
    facts: Mapping[str, float]


def split_features(subject: Subject, rows: int) -> SplitFeatures:
    """At most so many rows of S, as many of T, drawn and split by their content."""
    return subject.cached(("halves", rows), lambda: _split_features(subject, rows))


def _split_features(subject: Subject, rows: int) -> SplitFeatures:
    _ = subject.features  # refused there, if they can't be compared
    sides = (subject.reference, subject.target)
    there = min(side.n for side in sides)
    if there < MIN_SIDE_ROWS:
        raise NotApplicable(
            f"it splits both sides in two, and {there} rows a side are less than {MIN_SIDE_ROWS}"
        )
    used = min(there, rows)
    # One purpose for both: a row that is on both sides falls into one half, not into both.
    drawn = [side.rows(side.random_order("divergence")[:used]) for side in sides]
    both = np.stack([side.features for side in drawn]).astype(np.float64)
    cut = (used + 1) // 2
    train, test = _standardize(both[:, :cut], both[:, cut:])
    notes = (
        (f"only {used:,} of {there:,} rows a side were used, drawn at random",)
        if used < there
        else ()
    )
    return SplitFeatures(train, test, drawn[0], notes, {"rows": used, "width": both.shape[2]})


def _standardize(train: Floats, test: Floats) -> tuple[Floats, Floats]:
    low, high = train.min(axis=(0, 1)), train.max(axis=(0, 1))
    varying = low < high
    if not varying.any():
        raise NotApplicable("no feature varies over both sides: there is nothing to tell apart")
    # By the largest first: squares of what is very large or very small are out of range.
    scale = np.where(varying, np.maximum(np.abs(low), np.abs(high)), np.inf)
    train, test = train / scale, test / scale
    mean, deviation = train.mean(axis=(0, 1)), train.std(axis=(0, 1))
    deviation[~varying] = 1.0
    return (train - mean) / deviation, (test - mean) / deviation


@dataclass(frozen=True)
class DivergenceByHalf:
    """A divergence on either half."""

    train: float
    test: float
    notes: tuple[str, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Divergence(ABC):
    """A divergence by one kind of head, read on one half; both halves share the fit.

    `rows` is how many rows a side are looked at, at most.
    """

    head: HeadName = "linear"
    half: Half = "test"
    rows: int = MAX_SIDE_ROWS

    symbols: ClassVar[dict[HeadName, tuple[str, str]]]
    assumes: ClassVar[str]
    needs: ClassVar[tuple[Need, ...]] = ("features",)
    paper: ClassVar[str] = VEDANTAM_2021

    def __post_init__(self) -> None:
        if self.head not in get_args(HeadName):
            raise InputError(f"head must be 'linear' or 'larger'; got {self.head!r}.")
        if self.half not in get_args(Half):
            raise InputError(f"half must be 'test' or 'train'; got {self.half!r}.")
        if self.rows < MIN_SIDE_ROWS:
            raise InputError(
                f"rows must be at least {MIN_SIDE_ROWS}; got {self.rows}. 2000 is usual."
            )

    @property
    def name(self) -> str:
        """The symbol spelled out, then `-train` for the training half."""
        return f"{self.symbols[self.head][0]}-divergence{'-train' * (self.half == 'train')}"

    @property
    def label(self) -> str:
        """The papers' symbol, and "(train)" for the training half."""
        return f"{self.symbols[self.head][1]}-divergence{' (train)' * (self.half == 'train')}"

    def measure(self, subject: Subject) -> Score:
        """The divergence on the half asked for."""
        found = subject.cached(replace(self, half="test"), lambda: self._compute_checked(subject))
        value = found.test if self.half == "test" else found.train
        return Score(value, notes=found.notes, facts=found.facts)

    def _compute_checked(self, subject: Subject) -> DivergenceByHalf:
        from threadpoolctl import threadpool_limits

        width = subject.features[0].shape[1]
        if self.head == "larger" and width > MAX_FEATURES:
            raise NotApplicable(
                f"features are {width:,} wide, and a larger head is put on {MAX_FEATURES:,} at most, for "
                "its weights grow by the square; name a narrower layer (layer=…)"
            )
        parts = split_features(subject, self.rows)
        # Sums in another order may end in another head: a result must not hang on the cores there
        # are. The matrices are small, and threads of several processes would only fight.
        with threadpool_limits(1, user_api="blas"):
            return self.compute(subject, parts)

    @abstractmethod
    def compute(self, subject: Subject, split: SplitFeatures) -> DivergenceByHalf:
        """The divergence on both halves."""


@dataclass(frozen=True)
class HDivergence(Divergence):
    """The accuracy of a head that was taught which features are the source's: ½ … 1.

    >>> from oodometer.models.model_view import ViewSource
    >>> near, far = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([[6.0], [7.0], [8.0], [9.0]])
    >>> source, target = ModelView(ViewSource("source", features=near)), ModelView(ViewSource("target", features=far))
    >>> HDivergence().measure(Subject(source, target)).value
    1.0
    """

    symbols: ClassVar[dict[HeadName, tuple[str, str]]] = {
        "linear": ("h", "H"),
        "larger": ("hplus", "H⁺"),
    }
    assumes: ClassVar[str] = (
        "the easier the target's features are told from the source's, the more the model errs there"
    )

    def compute(self, subject: Subject, split: SplitFeatures) -> DivergenceByHalf:
        """Its accuracy on both halves."""
        train, test = (_stack_sides(half, self.head) for half in (split.train, split.test))
        origins = [np.repeat([0, 1], len(half) // 2) for half in (train, test)]
        head = fit_head(self.head, train, origins[0], seed=subject.seed)
        notes = (
            ()
            if head.converged
            else (f"the head was not done learning after {head.steps:,} steps",)
        )
        return DivergenceByHalf(
            head.accuracy(train, origins[0]),
            head.accuracy(test, origins[1]),
            notes=(*split.notes, *notes),
            facts={**split.facts, "steps": head.steps, "settled": float(head.converged)},
        )


def _stack_sides(half: Floats, head: HeadName) -> Floats:
    """Both sides under one another; the larger head, the slow one, in single precision."""
    dtype = np.float64 if head == "linear" else np.float32
    return half.reshape(-1, half.shape[2]).astype(dtype)
