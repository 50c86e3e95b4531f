"""Estimate and Score, and what an estimator, a model, a dataset and a transform are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.inputs import InputKind, Inputs, RowHashes
from oodometer.core.predictions import Predictions
from oodometer.core.random_streams import RowStreams
from oodometer.core.results import Estimate, Score

# What a measure or a metric may need.
Need = Literal[
    "outputs",
    "labels",
    "features",
    "gradients",
    "weights",
    "training data",
    "mixable inputs",
    "source domains",
]
# Told what is done, of how much, and what it is.
ProgressCallback = Callable[[int, int, str], None]


@runtime_checkable
class Estimator(Protocol):
    """Predicts accuracy from labelled source and unlabelled target predictions."""

    @property
    def name(self) -> str:
        """How users call it."""

    @property
    def assumes(self) -> str:
        """What must hold for it to be right, in one line."""

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        """The accuracy on the target."""


Learned = TypeVar("Learned")
Summary = TypeVar("Summary")


class StreamingEstimator(ABC, Generic[Learned, Summary]):
    """An estimator in steps: learn from the source, summarize the target, finish.

    Where `is_mergeable` is true, summaries are arrays of sums: those of two batches add up to the one
    of both, so that arrays, files and clusters share the code. `resample` gives replicates of the
    estimate under a bootstrap of both sides, from what was learned and summed alone. One that
    `assumes_calibrated` takes confidences for chances without looking whether they are: how far the
    source can tell that they are is then added to its interval.
    """

    is_mergeable: ClassVar[bool] = True

    @property
    def assumes_calibrated(self) -> bool:
        """Whether it takes scores for chances."""
        return False

    @property
    @abstractmethod
    def name(self) -> str:
        """How users call it."""

    @property
    @abstractmethod
    def assumes(self) -> str:
        """What must hold for it to be right, in one line."""

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """What it must be given, in words."""

    @property
    @abstractmethod
    def paper(self) -> str:
        """Where it comes from."""

    @abstractmethod
    def learn(self, source: Predictions) -> Learned:
        """What is needed of the source."""

    @abstractmethod
    def summarize(self, learned: Learned, batch: Predictions) -> Summary:
        """What is needed of some target rows."""

    @abstractmethod
    def finish(self, learned: Learned, total: Summary) -> Estimate:
        """The estimate."""

    @abstractmethod
    def resample(
        self, learned: Learned, total: Summary, rng: np.random.Generator, count: int
    ) -> Floats:
        """Replicates of the estimate, both sides drawn again with replacement."""

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        """The accuracy on the target."""
        learned = self.learn(source)
        return self.finish(learned, self.summarize(learned, target))


@runtime_checkable
class Model(Protocol):
    """Anything that classifies inputs. `as_model` opens most things there are."""

    @property
    def name(self) -> str:
        """How it is called in tables."""

    def classify(self, inputs: Inputs) -> Predictions:
        """What it says of every input of a batch, in order."""


@runtime_checkable
class Dataset(Protocol):
    """Named, sized, fingerprinted rows of one kind. `as_dataset` opens most things there are."""

    @property
    def name(self) -> str:
        """How it is called in tables."""

    @property
    def kind(self) -> InputKind:
        """Images, text, pairs, vectors or a table."""

    @property
    def labels(self) -> Array | None:
        """The true class of every row, by number or by name, where it is known."""

    @property
    def keys(self) -> RowHashes:
        """A number a row, made of the row's content; random draws hang on it."""

    @property
    def fingerprint(self) -> str:
        """A hash of the content of all rows, in order."""

    def __len__(self) -> int: ...

    def take(self, index: Ints | slice) -> Inputs:
        """Some rows, in that order."""

    def batches(self, size: int) -> Iterator[Inputs]:
        """All rows, in order, `size` at a time."""

    def rows(self, index: Ints | slice) -> Dataset:
        """A dataset of some of the rows."""


class FamilyMember(Protocol):
    """What every measure and every metric says of itself."""

    @property
    def name(self) -> str:
        """How users call it: one word, in lower case."""

    @property
    def label(self) -> str:
        """How the papers call it."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """What it must be given."""

    @property
    def assumes(self) -> str:
        """What it tells of, or what must hold for it to do so, in one line."""

    @property
    def paper(self) -> str:
        """Where it comes from."""


@runtime_checkable
class Measure(FamilyMember, Protocol):
    """A score of a subject in its own unit, which may tell of the error on the target."""

    def measure(self, subject: Any) -> Score | float:
        """The score; NotApplicable where there is none, with the reason."""


@runtime_checkable
class Metric(FamilyMember, Protocol):
    """A score of a model on labelled data."""

    def evaluate(self, view: Any) -> Score:
        """The score; NotApplicable where there is none, with the reason."""


class Transform(ABC):
    """A change of inputs that should keep their class: a frozen dataclass with a `magnitude`.

    Each draw is within the magnitude; 0 changes nothing.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """How users call it."""

    @property
    @abstractmethod
    def label(self) -> str:
        """How it is called in a measure's name: NI-RandAug."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[InputKind, ...]:
        """The kinds of inputs it can change."""

    @property
    @abstractmethod
    def assumes(self) -> str:
        """Of what inputs it keeps the class, in one line."""

    @property
    @abstractmethod
    def magnitude(self) -> float:
        """The bound of every draw."""

    def learn(self, inputs: Inputs) -> Transform:
        """The same, knowing what it needs of unlabelled inputs (a vocabulary, the columns)."""
        return self

    @abstractmethod
    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """One changed copy of every row, its type and shape kept, by that row's own draw."""
