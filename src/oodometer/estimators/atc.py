"""Average thresholded confidence (ATC; Garg et al., ICLR 2022).

A threshold on the confidence is chosen so that the share of source rows below it equals the error
rate on the source. The estimate is the share of target rows at or above the threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, out_of_range
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_counts, histogram

# Approximate upper limit on the number of histogram edges around the threshold. The bootstrap is
# exact if at most this many source scores are so close to the threshold that a resampled threshold
# may equal one of them.
MAX_EDGES = 1024


def threshold_value(scores: Floats, n_errors: int) -> float:
    """Return the threshold that leaves `n_errors` scores strictly below it.

    Parameters
    ----------
    scores : array of shape (n,)
        Score of each source row; higher means more confident.
    n_errors : int
        Number of source rows that the model classifies wrongly.

    Returns
    -------
    float
        The score of rank `n_errors`. If several rows have this score, the score for which the
        number of lower scores is closest to `n_errors`, and the lower one of two that are equally
        close. ``-inf`` if there are no errors, ``inf`` if every row is an error.

    Examples
    --------
    >>> threshold_value(np.array([0.9, 0.5, 0.7, 0.8]), 1)
    0.7
    >>> threshold_value(np.array([0.5, 0.5, 0.5, 0.8]), 2)
    0.8
    """
    if n_errors <= 0:
        return -math.inf
    if n_errors >= len(scores):
        return math.inf
    ranked = scores if scores.flags.c_contiguous else np.ascontiguousarray(scores)
    candidate = np.partition(ranked, n_errors)[n_errors]
    n_below = np.count_nonzero(ranked < candidate)
    n_up_to = np.count_nonzero(ranked <= candidate)
    if n_errors - n_below <= n_up_to - n_errors:
        return float(candidate)
    return float(np.min(ranked, where=ranked > candidate, initial=np.inf))


def atc_source_bound(n: int, delta: float = 0.05) -> float:
    """Return the bound on the error of ATC on the source distribution itself (Proposition 2).

    With probability at least 1 − δ over the n source rows, the threshold t that is fitted to them
    satisfies ``abs(E[1(score < t) − 1(wrong)]) ≤ 2 · sqrt(log(4/δ) / (2n))``, where the expectation
    is over new rows of the source distribution. The bound holds for scores without ties, and for a
    model and a temperature that do not depend on these rows.

    Parameters
    ----------
    n : int
        Number of source rows.
    delta : float
        Probability that the bound does not hold.

    Returns
    -------
    float
        Largest difference between estimate and accuracy, as a fraction. Above 1 if n is so small
        that nothing is guaranteed.

    Raises
    ------
    InputError
        If `n` is below 1, or `delta` is not between 0 and 1.

    Examples
    --------
    >>> round(atc_source_bound(10_000), 4)
    0.0296
    """
    if n < 1:
        raise out_of_range("n", n, low=1)
    if not 0 < delta < 1:
        raise out_of_range("delta", delta, above=0, below=1)
    return 2 * math.sqrt(math.log(4 / delta) / (2 * n))


@dataclass(frozen=True)
class FalselyIdentified:
    """Shares of rows on which ATC is wrong about the correctness of the model.

    ATC regards rows with a score of at least the threshold as correct. The difference of the two
    shares is the error of its estimate.

    Parameters
    ----------
    correct : float
        Share of rows that are wrong and have a score of at least the threshold.
    incorrect : float
        Share of rows that are correct and have a score below the threshold.

    Examples
    --------
    >>> FalselyIdentified(correct=0.25, incorrect=0.125).bias
    0.125
    """

    correct: float
    incorrect: float

    @property
    def bias(self) -> float:
        """Return the estimate minus the accuracy; it is 0 exactly if both shares are equal."""
        return self.correct - self.incorrect


def falsely_identified(scores: Floats, correct: Bools, threshold: float) -> FalselyIdentified:
    """Return the shares of falsely identified correct and incorrect predictions (App. C, D.1).

    Parameters
    ----------
    scores : array of shape (n,)
        Score of each labelled row.
    correct : array of bool of shape (n,)
        Whether the model is correct on each row.
    threshold : float
        Threshold that was fitted to the source.

    Returns
    -------
    FalselyIdentified
        Both shares of the n rows.

    Raises
    ------
    InputError
        If there are no rows.

    Examples
    --------
    >>> falsely_identified(np.array([0.9, 0.8, 0.4]), np.array([True, False, False]), 0.5)
    FalselyIdentified(correct=0.3333333333333333, incorrect=0.0)
    """
    if not len(scores):
        raise InputError("There are no labelled rows; expected at least one.")
    above = scores >= threshold
    return FalselyIdentified(
        correct=float(np.mean(above & ~correct)), incorrect=float(np.mean(~above & correct))
    )


@dataclass(frozen=True)
class Threshold:
    """Fitted threshold with a histogram of the source scores around it.

    `counts` has shape (n_edges + 1, 2) and contains the numbers of wrong and correct source rows
    per bin. The bootstrap resamples these counts instead of the rows.
    """

    value: float
    edges: Floats
    counts: Ints


def fit_threshold(scores: Floats, correct: Bools, max_edges: int = MAX_EDGES) -> Threshold:
    """Fit the threshold, and count the source rows between the edges of a histogram around it.

    The histogram has at most about `max_edges` edges.
    """
    n_errors = int(len(scores) - np.count_nonzero(correct))
    value = threshold_value(scores, n_errors)
    edges = _edges_around(scores, n_errors, value, max_edges)
    wrong = histogram(edges, scores, where=~correct)
    right = histogram(edges, scores) - wrong
    return Threshold(value, edges, np.stack([wrong, right], axis=1))


def _edges_around(scores: Floats, n_errors: int, threshold: float, max_edges: int) -> Floats:
    """Return source scores whose rank is within six standard deviations of the threshold's rank."""
    reach = 6 * math.sqrt(2 * min(n_errors, len(scores) - n_errors)) + 2
    first = max(0, int(n_errors - reach))
    last = min(len(scores) - 1, int(n_errors + reach))
    # Two calls of np.partition with one rank each are many times faster than one with two ranks.
    upper = np.partition(scores, first)[first:]
    near = np.sort(np.partition(upper, last - first)[: last - first + 1])
    edges = near[:: max(1, len(near) // max_edges)]
    if math.isfinite(threshold):
        edges = np.append(edges, near.dtype.type(threshold))
    return np.asarray(np.unique(edges))


def share_above(learned: Threshold, total: Ints) -> Estimate:
    """Return the share of rows at or above the threshold.

    `total` has the number of rows per bin between the threshold's edges.
    """
    facts = {"threshold": learned.value, "source_errors": int(learned.counts[:, 0].sum())}
    if not math.isfinite(learned.value):
        missing = "errors" if learned.value < 0 else "correct rows"
        note = f"the source has no {missing}; the threshold is {learned.value}"
        del facts["threshold"]
        return Estimate(float(learned.value < 0), notes=(note,), facts=facts)
    first = int(np.searchsorted(learned.edges, learned.value, side="right"))
    return Estimate(total[first:].sum() / total.sum(), facts=facts)


def resample_share_above(
    learned: Threshold, total: Ints, rng: np.random.Generator, count: int
) -> Floats:
    """Return bootstrap replicates of the share of target rows above the threshold.

    For each replicate, the threshold is fitted to a resampled source.
    """
    source = bootstrap_counts(rng, learned.counts, count)
    errors = source[:, :, 0].sum(axis=1)
    below = np.cumsum(source.sum(axis=2), axis=1)[:, :-1]
    chosen = np.abs(below - errors[:, None]).argmin(axis=1)
    target = bootstrap_counts(rng, total, count)
    above = np.cumsum(target[:, ::-1], axis=1)[:, ::-1]
    values = above[np.arange(count), chosen + 1] / total.sum()
    n = learned.counts.sum()
    return np.where(errors == 0, 1.0, np.where(errors == n, 0.0, values))


def threshold_bias(learned: Threshold) -> float:
    """Return the expected error of the share above a threshold, without shift.

    The threshold is the score of rank m + 1, where m is the number of errors of n source rows.
    Without ties, the expected share of new rows below it is (m + 1) / (n + 1), one row more than
    the share of errors. Without errors, or without correct rows, no score is the threshold.
    """
    if not math.isfinite(learned.value):
        return 0.0
    return -1 / (int(learned.counts.sum()) + 1)


@dataclass(frozen=True)
class ATC(StreamingEstimator[Threshold, Ints]):
    """Average thresholded confidence, ``mean_t 1[score ≥ τ]``.

    The threshold τ is chosen so that the number of source rows below it equals the number of source
    errors.

    Parameters
    ----------
    score : {"mc", "ne"}
        Score that is compared with the threshold: "mc" is the maximum confidence, and "ne" is the
        negative entropy. With two classes, the two scores rank all rows equally, so the confidence
        is used in both cases.

    Raises
    ------
    InputError
        If `score` is neither "mc" nor "ne".

    Examples
    --------
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], labels=[0, 1, 1])
    >>> target = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
    >>> ATC("mc").estimate(source, target).value
    0.5
    """

    score: Literal["mc", "ne"] = "mc"

    assumes: ClassVar[str] = (
        "on the target, as on the source, the number of errors above the threshold equals the number "
        "of correct rows below it"
    )
    paper: ClassVar[str] = "Garg et al., ICLR 2022"

    def __post_init__(self) -> None:
        if self.score not in ("mc", "ne"):
            raise InputError(f"score must be 'mc' or 'ne'; got {self.score!r}.")

    @property
    def name(self) -> str:
        return f"atc-{self.score}"

    @property
    def supports_decisions(self) -> bool:  # type: ignore[override]
        """Return whether the score is the probability of the decided class."""
        return self.score == "mc"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("confidence" if self.score == "mc" else "entropy", "source labels")

    def _score(self, rows: Predictions) -> Floats:
        return rows.confidence if self.score == "mc" or rows.k == 2 else rows.negative_entropy

    def falsely_identified(self, source: Predictions, target: Predictions) -> FalselyIdentified:
        """Return the shares of falsely identified predictions of a labelled target."""
        learned = self.learn(source)
        return falsely_identified(self._score(target), target.correct, learned.value)

    def learn(self, source: Predictions) -> Threshold:
        """Fit the threshold and count the source rows around it."""
        return fit_threshold(self._score(source), source.correct)

    def summarize(self, learned: Threshold, batch: Predictions) -> Ints:
        """Return the number of rows of the batch per bin between the threshold's edges."""
        return histogram(learned.edges, self._score(batch))

    def finish(self, learned: Threshold, total: Ints) -> Estimate:
        """Return the share of rows at or above the threshold."""
        return share_above(learned, total)

    def resample(
        self, learned: Threshold, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample the scores of source and target rows, and fit the threshold again."""
        return resample_share_above(learned, total, rng, count)

    def bias(self, learned: Threshold, total: Ints, replicates: Floats) -> float:
        """Return the expected error of the threshold, about one source row."""
        return threshold_bias(learned)

    def row_values(self, learned: Threshold, total: Ints, rows: Predictions) -> Floats:
        """Return 1 for rows at or above the threshold, and 0 for the others."""
        return (self._score(rows) >= learned.value).astype(np.float64)
