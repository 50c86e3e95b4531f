"""Importance weighting by a domain classifier (IW; Shimodaira, 2000; Sugiyama et al., 2012)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core import validation
from oodometer.core.array_types import Bools, Floats
from oodometer.core.errors import NotApplicable, out_of_range
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import auroc, effective_sample_fraction, poisson_bootstrap_weights

# Features with more columns than this are reduced to this many principal components.
MAX_COMPONENTS = 256
# Number of bootstrap replicates that are computed together. More replicates need more memory and
# are not faster.
REPLICATES_PER_BLOCK = 25
# Settings of Newton's method: maximum number of steps, largest gradient per row at convergence,
# minimum step length, and curvature per row that is added for the intercept.
MAX_STEPS = 100
GRADIENT_TOLERANCE = 1e-10
MIN_STEP_LENGTH = 1e-6
RIDGE = 1e-12


def subsample_rows(rows: Predictions, max_rows: int) -> Predictions:
    """Return every k-th row, with the smallest k for which at most `max_rows` rows remain."""
    return rows.rows(slice(None, None, -(-rows.n // max_rows)))


@dataclass(frozen=True, eq=False)
class WeightingSource:
    """Source rows that receive weights: their features, log-probabilities and correctness."""

    features: Floats | None
    log_probs: Floats | None
    correct: Bools


@dataclass(frozen=True)
class DomainClassifier:
    """Logistic regression that separates target rows from source rows.

    `rows` are the standardized rows that it was fitted on, source rows first, with a column of ones
    for the intercept. `penalty` is the L2 penalty of each coefficient.
    """

    rows: Floats
    is_target: Bools
    coefficients: Floats
    penalty: Floats


@dataclass(frozen=True)
class ImportanceWeighting(StreamingEstimator[WeightingSource, DomainClassifier]):
    """Weighted source accuracy, ``Σ_s w · correct / Σ_s w`` with ``w = p_t(x) / p_s(x)``.

    The weight of a source row is its odds of being a target row, according to a logistic regression
    that separates target from source. The regression uses features if source and target have them,
    otherwise log-probabilities.

    Parameters
    ----------
    max_rows : int
        Maximum number of source rows and of target rows. If there are more, every k-th row is used.

    Raises
    ------
    InputError
        If `max_rows` is below 2.

    Examples
    --------
    >>> rows = Predictions.from_probs([[0.9, 0.1], [0.3, 0.7], [0.4, 0.6]], labels=[0, 1, 0])
    >>> round(ImportanceWeighting().estimate(rows, rows).value, 3)
    0.667
    """

    max_rows: int = 10_000

    name: ClassVar[str] = "iw"
    assumes: ClassVar[str] = (
        "covariate shift: accuracy given x is unchanged, and the source covers the target"
    )
    needs: ClassVar[tuple[str, ...]] = ("features or probabilities", "source labels")
    paper: ClassVar[str] = "Shimodaira, 2000; Sugiyama et al., 2012"
    is_mergeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.max_rows < 2:
            raise out_of_range("max_rows", self.max_rows, low=2)

    def select_rows(self, rows: Predictions) -> Predictions:
        return subsample_rows(rows, self.max_rows)

    def learn(self, source: Predictions) -> WeightingSource:
        """Return the source rows that receive weights; PAPE reuses them through a cache."""

        def select() -> WeightingSource:
            rows = self.select_rows(source)
            log_probs = rows.log_probs if rows.has_probs else None
            return WeightingSource(rows.features, log_probs, rows.correct)

        return source.cached(("iw", self.max_rows), select)

    def summarize(self, learned: WeightingSource, batch: Predictions) -> DomainClassifier:
        """Fit the domain classifier; PAPE reuses it through a cache."""
        return batch.cached(
            ("iw", learned, self.max_rows), lambda: self._fit_classifier(learned, batch)
        )

    def _fit_classifier(self, learned: WeightingSource, batch: Predictions) -> DomainClassifier:
        rows = self.select_rows(batch)
        if learned.features is not None and rows.features is not None:
            source, target = learned.features, rows.features
            validation.check_same_feature_count(source, target)
        elif learned.log_probs is not None:
            source, target = learned.log_probs, rows.log_probs
        else:
            raise NotApplicable("it requires features or probabilities of source and target")
        return fit_domain_classifier(
            np.concatenate([source, target]).astype(np.float64), len(source)
        )

    def finish(self, learned: WeightingSource, total: DomainClassifier) -> Estimate:
        """Return the weighted accuracy of the source rows."""
        weights = source_weights(total)
        value = float(weights @ learned.correct / weights.sum())
        facts = {
            "effective_share": effective_sample_fraction(weights),
            "domain_auc": domain_auc(total.rows, total.is_target),
        }
        return Estimate(value, facts=facts)

    def resample(
        self,
        learned: WeightingSource,
        total: DomainClassifier,
        rng: np.random.Generator,
        count: int,
    ) -> Floats:
        """Resample source and target rows, and update the classifier by one Newton step."""
        values = np.empty(count)
        for replicates, weights in resample_weights(total, rng, count):
            sums = weights.sum(axis=0)
            accuracy = learned.correct @ weights / np.where(sums > 0, sums, 1.0)
            values[replicates] = np.where(sums > 0, accuracy, learned.correct.mean())
        return values

    def row_values(
        self, learned: WeightingSource, total: DomainClassifier, rows: Predictions
    ) -> Floats | None:
        """Return the linear regression of the correctness on the inputs of the classifier."""
        values = project_on_target(total, learned.correct.astype(np.float64))
        return values if len(values) == rows.n else None


def source_weights(classifier: DomainClassifier) -> Floats:
    """Return the weight of every source row, up to a constant factor."""
    return _source_odds(classifier, classifier.coefficients[:, None])[:, 0]


def resample_weights(
    classifier: DomainClassifier, rng: np.random.Generator, count: int
) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of bootstrap replicates, each with the weights of the source rows.

    The weights have shape (rows, replicates), and are 0 for rows that a replicate does not contain.
    """
    probs, hessian = _probabilities_and_hessian(
        classifier.rows, classifier.rows @ classifier.coefficients, classifier.penalty
    )
    for start in range(0, count, REPLICATES_PER_BLOCK):
        replicates = slice(start, min(start + REPLICATES_PER_BLOCK, count))
        shape = (len(classifier.rows), replicates.stop - start)
        draws = poisson_bootstrap_weights(rng, shape).astype(np.float64)
        gradient = classifier.rows.T @ (draws * (classifier.is_target - probs)[:, None])
        gradient -= (classifier.penalty * classifier.coefficients)[:, None]
        coefficients = classifier.coefficients[:, None] + np.linalg.solve(hessian, gradient)
        yield replicates, _source_odds(classifier, coefficients) * draws[~classifier.is_target]


