"""Regime weighting: the average of three estimates, one for each kind of shift.

No single method is right under every kind of shift. If the model is calibrated on the target, as it
is without shift and often under covariate shift of tables, the mean confidence (AC) is the most
precise. Under label shift, the class frequencies of the target are those that MLLS finds, and the
posterior of the predicted class must be adjusted to them. Under other shifts of images and texts,
confidences are too high, and COT corrects them if the class frequencies are those of the source. Two
tests decide how much of each is used: a domain classifier, and a test of fit of label shift.

- If the classifier cannot separate source from target, there is no shift.
- If it cannot separate them after the source rows were reweighted to the class frequencies of MLLS,
  and the predicted classes and confidences of the reweighted source are those of the target, there is
  label shift.
- If it separates them well after the reweighting, there is another shift.

The weights change smoothly. Their constants were chosen on real suites, leave-one-suite-out
(docs/results/quality_headline.md).

If other models predict the same rows of source and target, their probabilities of the predicted
class tell more about a row than the model's own confidence. A logistic regression on the source
predicts from both whether the model is correct; what it predicts for the target corrects the
estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_counts, poisson_bootstrap_weights
from oodometer.estimators import _label_shift_em
from oodometer.estimators._optimal_transport import reduced_costs
from oodometer.estimators.cot import COT, TransportSummary, label_counts
from oodometer.estimators.importance_weighting import (
    RIDGE,
    domain_auc,
    domain_classifier_inputs,
    fit_logistic,
    subsample_rows,
)
from oodometer.estimators.label_shift import MLLS, require_labels

# Rows of source and target of the domain classifier, and target rows whose confidence is adjusted.
MAX_ROWS = 10_000
MAX_ADJUSTED_ROWS = 50_000
EPSILON = 1e-30
# AUROC above 0.5, in standard errors, at which source and target are as likely alike as not, and the
# width of the transition.
ALIKE_DEVIATIONS = 2.5
ALIKE_WIDTH = 0.7
# AUROC of the reweighted source at which COT has half of the weight; the share of the AUROC above
# 0.5 that may remain after reweighting, if this is more; and the width of the transition.
OTHER_SHIFT_AUC = 0.65
REMAINING_SHARE = 0.65
OTHER_SHIFT_WIDTH = 0.02
# Misfit of label shift, in standard errors, at which label shift has half of its weight, and the
# width of the transition.
MAX_MISFIT = 8.0
MISFIT_WIDTH = 2.0
# Confidence bins per predicted class in the test of fit, and expected rows of a bin that is used.
N_CONFIDENCE_BINS = 5
MIN_BIN_ROWS = 5
# Rows that are predicted as a class, below which the class has the bins of all rows.
MIN_QUANTILE_ROWS = 10
# With fewer rows in the smallest class of the source, or per class of the target on average, the
# class frequencies of MLLS count in proportion to the rows.
MIN_CLASS_ROWS = 100
# Estimates with a smaller weight are not resampled.
MIN_WEIGHT = 1e-3
# Exponent of the correction by other models.
OTHER_MODELS_EXPONENT = 0.5
# Probabilities are clipped to this distance from 0 and 1 before the logit.
MIN_PROBABILITY = 1e-4


@dataclass(frozen=True, eq=False, kw_only=True)
class RegimeSource:
    """Number of source rows per label, and outputs and labels of at most 10,000 rows.

    `label_shift` is the state that MLLS learns, `confidence_edges` are those of the test of fit. `correctness` are the coefficients of the logistic
    regression of correctness on the logits of confidence and mean probability of other models, and
    `correctness_covariance` (3, 3) is their covariance; both are None without other models.
    """

    counts: Ints
    label_shift: Ints
    log_probs: Floats
    labels: Ints
    classes: Ints
    confidences: Floats
    confidence_edges: Floats
    correctness: Floats | None = None
    correctness_covariance: Floats | None = None

    @property
    def prior(self) -> Floats:
        """Return the class frequencies of the source."""
        return np.asarray(self.counts / self.counts.sum())


@dataclass(frozen=True, eq=False, kw_only=True)
class RegimeSummary:
    """Estimates and weights of the regimes, and a sample of the rows for the bootstrap.

    `values` and `weights` are those of AC, AC after label shift and COT. `shares` are the class
    frequencies that MLLS finds, `auc_deviations` is the distance of `auc` from 0.5 in standard
    errors, and `misfit` is the misfit of label shift. `transport` is None if COT is not used: with two
    classes or with given decisions. `sample` has the probabilities, and `classes` the predicted classes, of some of
    the `n` target rows. `correctness` is the mean probability of being correct given other models,
    and `sample_correctness` that of the sampled rows; both are None without other models.
    `correctness_error` is the standard error of `correctness` that the source causes.
    """

    n: int
    values: Floats
    weights: Floats
    shares: Floats
    auc: float
    auc_deviations: float
    auc_reweighted: float
    misfit: float
    transport: TransportSummary | None
    sample: Floats
    classes: Ints
    correctness: float | None = None
    sample_correctness: Floats | None = None
    correctness_error: float = 0.0

    @property
    def factor(self) -> float:
        """Return the correction by other models; 1 without other models."""
        if self.correctness is None:
            return 1.0
        return float((self.correctness / self.values[0]) ** OTHER_MODELS_EXPONENT)

    @property
    def value(self) -> float:
        """Return the weighted average of the three estimates, corrected by other models."""
        return float(self.weights @ self.values) * self.factor

    def corrected_changes(self, changes: Floats, confidence: Floats, correctness: Floats) -> Floats:
        """Return the changes of `value`, to first order.

        `changes` are those of the average of the three estimates, `confidence` those of the mean
        confidence, and `correctness` those of the mean probability of being correct given other
        models.
        """
        assert self.correctness is not None
        relative = correctness / self.correctness - confidence / self.values[0]
        return np.asarray(changes * self.factor + OTHER_MODELS_EXPONENT * self.value * relative)


@dataclass(frozen=True)
class RegimeWeighting(StreamingEstimator[RegimeSource, RegimeSummary]):
    """Average of AC, AC after label shift and COT, weighted by the shift that was found.

    ``w₀ · AC + w₁ · AC(q) + w₂ · min(COT − bias, AC)``. AC(q) is the mean probability of the
    predicted class after the posterior was adjusted to the class frequencies q of MLLS, and bias is
    the expected error of COT without shift. With s the logistic function, A the cross-fitted AUROC
    of a domain classifier on log-probabilities, σ its standard error, and A(q) the AUROC after the
    source rows were reweighted to q, ``w₂ = s((A(q) − c) / 0.02)`` with
    ``c = max(0.65, 0.5 + 0.65 (A − 0.5))``,
    ``w₁ = (1 − w₂) · m · s((A − 0.5 − 2.5 σ) / (0.7 σ)) · s((8 − F) / 2)`` and
    ``w₀ = 1 − w₁ − w₂``. F is the misfit of label shift, ``max((A(q) − 0.5) / σ, 0) + (χ² − d) /
    sqrt(2 d)``, with χ² the distance of target and reweighted source in d degrees of freedom, over
    five bins of confidence for each predicted class. With fewer than 100 rows in the smallest class,
    m is the number of these rows divided by 100, otherwise 1.

    With predictions of other models on source and target, the average is multiplied by
    ``sqrt(J / AC)``. J is the mean probability that the model is correct, predicted from its
    confidence and from the mean probability that the other models give to its class.

    With two classes, AC replaces COT, because subgroups of tables rarely have the class frequencies
    of the source; with given decisions too, because COT does not apply to them. The confidence interval
    includes the sampling error of the three estimates and of J, but not that of the weights.

    Examples
    --------
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.2, 0.8]] * 100, labels=[0, 1] * 100)
    >>> target = Predictions.from_probs([[0.9, 0.1], [0.2, 0.8]] * 80)
    >>> round(RegimeWeighting().estimate(source, target).value, 3)
    0.85
    """

    name: ClassVar[str] = "regime"
    assumes: ClassVar[str] = (
        "the model is calibrated on the target; or only class frequencies changed; or other things "
        "changed and class frequencies did not (weighted by the shift that is found)"
    )
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "this project (docs/methods.md)"
    is_mergeable: ClassVar[bool] = False
    assumes_calibrated: ClassVar[bool] = True
    reads_probabilities: ClassVar[bool] = True
    compares_scores: ClassVar[bool] = True

    def learn(self, source: Predictions) -> RegimeSource:
        """Return the class frequencies and the rows of the domain classifier."""
        rows = subsample_rows(source, MAX_ROWS)
        coefficients = covariance = None
        if source.other_models:
            inputs = correctness_inputs(rows)
            coefficients = fit_logistic(inputs, rows.correct)
            covariance = coefficient_covariance(inputs, rows.correct, coefficients)
        return RegimeSource(
            counts=label_counts(source),
            label_shift=MLLS().learn(source),
            log_probs=rows.log_probs,
            labels=require_labels(rows),
            classes=rows.classes,
            confidences=rows.confidence,
            confidence_edges=confidence_edges(rows),
            correctness=coefficients,
            correctness_covariance=covariance,
        )

    def summarize(self, learned: RegimeSource, batch: Predictions) -> RegimeSummary:
        """Compute the estimates of the three regimes and their weights."""
        shares = MLLS().summarize(learned.label_shift, batch).shares
        confidence = float(batch.confidence.mean(dtype=np.float64))
        transport = None
        transported = confidence
        if batch.k > 2 and not batch.has_decisions:
            transport = COT().summarize(learned.counts, batch)
            transported = min(1 - transport.transport.cost - transport.bias, confidence)
        rows = subsample_rows(batch, MAX_ROWS)
        auc, auc_reweighted = domain_aucs(learned, shares, rows)
        auc_error = auc_standard_error(len(learned.labels), rows.n)
        misfit = label_shift_misfit(learned, shares, rows)
        misfit += max((auc_reweighted - 0.5) / auc_error, 0.0)
        weights = regime_weights(
            auc,
            auc_reweighted,
            misfit=misfit,
            auc_error=auc_error,
            class_rows=min(int(learned.counts.min()), batch.n / batch.k),
        )
        if transport is None:
            weights = np.array([weights[0] + weights[2], weights[1], 0.0])
        adjusted = confidence + _mean_adjustment(learned, shares, batch)
        stride = -(-batch.n // _label_shift_em.max_bootstrap_rows(batch.k))
        summary = RegimeSummary(
            n=batch.n,
            values=np.array([confidence, adjusted, transported]),
            weights=weights,
            shares=shares,
            auc=auc,
            auc_deviations=(auc - 0.5) / auc_error,
            auc_reweighted=auc_reweighted,
            misfit=misfit,
            transport=transport,
            sample=batch.probs[::stride].astype(np.float64),
            classes=batch.classes[::stride],
        )
        correctness = correctness_given_others(learned, batch)
        if correctness is None:
            return summary
        return replace(
            summary,
            correctness=float(correctness.mean()),
            sample_correctness=correctness[::stride],
            correctness_error=correctness_error(learned, batch, correctness),
        )

    def finish(self, learned: RegimeSource, total: RegimeSummary) -> Estimate:
        """Return the weighted average of the three estimates."""
        facts = {
            "weight_confidence": float(total.weights[0]),
            "weight_label_shift": float(total.weights[1]),
            "weight_transport": float(total.weights[2]),
            "confidence": float(total.values[0]),
            "confidence_after_label_shift": float(total.values[1]),
            "transport": float(total.values[2]),
            "regime_auc": total.auc,
            "regime_auc_deviations": total.auc_deviations,
            "regime_auc_reweighted": total.auc_reweighted,
            "label_shift_misfit": total.misfit,
        }
        if total.correctness is not None:
            facts["correctness_given_other_models"] = total.correctness
        return Estimate(total.value, facts=facts)

    def resample(
        self, learned: RegimeSource, total: RegimeSummary, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample target rows and source labels; keep the weights and the prices of COT."""
        rows = np.arange(len(total.sample))
        draws = poisson_bootstrap_weights(rng, (count, len(rows)))
        counts = bootstrap_counts(rng, learned.counts, count)
        priors = counts / learned.counts.sum()
        confidence = total.sample[rows, total.classes]
        transported: Floats = confidence
        by_source: Floats = np.zeros(count)
        if total.transport is not None:
            transport = total.transport.transport
            transported = 1 - reduced_costs(total.sample, transport.prices)[0]
            by_source = (total.transport.shares - priors) @ transport.prices
        columns = np.stack([confidence, np.zeros(len(rows)), transported], axis=1)
        changes = _label_shift_em.resample_mean_changes(columns, draws, total.n)
        changes[:, 2] += by_source
        if total.weights[1] > MIN_WEIGHT:
            changes[:, 1] = self._resample_adjusted(learned, total, draws, priors)
        result: Floats = changes @ total.weights
        if total.sample_correctness is not None:
            correctness = _label_shift_em.resample_mean_changes(
                total.sample_correctness[:, None], draws, total.n
            )[:, 0]
            correctness = correctness + rng.normal(0.0, total.correctness_error, size=count)
            result = total.corrected_changes(result, changes[:, 0], correctness)
        return np.asarray(total.value + result)

    def _resample_adjusted(
        self, learned: RegimeSource, total: RegimeSummary, draws: Ints, priors: Floats
    ) -> Floats:
        """Return the changes of the mean adjusted confidence."""
        shares = _label_shift_em.resample_class_shares(
            total.sample,
            total.n,
            solution=total.shares,
            prior=learned.prior,
            priors=priors,
            weights=draws,
        )
        original = adjusted_confidence(total.sample, total.classes, total.shares, learned.prior)
        by_rows = _label_shift_em.resample_mean_changes(original[:, None], draws, total.n)[:, 0]
        # A class that a replicate of the source does not contain keeps its frequency.
        used = np.where(priors > 0, priors, learned.prior)
        means = [
            adjusted_confidence(total.sample, total.classes, one, prior).mean()
            for one, prior in zip(shares, used, strict=True)
        ]
        return np.asarray(np.array(means) - original.mean() + by_rows)

    def row_values(self, learned: RegimeSource, total: RegimeSummary, rows: Predictions) -> Floats:
        """Return the weighted average of what each row contributes to the three estimates."""
        probs = rows.probs
        confidence = rows.confidence.astype(np.float64)
        transported: Floats = confidence
        if total.transport is not None:
            transported = 1 - reduced_costs(probs, total.transport.transport.prices)[0]
        prior = learned.prior
        adjusted = adjusted_confidence(probs, rows.classes, total.shares, prior)
        if total.weights[1] > MIN_WEIGHT:
            slope = adjusted_confidence_slope(probs, rows.classes, total.shares, prior)
            adjusted = adjusted + _label_shift_em.row_influence(
                probs, solution=total.shares, prior=prior, slope=slope
            )
        columns = np.stack([confidence, adjusted, transported], axis=1)
        values: Floats = columns @ total.weights
        correctness = correctness_given_others(learned, rows)
        if correctness is not None and total.correctness is not None:
            values = total.corrected_changes(values, confidence, correctness)
        return np.asarray(values)


