"""Calibration of probabilities: temperature scaling (Guo et al., ICML 2017), isotonic, beta, Platt.

A temperature divides all logits. Beyond that, each class can have a map from its probability to a
calibrated one (one against the rest), after which the rows are divided by their sum. Isotonic
regression (Zadrozny & Elkan, KDD 2002) fits a non-decreasing step function, which is made continuous
by centering (Oron & Flournoy, 2017). Beta calibration (Kull et al., AISTATS 2017) fits the function
1 / (1 + exp(-(a log p − b log(1 − p) + c))), and Platt scaling (Platt, 1999) the function
1 / (1 + exp(-(a log(p / (1 − p)) + c))). With many classes, only the probability of the predicted
class is mapped, and the others share the rest in proportion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np

from oodometer.core import softmax_kernels
from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions, RowStatistics
from oodometer.core.stats import equal_mass_edges, rng_for

# Bounds of the temperature; `Temperature.at_bound` tells whether a fit ended at one of them.
MIN_TEMPERATURE = 0.05
MAX_TEMPERATURE = 20.0
# The first Newton steps use about this many rows; the last steps use all rows.
WARM_START_ROWS = 20_000
MAX_NEWTON_STEPS = 60
CalibrationMethod = Literal["auto", "temperature", "isotonic", "beta", "platt", "none"]
CALIBRATION_METHODS: tuple[CalibrationMethod, ...] = (
    "auto", "temperature", "isotonic", "beta", "platt", "none",
)  # fmt: skip
# A class with fewer source rows is calibrated by Platt scaling, which has only two parameters.
MIN_CLASS_ROWS = 200
# With two classes and at least this many rows, isotonic regression is used without a test: its
# sampling error is then small, and it is right where a temperature is slightly wrong, such as at the
# threshold of the decisions or at small probabilities (benchmarks/quality_no_shift.py).
MIN_ISOTONIC_ROWS = 5000
# With more classes, only the probability of the predicted class is calibrated.
MAX_MAPPED_CLASSES = 20
# Maximum number of rows that calibrators are fitted to; of more rows, every j-th is used.
MAX_FIT_ROWS = 200_000
N_FOLDS = 5
# The scores are calibrated further if a test of their calibration has a smaller p-value.
SIGNIFICANCE_LEVEL = 0.01
N_TEST_BINS = 10
# Maximum number of rows of the test; of more rows, every j-th is used. With this many, gaps below a
# third of a point are found.
MAX_TEST_ROWS = 100_000
MIN_PROBABILITY = 1e-9
# Strength of the penalty that pulls parametric maps towards the identity, in rows.
IDENTITY_PENALTY = 1.0
MAX_LOGISTIC_STEPS = 50


@dataclass(frozen=True)
class Temperature:
    """Fitted temperature, with the negative log-likelihood per row before and after the fit."""

    value: float
    nll_before: float
    nll_after: float
    converged: bool
    at_bound: bool


def fit_temperature(source: Predictions) -> Temperature:
    """Return the maximum-likelihood temperature, argmin_T Σ −log softmax(z/T)_y for logits z.

    The negative log-likelihood is convex in 1/T, so Newton steps within a shrinking bracket find
    the minimum.
    """
    if source.scores is None:
        raise NotApplicable(f"a temperature needs probabilities or logits, not {source.score_type}")
    if source.labels is None:
        raise InputError("A temperature is fitted to labels; the source has none.")
    sample = source.rows(slice(None, None, max(source.n // WARM_START_ROWS, 1)))
    start = 1.0 / MIN_TEMPERATURE
    if _nll_derivatives(sample, start)[1] > 0:
        start, _ = _newton(sample, 1.0, tolerance=1e-4)
    inverse, converged = _newton(source, start, tolerance=1e-7)
    at_lower_bound = inverse >= 1 / MIN_TEMPERATURE * (1 - 1e-6)
    at_upper_bound = inverse <= 1 / MAX_TEMPERATURE * (1 + 1e-6)
    return Temperature(
        value=1.0 / inverse,
        nll_before=_nll_derivatives(source, 1.0)[0],
        nll_after=_nll_derivatives(source, inverse)[0],
        converged=converged,
        at_bound=at_lower_bound or at_upper_bound,
    )


def _nll_derivatives(source: Predictions, inverse: float) -> tuple[float, float, float]:
    labels = cast(Ints, source.labels)
    return softmax_kernels.nll_derivatives(*source.require_scores("a temperature"), labels, inverse)


def _newton(source: Predictions, inverse: float, *, tolerance: float) -> tuple[float, bool]:
    """Return the 1/T at which the derivative is zero, and whether the iteration converged.

    If the model classifies every row correctly, the derivative is negative for every 1/T and rounds
    to zero when 1/T is large. A derivative of zero therefore moves the bracket to larger 1/T.
    """
    low = 1.0 / MAX_TEMPERATURE
    high = 1.0 / MIN_TEMPERATURE
    for _ in range(MAX_NEWTON_STEPS):
        _, slope, curvature = _nll_derivatives(source, inverse)
        if slope <= 0:
            low = inverse
        else:
            high = inverse
        candidate = inverse - slope / curvature if curvature > 0 else np.inf * -slope
        following = candidate if low < candidate < high else (low + high) / 2
        if abs(following - inverse) <= tolerance * inverse or high - low <= tolerance * low:
            return float(following), True
        inverse = float(following)
    return inverse, False


def bin_reliability(
    confidence: Floats, correct: Floats, bins: int = 10
) -> tuple[Floats, Floats, Floats]:
    """Return the share of rows, mean confidence and accuracy of equal-width bins of confidence."""
    index = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    counts = np.bincount(index, minlength=bins)
    divisors = np.maximum(counts, 1)
    mean = np.bincount(index, weights=confidence, minlength=bins) / divisors
    accuracy = np.bincount(index, weights=correct, minlength=bins) / divisors
    return counts / len(confidence), mean, accuracy


def calibration_error(source: Predictions, bins: int = 10) -> float:
    """Return the expected calibration error: mean |confidence − accuracy| over equal-width bins.

    >>> calibration_error(Predictions.from_probs([[0.9, 0.1], [0.1, 0.9]], labels=[0, 0]))
    0.4
    """
    share, mean, accuracy = bin_reliability(source.confidence, source.correct.astype(float), bins)
    return float(np.dot(share, np.abs(mean - accuracy)))


# Beyond temperature scaling ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class IsotonicMap:
    """Non-decreasing map of probabilities, linear between the points (x, y), constant outside."""

    x: Floats
    y: Floats

    @classmethod
    def fit(cls, probs: Floats, positive: Bools) -> IsotonicMap:
        """Fit the map to rows that have the class (`positive`) and rows that do not.

        Each step of the isotonic regression becomes one point, at the mean probability of its rows
        (centered isotonic regression). Values of exactly 0 or 1 are moved inwards by half a row,
        because no finite number of rows shows that a class is impossible.
        """
        from scipy.optimize import isotonic_regression

        order = np.argsort(probs, kind="stable")
        values, starts, counts = np.unique(probs[order], return_index=True, return_counts=True)
        means = np.add.reduceat(positive[order].astype(np.float64), starts) / counts
        steps = isotonic_regression(means, weights=counts.astype(np.float64))
        firsts = steps.blocks[:-1]
        rows_per_step = np.add.reduceat(counts, firsts)
        centers = np.add.reduceat(values.astype(np.float64) * counts, firsts) / rows_per_step
        bound = 0.5 / (len(probs) + 1)
        return cls(centers, np.clip(steps.x[firsts], bound, 1 - bound))

    def __call__(self, probs: Floats) -> Floats:
        return np.interp(probs, self.x, self.y)


@dataclass(frozen=True)
class LogisticMap:
    """Map 1 / (1 + exp(-(a log p − b log(1 − p) + c))); Platt scaling is the case a = b."""

    a: float
    b: float
    c: float

    @classmethod
    def fit(cls, probs: Floats, positive: Bools, *, is_platt: bool) -> LogisticMap:
        """Fit the map by penalized maximum likelihood; the penalty pulls it to the identity.

        If a slope would be negative, it is set to 0 and the other parameters are fitted again.
        """
        logs, complements = _log_odds_parts(probs)
        columns = [logs - complements] if is_platt else [logs, -complements]
        is_used = np.ones(len(columns), dtype=bool)
        while True:
            used = [column for column, keep in zip(columns, is_used, strict=True) if keep]
            slopes = np.zeros(len(columns))
            *fitted, intercept = _fit_logistic(used, positive)
            slopes[is_used] = fitted
            if (slopes >= 0).all():
                return cls(float(slopes[0]), float(slopes[-1]), float(intercept))
            is_used &= slopes > 0

    def __call__(self, probs: Floats) -> Floats:
        logs, complements = _log_odds_parts(probs)
        odds = self.a * logs - self.b * complements + self.c
        return np.asarray(1 / (1 + np.exp(-np.clip(odds, -50, 50))))


def _fit_logistic(columns: list[Floats], positive: Bools) -> Floats:
    """Return the slopes and the intercept of a logistic regression, with slopes pulled to 1."""
    features = np.column_stack([*columns, np.ones(len(positive))])
    prior = np.array([*[1.0] * len(columns), 0.0])
    weights = prior.copy()
    for _ in range(MAX_LOGISTIC_STEPS):
        fitted = 1 / (1 + np.exp(-np.clip(features @ weights, -50, 50)))
        gradient = features.T @ (fitted - positive) + IDENTITY_PENALTY * (weights - prior)
        curvature = (features * (fitted * (1 - fitted))[:, None]).T @ features
        step = np.linalg.solve(curvature + IDENTITY_PENALTY * np.eye(len(prior)), gradient)
        weights = weights - step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-8:
            break
    return weights


def _log_odds_parts(probs: Floats) -> tuple[Floats, Floats]:
    """Return log p and log(1 − p) in float64, with p limited to an open interval."""
    inner = np.clip(probs.astype(np.float64), MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.log(inner), np.log1p(-inner)


ProbabilityMap = IsotonicMap | LogisticMap


@dataclass(frozen=True, eq=False)
class ClassCalibrator:
    """Fitted calibration of the probabilities of all classes, or of the predicted class only.

    `class_maps` has one map per class; it is empty with many classes. With two classes, only the
    second class has a map. `top_map` maps the probability of the predicted class.
    """

    class_maps: tuple[ProbabilityMap, ...] = ()
    top_map: ProbabilityMap | None = None

    @property
    def method(self) -> str:
        """Return "platt" if all maps are those of Platt scaling, because classes have few rows."""
        maps = [*self.class_maps, *(() if self.top_map is None else (self.top_map,))]
        if any(isinstance(fit, IsotonicMap) for fit in maps):
            return "isotonic"
        is_platt = all(isinstance(fit, LogisticMap) and fit.a == fit.b for fit in maps)
        return "platt" if is_platt else "beta"

    def __call__(self, rows: Predictions) -> Predictions:
        """Return the rows with calibrated probabilities; the predicted classes do not change."""
        probs: Floats = rows.probs.astype(np.float64)
        if rows.k == 2 and self.class_maps:
            second = self.class_maps[0](probs[:, 1])
            probs = np.column_stack([1 - second, second])
        elif self.class_maps:
            mapped = [fit(probs[:, j]) for j, fit in enumerate(self.class_maps)]
            probs = np.column_stack(mapped)
            probs /= probs.sum(axis=1, keepdims=True)
        if self.top_map is not None:
            probs = _rescale_class(probs, rows.classes, self.top_map)
        return _with_calibrated_probs(rows, probs)


def _with_calibrated_probs(rows: Predictions, probs: Floats) -> Predictions:
    """Return rows with other probabilities; the predicted classes do not change."""
    known = RowStatistics(classes=rows.classes, correct=rows.correct if rows.is_labelled else None)
    return replace(
        rows,
        score_type="probs",
        scores=probs,
        temperature=1.0,
        precomputed=known,
        class_rule="decisions" if rows.has_decisions else "calibrated",
    )


def _rescale_class(probs: Floats, classes: Ints, top_map: ProbabilityMap) -> Floats:
    """Map the probability of one class per row, and scale the others to the rest."""
    index = np.arange(len(probs))
    before = np.clip(probs[index, classes], MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    after = top_map(before)
    scaled = probs * ((1 - after) / (1 - before))[:, None]
    scaled[index, classes] = after
    return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))


def fit_class_calibrator(source: Predictions, method: str) -> ClassCalibrator:
    """Fit a calibrator to labelled rows; `method` is "isotonic", "beta" or "platt".

    A class with fewer than 200 rows is calibrated by Platt scaling.
    """
    source = source.rows(slice(None, None, -(-source.n // MAX_FIT_ROWS)))
    probs = source.probs.astype(np.float64)
    maps: tuple[ProbabilityMap, ...] = ()
    assert source.labels is not None
    if source.k == 2:
        return ClassCalibrator((_fit_map(probs[:, 1], source.labels == 1, method),))
    if source.k <= MAX_MAPPED_CLASSES:
        maps = tuple(_fit_map(probs[:, j], source.labels == j, method) for j in range(source.k))
        source = ClassCalibrator(maps)(source)
    return ClassCalibrator(maps, _fit_map(source.confidence, source.correct, method))


def _fit_map(probs: Floats, positive: Bools, method: str) -> ProbabilityMap:
    n_rarer = min(np.count_nonzero(positive), np.count_nonzero(~positive))
    if method == "platt" or n_rarer < MIN_CLASS_ROWS:
        return LogisticMap.fit(probs, positive, is_platt=True)
    if method == "beta":
        return LogisticMap.fit(probs, positive, is_platt=False)
    return IsotonicMap.fit(probs, positive)


def cross_fit(source: Predictions, method: str, *, seed: int) -> Predictions:
    """Return source rows with calibrated probabilities, fitted on the other rows.

    The rows are divided into five folds. Rows beyond the maximum that calibrators are fitted to are
    left out.
    """
    source = source.rows(slice(None, None, -(-source.n // MAX_FIT_ROWS)))
    probs = np.empty((source.n, source.k))
    for held_out in _folds(source.n, seed):
        training = source.rows(~held_out)
        probs[held_out] = fit_class_calibrator(training, method)(source.rows(held_out)).probs
    return _with_calibrated_probs(source, probs)


def _folds(n: int, seed: int) -> Iterator[Bools]:
    fold = rng_for(seed, "calibration folds").permutation(n) % min(N_FOLDS, n)
    for number in range(min(N_FOLDS, n)):
        yield fold == number


@dataclass(frozen=True, eq=False)
class Calibration:
    """Calibration of the probabilities that some methods read as chances of being correct.

    Parameters
    ----------
    method : str
        "none", "temperature", "isotonic", "beta" or "platt".
    calibrator : ClassCalibrator or None
        Fitted calibrator, applied after temperature scaling; None if there is none.
    source : Predictions
        Source rows with cross-fitted calibrated probabilities.
    """

    method: str
    calibrator: ClassCalibrator | None
    source: Predictions

    @property
    def gap(self) -> float:
        """Return the mean calibrated confidence minus the accuracy, on the source."""
        return float((self.source.confidence - self.source.correct).mean())

    @property
    def gap_error(self) -> float:
        """Return the standard error of the gap."""
        difference = self.source.confidence - self.source.correct
        return float(difference.std() / np.sqrt(self.source.n))

    def without_source(self) -> Calibration:
        """Return the calibration without all source rows but one, to send to workers."""
        return replace(self, source=self.source.rows(slice(1)))

    @property
    def is_identity(self) -> bool:
        """Return whether temperature-scaled rows are used as they are."""
        return self.calibrator is None and self.method != "none"

    def __call__(self, rows: Predictions) -> Predictions:
        """Return calibrated rows; `rows` are divided by the temperature."""
        if self.calibrator is None:
            return rows.at_temperature(1.0) if self.method == "none" else rows
        return self.calibrator(rows) if rows.has_probs else rows


def calibrate(source: Predictions, method: CalibrationMethod, *, seed: int) -> Calibration:
    """Fit the calibration of a labelled source whose scores are already divided by a temperature.

    With "auto", isotonic regression is used if there are two classes and many rows. Otherwise the
    scores are calibrated further only if a test shows that they are not calibrated; then isotonic
    regression or beta calibration is used, whichever has the lower cross-fitted log loss.
    """
    if method == "none":
        return Calibration("none", None, source.at_temperature(1.0))
    unchanged = Calibration("temperature", None, source)
    if method == "temperature" or source.labels is None or not source.has_probs:
        return unchanged
    if method == "auto" and _has_many_binary_rows(source):
        method = "isotonic"
    if method != "auto":
        calibrator = fit_class_calibrator(source, method)
        return Calibration(calibrator.method, calibrator, cross_fit(source, method, seed=seed))
    if calibration_p_value(source) >= SIGNIFICANCE_LEVEL or source.n < 2 * N_FOLDS:
        return unchanged
    candidates = {name: cross_fit(source, name, seed=seed) for name in ("isotonic", "beta")}
    best = min(candidates, key=lambda name: _log_loss(candidates[name]))
    calibrator = fit_class_calibrator(source, best)
    return Calibration(calibrator.method, calibrator, candidates[best])


def _has_many_binary_rows(source: Predictions) -> bool:
    """Return whether there are two classes, and enough rows of both for isotonic regression."""
    if source.k != 2 or source.n < MIN_ISOTONIC_ROWS or source.labels is None:
        return False
    return int(np.bincount(source.labels, minlength=2).min()) >= MIN_CLASS_ROWS


def _log_loss(rows: Predictions) -> float:
    assert rows.labels is not None
    probs = np.take_along_axis(rows.probs, rows.labels[:, None].astype(np.int64), axis=1)
    return float(-np.log(np.maximum(probs, MIN_PROBABILITY)).mean())


def calibration_p_value(rows: Predictions) -> float:
    """Return the p-value of the hypothesis that the probabilities of labelled rows are calibrated.

    The confidence, and with few classes the probability of each class, are compared with the
    outcomes in ten bins of equal mass by a χ² test (Hosmer & Lemeshow, 1980). The smallest of the
    p-values is multiplied by their number.

    >>> rng = np.random.default_rng(0)
    >>> second = rng.random(4000)
    >>> probs = np.column_stack([1 - second, second])
    >>> labels = (rng.random(4000) < second).astype(int)
    >>> calibration_p_value(Predictions.from_probs(probs, labels=labels)) > 0.05
    True
    >>> calibration_p_value(Predictions.from_probs(probs, labels=1 - labels)) < 1e-9
    True
    """
    rows = rows.rows(slice(None, None, -(-rows.n // MAX_TEST_ROWS)))
    tests = [_bin_test(rows.confidence.astype(np.float64), rows.correct)]
    if rows.labels is not None and rows.k <= MAX_MAPPED_CLASSES:
        probs = rows.probs.astype(np.float64)
        classes = (1,) if rows.k == 2 else range(rows.k)
        tests += [_bin_test(probs[:, j], rows.labels == j) for j in classes]
    return min(1.0, min(tests) * len(tests))


def _bin_test(probs: Floats, positive: Bools) -> float:
    """Return the p-value of a χ² test of observed and expected counts in bins of equal mass."""
    from scipy.special import chdtrc

    edges = equal_mass_edges(probs, N_TEST_BINS)
    index = np.searchsorted(edges, probs, side="right")
    n_bins = len(edges) + 1
    excess = np.bincount(index, positive - probs, n_bins)
    variance = np.bincount(index, probs * (1 - probs), n_bins)
    # A bin with less variance than this has too few expected outcomes for the χ² approximation.
    is_usable = variance >= 5.0
    overall = float(excess.sum() ** 2 / max(variance.sum(), 1e-12))
    p_values = [float(chdtrc(1, overall))] if variance.sum() >= 5.0 else [1.0]
    if np.count_nonzero(is_usable) > 1:
        statistic = float((excess[is_usable] ** 2 / variance[is_usable]).sum())
        p_values.append(float(chdtrc(int(np.count_nonzero(is_usable)), statistic)))
    return min(1.0, min(p_values) * len(p_values))
