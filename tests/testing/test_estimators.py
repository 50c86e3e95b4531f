"""The conformance suite itself: it catches who breaks a rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator, StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.estimators import get
from oodometer.testing import check_estimator, toy_pair, toy_predictions


@dataclass(frozen=True)
class Peeking:
    name: ClassVar[str] = "peeking"
    assumes: ClassVar[str] = "that nobody looks"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(float(target.correct.mean()) if target.is_labelled else 0.5)


@dataclass(frozen=True)
class OrderBound:
    name: ClassVar[str] = "order-bound"
    assumes: ClassVar[str] = "that the first row matters most"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(float(target.confidence[0]))


@dataclass(frozen=True)
class ClassBound:
    name: ClassVar[str] = "class-bound"
    assumes: ClassVar[str] = "that class 0 matters most"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(float((target.classes == 0).mean()))


@dataclass(frozen=True)
class Forgetful:
    name: ClassVar[str] = "forgetful"
    assumes: ClassVar[str] = ""

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(0.5)


@dataclass(frozen=True)
class Scribbling:
    name: ClassVar[str] = "scribbling"
    assumes: ClassVar[str] = "that it may"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        np.asarray(target.scores)[0, 0] += 1
        return Estimate(0.5)


@dataclass(frozen=True)
class NotAdditive(StreamingEstimator[None, np.ndarray]):
    name: ClassVar[str] = "not-additive"
    assumes: ClassVar[str] = "that there is one batch"
    needs: ClassVar[tuple[str, ...]] = ("confidence",)
    paper: ClassVar[str] = "none"

    def learn(self, source: Predictions) -> None: ...

    def summarize(self, learned: None, batch: Predictions) -> np.ndarray:
        return np.array([batch.confidence.mean()])

    def finish(self, learned: None, total: np.ndarray) -> Estimate:
        return Estimate(float(total[0]))

    def resample(
        self, learned: None, total: np.ndarray, rng: np.random.Generator, count: int
    ) -> np.ndarray:
        return np.full(count, total[0])


@dataclass
class Thawed:
    name: ClassVar[str] = "thawed"
    assumes: ClassVar[str] = "that its settings may change"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(0.5)


@pytest.mark.parametrize(
    ("culprit", "words"),
    [
        (Peeking(), "reads the target's labels"),
        (OrderBound(), "depends on the order of rows"),
        (ClassBound(), "depends on the order of classes"),
        (Forgetful(), "must say what it assumes"),
        (Scribbling(), "changes its input"),
        (Thawed(), "must be a frozen dataclass"),
        (NotAdditive(), "batches give"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_check_catches_who_breaks_a_rule(culprit: Estimator, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_estimator(culprit)


def test_the_check_passes_who_keeps_them() -> None:
    check_estimator(get("atc-mc"))


def test_toy_predictions_are_right_about_90_percent_of_the_time() -> None:
    assert toy_predictions(20_000).correct.mean() == pytest.approx(0.9, abs=0.02)
    source, target = toy_pair()
    assert target.correct.mean() < source.correct.mean()
    assert len(source.other_models) == len(target.other_models) == 2
