"""Output statistics against explicit sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Measure
from oodometer.measures.output_statistics import (
    Dispersion,
    MatrixNorm,
    MetaDistributionEnergy,
    MutualInformation,
    NuclearNorm,
    SoftmaxCorrelation,
)
from oodometer.measures.subject import Subject, measure_one
from oodometer.models.model_view import ModelView, ViewSource


def subject(logits: Floats, features: Floats | None = None) -> Subject:
    rows = Predictions.from_logits(logits, labels=np.zeros(len(logits), int))
    sides = [ModelView(ViewSource(name, outputs=rows, features=features)) for name in ("s", "t")]
    return Subject(sides[0], sides[1])


@pytest.fixture
def logits() -> Floats:
    return np.random.default_rng(0).normal(size=(40, 5)) * 2


def softmax(logits: Floats) -> Floats:
    return np.array([[math.exp(z) / sum(map(math.exp, row)) for z in row] for row in logits])


def test_nuclear_norm_is_the_sum_of_singular_values(logits: Floats) -> None:
    value = measure_one(NuclearNorm(), subject(logits)).value
    singular = np.linalg.svd(softmax(logits), compute_uv=False)
    assert value == pytest.approx(singular.sum() / math.sqrt(5 * 40))
    certain = 200 * np.eye(5)[np.arange(40) % 5]
    assert measure_one(NuclearNorm(), subject(certain)).value == pytest.approx(1.0)


def test_mutual_information_matches_explicit_sum(logits: Floats) -> None:
    probs = softmax(logits)
    mean = [sum(column) / 40 for column in probs.T]
    entropy_of_mean = -sum(p * math.log(p) for p in mean)
    mean_entropy = -sum(p * math.log(p) for row in probs for p in row) / 40
    assert measure_one(MutualInformation(), subject(logits)).value == pytest.approx(
        entropy_of_mean - mean_entropy
    )


def test_energies_match_explicit_sum_and_ignore_the_number_of_rows(logits: Floats) -> None:
    energies = [math.log(sum(map(math.exp, row))) for row in logits]
    total = sum(map(math.exp, energies))
    expected = sum(math.log(math.exp(e) / total) for e in energies) / 40 + math.log(40)
    assert measure_one(MetaDistributionEnergy(), subject(logits)).value == pytest.approx(expected)
    doubled = np.concatenate([logits, logits])
    assert measure_one(MetaDistributionEnergy(), subject(doubled)).value == pytest.approx(expected)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_mano_matches_explicit_sum_with_both_normalisations(logits: Floats, scale: float) -> None:
    centred = scale * logits - (scale * logits).mean(axis=1, keepdims=True)
    probs = softmax(centred - centred.max(axis=1, keepdims=True))
    surprise = -np.log(np.maximum(probs, 1e-300)).mean()
    assert (surprise <= 5) == (scale == 1.0)
    total = 0.0
    for row, certain in zip(centred, probs, strict=True):
        weights = [1 + z + z * z / 2 for z in row]
        weights = [v - min(weights) for v in weights] if surprise <= 5 else list(certain)
        total += sum((v / sum(weights)) ** 4 for v in weights)
    score = measure_one(MatrixNorm(), subject(scale * logits))
    assert score.value == pytest.approx((total / 200) ** 0.25)
    assert measure_one(MatrixNorm(), subject(scale * logits + 7)).value == pytest.approx(
        score.value
    )


def test_mano_of_equal_logits_is_that_of_uniform_predictions() -> None:
    assert measure_one(MatrixNorm(), subject(np.zeros((3, 4)))).value == pytest.approx(0.25)


def test_dispersion_matches_explicit_sum_and_ignores_the_number_of_rows(logits: Floats) -> None:
    features = np.random.default_rng(1).normal(size=(40, 3))
    classes = logits.argmax(axis=1)
    total = 0.0
    for c in range(5):
        rows = features[classes == c]
        if len(rows):
            total += len(rows) / 40 * ((rows.mean(axis=0) - features.mean(axis=0)) ** 2).sum()
    value = measure_one(Dispersion(), subject(logits, features)).value
    assert value == pytest.approx(math.log(total / 4))
    doubled = subject(np.concatenate([logits, logits]), np.concatenate([features, features]))
    assert measure_one(Dispersion(), doubled).value == pytest.approx(value)
    with pytest.raises(NotApplicable, match="only one class is predicted"):
        measure_one(Dispersion(), subject(np.tile([1.0, 0.0], (9, 1)), np.zeros((9, 2))))


def test_softmax_correlation_matches_explicit_sum(logits: Floats) -> None:
    probs = softmax(logits)
    gram = sum(np.outer(row, row) for row in probs)
    expected = np.trace(gram) / (np.linalg.norm(gram) * math.sqrt(5))
    assert measure_one(SoftmaxCorrelation(), subject(logits)).value == pytest.approx(expected)


@pytest.mark.parametrize("member", [MetaDistributionEnergy(), MatrixNorm()], ids=lambda m: m.name)
def test_logits_are_required(member: Measure) -> None:
    rows = Predictions.from_probs([[0.5, 0.5]], labels=[0])
    side = ModelView(ViewSource("s", outputs=rows))
    with pytest.raises(NotApplicable, match="it needs logits"):
        measure_one(member, Subject(side, side))
