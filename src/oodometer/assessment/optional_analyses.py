"""What an assessment may be asked for beside the accuracy: other metrics, a bound, a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from oodometer.assessment import cbpe
from oodometer.assessment import dis2 as bound
from oodometer.assessment import noninferiority as noninferior
from oodometer.assessment.cbpe import ExpectedMetric, expected_metrics
from oodometer.assessment.dis2 import AccuracyLowerBound, lower_bound
from oodometer.assessment.noninferiority import NoninferiorityResult, noninferiority_test
from oodometer.assessment.result import format_percent
from oodometer.core.errors import NotApplicable, UnknownName
from oodometer.core.predictions import Predictions


@dataclass(frozen=True)
class AdditionalRequests:
    """Metrics by name, whether a lower bound is wanted, and the margin of the non-inferiority test."""

    metrics: tuple[str, ...] = ()
    bound: bool = False
    margin: float | None = None


@dataclass(frozen=True)
class AdditionalResults:
    """What was found of it, and the reasons of what was not."""

    metrics: tuple[ExpectedMetric, ...] = ()
    bound: AccuracyLowerBound | None = None
    verdict: NoninferiorityResult | None = None
    reasons: tuple[str, ...] = ()

    metrics_assume: ClassVar[str] = cbpe.ASSUMES

    @property
    def metric_table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Metrics by class: the heads, and a row a class; all but accuracy, which is of all."""
        names = tuple(dict.fromkeys(one.metric for one in self.metrics if one.scope != "all"))
        found = {(one.scope, one.metric): _format_metric(one) for one in self.metrics}
        classes = dict.fromkeys(one.scope for one in self.metrics if one.scope != "all")
        rows = [(of, *(found[of, name] for name in names)) for of in classes]
        return ("class", *(name.replace("_", " ") for name in names)), rows

    @property
    def sentences(self) -> tuple[str, ...]:
        """The bound, the verdict and the reasons, in words."""
        found = [
            f"Accuracy to be expected: {_format_metric(one)}."
            for one in self.metrics
            if one.scope == "all"
        ]
        if self.bound is not None:
            found.append(
                f"At least {format_percent(self.bound.value)} % ({100 * (1 - self.bound.delta):g} %) of the "
                f"target is right if {bound.ASSUMES}. (Critics get {format_percent(self.bound.discrepancy)} "
                f"points apart; {format_percent(self.bound.margin)} points are for luck.)"
            )
        if self.verdict is not None:
            rejected = "rejected" if self.verdict.decision == "SUITABLE" else "not rejected"
            found.append(
                f"{self.verdict.decision}: that {format_percent(self.verdict.margin)} points or more are lost is "
                f"{rejected} (p = {self.verdict.p_value:.2g}), if {noninferior.ASSUMES}. Expected: "
                f"{format_percent(self.verdict.target_accuracy)} % after {format_percent(self.verdict.source_accuracy)} %."
            )
        return (*found, *self.reasons)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "metrics": [one.to_dict() for one in self.metrics],
            "bound": None if self.bound is None else self.bound.to_dict(),
            "suitability": None if self.verdict is None else self.verdict.to_dict(),
            "reasons": list(self.reasons),
        }


def resolve_expected_metrics(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of expected metrics; "all" stands for every one.

    >>> resolve_expected_metrics(["F1", "average-precision"]), len(resolve_expected_metrics(["all"]))
    (('f1', 'average_precision'), 6)
    """
    wanted = [name.lower().replace("-", "_") for name in names or ()]
    if "all" in wanted:
        return cbpe.METRIC_NAMES
    for name in wanted:
        if name not in cbpe.METRIC_NAMES:
            raise UnknownName("expected metric", name, (*cbpe.METRIC_NAMES, "all"))
    return tuple(dict.fromkeys(wanted))


def run_additional(
    requests: AdditionalRequests,
    source: Predictions,
    target: Predictions,
    *,
    temperature: float | None = None,
    seed: int = 0,
) -> AdditionalResults:
    """All that is asked for, of scores at a temperature; what has no answer has a reason."""
    target = target.without_labels().reorder_classes(source.class_names)
    if temperature is not None:
        source, target = source.at_temperature(temperature), target.at_temperature(temperature)
    reasons = []

    def tried(name: str, wanted: bool, work: Any) -> Any:
        try:
            return work() if wanted else None
        except NotApplicable as reason:
            reasons.append(f"{name}: not applicable: {reason}")
            return None

    margin = 0.0 if requests.margin is None else requests.margin
    return AdditionalResults(
        metrics=tuple(
            one
            for one in tried("metrics", bool(requests.metrics), lambda: expected_metrics(target))
            or ()
            if one.metric in requests.metrics
        ),
        bound=tried("bound", requests.bound, lambda: lower_bound(source, target, seed=seed)),
        verdict=tried(
            "suitability",
            requests.margin is not None,
            lambda: noninferiority_test(source, target, margin=margin, seed=seed),
        ),
        reasons=tuple(reasons),
    )


def _format_metric(metric: ExpectedMetric) -> str:
    """The value and its interval; where there is none, a dash."""
    if metric.value is None or metric.low is None or metric.high is None:
        return "–"
    return f"{metric.value:.2f} ({metric.low:.2f}–{metric.high:.2f})"
