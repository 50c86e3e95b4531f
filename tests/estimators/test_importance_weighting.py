from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.estimators import ImportanceWeighting, importance_weighting
from oodometer.testing import toy_pair


def shifted(n: int, mean: float, seed: int) -> Predictions:
    """One feature; the model is right with a probability that depends on the feature alone."""
    rng = np.random.default_rng(seed)
    x = rng.normal(mean, 1.0, size=n)
    right = rng.random(n) < 1 / (1 + np.exp(-1.5 - x))
    labels = rng.integers(0, 2, n)
    said = np.where(right, labels, 1 - labels)
    probs = np.where(said[:, None] == [0, 1], 0.8, 0.2)
    return Predictions.from_probs(probs, labels=labels, features=x[:, None])


def test_under_covariate_shift_the_estimate_is_right() -> None:
    source, target = shifted(10_000, 0.0, 1), shifted(10_000, -1.0, 2)
    truth = float(target.correct.mean())
    assert abs(float(source.correct.mean()) - truth) > 0.1
    found = ImportanceWeighting().estimate(source, target.without_labels())
    assert found.value == pytest.approx(truth, abs=0.03)


def test_weights_of_two_gaussians_are_the_exact_ratio() -> None:
    """p_t/p_s of N(−1, 1) and N(0, 1) is exp(−x − 1/2)."""
    source, target = shifted(10_000, 0.0, 1), shifted(10_000, -1.0, 2)
    assert source.features is not None
    exact = np.exp(-source.features[:, 0] - 0.5)
    literal = float(exact @ source.correct / exact.sum())
    assert ImportanceWeighting().estimate(source, target).value == pytest.approx(literal, abs=0.01)


def test_replicates_move_the_classifier_as_fitting_it_again_does() -> None:
    """With 100 target rows most of the spread comes from the classifier, not from the source."""
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


def test_without_shift_all_rows_weigh_alike() -> None:
    source, target = shifted(5_000, 0.0, 1), shifted(5_000, 0.0, 2)
    found = ImportanceWeighting().estimate(source, target)
    assert found.facts["effective_share"] > 0.99


def test_without_features_it_looks_at_the_log_probabilities() -> None:
    source, target = toy_pair()
    plain = Predictions.from_logits(target.scores)
    found = ImportanceWeighting().estimate(source, plain)
    assert found.value != ImportanceWeighting().estimate(source, target).value
    assert 0 < found.value < source.correct.mean()


def test_wide_features_are_reduced_first() -> None:
    rng = np.random.default_rng(0)
    source, target = toy_pair()
    wide = [
        Predictions.from_logits(r.scores, labels=r.labels, features=rng.normal(size=(r.n, 300)))
        for r in (source, target)
    ]
    learned = ImportanceWeighting().learn(wide[0])
    assert ImportanceWeighting().summarize(learned, wide[1]).rows.shape == (700, 257)


def test_more_rows_than_asked_for_are_thinned() -> None:
    source, target = shifted(5_000, 0.0, 1), shifted(4_000, -1.0, 2)
    member = ImportanceWeighting(max_rows=1000)
    seen = member.summarize(member.learn(source), target)
    assert (~seen.is_target).sum() == 1000
    assert seen.is_target.sum() == 1000
    with pytest.raises(InputError, match="max_rows must be at least 2"):
        ImportanceWeighting(max_rows=1)


def test_features_of_different_width_are_refused() -> None:
    source, target = toy_pair()
    narrow = Predictions.from_logits(target.scores, features=np.zeros((target.n, 2)))
    with pytest.raises(InputError, match="The source has 3 features, the target 2"):
        ImportanceWeighting().estimate(source, narrow)


def test_hard_classes_without_features_have_no_answer() -> None:
    hard = Predictions.from_classes([0, 1], k=2, labels=[0, 1])
    with pytest.raises(NotApplicable, match="needs features on both sides, or probabilities"):
        ImportanceWeighting().estimate(hard, hard)


@pytest.mark.parametrize(
    ("n", "k", "apart"), [(2000, 10, 0.2), (300, 40, 3.0), (30, 3, 0.0), (12, 2, 100.0)]
)
def test_the_domain_classifier_is_scikit_learns(n: int, k: int, apart: float) -> None:
    rng = np.random.default_rng(n)
    is_target = np.arange(n) >= n // 3
    rows = rng.normal(size=(n, k)) + apart * is_target[:, None]
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    peer = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=200)
    peer.fit(rows, is_target)
    found = importance_weighting._fit_logistic(np.hstack([rows, np.ones((n, 1))]), is_target)
    expected = np.append(peer.coef_[0], peer.intercept_[0])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