def regime_weights(
    auc: float, auc_reweighted: float, *, misfit: float, auc_error: float, class_rows: float
) -> Floats:
    """Return the weights of AC, AC after label shift and COT; they sum to 1.

    >>> regime_weights(0.5, 0.5, misfit=0, auc_error=0.01, class_rows=200).round(2)
    array([0.97, 0.03, 0.  ])
    >>> regime_weights(0.7, 0.5, misfit=0, auc_error=0.01, class_rows=200).round(2)
    array([0.02, 0.98, 0.  ])
    >>> regime_weights(0.7, 0.6, misfit=20, auc_error=0.01, class_rows=200).round(2)
    array([0.92, 0.  , 0.08])
    >>> regime_weights(0.7, 0.7, misfit=20, auc_error=0.01, class_rows=200).round(2)
    array([0.08, 0.  , 0.92])
    """
    limit = max(OTHER_SHIFT_AUC, 0.5 + REMAINING_SHARE * (auc - 0.5))
    other = _logistic((auc_reweighted - limit) / OTHER_SHIFT_WIDTH)
    deviations = (auc - 0.5) / auc_error
    label = _logistic((deviations - ALIKE_DEVIATIONS) / ALIKE_WIDTH)
    label *= (1 - other) * min(1.0, class_rows / MIN_CLASS_ROWS)
    label *= _logistic((MAX_MISFIT - misfit) / MISFIT_WIDTH)
    return np.array([1 - label - other, label, other])


