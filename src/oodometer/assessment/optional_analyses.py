"""Run the optional analyses of estimate: expected metrics, lower bound, non-inferiority test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from oodometer.assessment import cbpe, dis2, noninferiority
from oodometer.assessment.result import format_percent
from oodometer.core.errors import NotApplicable, UnknownName
from oodometer.core.jsonable import to_jsonable
from oodometer.core.predictions import Predictions


@dataclass(frozen=True)
class AdditionalRequests:
    """Optional analyses to run: names of metrics, lower bound, and margin of the test."""

    metrics: tuple[str, ...] = ()
    bound: bool = False
    margin: float | None = None


@dataclass(frozen=True)
class AdditionalResults:
    """Results of the requested analyses, and the reason for each that is not applicable."""

    metrics: tuple[cbpe.ExpectedMetric, ...] = ()
    bound: dis2.AccuracyLowerBound | None = None
    verdict: noninferiority.NoninferiorityResult | None = None
    reasons: tuple[str, ...] = ()

    metrics_assume: ClassVar[str] = cbpe.ASSUMES

    @property
    def metric_table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the headings, and one row per class with its metrics (not the accuracy)."""
        by_class = [metric for metric in self.metrics if metric.scope != "all"]
        names = tuple(dict.fromkeys(metric.metric for metric in by_class))
        cells = {(metric.scope, metric.metric): _format_metric(metric) for metric in by_class}
        scopes = dict.fromkeys(metric.scope for metric in by_class)
        rows = [(scope, *(cells[scope, name] for name in names)) for scope in scopes]
        return ("class", *(name.replace("_", " ") for name in names)), rows

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return the results as sentences, then the reasons why analyses are not applicable."""
        sentences = [
            f"Expected accuracy: {_format_metric(metric)}."
            for metric in self.metrics
            if metric.scope == "all"
        ]
        if self.bound is not None:
            sentences.append(
                f"The accuracy is at least {format_percent(self.bound.value)} % "
                f"(confidence {100 * (1 - self.bound.delta):g} %) if {dis2.ASSUMES}. (Largest "
                f"discrepancy of a critic: {format_percent(self.bound.discrepancy)} points; "
                f"sampling error: {format_percent(self.bound.margin)} points.)"
            )
        if self.verdict is not None:
            rejected = "rejected" if self.verdict.decision == "SUITABLE" else "not rejected"
            sentences.append(
                f"{self.verdict.decision}: a loss of {format_percent(self.verdict.margin)} points "
                f"or more is {rejected} (p = {self.verdict.p_value:.2g}) if "
                f"{noninferiority.ASSUMES}. Expected accuracy: "
                f"{format_percent(self.verdict.target_accuracy)} % on the target, "
                f"{format_percent(self.verdict.source_accuracy)} % on the source."
            )
        return (*sentences, *self.reasons)

    def to_dict(self) -> dict[str, Any]:
        return {
            "metrics": to_jsonable(self.metrics),
            "bound": to_jsonable(self.bound),
            "suitability": to_jsonable(self.verdict),
            "reasons": list(self.reasons),
        }


def resolve_expected_metrics(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return validated names of expected metrics; "all" stands for all metrics.

    >>> resolve_expected_metrics(["F1", "average-precision"]), len(resolve_expected_metrics(["all"]))
    (('f1', 'average_precision'), 6)
    """
    requested = [name.lower().replace("-", "_") for name in names or ()]
    if "all" in requested:
        return cbpe.METRIC_NAMES
    for name in requested:
        if name not in cbpe.METRIC_NAMES:
            raise UnknownName("expected metric", name, (*cbpe.METRIC_NAMES, "all"))
    return tuple(dict.fromkeys(requested))


def run_additional(
    requests: AdditionalRequests,
    source: Predictions,
    target: Predictions,
    *,
    temperature: float | None = None,
    seed: int = 0,
) -> AdditionalResults:
    """Return the requested results, with scores scaled by a temperature.

    For an analysis that is not applicable, the result contains the reason.
    """
    target = target.without_labels().reorder_classes(source.class_names)
    if temperature is not None:
        source, target = source.at_temperature(temperature), target.at_temperature(temperature)
    metrics: tuple[cbpe.ExpectedMetric, ...] = ()
    bound = verdict = None
    reasons = []
    if requests.metrics:
        try:
            metrics = cbpe.expected_metrics(target)
        except NotApplicable as reason:
            reasons.append(f"metrics: not applicable: {reason}")
    if requests.bound:
        try:
            bound = dis2.lower_bound(source, target, seed=seed)
        except NotApplicable as reason:
            reasons.append(f"bound: not applicable: {reason}")
    if requests.margin is not None:
        try:
            verdict = noninferiority.noninferiority_test(
                source, target, margin=requests.margin, seed=seed
            )
        except NotApplicable as reason:
            reasons.append(f"suitability: not applicable: {reason}")
    return AdditionalResults(
        metrics=tuple(metric for metric in metrics if metric.metric in requests.metrics),
        bound=bound,
        verdict=verdict,
        reasons=tuple(reasons),
    )


def _format_metric(metric: cbpe.ExpectedMetric) -> str:
    """Return the value and its interval as text, or a dash if the metric has no value."""
    if metric.value is None or metric.low is None or metric.high is None:
        return "–"
    return f"{metric.value:.2f} ({metric.low:.2f}–{metric.high:.2f})"
