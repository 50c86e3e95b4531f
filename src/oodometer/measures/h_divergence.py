"""H-divergence: accuracy of a classifier that separates source features from target features.

Vedantam et al., NeurIPS 2021, §7.2, Algorithms 1 and 3.

The same number of rows is used from the source and from the target. Source and target are each
split into a training half and a test half by the content of their rows. Features are
standardized by the mean and standard deviation of the training half. Columns that are constant in
the training half become 0 in both halves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable, out_of_range
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.measures._domain_classifiers import HeadName, fit_head
from oodometer.measures.subject import VEDANTAM_2021, Subject
from oodometer.models.model_view import ModelView

Half = Literal["test", "train"]
# Default maximum number of rows of the source and of the target. With this number of rows and 512
# features, the head "larger" is fitted in a few seconds.
MAX_SIDE_ROWS = 2000
# With more features, the head "larger" would need gigabytes of memory and hours.
MAX_FEATURES = 8192
# Source and target need at least two rows each for training and two for testing.
MIN_SIDE_ROWS = 4


@dataclass(frozen=True, eq=False)
class SplitFeatures:
    """Standardized features of the training half and of the test half.

    `train` and `test` have shape (2, rows, d); index 0 is the source and index 1 is the target.
    `source` is the view of the source rows in the same order, with the training half first.
    """

    train: Floats
    test: Floats
    source: ModelView
    notes: tuple[str, ...]
    facts: Mapping[str, float]


def split_features(subject: Subject, rows: int) -> SplitFeatures:
    """Select at most `rows` rows of source and target each, and split them into halves.

    The selection and the split depend on the content of the rows, not on their order.
    """
    return subject.cached(("halves", rows), lambda: _split_features(subject, rows))


def _split_features(subject: Subject, rows: int) -> SplitFeatures:
    _ = subject.features  # validates the features of source and target
    sides = (subject.reference, subject.target)
    n_available = min(side.n for side in sides)
    if n_available < MIN_SIDE_ROWS:
        raise NotApplicable(
            f"it needs at least {MIN_SIDE_ROWS} rows per side to split them into halves, and "
            f"there are {n_available}"
        )
    n_used = min(n_available, rows)
    # Source and target use the same random stream, so a row that occurs in both falls into the same
    # half.
    drawn = [side.rows(side.random_order("divergence")[:n_used]) for side in sides]
    features = np.stack([side.features for side in drawn]).astype(np.float64)
    n_train = (n_used + 1) // 2
    train, test = _standardize(features[:, :n_train], features[:, n_train:])
    notes: tuple[str, ...] = ()
    if n_used < n_available:
        notes = (f"only {n_used:,} of {n_available:,} rows per side were used, drawn at random",)
    return SplitFeatures(
        train=train,
        test=test,
        source=drawn[0],
        notes=notes,
        facts={"rows": n_used, "width": features.shape[2]},
    )


def _standardize(train: Floats, test: Floats) -> tuple[Floats, Floats]:
    low, high = train.min(axis=(0, 1)), train.max(axis=(0, 1))
    varying = low < high
    if not varying.any():
        raise NotApplicable("all features are constant over source and target")
    # Divide by the largest absolute value first, because squares of extreme values would overflow.
    scale = np.where(varying, np.maximum(np.abs(low), np.abs(high)), np.inf)
    train, test = train / scale, test / scale
    mean, deviation = train.mean(axis=(0, 1)), train.std(axis=(0, 1))
    deviation[~varying] = 1.0
    return (train - mean) / deviation, (test - mean) / deviation


@dataclass(frozen=True)
class DivergenceByHalf:
    """Values of a divergence on the training and on the test half."""

    train: float
    test: float
    notes: tuple[str, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Divergence(ABC):
    """Divergence computed with one kind of head and evaluated on the training or test half.

    A head is a classifier on features. It is fitted once for the evaluation on both halves.
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
            raise InputError(f"head must be linear or larger; got {self.head!r}.")
        if self.half not in get_args(Half):
            raise InputError(f"half must be test or train; got {self.half!r}.")
        if self.rows < MIN_SIDE_ROWS:
            raise out_of_range("rows", self.rows, low=MIN_SIDE_ROWS)

    @property
    def name(self) -> str:
        return f"{self.symbols[self.head][0]}-divergence{'-train' * (self.half == 'train')}"

    @property
    def label(self) -> str:
        return f"{self.symbols[self.head][1]}-divergence{' (train)' * (self.half == 'train')}"

    @property
    def shared_work_group(self) -> Hashable:
        """Return the divergence with half "test"; it identifies the fit that both halves use."""
        return replace(self, half="test")

    def measure(self, subject: Subject) -> Score:
        by_half = subject.cached(self.shared_work_group, lambda: self._compute_checked(subject))
        value = by_half.test if self.half == "test" else by_half.train
        return Score(value, notes=by_half.notes, facts=by_half.facts)

    def _compute_checked(self, subject: Subject) -> DivergenceByHalf:
        from threadpoolctl import threadpool_limits

        width = subject.features[0].shape[1]
        if self.head == "larger" and width > MAX_FEATURES:
            raise NotApplicable(
                f"there are {width:,} features per row, and a larger head accepts at most "
                f"{MAX_FEATURES:,}, because its weights grow quadratically; name a narrower layer "
                "(layer=…)"
            )
        split = split_features(subject, self.rows)
        # One thread is used so that the result does not depend on the number of cores: with several
        # threads, sums are added in another order, and the fitted head may differ. The matrices are
        # small, so more threads would not be faster.
        with threadpool_limits(1, user_api="blas"):
            return self.compute(subject, split)

    @abstractmethod
    def compute(self, subject: Subject, split: SplitFeatures) -> DivergenceByHalf:
        """Return the divergence on the training half and on the test half."""


