"""Choice of the headline: the estimate that an assessment shows first.

If source and target look alike, the headline is the mean calibrated confidence (AC), or DOC if the
scores cannot be calibrated (benchmarks/quality_no_shift.py). AC is also used with two classes and
with given decisions: COT assumes that the class frequencies are those of the source, and subgroups
of tables rarely have them; the thresholds of ATC do not transfer to such subgroups either. Otherwise
the headline is COT, or ATC if COT is not applicable, which had the lowest error on real shifts of
images and text (docs/results/quality_headline.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate

# If these diagnostics are ok, source and target look alike.
SIMILARITY_DIAGNOSTICS = ("score_distance", "domain_auc")
SIMILAR_DOMAINS_METHODS = ("ac", "doc")
# If source and target do not look alike, the headline is the first of these methods that is
# applicable and not excluded.
METHOD_ORDER = (
    "cot", "atc-mc", "atc-ne", "doc", "im", "aline-s", "bbse", "iw", "ac", "mlls", "leap", "gde",
)  # fmt: skip


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
    is_calibrated = calibrated and statuses.get("calibration_gap") == "ok"
    if all(statuses.get(name) == "ok" for name in SIMILARITY_DIAGNOSTICS):
        for similar in SIMILAR_DOMAINS_METHODS:
            if similar in estimates and (similar != "ac" or is_calibrated):
                diagnostics = " and ".join(SIMILARITY_DIAGNOSTICS)
                return similar, f"source and target look alike: {diagnostics} are ok"
    if "ac" in estimates and is_calibrated and (source.k == 2 or source.has_decisions):
        kind = (
            "the model's decisions are given" if source.has_decisions else "there are two classes"
        )
        return "ac", f"{kind}, and the probabilities are calibrated on the source"
    excluded = excluded_methods(estimates, source, calibrated=calibrated)
    order = [name for name in METHOD_ORDER if name not in excluded]
    method = next((name for name in order if name in estimates), None)
    if method is None:
        return next(iter(estimates)), "the first requested method"
    exclusions = "".join(
        f"; not {name}: {why}" for name, why in excluded.items() if name in estimates
    )
    return method, f"the first of {', '.join(order)} with a result{exclusions}"


def excluded_methods(
    estimates: Mapping[str, Estimate], source: Predictions, *, calibrated: bool
) -> dict[str, str]:
    """Return the methods that cannot be the headline, each with the reason."""
    excluded = {}
    if not calibrated:
        excluded["cot"] = "the scores were not calibrated"
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
