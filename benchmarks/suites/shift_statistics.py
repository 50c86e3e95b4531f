"""Statistics of a case from which a headline rule can be designed, without target labels."""

from __future__ import annotations

import warnings

import numpy as np

from oodometer.assessment._estimate import learn_source
from oodometer.assessment.bootstrap import LearnedSource
from oodometer.core.array_types import Floats
from oodometer.core.predictions import Predictions
from oodometer.core.stats import effective_sample_fraction, ks_distance
from oodometer.estimators._label_shift_em import fit_class_shares
from oodometer.estimators.cot import COT, label_counts, transport_bias
from oodometer.estimators.label_shift import (
    condition_number,
    confusion_counts,
    ridge_for,
    solve_class_shares,
)

MAX_EM_ITERATIONS = 1000
EPSILON = 1e-30


def case_statistics(source: Predictions, target: Predictions) -> dict[str, float]:
    """Return the statistics by name; only those of confidences if there are no probabilities."""
    if not source.has_probs:
        return confidence_statistics(source, target)
    learned, _ = learn_source(source, "fit", "auto", seed=0)
    scaled, scaled_target = learned.predictions, learned.prepare(target)
    return {
        "temperature": float(learned.temperature or 1.0),
        **confidence_statistics(scaled, scaled_target),
        **class_statistics(scaled, scaled_target),
        **label_shift_statistics(learned, scaled_target),
        **other_model_statistics(source, target),
    }


def confidence_statistics(source: Predictions, target: Predictions) -> dict[str, float]:
    """Return mean confidences and entropies, and the distance of confidences."""
    return {
        "confidence_source": float(source.confidence.mean()),
        "confidence_target": float(target.confidence.mean()),
        "confidence_std_source": float(source.confidence.std()),
        "confidence_std_target": float(target.confidence.std()),
        "entropy_source": -float(source.negative_entropy.mean()),
        "entropy_target": -float(target.negative_entropy.mean()),
        "ks_confidence": ks_distance(source.confidence, target.confidence),
        "ks_noise": float(np.sqrt(1 / source.n + 1 / target.n)),
    }


def class_statistics(source: Predictions, target: Predictions) -> dict[str, float]:
    """Return the change of predicted class frequencies and the entropy of the mean prediction."""
    first, second = (rows.class_counts / rows.n for rows in (source, target))
    pooled = (first + second) / 2
    variances = pooled * (1 - pooled) * (1 / source.n + 1 / target.n)
    return {
        "predicted_tv": total_variation(first, second),
        "predicted_tv_noise": float(np.sqrt(2 * variances / np.pi).sum() / 2),
        "mean_prediction_entropy_source": _entropy(source.probs.mean(axis=0, dtype=float)),
        "mean_prediction_entropy_target": _entropy(target.probs.mean(axis=0, dtype=float)),
        "mean_prediction_tv": total_variation(
            source.probs.mean(axis=0, dtype=float), target.probs.mean(axis=0, dtype=float)
        ),
    }


def label_shift_statistics(learned: LearnedSource, target: Predictions) -> dict[str, float]:
    """Return statistics of the class frequencies estimated by MLLS and BBSE.

    The source rows are reweighted to the class frequencies of MLLS: if label shift explains the
    target, the reweighted source and the target cannot be told apart.
    """
    source, calibrated = learned.calibration.source, learned.calibrated(target)
    labels = source.labels
    assert labels is not None
    prior = np.bincount(labels, minlength=source.k) / source.n
    if np.count_nonzero(prior) < 2:  # label shift is not defined
        return {}
    shares, _ = fit_class_shares(calibrated.probs, prior, MAX_EM_ITERATIONS)
    confusion = confusion_counts(learned.predictions)
    ridge = ridge_for(condition_number(confusion))
    bbse = solve_class_shares(confusion, target.class_counts, ridge)
    ratio = np.divide(shares, prior, out=np.zeros(source.k), where=prior > 0)
    weights = ratio[labels]
    densities = np.maximum(calibrated.probs.astype(float) @ ratio, EPSILON)
    unweighted = np.ones(source.n)
    return {
        "calibrated_confidence_source": float(source.confidence.mean()),
        "calibrated_confidence_target": float(calibrated.confidence.mean()),
        "mlls_tv": total_variation(shares, prior),
        "bbse_tv": total_variation(np.asarray(bbse), prior),
        "mlls_gain": float(np.log(densities).mean()),
        "mlls_effective_share": float(effective_sample_fraction(weights)),
        "mlls_confidence_source": float(weights @ source.confidence / weights.sum()),
        "mlls_adjusted_confidence_target": _adjusted_confidence(calibrated, ratio),
        **transport_statistics(source, calibrated),
        **reweighted_atc(learned.predictions, target, weights),
        "auc": weighted_domain_auc(learned.predictions, target, unweighted),
        "auc_reweighted": weighted_domain_auc(learned.predictions, target, weights),
        "ks_reweighted": weighted_ks(learned.predictions.confidence, target.confidence, weights),
        "predicted_tv_reweighted": total_variation(
            np.bincount(source.classes, weights, minlength=source.k) / weights.sum(),
            target.class_counts / target.n,
        ),
    }


