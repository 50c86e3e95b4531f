"""Run the optional analyses of estimate: expected metrics, lower bound, non-inferiority test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oodometer.assessment import cbpe, dis2, noninferiority
from oodometer.assessment.additional_results import AdditionalResults, SegmentMetrics
from oodometer.assessment.learned_reference import LearnedReference, PreparesTargets
from oodometer.assessment.result import Assessment
from oodometer.assessment.segments import as_segments, group_rows
from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import NotApplicable, UnknownName
from oodometer.core.predictions import Predictions


@dataclass(frozen=True)
class AdditionalRequests:
    """Optional analyses to run: names of metrics, lower bound, and margin of the test."""

    metrics: tuple[str, ...] = ()
    bound: bool = False
    margin: float | None = None


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


def make_requests(
    metrics: str | Sequence[str] | None, *, bound: bool, margin: float | None
) -> AdditionalRequests:
    """Return the requested analyses, with validated names of metrics."""
    names = resolve_expected_metrics([metrics] if isinstance(metrics, str) else metrics)
    return AdditionalRequests(metrics=names, bound=bound, margin=margin)


def add_results(
    assessment: Assessment,
    requests: AdditionalRequests,
    reference: PreparesTargets,
    *,
    segment_by: Any = None,
) -> Assessment:
    """Return an assessment with the results of the requested analyses of its target rows."""
    assert assessment.inputs is not None
    target = assessment.inputs.target
    results = run_additional(requests, reference, target, segment_by=segment_by)
    if target.n < assessment.n_target:
        note = f"These results are computed from a random sample of {target.n:,} target rows."
        results = replace(results, reasons=(*results.reasons, note))
    return replace(assessment, additional=results)


def run_additional(
    requests: AdditionalRequests,
    reference: PreparesTargets,
    target: Predictions,
    *,
    segment_by: Any = None,
) -> AdditionalResults:
    """Return the requested results; for an analysis that is not applicable, the reason.

    Parameters
    ----------
    requests : AdditionalRequests
        Analyses to run.
    reference : PreparesTargets
        Labelled source, with its temperature, calibration and segments.
    target : Predictions
        Target rows. Their labels are ignored.
    segment_by : array of shape (n,), optional
        One value per target row. The metrics of each segment are then computed as well.

    Returns
    -------
    AdditionalResults
        Results, and the reason for each analysis that is not applicable.
    """
    learned, rows = reference.prepare(target)
    source = learned.source.predictions
    metrics: tuple[cbpe.ExpectedMetric, ...] = ()
    segments: tuple[SegmentMetrics, ...] = ()
    bound = verdict = None
    reasons = []
    if requests.metrics:
        try:
            metrics, segments = _run_metrics(requests.metrics, learned, rows, segment_by)
        except NotApplicable as reason:
            reasons.append(f"metrics: not applicable: {reason}")
    if requests.bound:
        try:
            bound = dis2.lower_bound(source, rows, seed=reference.seed)
        except NotApplicable as reason:
            reasons.append(f"bound: not applicable: {reason}")
    if requests.margin is not None:
        try:
            verdict = noninferiority.noninferiority_test(
                source, rows, margin=requests.margin, seed=reference.seed
            )
        except NotApplicable as reason:
            reasons.append(f"suitability: not applicable: {reason}")
    return AdditionalResults(
        metrics=metrics,
        segment_metrics=segments,
        bound=bound,
        verdict=verdict,
        reasons=tuple(reasons),
    )


def _run_metrics(
    names: Sequence[str], learned: LearnedReference, rows: Predictions, segment_by: Any
) -> tuple[tuple[cbpe.ExpectedMetric, ...], tuple[SegmentMetrics, ...]]:
    """Return the metrics of the target and of its segments, calibrated as in the assessment."""
    if not (learned.source.predictions.has_probs and rows.has_probs):
        raise NotApplicable("expected metrics require probabilities")
    # The order of the metrics does not depend on the order of the request.
    ordered = [name for name in cbpe.METRIC_NAMES if name in names]
    metrics = cbpe.expected_metrics(rows, learned.source, metrics=ordered)
    by = as_segments(segment_by, rows.n, "values of segment_by")
    if by is None:
        return metrics, ()
    return metrics, tuple(_segment_metrics(ordered, rows, learned, by))


def _segment_metrics(
    names: Sequence[str],
    rows: Predictions,
    learned: LearnedReference,
    segment_by: Array,
) -> Iterable[SegmentMetrics]:
    """Yield the metrics of each segment, in the order of the segment values."""
    source_rows: dict[str, Ints] = {}
    if learned.segment_by is not None:
        source_rows = dict(group_rows(learned.segment_by))
    for value, index in group_rows(segment_by):
        known = source_rows.get(value, np.empty(0, dtype=np.int64))
        segment = rows.rows(index)
        metrics = cbpe.expected_metrics(
            segment,
            learned.source,
            metrics=names,
            classes=(1,) if rows.k == 2 else None,
            source_rows=known,
        )
        if rows.k > 2:
            metrics = tuple(m for m in metrics if m.scope in (cbpe.ALL_SCOPE, cbpe.MACRO_SCOPE))
        yield SegmentMetrics(value, segment.n, len(known), metrics)
