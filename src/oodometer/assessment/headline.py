"""Choice of the headline: the estimate that an assessment shows first.

The headline is the method `regime`, which has the lowest error on real shifts of images, text and
tables (docs/results/quality_headline.md). It needs calibrated probabilities. Without them, the
headline is DOC if source and target look alike, and the first applicable method of `METHOD_ORDER`
otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate
from oodometer.estimators.regime_weighting import ALIKE_DEVIATIONS, MAX_MISFIT

# If these diagnostics are ok, source and target look alike.
SIMILARITY_DIAGNOSTICS = ("score_distance", "domain_auc")
# The headline is the first of these methods that is applicable and not excluded.
METHOD_ORDER = (
    "regime", "cot", "atc-mc", "atc-ne", "doc", "im", "aline-s", "bbse", "iw", "ac", "mlls", "leap",
    "gde",
)  # fmt: skip
# Methods that are always run, because the headline or a diagnostic needs them.
NEEDED_METHODS = ("regime", "ac", "doc", "atc-mc", "im", "cot", "iw")
# Kinds of shift that the method `regime` distinguishes.
LOOK_ALIKE = "source and target look alike"
LABEL_SHIFT = "class frequencies changed, and little else did"
OTHER_SHIFT = "more than the class frequencies changed"


def select_headline(
    estimates: Mapping[str, Estimate],
    source: Predictions,
    *,
    calibrated: bool,
    statuses: Mapping[str, str],
) -> tuple[str, str]:
    """Return the method of the headline, and the reason for its choice."""
    if len(estimates) == 1:
        return next(iter(estimates)), "the only method with a result"
    excluded = excluded_methods(estimates, source, calibrated=calibrated)
    are_alike = all(statuses.get(name) == "ok" for name in SIMILARITY_DIAGNOSTICS)
    has_gap = statuses.get("calibration_gap", "ok") != "ok"
    has_regime = "regime" in estimates and "regime" not in excluded and not has_gap
    if "doc" in estimates and are_alike and not has_regime:
        return "doc", (
            "source and target look alike, and there are no calibrated probabilities: the source "
            "accuracy is corrected by the difference of confidences"
        )
    order = [name for name in METHOD_ORDER if name not in excluded]
    method = next((name for name in order if name in estimates), None)
    if method is None:
        return next(iter(estimates)), "the first requested method"
    if method == "regime":
        return method, describe_regime(estimates[method])
    exclusions = "".join(
        f"; not {name}: {why}" for name, why in excluded.items() if name in estimates
    )
    return method, f"the first of {', '.join(order)} with a result{exclusions}"


def describe_regime(estimate: Estimate) -> str:
    """Return which kind of shift was found, and the AUROCs that show it."""
    facts = estimate.facts
    kind = kind_of_shift(estimate)
    auc, reweighted = facts["regime_auc"], facts["regime_auc_reweighted"]
    if kind == LOOK_ALIKE:
        return (
            f"{kind}: a classifier can hardly tell them apart by the model's outputs (AUROC "
            f"{auc:.2f}; 0.5 is chance)"
        )
    separates = (
        f"{kind}: a classifier can tell source and target apart by the model's outputs (AUROC "
        f"{auc:.2f}; 0.5 is chance)"
    )
    if kind == LABEL_SHIFT:
        return (
            f"{separates}, but hardly after the estimated class frequencies were made equal "
            f"({reweighted:.2f})"
        )
    return (
        f"{separates}, and a change of class frequencies does not explain the outputs (AUROC "
        f"{reweighted:.2f} after they were made equal)"
    )


def kind_of_shift(estimate: Estimate) -> str:
    """Return which kind of shift the method `regime` found; an empty text for other methods."""
    facts = estimate.facts
    if "label_shift_misfit" not in facts:
        return ""
    if facts["regime_auc_deviations"] <= ALIKE_DEVIATIONS:
        return LOOK_ALIKE
    fits = facts["label_shift_misfit"] <= MAX_MISFIT and facts["weight_transport"] <= 0.5
    return LABEL_SHIFT if fits else OTHER_SHIFT


def excluded_methods(
    estimates: Mapping[str, Estimate], source: Predictions, *, calibrated: bool
) -> dict[str, str]:
    """Return the methods that cannot be the headline, each with the reason."""
    excluded: dict[str, str] = {}
    if not calibrated:
        excluded |= dict.fromkeys(("regime", "cot"), "the scores were not calibrated")
    reason = "the source determines no threshold"
    excluded |= dict.fromkeys(_methods_without_threshold(source), reason)
    if "aline-s" in estimates and not estimates["aline-s"].facts["agreement_is_linear"]:
        excluded["aline-s"] = "the agreements are not on a line"
    return excluded


def _methods_without_threshold(source: Predictions) -> tuple[str, ...]:
    return ("atc-mc", "atc-ne") if has_constant_correctness(source) else ()


def has_constant_correctness(source: Predictions) -> bool:
    """Return whether the model is correct on all source rows or on no source row."""
    return bool(source.correct.all() or not source.correct.any())
