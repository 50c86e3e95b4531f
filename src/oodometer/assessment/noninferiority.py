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

from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import Floats
from oodometer.core.stats import stream

ASSUMES = "rows as sure as each other are right as often on the target as on the source"
LEVEL = 0.05
FEWEST = 20


@dataclass(frozen=True)
class Verdict:
    """SUITABLE or INCONCLUSIVE, with the p-value and the guesses that were compared."""

    word: Literal["SUITABLE", "INCONCLUSIVE"]
    p_value: float
    margin: float
    source: float
    target: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "verdict": self.word,
            "p_value": self.p_value,
            "margin": self.margin,
            "source": self.source,
            "target": self.target,
            "assumes": ASSUMES,
        }


def suitable(
    source: Predictions, target: Predictions, *, margin: float = 0.05, seed: int = 0
) -> Verdict:
    """Whether the target is not worse than the source by the margin or more.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 2000)
    >>> logits = 3 * np.eye(3)[labels] + rng.normal(size=(2000, 3))
    >>> known = Predictions.from_logits(logits[:1000], labels=labels[:1000])
    >>> suitable(known, Predictions.from_logits(logits[1000:])).word
    'SUITABLE'
    """
    from scipy.stats import ttest_ind

    if not 0 <= margin < 1:
        hint = f" Did you mean {margin / 100:g}?" if 1 <= margin < 100 else ""
        raise InputError(f"margin is a fraction from 0 to below 1; got {margin:g}.{hint}")
    known, kept = _guesses(source, target, seed)
    if np.ptp(known) == 0 and np.ptp(kept) == 0:
        raise NoAnswer("the answers tell nothing of where the model is right")
    p_value = float(ttest_ind(kept + margin, known, equal_var=False, alternative="greater").pvalue)
    word: Literal["SUITABLE", "INCONCLUSIVE"] = "SUITABLE" if p_value < LEVEL else "INCONCLUSIVE"
    return Verdict(word, p_value, margin, float(known.mean()), float(kept.mean()))


def _guesses(source: Predictions, target: Predictions, seed: int) -> tuple[Floats, Floats]:
    """Chances of being right, of source rows that taught nothing and of the target's."""
    from sklearn.linear_model import LogisticRegression

    order = stream(seed, "suitability").permutation(source.n)
    teach, judge = order[: source.n // 2], order[source.n // 2 :]
    right = source.correct[teach]
    if min(np.count_nonzero(right), np.count_nonzero(~right)) < FEWEST:
        raise NoAnswer(
            f"half of the source has {np.count_nonzero(right)} right and "
            f"{np.count_nonzero(~right)} wrong answers; {FEWEST} of each are needed"
        )
    signals = _signals(source)
    centre, spread = signals[teach].mean(axis=0), signals[teach].std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    fitted = LogisticRegression(max_iter=1000).fit((signals[teach] - centre) / spread, right)

    def guess(rows: Floats) -> Floats:
        return np.asarray(fitted.predict_proba((rows - centre) / spread)[:, 1])

    return guess(signals[judge]), guess(_signals(target))


def _signals(rows: Predictions) -> Floats:
    """Log-odds of the first class against the rest and against the second, and the entropy."""
    probs = rows.probs.astype(np.float64)
    top = np.sort(np.partition(probs, -2, axis=1)[:, -2:], axis=1)
    safe = np.clip(top, 1e-12, 1 - 1e-12)
    odds = np.log(safe[:, 1] / (1 - safe[:, 1]))
    return np.column_stack([odds, np.log(safe[:, 1] / safe[:, 0]), rows.negative_entropy])
