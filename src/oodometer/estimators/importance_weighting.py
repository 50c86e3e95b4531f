"""IW, importance weights from a domain classifier. Shimodaira, 2000; Sugiyama et al., 2012."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core import validation
from oodometer.core.array_types import Bools, Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import auroc, effective_sample_fraction, poisson_bootstrap_weights

# Wider features are reduced to this many principal components.
MAX_COMPONENTS = 256
# Replicates that are worked on together; more would cost memory and save nothing.
REPLICATES_PER_BLOCK = 25
# Of the fit: steps, the slope a row that counts as none, the shortest step, the least curvature.
MAX_STEPS, SLOPE_TOLERANCE, MIN_STEP_LENGTH, RIDGE = 100, 1e-10, 1e-6, 1e-12


def subsample_rows(rows: Predictions, max_rows: int) -> Predictions:
    """Every second, third, … row, so that there are no more than `max_rows`."""
    return rows.rows(slice(None, None, -(-rows.n // max_rows)))


@dataclass(frozen=True, eq=False)
class WeightingSource:
    """The source rows that are weighted."""

    features: Floats | None
    log_probs: Floats | None
    correct: Bools


@dataclass(frozen=True)
class DomainClassifier:
    """A fitted domain classifier: rows (source first), its coefficients and log-odds."""

    rows: Floats
    is_target: Bools
    coefficients: Floats
    penalty: Floats


@dataclass(frozen=True)
class ImportanceWeighting(StreamingEstimator[WeightingSource, DomainClassifier]):
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
    is_mergeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.max_rows < 2:
            raise InputError(f"max_rows must be at least 2; got {self.max_rows}.")

    def select_rows(self, rows: Predictions) -> Predictions:
        """The rows that are looked at."""
        return subsample_rows(rows, self.max_rows)

    def learn(self, source: Predictions) -> WeightingSource:
        """The source rows and which of them are right."""

        def known() -> WeightingSource:
            some = self.select_rows(source)
            log_probs = some.log_probs if some.has_probs else None
            return WeightingSource(some.features, log_probs, some.correct)

        return source.cached(("iw", self.max_rows), known)

    def summarize(self, learned: WeightingSource, batch: Predictions) -> DomainClassifier:
        """The domain classifier, fitted on the whole target (or every so-manieth row of it)."""
        return batch.cached(
            ("iw", learned, self.max_rows), lambda: self._fit_classifier(learned, batch)
        )

    def _fit_classifier(self, learned: WeightingSource, batch: Predictions) -> DomainClassifier:
        some = self.select_rows(batch)
        if learned.features is not None and some.features is not None:
            source, target = learned.features, some.features
            validation.check_same_feature_count(source, target)
        elif learned.log_probs is not None:
            source, target = learned.log_probs, some.log_probs
        else:
            raise NotApplicable("it needs features on both sides, or probabilities")
        return _fit_domain_classifier(
            np.concatenate([source, target]).astype(np.float64), len(source)
        )

    def finish(self, learned: WeightingSource, total: DomainClassifier) -> Estimate:
        """The weighted accuracy."""
        weights = source_weights(total)
        value = float(weights @ learned.correct / weights.sum())
        facts = {
            "effective_share": effective_sample_fraction(weights),
            "domain_auc": domain_auc(total),
        }
        return Estimate(value, facts=facts)

    def resample(
        self,
        learned: WeightingSource,
        total: DomainClassifier,
        rng: np.random.Generator,
        count: int,
    ) -> Floats:
        """Rows drawn again, the classifier moved by one Newton step, the weights taken anew."""
        values = np.empty(count)
        for some, weights in resample_weights(total, rng, count):
            sums = weights.sum(axis=0)
            share = learned.correct @ weights / np.where(sums > 0, sums, 1.0)
            values[some] = np.where(sums > 0, share, learned.correct.mean())
        return values


def source_weights(classifier: DomainClassifier) -> Floats:
    """The weight of every source row, up to a constant factor."""
    return _source_odds(classifier, classifier.coefficients[:, None])[:, 0]


def resample_weights(
    classifier: DomainClassifier, rng: np.random.Generator, count: int
) -> Iterator[tuple[slice, Floats]]:
    """Weights of source rows drawn again (0 for those not drawn), some replicates at a time."""
    guess, curved = _probabilities_and_hessian(
        classifier.rows, classifier.rows @ classifier.coefficients, classifier.penalty
    )
    for start in range(0, count, REPLICATES_PER_BLOCK):
        some = slice(start, min(start + REPLICATES_PER_BLOCK, count))
        draws = poisson_bootstrap_weights(rng, (len(classifier.rows), some.stop - start)).astype(
            np.float64
        )
        slope = classifier.rows.T @ (draws * (classifier.is_target - guess)[:, None])
        slope -= (classifier.penalty * classifier.coefficients)[:, None]
        moved = classifier.coefficients[:, None] + np.linalg.solve(curved, slope)
        yield some, _source_odds(classifier, moved) * draws[~classifier.is_target]


def _fit_domain_classifier(rows: Floats, n_source: int) -> DomainClassifier:
    """Fit the domain classifier on standardised columns and an intercept."""
    spread = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0)
    if rows.shape[1] > MAX_COMPONENTS:
        _, vectors = np.linalg.eigh(rows.T @ rows)
        rows = rows @ vectors[:, -MAX_COMPONENTS:]
    is_target = np.arange(len(rows)) >= n_source
    pull = np.append(np.ones(rows.shape[1]), 0.0)
    whole = np.hstack([rows, np.ones((len(rows), 1))])
    return DomainClassifier(whole, is_target, _fit_logistic(whole, is_target), pull)


def _fit_logistic(rows: Floats, is_target: Bools) -> Floats:
    """Coefficients w of a logistic regression: min Σ log(1 + e^(∓x·w)) + ½‖w‖² by Newton's steps.

    The last, of the intercept, is not pulled to 0. A step that leads up is halved until it leads
    down. (The same as scikit-learn's, whose import takes longer than all methods together.)
    """
    pull = np.append(np.ones(rows.shape[1] - 1), 0.0)
    found, odds = np.zeros(rows.shape[1]), np.zeros(len(rows))
    lowest = _logistic_loss(odds, is_target, found, pull)
    for _ in range(MAX_STEPS):
        guess, curved = _probabilities_and_hessian(rows, odds, pull)
        slope = rows.T @ (guess - is_target) + pull * found
        if np.abs(slope).max() <= SLOPE_TOLERANCE * len(rows):
            break
        step = np.linalg.solve(curved, slope)
        along = rows @ step
        length, value = 1.0, _logistic_loss(odds - along, is_target, found - step, pull)
        while value > lowest and length > MIN_STEP_LENGTH:
            length /= 2
            value = _logistic_loss(odds - length * along, is_target, found - length * step, pull)
        if value > lowest:  # as flat as rounding lets it be
            break
        found, odds, lowest = found - length * step, odds - length * along, value
    return found


def _logistic_loss(odds: Floats, is_target: Bools, coefficients: Floats, penalty: Floats) -> float:
    wrong = np.where(is_target, -odds, odds)
    return float(np.logaddexp(0.0, wrong).sum() + 0.5 * (penalty * coefficients**2).sum())


def _probabilities_and_hessian(
    rows: Floats, odds: Floats, penalty: Floats
) -> tuple[Floats, Floats]:
    """The chance of each row to be a target row, and how the misfit bends."""
    guess = 0.5 * (1.0 + np.tanh(0.5 * odds))
    curved = (rows * (guess * (1 - guess))[:, None]).T @ rows + np.diag(penalty)
    # Where every row is told for sure nothing bends along the intercept.
    curved[-1, -1] += RIDGE * len(rows)
    return guess, curved


def domain_auc(classifier: DomainClassifier) -> float:
    """The domain classifier's AUC on rows it has not learned from: each half by the other's.

    ½ where source and target can't be told apart, 1 where they always can.
    """
    half = np.arange(len(classifier.rows)) % 2 == 0
    found = []
    for learn, judge in ((half, ~half), (~half, half)):
        if np.unique(classifier.is_target[learn]).size < 2:
            continue
        guess = classifier.rows[judge] @ _fit_logistic(
            classifier.rows[learn], classifier.is_target[learn]
        )
        found.append(auroc(guess, classifier.is_target[judge]))
    known = [area for area in found if area is not None]
    return sum(known) / len(known) if known else 0.5


def _source_odds(classifier: DomainClassifier, coefficients: Floats) -> Floats:
    """Odds of being a target row, for the source rows, up to a constant factor: (rows, count)."""
    odds = classifier.rows[~classifier.is_target] @ coefficients
    return np.asarray(np.exp(odds - odds.max(axis=0)))
