"""Results of the optional analyses: expected metrics, lower bound, non-inferiority test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from oodometer.assessment import cbpe, dis2, noninferiority
from oodometer.core.format import format_percent
from oodometer.core.jsonable import fields_to_jsonable, to_jsonable


@dataclass(frozen=True)
class SegmentMetrics:
    """Expected metrics of one segment: of the second of two classes, else the mean over classes.

    `n` and `n_source` are the numbers of target and source rows. The source values are those of the
    source rows of the same segment.
    """

    value: str
    n: int
    n_source: int
    metrics: tuple[cbpe.ExpectedMetric, ...]

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


@dataclass(frozen=True)
class AdditionalResults:
    """Results of the requested analyses, and the reason for each that is not applicable."""

    metrics: tuple[cbpe.ExpectedMetric, ...] = ()
    segment_metrics: tuple[SegmentMetrics, ...] = ()
    bound: dis2.AccuracyLowerBound | None = None
    verdict: noninferiority.NoninferiorityResult | None = None
    reasons: tuple[str, ...] = ()

    metrics_assume: ClassVar[str] = cbpe.ASSUMES

    @property
    def metric_table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the headings, and one row per class with its metrics (not the accuracy).

        The value on the source is in the column after each metric.
        """
        by_class = [metric for metric in self.metrics if metric.scope != cbpe.ALL_SCOPE]
        scopes = dict.fromkeys(metric.scope for metric in by_class)
        groups = [(scope, [m for m in by_class if m.scope == scope]) for scope in scopes]
        return ("class", *_metric_headings(by_class)), [
            (scope, *_metric_cells(metrics)) for scope, metrics in groups
        ]

    @property
    def segment_table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the headings, and one row per segment with its metrics."""
        first = self.segment_metrics[0].metrics if self.segment_metrics else ()
        rows = [
            (segment.value, str(segment.n), *_metric_cells(segment.metrics))
            for segment in self.segment_metrics
        ]
        return ("segment", "rows", *_metric_headings(first)), rows

    @property
    def segment_scope(self) -> str:
        """Return the scope of the metrics of segments: a class, or the mean over classes."""
        metrics = self.segment_metrics[0].metrics if self.segment_metrics else ()
        scopes = [metric.scope for metric in metrics if metric.scope != cbpe.ALL_SCOPE]
        if not scopes:
            return "all rows"
        is_macro = scopes[0] == cbpe.MACRO_SCOPE
        return "mean over classes" if is_macro else f"class {scopes[0]}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return the results as sentences, then the reasons why analyses are not applicable."""
        sentences = [
            f"Expected accuracy: {_format_metric(metric)}"
            f"{_format_source(metric, '; on the source: ')}."
            for metric in self.metrics
            if metric.scope == cbpe.ALL_SCOPE
        ]
        if self.bound is not None:
            sentences.append(
                f"The accuracy is at least {format_percent(self.bound.value)} % "
                f"(confidence {100 * (1 - self.bound.delta):g} %) if {dis2.ASSUMES}. (Largest "
                f"discrepancy of a critic: {format_percent(self.bound.discrepancy)} points; "
                f"sampling error: {format_percent(self.bound.margin)} points.)"
            )
        if self.verdict is not None:
            rejected = {"SUITABLE": "rejected", "UNSUITABLE": "shown"}.get(
                self.verdict.decision, "not rejected"
            )
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
            "segment_metrics": to_jsonable(self.segment_metrics),
            "bound": to_jsonable(self.bound),
            "suitability": to_jsonable(self.verdict),
            "reasons": list(self.reasons),
        }


def _metric_headings(metrics: Sequence[cbpe.ExpectedMetric]) -> tuple[str, ...]:
    """Return two headings per metric: its name, and that of its value on the source."""
    names = dict.fromkeys(metric.metric.replace("_", " ") for metric in metrics)
    return tuple(heading for name in names for heading in (name, f"{name} (source)"))


def _metric_cells(metrics: Sequence[cbpe.ExpectedMetric]) -> tuple[str, ...]:
    return tuple(
        cell for metric in metrics for cell in (_format_metric(metric), _format_source(metric))
    )


def _format_metric(metric: cbpe.ExpectedMetric) -> str:
    """Return the value and its interval as text, or a dash if the metric has no value."""
    if metric.value is None or metric.low is None or metric.high is None:
        return "–"
    return f"{metric.value:.2f} ({metric.low:.2f}–{metric.high:.2f})"


def _format_source(metric: cbpe.ExpectedMetric, prefix: str = "") -> str:
    """Return the value on the source as text, empty if there is none."""
    return "" if metric.source_value is None else f"{prefix}{metric.source_value:.2f}"
