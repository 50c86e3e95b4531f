"""When not to believe an estimate: lights, each with what it means and what to do.

The limits are such that at most a few of a hundred lights are lit where nothing has shifted; how
often each is lit on real data, and how far off estimates are then, is in
docs/results/quality_headline.md. None of them proves anything. A green light means that this one
sign of trouble was looked for and not found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oodometer.core.calibration import Temperature
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate
from oodometer.core.stats import ks_distance

Status = Literal["green", "amber", "red"]
# A light is told by its shape and its word too, for those who can't tell it by its colour.
STATUS_SHAPES: dict[str, str] = {"green": "●", "amber": "▲", "red": "■"}
STATUSES_WORST_FIRST: tuple[Status, ...] = ("red", "amber", "green")
# Where nothing has shifted these agree; others may differ far even there (uncalibrated, say).
COMPARED_METHODS = ("atc-mc", "doc", "im", "cot")
# From where on a sign is amber, and from where on red.
STATUS_LIMITS = {
    "score_distance": (0.1, 0.3),
    "domain_auc": (0.6, 0.8),
    "beyond_support": (0.03, 0.1),
    "class_shift": (0.1, 0.3),
    "class_collapse": (0.6, 0.9),
    "estimator_spread": (0.1, 0.2),
}


@dataclass(frozen=True)
class Diagnostic:
    """One sign of trouble: how much of it, its light, what it means, and what to do when it is lit."""

    name: str
    value: float
    status: Status
    meaning: str
    advice: str = ""

    @property
    def advice_text(self) -> str:
        """What to do now: of a green light, nothing.

        >>> Diagnostic("d", 3.0, "green", "errors", "label more rows").advice_text
        'nothing'
        """
        return "nothing" if self.status == "green" else self.advice

    @property
    def formatted_value(self) -> str:
        """The value as people read it: counts whole, the rest to three digits.

        >>> Diagnostic("d", 11890.0, "green", "m").formatted_value, Diagnostic("d", 0.0123, "red", "m").formatted_value
        ('11,890', '0.0123')
        """
        whole = abs(self.value) >= 100 and abs(self.value) < 1e15
        return f"{self.value:,.0f}" if whole else f"{self.value:.3g}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "name": self.name,
            "value": self.value,
            "status": self.status,
            "meaning": self.meaning,
            "advice": self.advice,
        }


@dataclass(frozen=True)
class DiagnosticContext:
    """All that a diagnostic may look at."""

    source: Predictions
    target: Predictions
    estimates: Sequence[Estimate]
    temperature: Temperature | None


def _status(value: float, amber: float, red: float) -> Status:
    """Green below `amber`, red from `red` on; for what grows worse downwards give negatives."""
    return "red" if value >= red else "amber" if value >= amber else "green"


def _facts_by_method(context: DiagnosticContext, name: str) -> dict[str, float]:
    """What the methods found of one thing, by method; NotApplicable where none was asked for."""
    found = {e.method: e.facts[name] for e in context.estimates if name in e.facts}
    if not found:
        raise NotApplicable(f"no method that knows its {name} was asked for")
    return found


def estimate_range(estimates: Sequence[Estimate]) -> float:
    """Between the highest and the lowest estimate of those that are worth comparing.

    >>> estimate_range([Estimate(0.7, "atc-mc"), Estimate(0.75, "doc"), Estimate(0.99, "ac")]) < 0.051
    True
    """
    core = [one.value for one in estimates if one.method in COMPARED_METHODS]
    values = core if len(core) > 1 else [one.value for one in estimates]
    return max(values) - min(values)


def worst_status(diagnostics: Sequence[Diagnostic]) -> Status:
    """The worst light of all, green when there is none."""
    lights = {diagnostic.status for diagnostic in diagnostics}
    return next((light for light in STATUSES_WORST_FIRST if light in lights), "green")


def score_distance(context: DiagnosticContext) -> Diagnostic:
    """How far the confidences have moved."""
    source, target = context.source.confidence, context.target.confidence
    value = ks_distance(source, target)
    noise = 1.63 * float(np.sqrt(1 / len(source) + 1 / len(target)))
    light = "green" if value <= noise else _status(value, *STATUS_LIMITS["score_distance"])
    return Diagnostic(
        "score_distance",
        value,
        light,
        "largest gap between the distributions of confidence on source and target; the larger, "
        "the more an estimate leans on its assumption",
        "take the estimate for a guess until some labelled target rows agree with it",
    )


def outside_support(context: DiagnosticContext) -> Diagnostic:
    """How much of the target is less (or more) sure than any source row."""
    source, target = context.source.confidence, context.target.confidence
    outside = (target < source.min()) | (target > source.max())
    value = float(outside.mean())
    return Diagnostic(
        "outside_support",
        value,
        _status(value, max(0.01, 4 / len(source)), max(0.05, 8 / len(source))),
        "share of the target whose confidence lies outside the range seen on the source, where "
        "nothing is known of the accuracy",
        "look at these rows and label some: the source may lack their kind",
    )


def borrowed_bins(context: DiagnosticContext) -> Diagnostic:
    """How much of the target IM had to judge by neighbours."""
    value = next(iter(_facts_by_method(context, "borrowed_share").values()))
    return Diagnostic(
        "borrowed_bins",
        value,
        # It speaks of that one method alone, so it never forbids the headline.
        "green" if value < 0.01 else "amber",
        "share of the target in bins of confidence without a source row; im took the accuracy of "
        "the nearest bin that has some",
        "set im aside, or label source rows of such confidence",
    )


def weight_effective_share(context: DiagnosticContext) -> Diagnostic:
    """How few source rows carry the most uneven weights."""
    shares = _facts_by_method(context, "effective_share")
    method = min(shares, key=lambda name: shares[name])
    return Diagnostic(
        "weight_effective_share",
        shares[method],
        # It speaks of the weighted methods alone, so it never forbids the headline.
        "green" if shares[method] > 0.5 else "amber",
        f"effective share of the source behind the most uneven weights ({method}); when small, "
        "source and target are far apart and a few source rows decide that estimate",
        f"set {method} aside, or take a source that is nearer to the target",
    )


def domain_auc(context: DiagnosticContext) -> Diagnostic:
    """How well source and target can be told apart."""
    value = next(iter(_facts_by_method(context, "domain_auc").values()))
    return Diagnostic(
        "domain_auc",
        value,
        _status(value, *STATUS_LIMITS["domain_auc"]),
        "how often a classifier of domains (the area under its curve, on rows it has not seen) tells "
        "a target row from a source row; ½ is by chance",
        "the target is another kind of data: label some of its rows",
    )


def beyond_support(context: DiagnosticContext) -> Diagnostic:
    """How much of the target has no near neighbours in the source."""
    value = next(iter(_facts_by_method(context, "beyond_support").values()))
    return Diagnostic(
        "beyond_support",
        value,
        _status(value, *STATUS_LIMITS["beyond_support"]),
        "share of the target that is farther from the source, by its features, than 99 % of source "
        "rows are from each other; 1 % is usual",
        "look at these rows and label some: the source may lack their kind",
    )


def agreement_line(context: DiagnosticContext) -> Diagnostic:
    """Whether the models' agreements lie on a line."""
    value = next(iter(_facts_by_method(context, "agreement_r2").values()))
    is_linear = next(iter(_facts_by_method(context, "agreement_is_linear").values()))
    return Diagnostic(
        "agreement_line",
        value,
        # It speaks of those methods alone, so it never forbids the headline.
        "green" if is_linear else "amber",
        "R² of the line through agreements of models on source and target; where it is low, "
        "accuracies lie on no line either",
        "set aline-s and aline-d aside, or bring more models, and more different ones",
    )


