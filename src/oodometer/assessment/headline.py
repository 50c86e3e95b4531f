"""Choice of the headline: the estimate that an assessment shows first.

The rule was chosen on one half of three real benchmark suites and evaluated on the other half
(docs/results/quality_headline.md). The best of all single methods and combinations that were tried
was DOC if source and target look alike, COT otherwise, and ATC if COT is not applicable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate

# If these diagnostics are ok, source and target look alike.
SIMILARITY_DIAGNOSTICS = ("score_distance", "domain_auc")
SIMILAR_DOMAINS_METHOD = "doc"
# Otherwise the first applicable one of these methods that is not excluded.
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
    """Return the method of the headline, and why it was chosen."""
    if len(estimates) == 1:
        return next(iter(estimates)), "the only method with a result"
    if SIMILAR_DOMAINS_METHOD in estimates and all(
        statuses.get(name) == "ok" for name in SIMILARITY_DIAGNOSTICS
    ):
        diagnostics = " and ".join(SIMILARITY_DIAGNOSTICS)
        return SIMILAR_DOMAINS_METHOD, f"source and target look alike: {diagnostics} are ok"
    excluded = excluded_methods(estimates, source, calibrated=calibrated)
    order = [name for name in METHOD_ORDER if name not in excluded]
    method = next((name for name in order if name in estimates), None)
    if method is None:
        return next(iter(estimates)), "the first requested method"
    exclusions = "".join(
        f"; not {name}: {why}" for name, why in excluded.items() if name in estimates
    )
    return method, f"the first of {', '.join(order)} with a result{exclusions}"


def select_for_segments(methods: Collection[str], source: Predictions) -> str:
    """Return the method for segments of the target, whatever the diagnostics are.

    COT assumes the class frequencies of the source, and those of a segment mostly differ.
    Agreement-on-the-line is fitted to whole domains.
    """
    last = {"cot", "aline-s", *_methods_without_threshold(source)}
    order = [name for name in METHOD_ORDER if name not in last] + list(METHOD_ORDER)
    return next((name for name in order if name in methods), next(iter(methods)))


def excluded_methods(
    estimates: Mapping[str, Estimate], source: Predictions, *, calibrated: bool
) -> dict[str, str]:
    """Return the methods that cannot be the headline, and why."""
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
    """Return whether all source rows are correct, or none is."""
    return bool(source.correct.all() or not source.correct.any())
