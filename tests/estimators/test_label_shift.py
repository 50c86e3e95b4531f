"""BBSE and MLLS: simulated label shift, cases by hand, and a plain EM loop."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.estimators import BBSE, MLLS, _label_shift_em
from oodometer.testing import toy_predictions

BOTH = (BBSE(), MLLS())


def label_shifted(n: int, shares: list[float], seed: int) -> Predictions:
    """Return rows with Bayes-optimal probabilities for equal class frequencies, drawn with others."""
    rng = np.random.default_rng(seed)
    k = len(shares)
    labels = rng.choice(k, size=n, p=shares)
    centers = 2.0 * np.eye(k)
    points = rng.normal(size=(n, k)) + centers[labels]
    return Predictions.from_logits(points @ centers.T, labels=labels)


@pytest.mark.parametrize("member", BOTH, ids=lambda m: m.name)
@pytest.mark.parametrize("shares", [[0.8, 0.1, 0.1], [0.05, 0.05, 0.9], [1 / 3, 1 / 3, 1 / 3]])
def test_estimate_is_accurate_under_label_shift(member: BBSE, shares: list[float]) -> None:
    source = label_shifted(30_000, [1 / 3, 1 / 3, 1 / 3], seed=1)
    target = label_shifted(30_000, shares, seed=2)
    result = member.estimate(source, target.without_labels())
    assert result.value == pytest.approx(target.correct.mean(), abs=0.01)


def test_bbse_solves_the_confusion_matrix() -> None:
    """Recalls are 0.8 and 0.6, and class 0 is predicted for 62 %: 0.8 q + 0.4 (1 − q) = 0.62."""
    classes = [0] * 8 + [1] * 2 + [0] * 4 + [1] * 6
    source = Predictions.from_classes(classes, k=2, labels=[0] * 10 + [1] * 10)
    target = Predictions.from_classes([0] * 62 + [1] * 38, k=2)
    q = (0.62 - 0.4) / 0.4
    assert BBSE().estimate(source, target).value == pytest.approx(0.8 * q + 0.6 * (1 - q))


def test_bbse_matches_a_direct_solution() -> None:
    source, target = toy_predictions(2000, 5, seed=1), toy_predictions(1500, 5, sharpness=2, seed=2)
    joint = np.zeros((5, 5))
    assert source.labels is not None
    for predicted_class, label in zip(source.classes, source.labels, strict=True):
        joint[predicted_class, label] += 1 / source.n
    predicted = np.bincount(target.classes, minlength=5) / target.n
    weights = np.maximum(np.linalg.solve(joint, predicted), 0)
    prior = np.bincount(source.labels, minlength=5) / source.n
    weights /= weights @ prior
    literal = float(np.mean(weights[source.labels] * source.correct))
    assert BBSE().estimate(source, target).value == pytest.approx(literal, abs=1e-8)


def test_negative_frequencies_are_clipped() -> None:
    """Recalls are 0.9 and 0.6, and only class 0 is predicted: q = (1.2, −0.2), clipped to (1, 0)."""
    classes = [0] * 9 + [1] + [0] * 4 + [1] * 6
    source = Predictions.from_classes(classes, k=2, labels=[0] * 10 + [1] * 10)
    target = Predictions.from_classes([0] * 10, k=2)
    assert BBSE().estimate(source, target).value == pytest.approx(0.9)


def test_indistinguishable_classes_are_regularized_to_source_frequencies() -> None:
    """Columns (0.9, 0.1) and (0.89993, 0.10007) cannot be distinguished from noisy counts.

    Without a ridge, a target with 91 % predicted 0 would consist of class 0 only, with recall 0.9.
    """
    classes = [0] * 4500 + [1] * 500 + [0] * 13_499 + [1] * 1501
    source = Predictions.from_classes(classes, k=2, labels=[0] * 5000 + [1] * 15_000)
    target = Predictions.from_classes([0] * 91 + [1] * 9, k=2)
    result = BBSE().estimate(source, target)
    assert result.facts["condition"] > 1e3
    assert result.value == pytest.approx(0.25 * 0.9 + 0.75 * 0.1, abs=0.01)


def test_ill_conditioned_confusion_matrix_is_regularized_with_a_note() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 900)
    always = np.where(labels == 2, 2, rng.integers(0, 2, 900))
    copy = Predictions.from_classes(np.where(labels == 1, 0, always), k=3, labels=labels)
    same = Predictions.from_classes(np.where(labels == 2, 2, 0), k=3, labels=labels)
    result = BBSE().estimate(same, copy.without_labels())
    assert any("ill-conditioned" in note for note in result.notes)
    assert result.facts["condition"] > 1e3
    assert 0 <= result.value <= 1


def test_mlls_matches_a_plain_em_loop() -> None:
    source = label_shifted(3000, [0.5, 0.3, 0.2], seed=1)
    target = label_shifted(2000, [0.1, 0.2, 0.7], seed=2)
    assert source.labels is not None
    prior = np.bincount(source.labels, minlength=3) / source.n
    q = prior.copy()
    for _ in range(20_000):
        posterior = target.probs * (q / prior)
        posterior /= posterior.sum(axis=1, keepdims=True)
        q = posterior.mean(axis=0)
    recall = [float(source.correct[source.labels == y].mean()) for y in range(3)]
    result = MLLS().estimate(source, target)
    assert result.value == pytest.approx(float(q @ recall), abs=1e-5)


def test_mlls_warm_start_gives_the_same_solution() -> None:
    source = label_shifted(2000, [0.4, 0.3, 0.3], seed=1)
    target = label_shifted(50_000, [0.7, 0.2, 0.1], seed=2)
    assert source.labels is not None
    prior = np.bincount(source.labels, minlength=3) / source.n
    warm, converged = _label_shift_em.fit_class_shares(target.probs, prior, 1000)
    cold, _ = _label_shift_em._accelerated_em(target.probs, prior, prior, 5000)
    assert converged
    assert np.allclose(warm, cold, atol=1e-5)


def test_mlls_notes_missing_convergence() -> None:
    source, target = (
        toy_predictions(400, 6, sharpness=0.5),
        toy_predictions(300, 6, sharpness=0.5, seed=4),
    )
    result = MLLS(max_iterations=1).estimate(source, target)
    assert "not converged after 1 iterations" in result.notes
    with pytest.raises(InputError, match="max_iterations must be at least 1"):
        MLLS(max_iterations=0)


@pytest.mark.parametrize("member", BOTH, ids=lambda m: m.name)
def test_class_without_source_rows_is_assumed_absent_with_a_note(member: BBSE) -> None:
    rows = toy_predictions(300, 4)
    assert rows.labels is not None
    source, target = rows.rows(rows.labels < 3), toy_predictions(200, 4, seed=9)
    result = member.estimate(source, target.without_labels())
    assert "1 classes have no source rows and are assumed absent from the target" in result.notes


@pytest.mark.parametrize("member", BOTH, ids=lambda m: m.name)
def test_not_applicable_to_labels_of_a_single_class(member: BBSE) -> None:
    rows = toy_predictions(100)
    assert rows.labels is not None
    with pytest.raises(NotApplicable, match="labels of one class only"):
        member.estimate(rows.rows(rows.labels == 0), rows)


@pytest.mark.parametrize("member", BOTH, ids=lambda m: m.name)
def test_not_applicable_without_labels(member: BBSE) -> None:
    rows = Predictions.from_confidence([0.9, 0.6], k=3, correct=[True, False])
    with pytest.raises(NotApplicable, match="not only whether each row is correct"):
        member.estimate(rows, rows)
