"""ATC, average thresholded confidence. Garg et al., ICLR 2022.

A threshold on a score is set so that as many source rows lie below it as the source has errors;
the share of target rows at or above it is the estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_counts, histogram

# At most about this many edges around the threshold; below it the bootstrap is exact.
MAX_EDGES = 1024


def threshold_value(scores: Floats, n_errors: int) -> float:
    """The score that as many rows lie below as there are errors.

    On ties, the score that comes nearest to that, the lower one on a draw. Without errors −∞,
    with nothing but errors +∞.

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
    at = np.partition(ranked, n_errors)[n_errors]
    below, up_to = np.count_nonzero(ranked < at), np.count_nonzero(ranked <= at)
    if n_errors - below <= up_to - n_errors:
        return float(at)
    return float(np.min(ranked, where=ranked > at, initial=np.inf))


@dataclass(frozen=True)
class Threshold:
    """The threshold, and the source counted around it: (cells, [wrong, right])."""

    value: float
    edges: Floats
    counts: Ints


def _edges_around(scores: Floats, n_errors: int, center: float, max_edges: int) -> Floats:
    """Source scores whose rank a resampled threshold may have: six deviations to each side."""
    reach = 6 * math.sqrt(2 * min(n_errors, len(scores) - n_errors)) + 2
    first, last = max(0, int(n_errors - reach)), min(len(scores) - 1, int(n_errors + reach))
    # Two partitions at one place each are many times faster than one at two places.
    upper = np.partition(scores, first)[first:]
    near = np.sort(np.partition(upper, last - first)[: last - first + 1])
    step = max(1, len(near) // max_edges)
    chosen = (
        near[::step]
        if not math.isfinite(center)
        else np.append(near[::step], near.dtype.type(center))
    )
    return np.asarray(np.unique(chosen))


def fit_threshold(scores: Floats, correct: Bools, max_edges: int = MAX_EDGES) -> Threshold:
    """The threshold of scores of right and wrong answers, with at most about `max_edges` edges."""
    errors = int(len(scores) - np.count_nonzero(correct))
    at = threshold_value(scores, errors)
    edges = _edges_around(scores, errors, at, max_edges)
    wrong = histogram(edges, scores, where=~correct)
    right = histogram(edges, scores) - wrong
    return Threshold(at, edges, np.stack([wrong, right], axis=1))


def share_above(learned: Threshold, total: Ints) -> Estimate:
    """The share of rows, counted between the edges, at or above the threshold."""
    facts = {"threshold": learned.value, "source_errors": int(learned.counts[:, 0].sum())}
    if not math.isfinite(learned.value):
        lacking = "errors" if learned.value < 0 else "right answers"
        note = f"the source has no {lacking}: the threshold is at its limit, {learned.value}"
        del facts["threshold"]
        return Estimate(float(learned.value < 0), notes=(note,), facts=facts)
    first = int(np.searchsorted(learned.edges, learned.value, side="right"))
    return Estimate(total[first:].sum() / total.sum(), facts=facts)


def resample_share_above(
    learned: Threshold, total: Ints, rng: np.random.Generator, count: int
) -> Floats:
    """The threshold found again in every resampled source, applied to a resampled target."""
    source = bootstrap_counts(rng, learned.counts, count)
    errors = source[:, :, 0].sum(axis=1)
    below = np.cumsum(source.sum(axis=2), axis=1)[:, :-1]
    chosen = np.abs(below - errors[:, None]).argmin(axis=1)
    target = bootstrap_counts(rng, total, count)
    above = np.cumsum(target[:, ::-1], axis=1)[:, ::-1]
    values = above[np.arange(count), chosen + 1] / total.sum()
    n = learned.counts.sum()
    return np.where(errors == 0, 1.0, np.where(errors == n, 0.0, values))


@dataclass(frozen=True)
class ATC(StreamingEstimator[Threshold, Ints]):
    """The share of the target whose score reaches the source's threshold.

    The score is the confidence (`mc`) or the negative entropy (`ne`); for two classes both order
    rows alike, and the confidence stands for both.

    >>> source = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], labels=[0, 1, 1])
    >>> target = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
    >>> ATC("mc").estimate(source, target).value
    0.5
    """

    score: Literal["mc", "ne"] = "mc"

    assumes: ClassVar[str] = (
        "rows wrongly above the threshold balance rows wrongly below it, as on the source"
    )
    paper: ClassVar[str] = "Garg et al., ICLR 2022"

    def __post_init__(self) -> None:
        if self.score not in ("mc", "ne"):
            raise InputError(f"score must be 'mc' or 'ne'; got {self.score!r}.")

    @property
    def name(self) -> str:
        """`atc-mc` or `atc-ne`."""
        return f"atc-{self.score}"

    @property
    def needs(self) -> tuple[str, ...]:
        """The score it thresholds, and labels of the source."""
        return ("confidence" if self.score == "mc" else "entropy", "source labels")

    def _score(self, rows: Predictions) -> Floats:
        # Of two classes the negative entropy grows with the confidence: the same order, one score.
        return rows.confidence if self.score == "mc" or rows.k == 2 else rows.negative_entropy

    def learn(self, source: Predictions) -> Threshold:
        """The threshold and the source's counts around it."""
        return fit_threshold(self._score(source), source.correct)

    def summarize(self, learned: Threshold, batch: Predictions) -> Ints:
        """Target rows counted between the edges, the threshold being one of them."""
        return histogram(learned.edges, self._score(batch))

    def finish(self, learned: Threshold, total: Ints) -> Estimate:
        """The share of rows at or above the threshold."""
        return share_above(learned, total)

    def resample(
        self, learned: Threshold, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        """The threshold found again in every resampled source, applied to a resampled target."""
        return resample_share_above(learned, total, rng, count)
