"""IW, importance weights from a domain classifier. Shimodaira, 2000; Sugiyama et al., 2012."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core import validation
from oodometer.core._prediction_cache import once
from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimate, Staged
from oodometer.core.softmax_kernels import Bools, Floats
from oodometer.core.stats import auroc, draw_weights, effective_share

# Wider features are reduced to this many principal components.
MAX_WIDTH = 256
# Replicates that are worked on together; more would cost memory and save nothing.
AT_ONCE = 25
# Of the fit: steps, the slope a row that counts as none, the shortest step, the least curvature.
MOST_STEPS, FLAT, TINY, RIDGE = 100, 1e-10, 1e-6, 1e-12


def thinned(rows: Predictions, most: int) -> Predictions:
    """Every second, third, … row, so that there are no more than `most`."""
    return rows.rows(slice(None, None, -(-rows.n // most)))


@dataclass(frozen=True, eq=False)
class Known:
    """The source rows that are weighted."""

    features: Floats | None
    log_probs: Floats | None
    correct: Bools


@dataclass(frozen=True)
class Separation:
    """A fitted domain classifier: rows (source first), its coefficients and log-odds."""

    rows: Floats
    is_target: Bools
    coefficients: Floats
    pull: Floats


@dataclass(frozen=True)
class ImportanceWeighting(Staged[Known, Separation]):
    """Source accuracy weighted by p_t(x)/p_s(x), from a logistic regression of target on source.

    It looks at the features where both sides have them, else at the log-probabilities. Beyond
    `max_rows` a side it takes every second, third, … row.

    >>> rows = Predictions.from_probs([[0.9, 0.1], [0.3, 0.7], [0.4, 0.6]], labels=[0, 1, 0])
    >>> round(ImportanceWeighting().estimate(rows, rows).value, 3)
    0.667
    """

    max_rows: int = 10_000

    name: ClassVar[str] = "iw"
    assumes: ClassVar[str] = (
        "like inputs are right as often as on the source, which covers the target (covariate shift)"
    )
    needs: ClassVar[tuple[str, ...]] = ("features or probabilities", "source labels")
    paper: ClassVar[str] = "Shimodaira, 2000; Sugiyama et al., 2012"
    streams: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.max_rows < 2:
            raise InputError(f"max_rows must be at least 2; got {self.max_rows}.")

    def some(self, rows: Predictions) -> Predictions:
        """The rows that are looked at."""
        return thinned(rows, self.max_rows)

    def learn(self, source: Predictions) -> Known:
        """The source rows and which of them are right."""

        def known() -> Known:
            some = self.some(source)
            log_probs = some.log_probs if some.has_probs else None
            return Known(some.features, log_probs, some.correct)

        return once(source, ("iw", self.max_rows), known)

    def summarize(self, learned: Known, batch: Predictions) -> Separation:
        """The domain classifier, fitted on the whole target (or every so-manieth row of it)."""
        return once(batch, ("iw", learned, self.max_rows), lambda: self._separated(learned, batch))

    def _separated(self, learned: Known, batch: Predictions) -> Separation:
        some = self.some(batch)
        if learned.features is not None and some.features is not None:
            source, target = learned.features, some.features
            validation.same_width(source, target)
        elif learned.log_probs is not None:
            source, target = learned.log_probs, some.log_probs
        else:
            raise NoAnswer("it needs features on both sides, or probabilities")
        return _separate(np.concatenate([source, target]).astype(np.float64), len(source))

    def finish(self, learned: Known, total: Separation) -> Estimate:
        """The weighted accuracy."""
        weights = weights_of(total)
        value = float(weights @ learned.correct / weights.sum())
        facts = {"effective_share": effective_share(weights), "domain_auc": told_apart(total)}
        return Estimate(value, facts=facts)

    def resample(
        self, learned: Known, total: Separation, rng: np.random.Generator, count: int
    ) -> Floats:
        """Rows drawn again, the classifier moved by one Newton step, the weights taken anew."""
        values = np.empty(count)
        for some, weights in redrawn_weights(total, rng, count):
            sums = weights.sum(axis=0)
            share = learned.correct @ weights / np.where(sums > 0, sums, 1.0)
            values[some] = np.where(sums > 0, share, learned.correct.mean())
        return values


def weights_of(total: Separation) -> Floats:
    """The weight of every source row, up to a constant factor."""
    return _weights(total, total.coefficients[:, None])[:, 0]


def redrawn_weights(
    total: Separation, rng: np.random.Generator, count: int
) -> Iterator[tuple[slice, Floats]]:
    """Weights of source rows drawn again (0 for those not drawn), some replicates at a time."""
    guess, curved = _curved(total.rows, total.rows @ total.coefficients, total.pull)
    for start in range(0, count, AT_ONCE):
        some = slice(start, min(start + AT_ONCE, count))
        draws = draw_weights(rng, (len(total.rows), some.stop - start)).astype(np.float64)
        slope = total.rows.T @ (draws * (total.is_target - guess)[:, None])
        slope -= (total.pull * total.coefficients)[:, None]
        moved = total.coefficients[:, None] + np.linalg.solve(curved, slope)
        yield some, _weights(total, moved) * draws[~total.is_target]


def _separate(rows: Floats, n_source: int) -> Separation:
    """Fit the domain classifier on standardised columns and an intercept."""
    spread = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0)
    if rows.shape[1] > MAX_WIDTH:
        _, vectors = np.linalg.eigh(rows.T @ rows)
        rows = rows @ vectors[:, -MAX_WIDTH:]
    is_target = np.arange(len(rows)) >= n_source
    pull = np.append(np.ones(rows.shape[1]), 0.0)
    whole = np.hstack([rows, np.ones((len(rows), 1))])
    return Separation(whole, is_target, _fitted(whole, is_target), pull)


def _fitted(rows: Floats, is_target: Bools) -> Floats:
    """Coefficients w of a logistic regression: min Σ log(1 + e^(∓x·w)) + ½‖w‖² by Newton's steps.

    The last, of the intercept, is not pulled to 0. A step that leads up is halved until it leads
    down. (The same as scikit-learn's, whose import takes longer than all methods together.)
    """
    pull = np.append(np.ones(rows.shape[1] - 1), 0.0)
    found, odds = np.zeros(rows.shape[1]), np.zeros(len(rows))
    lowest = _misfit(odds, is_target, found, pull)
    for _ in range(MOST_STEPS):
        guess, curved = _curved(rows, odds, pull)
        slope = rows.T @ (guess - is_target) + pull * found
        if np.abs(slope).max() <= FLAT * len(rows):
            break
        step = np.linalg.solve(curved, slope)
        along = rows @ step
        length, value = 1.0, _misfit(odds - along, is_target, found - step, pull)
        while value > lowest and length > TINY:
            length /= 2
            value = _misfit(odds - length * along, is_target, found - length * step, pull)
        if value > lowest:  # as flat as rounding lets it be
            break
        found, odds, lowest = found - length * step, odds - length * along, value
    return found


def _misfit(odds: Floats, is_target: Bools, coefficients: Floats, pull: Floats) -> float:
    wrong = np.where(is_target, -odds, odds)
    return float(np.logaddexp(0.0, wrong).sum() + 0.5 * (pull * coefficients**2).sum())


def _curved(rows: Floats, odds: Floats, pull: Floats) -> tuple[Floats, Floats]:
    """The chance of each row to be a target row, and how the misfit bends."""
    guess = 0.5 * (1.0 + np.tanh(0.5 * odds))
    curved = (rows * (guess * (1 - guess))[:, None]).T @ rows + np.diag(pull)
    # Where every row is told for sure nothing bends along the intercept.
    curved[-1, -1] += RIDGE * len(rows)
    return guess, curved


def told_apart(total: Separation) -> float:
    """The domain classifier's AUC on rows it has not learned from: each half by the other's.

    ½ where source and target can't be told apart, 1 where they always can.
    """
    half = np.arange(len(total.rows)) % 2 == 0
    found = []
    for learn, judge in ((half, ~half), (~half, half)):
        if np.unique(total.is_target[learn]).size < 2:
            continue
        guess = total.rows[judge] @ _fitted(total.rows[learn], total.is_target[learn])
        found.append(auroc(guess, total.is_target[judge]))
    known = [area for area in found if area is not None]
    return sum(known) / len(known) if known else 0.5


def _weights(total: Separation, coefficients: Floats) -> Floats:
    """Odds of being a target row, for the source rows, up to a constant factor: (rows, count)."""
    odds = total.rows[~total.is_target] @ coefficients
    return np.asarray(np.exp(odds - odds.max(axis=0)))