def class_shift(context: DiagnosticContext) -> Diagnostic:
    """How far the predicted classes have moved, beyond chance."""
    source, target = (rows.class_counts / rows.n for rows in (context.source, context.target))
    value = float(np.abs(source - target).sum() / 2)
    pooled = (source + target) / 2
    per_class = pooled * (1 - pooled) * (1 / context.source.n + 1 / context.target.n)
    noise = float(np.sqrt(2 * per_class / np.pi).sum() / 2)
    return Diagnostic(
        "class_shift",
        value,
        _status(value - noise, *STATUS_LIMITS["class_shift"]),
        "total variation between the predicted classes of source and target; when large, classes "
        "changed in frequency or are confused in a new way",
        "if frequencies alone changed, read mlls and bbse (cot then says too little); if looks "
        "changed, set these two aside",
    )


def class_collapse(context: DiagnosticContext) -> Diagnostic:
    """Whether nearly everything is called one class."""
    before, value = (
        float(rows.class_counts.max() / rows.n) for rows in (context.source, context.target)
    )
    grown = value > before + (1 - before) / 4
    light = _status(value, *STATUS_LIMITS["class_collapse"]) if grown else "green"
    return Diagnostic(
        "class_collapse",
        value,
        light,
        "share of the target that goes to its most predicted class; a model that calls everything "
        "one class may be sure and wrong",
        "look at rows of that class; inputs prepared in another way often do this",
    )


