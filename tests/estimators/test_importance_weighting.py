"""Importance weighting: known density ratios, the bootstrap, and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.estimators import ImportanceWeighting, importance_weighting
from oodometer.testing import toy_pair


def shifted(n: int, mean: float, seed: int) -> Predictions:
    """Return rows with one feature, on which alone the probability of a correct row depends."""
    rng = np.random.default_rng(seed)
    x = rng.normal(mean, 1.0, size=n)
    correct = rng.random(n) < 1 / (1 + np.exp(-1.5 - x))
    labels = rng.integers(0, 2, n)
    predicted = np.where(correct, labels, 1 - labels)
    probs = np.where(predicted[:, None] == [0, 1], 0.8, 0.2)
    return Predictions.from_probs(probs, labels=labels, features=x[:, None])


def test_estimate_is_accurate_under_covariate_shift() -> None:
    source, target = shifted(10_000, 0.0, 1), shifted(10_000, -1.0, 2)
    truth = float(target.correct.mean())
    assert abs(float(source.correct.mean()) - truth) > 0.1
    result = ImportanceWeighting().estimate(source, target.without_labels())
    assert result.value == pytest.approx(truth, abs=0.03)


def test_weights_of_two_gaussians_match_the_density_ratio() -> None:
    """p_t/p_s of N(−1, 1) and N(0, 1) is exp(−x − 1/2)."""
    source, target = shifted(10_000, 0.0, 1), shifted(10_000, -1.0, 2)
    assert source.features is not None
    exact = np.exp(-source.features[:, 0] - 0.5)
    literal = float(exact @ source.correct / exact.sum())
    assert ImportanceWeighting().estimate(source, target).value == pytest.approx(literal, abs=0.01)


def test_newton_step_replicates_match_refitted_classifiers() -> None:
    """With 100 target rows most of the variance comes from the classifier, not from the source."""
    source, target = shifted(3_000, 0.0, 1), shifted(100, -1.0, 2)
    member, rng = ImportanceWeighting(), np.random.default_rng(1)
    learned = member.learn(source)
    fast = member.resample(learned, member.summarize(learned, target), rng, 2000)
    loop = [
        member.estimate(
            source.rows(rng.integers(source.n, size=source.n)),
            target.rows(rng.integers(target.n, size=target.n)),
        ).value
        for _ in range(300)
    ]
    assert fast.std() == pytest.approx(np.std(loop), rel=0.15)


def test_weights_are_equal_without_shift() -> None:
    source, target = shifted(5_000, 0.0, 1), shifted(5_000, 0.0, 2)
    result = ImportanceWeighting().estimate(source, target)
    assert result.facts["effective_share"] > 0.99


def test_log_probabilities_are_used_without_features() -> None:
    source, target = toy_pair()
    plain = Predictions.from_logits(target.scores)
    result = ImportanceWeighting().estimate(source, plain)
    assert result.value != ImportanceWeighting().estimate(source, target).value
    assert 0 < result.value < source.correct.mean()


def test_wide_features_are_reduced() -> None:
    rng = np.random.default_rng(0)
    source, target = toy_pair()
    wide = [
        Predictions.from_logits(r.scores, labels=r.labels, features=rng.normal(size=(r.n, 300)))
        for r in (source, target)
    ]
    learned = ImportanceWeighting().learn(wide[0])
    assert ImportanceWeighting().summarize(learned, wide[1]).rows.shape == (700, 257)


def test_more_than_max_rows_are_subsampled() -> None:
    source, target = shifted(5_000, 0.0, 1), shifted(4_000, -1.0, 2)
    member = ImportanceWeighting(max_rows=1000)
    classifier = member.summarize(member.learn(source), target)
    assert (~classifier.is_target).sum() == 1000
    assert classifier.is_target.sum() == 1000
    with pytest.raises(InputError, match="max_rows must be at least 2"):
        ImportanceWeighting(max_rows=1)


def test_different_numbers_of_features_are_rejected() -> None:
    source, target = toy_pair()
    narrow = Predictions.from_logits(target.scores, features=np.zeros((target.n, 2)))
    with pytest.raises(InputError, match="The source has 3 features, the target 2"):
        ImportanceWeighting().estimate(source, narrow)


def test_not_applicable_without_features_and_probabilities() -> None:
    hard = Predictions.from_classes([0, 1], k=2, labels=[0, 1])
    with pytest.raises(
        NotApplicable, match="requires features or probabilities of source and target"
    ):
        ImportanceWeighting().estimate(hard, hard)


@pytest.mark.parametrize(
    ("n", "k", "distance"), [(2000, 10, 0.2), (300, 40, 3.0), (30, 3, 0.0), (12, 2, 100.0)]
)
def test_domain_classifier_matches_scikit_learn(n: int, k: int, distance: float) -> None:
    rng = np.random.default_rng(n)
    is_target = np.arange(n) >= n // 3
    rows = rng.normal(size=(n, k)) + distance * is_target[:, None]
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    reference = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=200)
    reference.fit(rows, is_target)
    result = importance_weighting.fit_logistic(np.hstack([rows, np.ones((n, 1))]), is_target)
    expected = np.append(reference.coef_[0], reference.intercept_[0])
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_integer_weights_equal_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    rows = np.hstack([rng.normal(size=(80, 3)), np.ones((80, 1))])
    is_target = rng.random(80) < 0.5
    counts = rng.integers(0, 4, 80)
    weighted = importance_weighting.fit_logistic(rows, is_target, counts.astype(float))
    repeated = importance_weighting.fit_logistic(
        np.repeat(rows, counts, axis=0), np.repeat(is_target, counts)
    )
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-8)
    assert np.abs(weighted - importance_weighting.fit_logistic(rows, is_target)).max() > 0.05


def test_weighted_domain_auc_matches_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    is_target = rng.random(400) < 0.4
    rows = rng.normal(size=(400, 2)) + 0.5 * is_target[:, None]
    weights = rng.uniform(0.1, 3.0, 400)
    order = sorted(range(400), key=lambda i: float((rows[i] ** 2).sum()))
    areas = []
    for held_out in (0, 1):
        trained = np.isin(np.arange(400), order[1 - held_out :: 2])
        model = LogisticRegression(solver="newton-cholesky", tol=1e-10)
        model.fit(rows[trained], is_target[trained], sample_weight=weights[trained])
        scores = model.decision_function(rows[~trained])
        areas.append(roc_auc_score(is_target[~trained], scores, sample_weight=weights[~trained]))
    inputs = np.hstack([rows, np.ones((400, 1))])
    area = importance_weighting.domain_auc(inputs, is_target, weights)
    assert area == pytest.approx(np.mean(areas), abs=1e-6)
    assert abs(area - importance_weighting.domain_auc(inputs, is_target)) > 1e-4


def test_reweighting_makes_domains_with_other_class_frequencies_alike() -> None:
    """Rows of class 1 are three times as frequent in the target, and weighted so in the source."""
    rng = np.random.default_rng(2)
    classes = np.concatenate([rng.random(4000) < 0.2, rng.random(4000) < 0.6])
    inputs = np.stack([rng.normal(size=8000) + 2 * classes, np.ones(8000)], axis=1)
    is_target = np.arange(8000) >= 4000
    weights = np.where(is_target, 1.0, np.where(classes, 0.6 / 0.2, 0.4 / 0.8))
    assert importance_weighting.domain_auc(inputs, is_target) > 0.62
    assert importance_weighting.domain_auc(inputs, is_target, weights) == pytest.approx(
        0.5, abs=0.02
    )
