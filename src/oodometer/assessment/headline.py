"""The one number that an assessment shows first, and why it is that one.

The rule was chosen on one half of three real suites, and judged on the other half
(docs/results/quality_headline.md): of all that were tried, single methods and combinations, the best
was DOC where source and target look alike, COT where they do not, and ATC where it can't be had.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate

# Where these lights are green, source and target look alike, and the source's errors tell most.
SIMILARITY_DIAGNOSTICS = ("score_distance", "domain_auc")
SIMILAR_DOMAINS_METHOD = "doc"
# Else the first of these that has an answer and nothing against it.
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
    """The method of the headline, and the rule that picked it."""
    if len(estimates) == 1:
        return next(iter(estimates)), "the only method with an answer"
    if SIMILAR_DOMAINS_METHOD in estimates and all(
        statuses.get(name) == "green" for name in SIMILARITY_DIAGNOSTICS
    ):
        return (
            SIMILAR_DOMAINS_METHOD,
            f"source and target look alike: {' and '.join(SIMILARITY_DIAGNOSTICS)} are green",
        )
    objected = excluded_methods(estimates, source, calibrated=calibrated)
    order = [name for name in METHOD_ORDER if name not in objected]
    first = next((name for name in order if name in estimates), None)
    if first is None:
        return next(iter(estimates)), "the first method asked for"
    passed = "".join(f"; not {name}: {why}" for name, why in objected.items() if name in estimates)
    return first, f"the first of {', '.join(order)} with an answer{passed}"


def select_for_segments(methods: Collection[str], source: Predictions) -> str:
    """The method for parts of the target, of those with an answer; no light has a say in it.

    COT takes the source's class shares for the target's; parts mostly have shares of their own.
    Lines of agreement are drawn through whole domains.
    """
    passed = {"cot", "aline-s", *_methods_without_threshold(source)}
    order = [name for name in METHOD_ORDER if name not in passed] + list(METHOD_ORDER)
    return next((name for name in order if name in methods), next(iter(methods)))


def excluded_methods(
    estimates: Mapping[str, Estimate], source: Predictions, *, calibrated: bool
) -> dict[str, str]:
    """Methods that may not be the headline here, and why."""
    objected = {}
    if not calibrated:
        objected["cot"] = "the scores were not calibrated"
    objected |= dict.fromkeys(_methods_without_threshold(source), "the source sets no threshold")
    if "aline-s" in estimates and not estimates["aline-s"].facts["agreement_is_linear"]:
        objected["aline-s"] = "agreements are off the line"
    return objected


def _methods_without_threshold(source: Predictions) -> tuple[str, ...]:
    """Methods whose threshold this source can't set."""
    return ("atc-mc", "atc-ne") if has_constant_correctness(source) else ()


def has_constant_correctness(source: Predictions) -> bool:
    """Whether the source has no error, or no right answer."""
    return bool(source.correct.all() or not source.correct.any())