def source_errors(context: DiagnosticContext) -> Diagnostic:
    """How many errors the source has to learn from."""
    value = int(context.source.n - np.count_nonzero(context.source.correct))
    return Diagnostic(
        "source_errors",
        float(value),
        _status(-value, -49, -9),
        "errors of the model on the source; thresholds and rates rest on them, and with few of "
        "them on little",
        "label more source rows",
    )


def estimator_spread(context: DiagnosticContext) -> Diagnostic:
    """How far the methods disagree."""
    if len(context.estimates) < 2:
        raise NotApplicable("one method alone has no spread")
    value = estimate_range(context.estimates)
    return Diagnostic(
        "estimator_spread",
        value,
        _status(value, *STATUS_LIMITS["estimator_spread"]),
        f"gap between the highest and the lowest of {', '.join(COMPARED_METHODS)} (of all, where these are "
        "not); methods that assume different things and still agree are more to be believed",
        "read the method that assumes the shift you expect, and label some target rows to be sure",
    )


def temperature_fit(context: DiagnosticContext) -> Diagnostic:
    """Whether the temperature could be fitted."""
    fitted = context.temperature
    if fitted is None:
        raise NotApplicable("no temperature was fitted")
    good = fitted.converged and not fitted.at_bound
    return Diagnostic(
        "temperature_fit",
        fitted.value,
        "green" if good else "amber",
        "temperature that calibrates the source"
        + ("" if good else "; it ended at the bound of its range, so calibration can't be trusted"),
        "check that scores are what they are called, logits or probabilities; try no temperature",
    )


def confusion_condition(context: DiagnosticContext) -> Diagnostic:
    """Whether classes can be told apart well enough for label shift."""
    condition = next(iter(_facts_by_method(context, "condition").values()))
    # JSON has no infinity.
    value = float(min(condition, 1e300))
    return Diagnostic(
        "confusion_condition",
        value,
        "green" if value < 30.0 else "amber",
        "condition number of the source's confusion matrix; when large, label-shift methods "
        "amplify noise",
        "set bbse and mlls aside, or label more source rows of the classes it confuses",
    )


DIAGNOSTICS: tuple[Callable[[DiagnosticContext], Diagnostic], ...] = (
    score_distance,
    outside_support,
    borrowed_bins,
    weight_effective_share,
    domain_auc,
    beyond_support,
    agreement_line,
    class_shift,
    class_collapse,
    source_errors,
    estimator_spread,
    temperature_fit,
    confusion_condition,
)


def diagnose(context: DiagnosticContext) -> tuple[Diagnostic, ...]:
    """Every diagnostic that can be had; what can't (no probabilities, say) is left out."""
    found = []
    for diagnostic in DIAGNOSTICS:
        try:
            found.append(diagnostic(context))
        except NotApplicable:
            continue
    return tuple(found)
