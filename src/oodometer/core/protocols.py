"""Protocols of models, datasets, transforms, estimators, measures and metrics."""

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

# Requirements of a measure or metric.
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
# Called with the number of finished steps, the total number, and a description.
ProgressCallback = Callable[[int, int, str], None]

Learned = TypeVar("Learned")
Summary = TypeVar("Summary")


@runtime_checkable
class Estimator(Protocol):
    """Method that estimates accuracy from labelled source and unlabelled target predictions."""

    @property
    def name(self) -> str:
        """Name by which users select it."""

    @property
    def assumes(self) -> str:
        """Assumption under which the estimate is right, in one line."""

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        """Estimate the accuracy on the target."""


class StreamingEstimator(ABC, Generic[Learned, Summary]):
    """Estimator in three steps: learn from the source, summarize the target, finish.

    If `is_mergeable`, summaries are arrays of sums: the summaries of two batches add up to the
    summary of both, so arrays, files and clusters share the code. `resample` returns bootstrap
    replicates of the estimate, computed from what was learned and summarized alone.

    An estimator that `assumes_calibrated` treats confidences as probabilities of being correct.
    The uncertainty of their calibration on the source is then added to its confidence interval.
    """

    is_mergeable: ClassVar[bool] = True

    @property
    def assumes_calibrated(self) -> bool:
        """Return whether confidences are treated as probabilities of being correct."""
        return False

    @property
    @abstractmethod
    def name(self) -> str:
        """Name by which users select it."""

    @property
    @abstractmethod
    def assumes(self) -> str:
        """Assumption under which the estimate is right, in one line."""

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """Required input, in words."""

    @property
    @abstractmethod
    def paper(self) -> str:
        """Reference to the paper."""

    @abstractmethod
    def learn(self, source: Predictions) -> Learned:
        """Fit the method to the source."""

    @abstractmethod
    def summarize(self, learned: Learned, batch: Predictions) -> Summary:
        """Summarize a batch of target rows."""

    @abstractmethod
    def finish(self, learned: Learned, total: Summary) -> Estimate:
        """Compute the estimate from the summary of all target rows."""

    @abstractmethod
    def resample(
        self, learned: Learned, total: Summary, rng: np.random.Generator, count: int
    ) -> Floats:
        """Return bootstrap replicates of the estimate, with both sides resampled."""

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        """Estimate the accuracy on the target."""
        learned = self.learn(source)
        return self.finish(learned, self.summarize(learned, target))


@runtime_checkable
class Model(Protocol):
    """Classifier of inputs; `as_model` opens most kinds."""

    @property
    def name(self) -> str:
        """Name in tables."""

    def classify(self, inputs: Inputs) -> Predictions:
        """Return the predictions for a batch, in order."""


@runtime_checkable
class Dataset(Protocol):
    """Named rows of one kind; `as_dataset` opens most kinds."""

    @property
    def name(self) -> str:
        """Name in tables."""

    @property
    def kind(self) -> InputKind:
        """Kind of the rows: images, text, pairs, vectors or table."""

    @property
    def labels(self) -> Array | None:
        """True class of each row, as a number or a name, if known."""

    @property
    def keys(self) -> RowHashes:
        """Hash of each row's content; seeds the row's random stream."""

    @property
    def fingerprint(self) -> str:
        """Hash of the content of all rows, in order."""

    def __len__(self) -> int: ...

    def take(self, index: Ints | slice) -> Inputs:
        """Return some rows as a batch, in the order of the index."""

    def batches(self, size: int) -> Iterator[Inputs]:
        """Yield all rows in order, `size` at a time."""

    def rows(self, index: Ints | slice) -> Dataset:
        """Return a dataset of some rows."""


class FamilyMember(Protocol):
    """Description that every measure and metric has."""

    @property
    def name(self) -> str:
        """Name by which users select it: one word in lower case."""

    @property
    def label(self) -> str:
        """Name in the papers."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Required input."""

    @property
    def assumes(self) -> str:
        """Assumption under which the value indicates an error, or its meaning, in one line."""

    @property
    def paper(self) -> str:
        """Reference to the paper."""


@runtime_checkable
class Measure(FamilyMember, Protocol):
    """Score, in its own unit and without target labels, that may indicate the target error."""

    def measure(self, subject: Any) -> Score | float:
        """Return the score; raise `NotApplicable` with the reason if there is none."""


@runtime_checkable
class Metric(FamilyMember, Protocol):
    """Score of a model on labelled data."""

    def evaluate(self, view: Any) -> Score:
        """Return the score; raise `NotApplicable` with the reason if there is none."""


class Transform(ABC):
    """Label-preserving change of inputs: a frozen dataclass of settings with a `magnitude`.

    Every draw stays within the magnitude; 0 changes nothing.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name by which users select it."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Suffix in the name of a measure, such as NI-RandAug."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[InputKind, ...]:
        """Kinds of inputs that it can change."""

    @property
    @abstractmethod
    def assumes(self) -> str:
        """Inputs whose class it preserves, in one line."""

    @property
    @abstractmethod
    def magnitude(self) -> float:
        """Upper bound of every draw."""

    def learn(self, inputs: Inputs) -> Transform:
        """Return the transform fitted to unlabelled inputs (a vocabulary, the columns)."""
        return self

    @abstractmethod
    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Return one changed copy of each row, of the same type and shape, by its own stream."""
