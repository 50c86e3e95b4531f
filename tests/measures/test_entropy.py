"""Entropies and source error against explicit sums."""

from __future__ import annotations

import math

import pytest

from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Measure
from oodometer.measures.entropy import EntropySource, EntropyTarget, SourceError
from oodometer.measures.subject import Subject, measure_one
from oodometer.models.model_view import ModelView, ViewSource
from oodometer.testing import check_measure


def side(name: str, probs: list[list[float]], labels: list[int] | None = None) -> ModelView:
    return ModelView(ViewSource(name, outputs=Predictions.from_probs(probs, labels=labels)))


SOURCE = side("source", [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.6, 0.4]], [0, 0, 0, 1])
TARGET = side("target", [[0.7, 0.3]])
TRAINING = side("training", [[0.5, 0.5], [1.0, 0.0]], [1, 1])


def entropy(*probs: float) -> float:
    return -sum(p * math.log(p) for p in probs if p)


def test_values_match_explicit_sums() -> None:
    subject = Subject(SOURCE, TARGET)
    rows = ((0.9, 0.1), (0.5, 0.5), (0.2, 0.8), (0.6, 0.4))
    mean = sum(entropy(*row) for row in rows) / 4
    assert measure_one(EntropySource(), subject).value == pytest.approx(mean)
    assert measure_one(EntropyTarget(), subject).value == pytest.approx(entropy(0.7, 0.3))
    assert measure_one(SourceError(), subject).value == 0.5


def test_training_data_replace_the_source_for_entropy_only() -> None:
    subject = Subject(SOURCE, TARGET, TRAINING)
    assert measure_one(EntropySource(), subject).value == pytest.approx(math.log(2) / 2)
    assert measure_one(EntropyTarget(), subject).value == pytest.approx(entropy(0.7, 0.3))
    assert measure_one(SourceError(), subject).value == 0.5


def test_source_error_needs_labels() -> None:
    with pytest.raises(NotApplicable, match="it needs labels: 'target' has no labels"):
        measure_one(SourceError(), Subject(TARGET, TARGET, TRAINING))
    assert SourceError.needs == ("outputs", "labels")


@pytest.mark.parametrize("member", [EntropySource(), EntropyTarget(), SourceError()])
def test_conformance(member: Measure) -> None:
    check_measure(member)