def _logistic(x: float) -> float:
    return 0.5 * (1 + math.tanh(0.5 * x))


def auc_standard_error(n_source: int, n_target: int) -> float:
    """Return the standard error of an AUROC of 0.5."""
    return math.sqrt((n_source + n_target + 1) / (12 * n_source * n_target))


def domain_aucs(learned: RegimeSource, shares: Floats, rows: Predictions) -> tuple[float, float]:
    """Return the AUROC of the domain classifier, and that after the source rows were reweighted."""
    inputs = domain_classifier_inputs(
        np.concatenate([learned.log_probs, rows.log_probs]).astype(np.float64)
    )
    is_target = np.arange(len(inputs)) >= len(learned.labels)
    auc = domain_auc(inputs, is_target)
    weights = class_ratios(shares, learned.prior)[learned.labels]
    if not weights.any():
        return auc, 1.0
    weights = np.concatenate([weights / weights.mean(), np.ones(rows.n)])
    return auc, domain_auc(inputs, is_target, weights)


def label_shift_misfit(learned: RegimeSource, shares: Floats, rows: Predictions) -> float:
    """Return by how many standard deviations label shift does not explain the target's outputs.

    Rows are counted by predicted class and confidence. The χ² distance of the counts of the target
    and of the reweighted source has about `d` degrees of freedom, the number of bins less the number
    of class frequencies. It is returned as ``(χ² − d) / sqrt(2 d)``.
    """
    weights = class_ratios(shares, learned.prior)[learned.labels]
    if not weights.any():
        return 0.0
    weights = weights / weights.sum()
    n_bins = len(learned.prior) * N_CONFIDENCE_BINS
    source_bins, bins = (
        classes * N_CONFIDENCE_BINS
        + (confidences[:, None] > learned.confidence_edges[classes]).sum(axis=1)
        for classes, confidences in (
            (learned.classes, learned.confidences),
            (rows.classes, rows.confidence),
        )
    )
    expected = np.bincount(source_bins, weights, n_bins)
    observed = np.bincount(bins, minlength=n_bins) / rows.n
    pooled = (expected + observed) / 2
    variance = pooled * (1 - pooled) / rows.n
    variance += np.bincount(source_bins, weights**2, n_bins) * (1 - expected)
    used = pooled * rows.n >= MIN_BIN_ROWS
    chi_squared = ((observed - expected)[used] ** 2 / variance[used]).sum()
    degrees = max(int(np.count_nonzero(used)) - len(learned.prior), 1)
    return float((chi_squared - degrees) / math.sqrt(2 * degrees))