def project_on_target(classifier: DomainClassifier, outcomes: Floats) -> Floats:
    """Return, for each target row, the linear regression of weighted source outcomes.

    To first order, this is the contribution of a target row to the weighted mean of the outcomes,
    because the classifier's weights make the means of its inputs equal on source and target.
    """
    is_target = classifier.is_target
    weights = source_weights(classifier)
    inputs = classifier.rows[~is_target]
    weighted = inputs * (weights / weights.mean())[:, None]
    left = weighted.T @ inputs + np.diag(classifier.penalty)
    left[-1, -1] += RIDGE * len(inputs)
    return np.asarray(classifier.rows[is_target] @ np.linalg.solve(left, weighted.T @ outcomes))


def fit_domain_classifier(rows: Floats, n_source: int) -> DomainClassifier:
    """Fit the domain classifier on standardized columns, with an intercept."""
    rows = domain_classifier_inputs(rows)
    is_target = np.arange(len(rows)) >= n_source
    penalty = np.append(np.ones(rows.shape[1] - 1), 0.0)
    return DomainClassifier(rows, is_target, fit_logistic(rows, is_target), penalty)


def domain_classifier_inputs(rows: Floats) -> Floats:
    """Return standardized columns, at most `MAX_COMPONENTS` components of them, and an intercept."""
    deviation = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(deviation > 1e-12, deviation, 1.0)
    if rows.shape[1] > MAX_COMPONENTS:
        _, vectors = np.linalg.eigh(rows.T @ rows)
        rows = rows @ vectors[:, -MAX_COMPONENTS:]
    return np.hstack([rows, np.ones((len(rows), 1))])


