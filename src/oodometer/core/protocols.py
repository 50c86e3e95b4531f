"""Protocols of models, datasets, transforms, estimators, measures and metrics."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.inputs import InputKind, Inputs, RowHashes
from oodometer.core.predictions import Predictions
from oodometer.core.random_streams import RowStreams
from oodometer.core.results import Estimate, Score

# Data that a measure or metric can need.
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
        """Name by which users select this method."""

    @property
    def assumes(self) -> str:
        """Assumption under which the estimate is correct, in one line."""

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        """Estimate the accuracy on the target."""


class StreamingEstimator(ABC, Generic[Learned, Summary]):
    """Estimator that works in three steps, so that the target can be read in batches.

    `learn` fits the method to the source, `summarize` reduces a batch of target rows to a summary,
    and `finish` computes the estimate from the summary of all rows. If `is_mergeable` is true,
    summaries are arrays that can be added: the sum of the summaries of two batches is the summary
    of both batches together. Arrays, large files and clusters then use the same code. `resample`
    returns bootstrap replicates of the estimate; it reads no rows, only the results of `learn` and
    `summarize`.

    `row_values` returns what each target row contributes to the estimate, up to a constant. The
    confidence interval needs it, because the rows that decide the estimate are those whose accuracy
    is estimated.

    If `assumes_calibrated` is true, the estimator treats confidences as probabilities of being
    correct, and the uncertainty of the calibration on the source widens the confidence interval. If
    `reads_probabilities` is true, the estimator receives probabilities that were calibrated beyond
    temperature scaling, if that was necessary. Those of the source are cross-fitted; if
    `compares_scores` is true, they are calibrated by the same map as the target instead, because the
    estimator compares scores of source and target. If `supports_decisions` is false, the estimator
    applies only to the most probable class, not to decisions made in another way.

    There is no confidence interval if source or target has fewer than `min_rows_per_class` rows per
    class on average, or if the value of `bias` is larger than `max_bias_ratio` standard errors of
    the difference of the accuracies of source and target.
    """

    is_mergeable: ClassVar[bool] = True
    reads_probabilities: ClassVar[bool] = False
    compares_scores: ClassVar[bool] = False
    supports_decisions: ClassVar[bool] = True
    max_bias_ratio: ClassVar[float] = math.inf
    min_rows_per_class: ClassVar[int] = 0

    @property
    def assumes_calibrated(self) -> bool:
        """Return whether confidences are treated as probabilities of being correct."""
        return False

    @property
    @abstractmethod
    def name(self) -> str:
        """Name by which users select this method."""

    @property
    @abstractmethod
    def assumes(self) -> str:
        """Assumption under which the estimate is correct, in one line."""

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """Inputs that the method needs, such as "source labels"."""

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
        """Return bootstrap replicates of the estimate, with source and target resampled."""

    def bias(self, learned: Learned, total: Summary, replicates: Floats) -> float:
        """Return the expected error of the estimate without shift, from the number of rows.

        The confidence interval is corrected by this value, the estimate is not. `replicates` are
        those that `resample` returned.
        """
        return 0.0

    def row_values(self, learned: Learned, total: Summary, rows: Predictions) -> Floats | None:
        """Return the contribution of each target row to the estimate, to first order.

        The mean of the values over the target is the estimate, up to a constant. None means that
        the contributions are unknown; the confidence interval is then wider.
        """
        return None

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        """Estimate the accuracy on the target."""
        learned = self.learn(source)
        return self.finish(learned, self.summarize(learned, target))


@runtime_checkable
class Model(Protocol):
    """Classifier of inputs; `as_model` creates one from most kinds of models."""

    @property
    def name(self) -> str:
        """Name that tables and reports show."""

    def classify(self, inputs: Inputs) -> Predictions:
        """Return the predictions for a batch of inputs, in the order of the inputs."""


@runtime_checkable
class Dataset(Protocol):
    """Rows of one kind of input; `as_dataset` creates one from files, folders and arrays."""

    @property
    def name(self) -> str:
        """Name that tables and reports show."""

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
        """Return the selected rows as a batch, in the order of the index."""

    def batches(self, size: int) -> Iterator[Inputs]:
        """Yield all rows in order, `size` at a time."""

    def rows(self, index: Ints | slice) -> Dataset:
        """Return a dataset of the selected rows."""


class FamilyMember(Protocol):
    """Attributes that describe a measure or a metric."""

    @property
    def name(self) -> str:
        """Name by which users select the measure or metric, one word in lower case."""

    @property
    def label(self) -> str:
        """Name that the paper uses."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Data that the method needs."""

    @property
    def assumes(self) -> str:
        """Assumption of a measure, or meaning of the value of a metric, in one line."""

    @property
    def paper(self) -> str:
        """Reference to the paper."""


@runtime_checkable
class Measure(FamilyMember, Protocol):
    """Method that computes, without target labels, a score that may indicate the target error."""

    def measure(self, subject: Any) -> Score | float:
        """Return the score; raise `NotApplicable` with the reason if it cannot be computed."""


@runtime_checkable
class Metric(FamilyMember, Protocol):
    """Method that computes a score of a model on labelled data."""

    def evaluate(self, view: Any) -> Score:
        """Return the score; raise `NotApplicable` with the reason if it cannot be computed."""


class Transform(ABC):
    """Base class of random changes of inputs that preserve the label.

    A transform is a frozen dataclass of settings, one of which is its `magnitude`. No draw changes
    an input by more than the magnitude; a magnitude of 0 changes nothing.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name by which users select this method."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Suffix in the names of measures that use the transform, such as NI-RandAug."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[InputKind, ...]:
        """Kinds of inputs that the transform can change."""

    @property
    @abstractmethod
    def assumes(self) -> str:
        """Description, in one line, of the inputs whose class the transform preserves."""

    @property
    @abstractmethod
    def magnitude(self) -> float:
        """Largest strength of a draw."""

    def learn(self, inputs: Inputs) -> Transform:
        """Return a copy fitted to unlabelled inputs, for example with their vocabulary."""
        return self

    @abstractmethod
    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Return a changed copy of each row, drawn from the random stream of this row.

        The result has the same type and shape as `inputs`.
        """