def confidence_edges(rows: Predictions) -> Floats:
    """Return the inner edges (k, 4) of the bins of confidence for each predicted class.

    They are quintiles of the rows that are predicted as the class, and of all rows if fewer than
    ten are.
    """
    levels = np.arange(1, N_CONFIDENCE_BINS) / N_CONFIDENCE_BINS
    edges = np.tile(np.quantile(rows.confidence, levels), (rows.k, 1))
    for class_, count in enumerate(rows.class_counts.tolist()):
        if count >= MIN_QUANTILE_ROWS:
            edges[class_] = np.quantile(rows.confidence[rows.classes == class_], levels)
    return edges


def _mean_adjustment(learned: RegimeSource, shares: Floats, batch: Predictions) -> float:
    """Return the mean difference of adjusted and unadjusted confidences, from at most 50,000 rows."""
    rows = subsample_rows(batch, MAX_ADJUSTED_ROWS)
    adjusted = adjusted_confidence(rows.probs, rows.classes, shares, learned.prior)
    return float((adjusted - rows.confidence).mean(dtype=np.float64))


def class_ratios(shares: Floats, prior: Floats) -> Floats:
    """Return the ratio of the class frequencies of target and source; 0 for unknown classes."""
    return np.divide(shares, prior, out=np.zeros(len(prior)), where=prior > 0)