def fit_logistic(rows: Floats, is_target: Bools, weights: Floats | None = None) -> Floats:
    """Return the coefficients w of a logistic regression, found by Newton's method.

    They minimize Σ log(1 + e^(∓x·w)) + ½‖w‖², where the sign is − for target rows and + for source
    rows; `weights` are the weights of the terms of the sum, 1 by default. The last coefficient, the
    intercept, is not penalized. A step that increases the loss is halved until the loss no longer
    increases. The result equals that of scikit-learn, which is not used because importing it takes
    longer than running all estimators.
    """
    penalty = np.append(np.ones(rows.shape[1] - 1), 0.0)
    coefficients = np.zeros(rows.shape[1])
    log_odds = np.zeros(len(rows))
    row_weights = np.ones(len(rows)) if weights is None else weights

    def loss_of(log_odds: Floats, coefficients: Floats) -> float:
        return _logistic_loss(log_odds, is_target, coefficients, penalty, row_weights)

    loss = loss_of(log_odds, coefficients)
    for _ in range(MAX_STEPS):
        probs, hessian = _probabilities_and_hessian(rows, log_odds, penalty, weights)
        gradient = rows.T @ (row_weights * (probs - is_target)) + penalty * coefficients
        if np.abs(gradient).max() <= GRADIENT_TOLERANCE * len(rows):
            break
        step = np.linalg.solve(hessian, gradient)
        odds_step = rows @ step
        length = 1.0
        new_loss = loss_of(log_odds - odds_step, coefficients - step)
        while new_loss > loss and length > MIN_STEP_LENGTH:
            length /= 2
            new_loss = loss_of(log_odds - length * odds_step, coefficients - length * step)
        if new_loss > loss:  # the minimum has been reached, up to rounding
            break
        coefficients = coefficients - length * step
        log_odds = log_odds - length * odds_step
        loss = new_loss
    return coefficients


def _logistic_loss(
    log_odds: Floats, is_target: Bools, coefficients: Floats, penalty: Floats, weights: Floats
) -> float:
    margins = np.where(is_target, -log_odds, log_odds)
    return float(weights @ np.logaddexp(0.0, margins) + 0.5 * (penalty * coefficients**2).sum())


def _probabilities_and_hessian(
    rows: Floats, log_odds: Floats, penalty: Floats, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return each row's probability of being a target row, and the Hessian of the loss."""
    probs = 0.5 * (1.0 + np.tanh(0.5 * log_odds))
    curvature = probs * (1 - probs)
    if weights is not None:
        curvature = curvature * weights
    hessian = (rows * curvature[:, None]).T @ rows + np.diag(penalty)
    # If the rows are perfectly separated, the loss has no curvature with respect to the intercept.
    hessian[-1, -1] += RIDGE * len(rows)
    return probs, hessian


def _first_half(rows: Floats, is_target: Bools, weights: Floats | None) -> Bools:
    """Return every second row in the order of norms, whatever the order of rows and columns."""
    ties = is_target if weights is None else weights
    order = np.lexsort((ties, is_target, (rows**2).sum(axis=1)))
    half = np.zeros(len(rows), dtype=bool)
    half[order[::2]] = True
    return half


def domain_auc(rows: Floats, is_target: Bools, weights: Floats | None = None) -> float:
    """Return the cross-fitted AUROC of a domain classifier.

    Each half of the rows is scored by a classifier that was fitted on the other half. 0.5 means that
    source and target cannot be separated, and 1 that they can be separated perfectly. `weights` are
    those of all rows, in the fit and in the AUROC; 1 by default.
    """
    half = _first_half(rows, is_target, weights)
    areas = []
    for training, held_out in ((half, ~half), (~half, half)):
        if np.unique(is_target[training]).size < 2:
            continue
        coefficients = fit_logistic(
            rows[training],
            is_target[training],
            None if weights is None else weights[training],
        )
        scores = rows[held_out] @ coefficients
        area = auroc(scores, is_target[held_out], None if weights is None else weights[held_out])
        if area is not None:
            areas.append(area)
    return sum(areas) / len(areas) if areas else 0.5


def _source_odds(classifier: DomainClassifier, coefficients: Floats) -> Floats:
    """Return the odds that each source row is a target row, up to a constant factor.

    The result has shape (rows, count), with one column per column of `coefficients`.
    """
    log_odds = classifier.rows[~classifier.is_target] @ coefficients
    return np.asarray(np.exp(log_odds - log_odds.max(axis=0)))