@dataclass(frozen=True)
class HDivergence(Divergence):
    """Accuracy of a head that classifies features as source or target.

    It is about ½ if the features cannot be told apart, and 1 if they are separable.

    Parameters
    ----------
    head : {"linear", "larger"}
        Logistic regression, or a multilayer perceptron with three hidden layers.
    half : {"test", "train"}
        Half of the rows on which the accuracy is computed.
    rows : int
        Maximum number of rows of the source and of the target; a random subsample is used if there
        are more.

    Examples
    --------
    >>> from oodometer.measures import build_subject
    >>> source, target = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([[6.0], [7.0], [8.0], [9.0]])
    >>> HDivergence().measure(build_subject(None, source, target)).value
    1.0
    """

    symbols: ClassVar[dict[HeadName, tuple[str, str]]] = {
        "linear": ("h", "H"),
        "larger": ("hplus", "H⁺"),
    }
    assumes: ClassVar[str] = (
        "the easier source and target features are to separate, the higher the error on the target"
    )

    def compute(self, subject: Subject, split: SplitFeatures) -> DivergenceByHalf:
        train, test = (_stack_sides(half, self.head) for half in (split.train, split.test))
        train_origins, test_origins = (np.repeat([0, 1], len(half) // 2) for half in (train, test))
        head = fit_head(self.head, train, train_origins, seed=subject.seed)
        notes = list(split.notes)
        if not head.converged:
            notes.append(f"the head had not converged after {head.steps:,} steps")
        return DivergenceByHalf(
            train=head.accuracy(train, train_origins),
            test=head.accuracy(test, test_origins),
            notes=tuple(notes),
            facts={**split.facts, "steps": head.steps, "settled": float(head.converged)},
        )


def _stack_sides(half: Floats, head: HeadName) -> Floats:
    """Return source and target rows as one matrix; float32 saves time for the head "larger"."""
    dtype = np.float64 if head == "linear" else np.float32
    return half.reshape(-1, half.shape[2]).astype(dtype)