def adjusted_confidence(probs: Floats, classes: Ints, shares: Floats, prior: Floats) -> Floats:
    """Return each row's probability of the predicted class, adjusted to new class frequencies."""
    ratios = class_ratios(shares, prior)
    densities = np.maximum(probs @ ratios, EPSILON)
    return np.asarray(probs[np.arange(len(probs)), classes] * ratios[classes] / densities)


def adjusted_confidence_slope(
    probs: Floats, classes: Ints, shares: Floats, prior: Floats
) -> Floats:
    """Return the derivatives of the mean adjusted confidence by the class frequencies."""
    ratios = class_ratios(shares, prior)
    inverse = np.divide(1.0, prior, out=np.zeros(len(prior)), where=prior > 0)
    densities = np.maximum(probs @ ratios, EPSILON)
    top = probs[np.arange(len(probs)), classes] / densities
    direct = np.bincount(classes, top, minlength=len(prior)) * inverse
    indirect = (top * ratios[classes] / densities) @ probs * inverse
    return np.asarray((direct - indirect) / len(probs))


def correctness_inputs(rows: Predictions) -> Floats:
    """Return the logits of confidence and mean probability of other models, and a column of ones."""
    index = np.arange(rows.n)
    others = [
        other.probs[index, rows.classes] if other.has_probs else other.classes == rows.classes
        for other in rows.other_models
    ]
    return np.stack(
        [_logit(rows.confidence), _logit(np.mean(others, axis=0)), np.ones(rows.n)], axis=1
    )


