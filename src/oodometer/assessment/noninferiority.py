"""A verdict: is the model as good on the target as on the source, but for a margin?

A regressor learns on one part of the source where the model is right, from how sure its answers
are. Its guesses on the rest of the source and on the target are compared by a one-sided test: the
null hypothesis is that the target is worse by the margin or more. Rejected, the model is SUITABLE;
else the question stays open, and the verdict is INCONCLUSIVE: that is no proof that it is worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.stats import rng_for

ASSUMES = "rows as sure as each other are right as often on the target as on the source"
SIGNIFICANCE_LEVEL = 0.05
MIN_ROWS_PER_OUTCOME = 20


@dataclass(frozen=True)
class NoninferiorityResult:
    """SUITABLE or INCONCLUSIVE, with the p-value and the guesses that were compared."""

    decision: Literal["SUITABLE", "INCONCLUSIVE"]
    p_value: float
    margin: float
    source_accuracy: float
    target_accuracy: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
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
    """Whether the target is not worse than the source by the margin or more.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 2000)
    >>> logits = 3 * np.eye(3)[labels] + rng.normal(size=(2000, 3))
    >>> known = Predictions.from_logits(logits[:1000], labels=labels[:1000])
    >>> noninferiority_test(known, Predictions.from_logits(logits[1000:])).decision
    'SUITABLE'
    """
    from scipy.stats import ttest_ind

    if not 0 <= margin < 1:
        hint = f" Did you mean {margin / 100:g}?" if 1 <= margin < 100 else ""
        raise InputError(f"margin is a fraction from 0 to below 1; got {margin:g}.{hint}")
    known, kept = _predict_correctness(source, target, seed)
    if np.ptp(known) == 0 and np.ptp(kept) == 0:
        raise NotApplicable("the answers tell nothing of where the model is right")
    p_value = float(ttest_ind(kept + margin, known, equal_var=False, alternative="greater").pvalue)
    word: Literal["SUITABLE", "INCONCLUSIVE"] = (
        "SUITABLE" if p_value < SIGNIFICANCE_LEVEL else "INCONCLUSIVE"
    )
    return NoninferiorityResult(word, p_value, margin, float(known.mean()), float(kept.mean()))


def _predict_correctness(
    source: Predictions, target: Predictions, seed: int
) -> tuple[Floats, Floats]:
    """Chances of being right, of source rows that taught nothing and of the target's."""
    from sklearn.linear_model import LogisticRegression

    order = rng_for(seed, "suitability").permutation(source.n)
    teach, judge = order[: source.n // 2], order[source.n // 2 :]
    right = source.correct[teach]
    if min(np.count_nonzero(right), np.count_nonzero(~right)) < MIN_ROWS_PER_OUTCOME:
        raise NotApplicable(
            f"half of the source has {np.count_nonzero(right)} right and "
            f"{np.count_nonzero(~right)} wrong answers; {MIN_ROWS_PER_OUTCOME} of each are needed"
        )
    signals = _confidence_features(source)
    centre, spread = signals[teach].mean(axis=0), signals[teach].std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    fitted = LogisticRegression(max_iter=1000).fit((signals[teach] - centre) / spread, right)

    def guess(rows: Floats) -> Floats:
        return np.asarray(fitted.predict_proba((rows - centre) / spread)[:, 1])

    return guess(signals[judge]), guess(_confidence_features(target))


def _confidence_features(rows: Predictions) -> Floats:
    """Log-odds of the first class against the rest and against the second, and the entropy."""
    probs = rows.probs.astype(np.float64)
    top = np.sort(np.partition(probs, -2, axis=1)[:, -2:], axis=1)
    safe = np.clip(top, 1e-12, 1 - 1e-12)
    odds = np.log(safe[:, 1] / (1 - safe[:, 1]))
    return np.column_stack([odds, np.log(safe[:, 1] / safe[:, 0]), rows.negative_entropy])
