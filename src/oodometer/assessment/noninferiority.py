"""Non-inferiority test of the accuracy on the target (Pouget et al., ICML 2025).

A logistic regression is fitted on one half of the source. It predicts from the confidence of a row
whether the model is correct. Its predictions on the other half of the source and on the target are
compared by a one-sided Welch test. The null hypothesis is that the target accuracy is lower than
the source accuracy by the margin or more. If the null hypothesis is rejected, the decision is
SUITABLE. If the test in the other direction shows a loss of more than the margin, the decision is
UNSUITABLE. Otherwise the decision is INCONCLUSIVE, which does not prove that accuracy is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.stats import rng_for

ASSUMES = "the accuracy given the confidence is the same on the target as on the source"
SIGNIFICANCE_LEVEL = 0.05
# Minimum number of correct rows, and of errors, in the training half of the source.
MIN_ROWS_PER_OUTCOME = 20


@dataclass(frozen=True)
class NoninferiorityResult:
    """Decision and p-value of the test, and the predicted accuracies on source and target."""

    decision: Literal["SUITABLE", "INCONCLUSIVE", "UNSUITABLE"]
    p_value: float
    margin: float
    source_accuracy: float
    target_accuracy: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.decision,
            "p_value": self.p_value,
            "margin": self.margin,
            "source": self.source_accuracy,
            "target": self.target_accuracy,
            "assumes": ASSUMES,
        }


def noninferiority_test(
    source: Predictions, target: Predictions, *, margin: float = 0.05, seed: int = 0
) -> NoninferiorityResult:
    """Test whether the loss of accuracy from source to target is smaller than a margin.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 2000)
    >>> logits = 3 * np.eye(3)[labels] + rng.normal(size=(2000, 3))
    >>> source = Predictions.from_logits(logits[:1000], labels=labels[:1000])
    >>> noninferiority_test(source, Predictions.from_logits(logits[1000:])).decision
    'SUITABLE'
    """
    from scipy.stats import ttest_ind

    if not 0 <= margin < 1:
        hint = f" Did you mean {margin / 100:g}?" if 1 <= margin < 100 else ""
        raise InputError(f"margin must be a fraction from 0 to below 1; got {margin:g}.{hint}")
    on_source, on_target = _predict_correctness(source, target, seed)
    if np.ptp(on_source) == 0 and np.ptp(on_target) == 0:
        raise NotApplicable("the confidence does not predict where the model is correct")
    test = ttest_ind(on_target + margin, on_source, equal_var=False, alternative="greater")
    p_value = float(test.pvalue)
    return NoninferiorityResult(
        decision=_decide(p_value),
        p_value=p_value,
        margin=margin,
        source_accuracy=float(on_source.mean()),
        target_accuracy=float(on_target.mean()),
    )


def _decide(p_value: float) -> Literal["SUITABLE", "INCONCLUSIVE", "UNSUITABLE"]:
    """Return the decision; the p-value of the other direction is 1 minus that of the test."""
    if p_value < SIGNIFICANCE_LEVEL:
        return "SUITABLE"
    return "UNSUITABLE" if 1 - p_value < SIGNIFICANCE_LEVEL else "INCONCLUSIVE"


def _predict_correctness(
    source: Predictions, target: Predictions, seed: int
) -> tuple[Floats, Floats]:
    """Return predicted probabilities of being correct for held-out source rows and target rows."""
    from sklearn.linear_model import LogisticRegression

    order = rng_for(seed, "suitability").permutation(source.n)
    training, held_out = order[: source.n // 2], order[source.n // 2 :]
    correct = source.correct[training]
    n_correct = np.count_nonzero(correct)
    n_errors = len(correct) - n_correct
    if min(n_correct, n_errors) < MIN_ROWS_PER_OUTCOME:
        raise NotApplicable(
            f"half of the source has {n_correct} correct rows and {n_errors} errors; "
            f"{MIN_ROWS_PER_OUTCOME} of each are required"
        )
    features = _confidence_features(source)
    center = features[training].mean(axis=0)
    deviation = features[training].std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    regression = LogisticRegression(max_iter=1000)
    regression.fit((features[training] - center) / deviation, correct)

    def predict(rows: Floats) -> Floats:
        return np.asarray(regression.predict_proba((rows - center) / deviation)[:, 1])

    return predict(features[held_out]), predict(_confidence_features(target))


def _confidence_features(rows: Predictions) -> Floats:
    """Return three features per row, computed from the probabilities.

    They are the log-odds of the top class against all other classes, the log-odds of the top class
    against the second class, and the negative entropy.
    """
    probs = rows.probs.astype(np.float64)
    top_two = np.sort(np.partition(probs, -2, axis=1)[:, -2:], axis=1)
    second, first = np.clip(top_two, 1e-12, 1 - 1e-12).T
    return np.column_stack(
        [np.log(first / (1 - first)), np.log(first / second), rows.negative_entropy]
    )