def _logit(probs: Floats) -> Floats:
    clipped = np.clip(probs.astype(np.float64), MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def correctness_given_others(learned: RegimeSource, rows: Predictions) -> Floats | None:
    """Return the probability that each row is correct; None without other models."""
    if learned.correctness is None or not rows.other_models:
        return None
    log_odds = correctness_inputs(rows) @ learned.correctness
    return np.asarray(0.5 * (1 + np.tanh(0.5 * log_odds)))


def coefficient_covariance(inputs: Floats, correct: Bools, coefficients: Floats) -> Floats:
    """Return the covariance of the coefficients over samples of the source (sandwich estimator)."""
    probs = 0.5 * (1 + np.tanh(0.5 * (inputs @ coefficients)))
    hessian = (inputs * (probs * (1 - probs))[:, None]).T @ inputs
    # The penalty of fit_logistic. If all rows are correct, the intercept has no curvature.
    hessian += np.diag([1.0, 1.0, RIDGE * len(inputs)])
    influence = np.linalg.solve(hessian, (inputs * (correct - probs)[:, None]).T)
    return np.asarray(influence @ influence.T)


def correctness_error(learned: RegimeSource, rows: Predictions, correctness: Floats) -> float:
    """Return the standard error of the mean of `correctness` that the source causes."""
    assert learned.correctness_covariance is not None
    slope = (correctness * (1 - correctness)) @ correctness_inputs(rows) / rows.n
    return math.sqrt(slope @ learned.correctness_covariance @ slope)
