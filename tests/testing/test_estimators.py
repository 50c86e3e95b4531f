"""Conformance rules of estimators detect violations."""

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
class ReadsLabels:
    name: ClassVar[str] = "reads-labels"
    assumes: ClassVar[str] = "nothing"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(float(target.correct.mean()) if target.is_labelled else 0.5)


@dataclass(frozen=True)
class FirstRow:
    name: ClassVar[str] = "first-row"
    assumes: ClassVar[str] = "the first row is representative"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(float(target.confidence[0]))


@dataclass(frozen=True)
class FirstClass:
    name: ClassVar[str] = "first-class"
    assumes: ClassVar[str] = "class 0 is representative"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(float((target.classes == 0).mean()))


@dataclass(frozen=True)
class NoAssumption:
    name: ClassVar[str] = "no-assumption"
    assumes: ClassVar[str] = ""

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(0.5)


@dataclass(frozen=True)
class ChangesInput:
    name: ClassVar[str] = "changes-input"
    assumes: ClassVar[str] = "nothing"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        np.asarray(target.scores)[0, 0] += 1
        return Estimate(0.5)


@dataclass(frozen=True)
class NotAdditive(StreamingEstimator[None, np.ndarray]):
    name: ClassVar[str] = "not-additive"
    assumes: ClassVar[str] = "there is one batch"
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
class NotFrozen:
    name: ClassVar[str] = "not-frozen"
    assumes: ClassVar[str] = "nothing"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(0.5)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (ReadsLabels(), "reads the target labels"),
        (FirstRow(), "depends on the order of rows"),
        (FirstClass(), "depends on the order of classes"),
        (NoAssumption(), "must state what it assumes"),
        (ChangesInput(), "changes its input"),
        (NotFrozen(), "must be a frozen dataclass"),
        (NotAdditive(), "batches give"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_violated_rules_are_detected(member: Estimator, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_estimator(member)


def test_conforming_estimator_passes() -> None:
    check_estimator(get("atc-mc"))


def test_toy_predictions_have_about_90_percent_accuracy() -> None:
    assert toy_predictions(20_000).correct.mean() == pytest.approx(0.9, abs=0.02)
    source, target = toy_pair()
    assert target.correct.mean() < source.correct.mean()
    assert len(source.other_models) == len(target.other_models) == 2
