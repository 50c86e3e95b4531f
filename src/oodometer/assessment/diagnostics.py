"""Diagnostics: checks that warn when an estimate may not be reliable.

The thresholds are set so that, without shift, at most a few per cent of the diagnostics give a
warning. docs/results/quality_headline.md shows how often each diagnostic gives a warning on real
data, and how large the errors of the estimates are in these cases. The status "ok" means that a
diagnostic did not find the problem that it checks for. It does not prove that an estimate is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from oodometer.core.array_types import Bools, Floats
from oodometer.core.calibration import Calibration, Temperature
from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_percent
from oodometer.core.predictions import Predictions
from oodometer.core.results import Diagnostic, Estimate, status_by_limits
from oodometer.core.stats import sorted_ks_distance, wilson_interval
from oodometer.estimators.atc import FalselyIdentified, falsely_identified

# Without shift, these methods give similar estimates. The estimates of other methods may differ
# even without shift, for example if the scores are not calibrated.
COMPARED_METHODS = ("atc-mc", "doc", "im", "cot")
# For each diagnostic, the smallest value with status "warning" and the smallest with "critical".
STATUS_LIMITS = {
    "score_distance": (0.1, 0.3),
    "domain_auc": (0.6, 0.8),
    "outside_support": (0.01, 0.05),
    "beyond_support": (0.03, 0.1),
    "class_shift": (0.1, 0.3),
    "class_frequency_ratio": (1.5, 3.0),
    "class_collapse": (0.6, 0.9),
    "estimator_spread": (0.1, 0.2),
    "calibration_gap": (0.01, 0.03),
}
# Level of the test of changed class shares, divided by the number of classes.
CLASS_RATIO_LEVEL = 0.01
OUTSIDE_SUPPORT_LEVEL = 0.01
# Number of standard errors that is exceeded by chance in 1 % of cases.
Z99 = 2.576
# Methods that estimate a threshold from the errors on the source.
THRESHOLD_METHODS = ("atc-mc", "atc-ne", "atc-class", "atc-near", "cott")
# ATC is reported as biased if its error on the labelled target rows is at least this fraction.
MIN_ATC_BIAS = 0.02


@dataclass(frozen=True, eq=False)
class LabelledConfidences:
    """Confidence of each labelled target row, and whether the model is correct on it."""

    confidence: Floats
    correct: Bools


@dataclass(frozen=True)
class DiagnosticContext:
    """Inputs of every diagnostic; `source` and `target` are scaled by the same temperature.

    `labelled` are the target rows with labels; None if there are none.
    """

    source: Predictions
    target: Predictions
    estimates: Sequence[Estimate]
    temperature: Temperature | None
    labelled: LabelledConfidences | None = None
    calibration: Calibration | None = None


def _facts_by_method(context: DiagnosticContext, name: str) -> dict[str, float]:
    """Return the named fact of each method that reports it; raise NotApplicable if none does."""
    facts = {e.method: e.facts[name] for e in context.estimates if name in e.facts}
    if not facts:
        raise NotApplicable(f"no method that reports {name} was run")
    return facts


def _first_fact(context: DiagnosticContext, name: str) -> float:
    return next(iter(_facts_by_method(context, name).values()))


def estimate_range(estimates: Sequence[Estimate]) -> float:
    """Return the difference between the highest and the lowest estimate of `COMPARED_METHODS`.

    >>> estimates = [Estimate(0.75, "atc-mc"), Estimate(0.5, "doc"), Estimate(0.99, "ac")]
    >>> estimate_range(estimates)
    0.25
    """
    compared = [e.value for e in estimates if e.method in COMPARED_METHODS]
    values = compared if len(compared) > 1 else [e.value for e in estimates]
    return max(values) - min(values)


def confidence_distance(source: Predictions, target: Predictions) -> float:
    """Return the Kolmogorov–Smirnov distance between the confidences of source and target."""
    # The source is sorted once for all targets.
    ordered = source.cached("sorted confidence", lambda: np.sort(source.confidence))
    return sorted_ks_distance(ordered, np.sort(target.confidence))


def source_below_chance(context: DiagnosticContext) -> Diagnostic:
    """Check whether the accuracy on the source is significantly below 1/k, that of guessing.

    Decisions by a threshold may be right less often than guesses on purpose, if one class is rare.
    """
    source = context.source
    n_correct = int(np.count_nonzero(source.correct))
    _, high = wilson_interval(n_correct, source.n, z=Z99)
    if source.has_decisions or high >= 1 / source.k:
        raise NotApplicable("the accuracy on the source is not below chance")
    value = n_correct / source.n
    accuracy = f"{format_percent(value)} %"
    advice = "check the order of the classes and the labels of the source"
    if source.k == 2:
        second = 1 if source.class_names is None else source.class_names[1]
        advice = (
            "check the scores and the labels of the source; with one column of probabilities, it "
            f"must be the probability of the second class ({second})"
        )
    return Diagnostic(
        "source_below_chance",
        value,
        "critical",
        f"accuracy on the source; {accuracy} is far below chance ({format_percent(1 / source.k)} %), "
        "so the scores probably do not belong to the classes of the labels",
        f"the accuracy on the source is {accuracy}, far below chance; {advice}",
    )


def score_distance(context: DiagnosticContext) -> Diagnostic:
    """Compute the Kolmogorov–Smirnov distance between the confidences of source and target."""
    source, target = context.source, context.target
    value = confidence_distance(source, target)
    noise = 1.63 * float(np.sqrt(1 / source.n + 1 / target.n))
    return Diagnostic(
        "score_distance",
        value,
        "ok" if value <= noise else status_by_limits(value, *STATUS_LIMITS["score_distance"]),
        "largest gap between the distributions of confidence on source and target; the larger it "
        "is, the more an estimate depends on its assumption",
        "confirm the estimate on some labelled target rows",
    )


def outside_support(context: DiagnosticContext) -> Diagnostic:
    """Compute the share of target rows whose confidence is outside the range of the source."""
    source, target = context.source.confidence, context.target.confidence
    value = float(((target < source.min()) | (target > source.max())).mean())
    is_noise = value * len(target) < _rows_outside_by_chance(len(source), len(target))
    return Diagnostic(
        "outside_support",
        value,
        "ok" if is_noise else status_by_limits(value, *STATUS_LIMITS["outside_support"]),
        "share of the target whose confidence is outside the range of the source, where the "
        "accuracy is unknown",
        "inspect these rows, and label some: the source may lack them",
    )


def _rows_outside_by_chance(n_source: int, n_target: int) -> float:
    """Return the number of target rows outside the range of the source that chance exceeds rarely.

    Without shift, the n_s + n_t rows are exchangeable, so at least j target rows are outside with a
    probability of at most (j + 1) rʲ, with r = n_t / (n_s + n_t). It is 1 % for the returned j.
    """
    decay = np.log1p(n_source / n_target)
    count = 1.0
    for _ in range(20):  # a fixed point; the error decreases quickly
        count = float((np.log(count + 1) - np.log(OUTSIDE_SUPPORT_LEVEL)) / decay)
    return count


def borrowed_bins(context: DiagnosticContext) -> Diagnostic:
    """Compute the share of target rows that fall into IM bins without source rows."""
    value = _first_fact(context, "borrowed_share")
    return Diagnostic(
        "borrowed_bins",
        value,
        "ok" if value < 0.01 else "warning",
        "share of the target in bins of confidence without source rows; im uses the accuracy of "
        "the nearest bin that has some",
        "disregard im, or label source rows of such confidence",
        methods=("im",),
    )


def weight_effective_share(context: DiagnosticContext) -> Diagnostic:
    """Compute the smallest effective sample size of weighted methods as a share of the source."""
    shares = _facts_by_method(context, "effective_share")
    method = min(shares, key=lambda name: shares[name])
    return Diagnostic(
        "weight_effective_share",
        shares[method],
        "ok" if shares[method] > 0.5 else "warning",
        f"effective sample size of the most uneven weights ({method}) as a share of the source; if "
        "it is small, source and target are far apart and a few source rows decide that estimate",
        f"disregard {method}, or use a source more like the target",
        methods=tuple(shares),
    )


def domain_auc(context: DiagnosticContext) -> Diagnostic:
    """Compute the AUROC of a classifier that separates source rows from target rows."""
    value = _first_fact(context, "domain_auc")
    return Diagnostic(
        "domain_auc",
        value,
        status_by_limits(value, *STATUS_LIMITS["domain_auc"]),
        "AUROC, on held-out rows, of a classifier that separates target rows from source rows; 0.5 "
        "means that they cannot be separated",
        "label some target rows: they are a different kind of data",
    )


def beyond_support(context: DiagnosticContext) -> Diagnostic:
    """Compute the share of target rows that have no near neighbors in the source."""
    value = _first_fact(context, "beyond_support")
    return Diagnostic(
        "beyond_support",
        value,
        status_by_limits(value, *STATUS_LIMITS["beyond_support"]),
        "share of the target that is farther from the source, in feature space, than 99 % of source "
        "rows are from each other; 1 % is expected without shift",
        "inspect these rows, and label some: the source may lack them",
    )


def agreement_line(context: DiagnosticContext) -> Diagnostic:
    """Compute how well a line fits the agreements of model pairs on source and target."""
    is_linear = _first_fact(context, "agreement_is_linear")
    return Diagnostic(
        "agreement_line",
        _first_fact(context, "agreement_r2"),
        "ok" if is_linear else "warning",
        "R² of the line through the agreements of model pairs on source and target; if it is low, "
        "accuracies are not on a line either",
        "disregard aline-s and aline-d, or add models that differ more",
        methods=("aline-s", "aline-d"),
    )


def class_shift(context: DiagnosticContext) -> Diagnostic:
    """Compute the total variation distance between predicted classes on source and target."""
    source, target = (rows.class_counts / rows.n for rows in (context.source, context.target))
    value = float(np.abs(source - target).sum() / 2)
    pooled = (source + target) / 2
    per_class = pooled * (1 - pooled) * (1 / context.source.n + 1 / context.target.n)
    noise = float(np.sqrt(2 * per_class / np.pi).sum() / 2)
    return Diagnostic(
        "class_shift",
        value,
        status_by_limits(value - noise, *STATUS_LIMITS["class_shift"]),
        "total variation distance between the predicted classes of source and target; if it is "
        "large, class frequencies changed or classes are confused in a new way",
        "read mlls and bbse only if nothing but class frequencies changed",
    )


def class_frequency_ratio(context: DiagnosticContext) -> Diagnostic:
    """Compute the largest ratio between a class's predicted shares on target and source.

    Only classes whose shares differ by more than noise count: a z test of the shares after the
    arcsine transform (Anscombe, 1948), with level 1 % divided by the number of classes.
    """
    shares = [
        (rows.class_counts + 0.375) / (rows.n + 0.75) for rows in (context.source, context.target)
    ]
    source, target = (2 * np.arcsin(np.sqrt(share)) for share in shares)
    z = np.abs(target - source) / np.sqrt(1 / context.source.n + 1 / context.target.n)
    is_real = z > NormalDist().inv_cdf(1 - CLASS_RATIO_LEVEL / 2 / context.source.k)
    ratios = np.where(is_real, shares[1] / shares[0], 1.0)
    j = int(np.abs(np.log(ratios)).argmax())
    value = float(max(ratios[j], 1 / ratios[j]))
    names = context.source.class_names
    name = f"class {j if names is None else names[j]}"
    meaning = (
        "largest ratio, up or down, between the predicted shares of a class on source and target; "
        "a rare class can become several times as frequent while class_shift stays small, and its "
        "precision, F1 and average precision are then not reliable"
    )
    if value > 1:
        meaning += (
            f" ({name}: {100 * shares[0][j]:.3g} % of the source, {100 * shares[1][j]:.3g} % of "
            "the target)"
        )
    return Diagnostic(
        "class_frequency_ratio",
        value,
        status_by_limits(value, *STATUS_LIMITS["class_frequency_ratio"]),
        meaning,
        f"label some target rows that are predicted as {name}",
    )


def class_collapse(context: DiagnosticContext) -> Diagnostic:
    """Compute the share of target rows that are assigned to the most predicted class."""
    source_share, value = (
        float(rows.class_counts.max() / rows.n) for rows in (context.source, context.target)
    )
    noise = Z99 * np.sqrt(
        source_share * (1 - source_share) * (1 / context.source.n + 1 / context.target.n)
    )
    has_grown = value > source_share + max((1 - source_share) / 4, noise)
    return Diagnostic(
        "class_collapse",
        value,
        status_by_limits(value, *STATUS_LIMITS["class_collapse"]) if has_grown else "ok",
        "share of the target that is assigned to its most predicted class; a model that predicts "
        "one class for everything may be confident and wrong",
        "inspect these rows and the preprocessing of the inputs",
    )


def source_errors(context: DiagnosticContext) -> Diagnostic:
    """Count the errors on the source."""
    value = int(context.source.n - np.count_nonzero(context.source.correct))
    return Diagnostic(
        "source_errors",
        float(value),
        status_by_limits(-value, -49, -9),
        "errors of the model on the source; thresholds are estimated from them, and are imprecise "
        "if there are few",
        "disregard methods with a threshold, or label more source rows",
        methods=THRESHOLD_METHODS,
    )


def estimator_spread(context: DiagnosticContext) -> Diagnostic:
    """Compute the difference between the highest and the lowest estimate."""
    if len(context.estimates) < 2:
        raise NotApplicable("a single method has no spread")
    value = estimate_range(context.estimates)
    return Diagnostic(
        "estimator_spread",
        value,
        status_by_limits(value, *STATUS_LIMITS["estimator_spread"]),
        f"difference between the highest and the lowest estimate of {', '.join(COMPARED_METHODS)} "
        "(of all methods if fewer than two of these were run); methods with different assumptions "
        "that agree are more credible",
        "use the method that fits the expected shift; label some rows",
    )


def temperature_fit(context: DiagnosticContext) -> Diagnostic:
    """Check whether the temperature fit converged to a value inside its range."""
    fit = context.temperature
    if fit is None:
        raise NotApplicable("no temperature was fitted")
    is_good = fit.converged and not fit.at_bound
    meaning = "temperature that calibrates the source"
    if not is_good:
        meaning += "; it is at the bound of its range, so the scores are not calibrated"
    return Diagnostic(
        "temperature_fit",
        fit.value,
        "ok" if is_good else "warning",
        meaning,
        "check that scores are logits or probabilities as declared",
    )


def calibration_gap(context: DiagnosticContext) -> Diagnostic:
    """Compute the difference of mean confidence and accuracy on the source after calibration."""
    calibration = context.calibration
    if calibration is None or not calibration.source.has_probs:
        raise NotApplicable("there are no probabilities to calibrate")
    value = abs(calibration.gap)
    is_noise = value <= Z99 * calibration.gap_error
    return Diagnostic(
        "calibration_gap",
        value,
        "ok" if is_noise else status_by_limits(value, *STATUS_LIMITS["calibration_gap"]),
        "difference of mean confidence and accuracy on held-out source rows, after calibration by "
        f"{calibration.method}; methods that read scores as probabilities are wrong by about as much",
        "try --calibration isotonic; disregard the expected metrics",
    )


def confusion_condition(context: DiagnosticContext) -> Diagnostic:
    """Compute the condition number of the confusion matrix, which affects label-shift methods."""
    # JSON has no infinity.
    value = float(min(_first_fact(context, "condition"), 1e300))
    return Diagnostic(
        "confusion_condition",
        value,
        "ok" if value < 30.0 else "warning",
        "condition number of the source's confusion matrix; if it is large, label-shift methods "
        "amplify noise",
        "disregard bbse and mlls, or label more source rows",
        methods=("bbse", "mlls", "leap"),
    )


def falsely_correct(context: DiagnosticContext) -> Diagnostic:
    """Compute the share of labelled target rows that are wrong and above the ATC threshold."""
    shares, is_biased = _falsely_identified(context)
    return Diagnostic(
        "falsely_correct",
        shares.correct,
        "warning" if is_biased and shares.bias > 0 else "ok",
        "share of the labelled target rows that are wrong and have a confidence above the threshold "
        "of atc-mc; the estimate of atc-mc is too high by the amount by which this share exceeds "
        "falsely_incorrect",
        "disregard atc-mc and its variants",
        methods=THRESHOLD_METHODS,
    )


def falsely_incorrect(context: DiagnosticContext) -> Diagnostic:
    """Compute the share of labelled target rows that are correct and below the ATC threshold."""
    shares, is_biased = _falsely_identified(context)
    return Diagnostic(
        "falsely_incorrect",
        shares.incorrect,
        "warning" if is_biased and shares.bias < 0 else "ok",
        "share of the labelled target rows that are correct and have a confidence below the "
        "threshold of atc-mc; the estimate of atc-mc is too low by the amount by which this share "
        "exceeds falsely_correct",
        "disregard atc-mc and its variants",
        methods=THRESHOLD_METHODS,
    )


def _falsely_identified(context: DiagnosticContext) -> tuple[FalselyIdentified, bool]:
    """Return the shares among labelled target rows, and whether they differ significantly."""
    if context.labelled is None:
        raise NotApplicable("no target row has a label")
    thresholds = [e.facts["threshold"] for e in context.estimates
                  if e.method == "atc-mc" and "threshold" in e.facts]  # fmt: skip
    if not thresholds:
        raise NotApplicable("atc-mc has no threshold")
    labelled = context.labelled
    shares = falsely_identified(labelled.confidence, labelled.correct, thresholds[0])
    variance = shares.correct + shares.incorrect - shares.bias**2
    deviation = float(np.sqrt(variance / len(labelled.correct)))
    smallest = max(MIN_ATC_BIAS, Z99 * deviation)
    return shares, abs(shares.bias) >= smallest


DIAGNOSTICS: tuple[Callable[[DiagnosticContext], Diagnostic], ...] = (
    source_below_chance,
    score_distance,
    outside_support,
    borrowed_bins,
    weight_effective_share,
    domain_auc,
    beyond_support,
    agreement_line,
    class_shift,
    class_frequency_ratio,
    class_collapse,
    source_errors,
    estimator_spread,
    temperature_fit,
    calibration_gap,
    confusion_condition,
    falsely_correct,
    falsely_incorrect,
)


def diagnose(context: DiagnosticContext) -> tuple[Diagnostic, ...]:
    """Return all applicable diagnostics; some need probabilities or features, for example."""
    results = []
    for diagnostic in DIAGNOSTICS:
        try:
            results.append(diagnostic(context))
        except NotApplicable:
            continue
    return tuple(results)