def _adjusted_confidence(target: Predictions, ratio: Floats) -> float:
    """Return the mean probability of the predicted class after the adjustment of class frequencies."""
    adjusted = target.probs.astype(float) * ratio
    top = adjusted[np.arange(target.n), target.classes]
    return float((top / np.maximum(adjusted.sum(axis=1), EPSILON)).mean())


def transport_statistics(source: Predictions, target: Predictions) -> dict[str, float]:
    """Return COT with the class frequencies of MLLS, and the bias of COT without shift."""
    if source.has_decisions:
        return {}
    return {
        "cot_mlls": COT(prior="mlls").estimate(source, target).value,
        "cot_bias": transport_bias(target.probs, label_counts(source)),
    }


def reweighted_atc(source: Predictions, target: Predictions, weights: Floats) -> dict[str, float]:
    """Return ATC with the threshold of a source that is reweighted to the class frequencies of MLLS."""
    if source.has_decisions:
        return {}
    shares, values = weights / weights.sum(), {}
    for name in ("confidence", "negative_entropy"):
        scores, target_scores = getattr(source, name), getattr(target, name)
        order = np.argsort(scores, kind="stable")
        below = np.cumsum(shares[order])
        place = np.searchsorted(below, shares @ ~source.correct, side="right")
        threshold = scores[order][min(place, source.n - 1)]
        values[f"atc_reweighted_{name}"] = float((target_scores >= threshold).mean())
    return values


def other_model_statistics(source: Predictions, target: Predictions) -> dict[str, float]:
    """Return how much other models agree with the predicted class."""
    if not source.other_models:
        return {}
    found = {}
    for side, rows in (("source", source), ("target", target)):
        index = np.arange(rows.n)
        probs = [other.probs[index, rows.classes].mean() for other in rows.other_models]
        agreement = [(other.classes == rows.classes).mean() for other in rows.other_models]
        found[f"others_probability_{side}"] = float(np.mean(probs))
        found[f"others_agreement_{side}"] = float(np.mean(agreement))
        found[f"others_agreement_lowest_{side}"] = float(np.min(agreement))
    return found


def total_variation(first: Floats, second: Floats) -> float:
    """Return half of the sum of absolute differences.

    >>> total_variation(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    0.5
    """
    return float(np.abs(first - second).sum() / 2)


def _entropy(shares: Floats) -> float:
    positive = shares[shares > 0]
    return -float(positive @ np.log(positive))


def weighted_ks(source: Floats, target: Floats, weights: Floats) -> float:
    """Return the Kolmogorov–Smirnov distance of a weighted source from the target."""
    order = np.argsort(source, kind="stable")
    points = np.sort(np.concatenate([source, target]))
    cumulative = np.concatenate([[0.0], np.cumsum(weights[order])]) / weights.sum()
    below_source = cumulative[np.searchsorted(source[order], points, side="right")]
    below_target = np.searchsorted(np.sort(target), points, side="right") / len(target)
    return float(np.abs(below_source - below_target).max())


def weighted_domain_auc(source: Predictions, target: Predictions, weights: Floats) -> float:
    """Return the cross-fitted AUROC of a classifier of source and target rows, on log-probabilities.

    The source rows have weights, in training and in the AUROC.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    rows = np.concatenate([source.log_probs, target.log_probs]).astype(float)
    rows = (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-12)
    is_target = np.arange(len(rows)) >= source.n
    weights = np.concatenate([weights / weights.mean(), np.ones(target.n)])
    fold = np.arange(len(rows)) % 2 == 0
    areas = []
    for training in (fold, ~fold):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(max_iter=100)
            model.fit(rows[training], is_target[training], sample_weight=weights[training])
        scores = model.decision_function(rows[~training])
        areas.append(roc_auc_score(is_target[~training], scores, sample_weight=weights[~training]))
    return float(np.mean(areas))
