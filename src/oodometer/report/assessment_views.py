"""Views of an assessment: HTML in notebooks, HTML report and charts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from oodometer.assessment.result import (
    AssessedRows,
    Assessment,
    Segment,
    format_interval,
    format_percent,
)
from oodometer.core.errors import InputError
from oodometer.core.format import pluralize
from oodometer.core.results import STATUSES_WORST_FIRST
from oodometer.report._assessment_page import assessment_page
from oodometer.report.assessment_figures import methods_figure, prediction_figures
from oodometer.report.notebook import (
    FigureBuilders,
    IntervalBar,
    NotebookContent,
    NotebookTable,
    draw,
    render_notebook,
)
from oodometer.report.page import versions_text, write_page
from oodometer.report.segments import segment_figure

DEFAULT_TITLE = "Estimated accuracy without labels"
# Kinds of charts that need the predictions.
PREDICTION_KINDS = ("confidence", "reliability", "classes")


def notebook_html(assessment: Assessment) -> str:
    """Return an assessment as a fragment of HTML for notebooks."""
    inputs = assessment.inputs
    return render_notebook(
        NotebookContent(
            headline=f"{format_percent(assessment.accuracy)} % estimated accuracy",
            subject="" if inputs is None else inputs.name,
            status=assessment.status,
            bars=tuple(_bars(assessment)),
            sentences=tuple(_sentences(assessment)),
            tables=tuple(_tables(assessment)),
            percent=True,
        )
    )


def write_report(assessment: Assessment, path: str | Path, *, title: str | None) -> None:
    """Write the HTML report of an assessment."""
    inputs = _require_inputs(assessment)
    page = assessment_page(
        assessment,
        inputs.source,
        inputs.target,
        title=title or (f"{inputs.name}: e{DEFAULT_TITLE[1:]}" if inputs.name else DEFAULT_TITLE),
        additional_results=assessment.additional,
        reproduce={"Versions": versions_text(), "Seed": str(assessment.seed)},
    )
    write_page(page, path)


def draw_chart(assessment: Assessment, kind: str | None) -> Any:
    """Return a chart of an assessment: methods, segments, confidence, reliability or classes."""
    builders: dict[str, Any] = {
        "methods": partial(methods_figure, assessment),
        "segments": partial(segment_figure, assessment),
        **{name: partial(_prediction_figure, assessment, name) for name in PREDICTION_KINDS},
    }
    figures: FigureBuilders = builders
    return draw(figures, kind)


def _prediction_figure(assessment: Assessment, kind: str) -> Any:
    inputs = _require_inputs(assessment)
    return prediction_figures(assessment, inputs.source, inputs.target)[kind]()


def _require_inputs(assessment: Assessment) -> AssessedRows:
    if assessment.inputs is None:
        raise InputError(
            "The assessment no longer holds the predictions, because it was pickled. Call estimate "
            "again, or oodometer.report.assessment_page with the predictions."
        )
    return assessment.inputs


def _bars(assessment: Assessment) -> Iterator[IntervalBar]:
    yield IntervalBar("source", *assessment.source_interval, assessment.source_accuracy)
    accuracy = assessment.accuracy
    yield IntervalBar(
        "target, confidence interval", *(assessment.interval or (accuracy, accuracy)), accuracy
    )
    if assessment.typical_range is not None:
        yield IntervalBar("target, typical range", *assessment.typical_range)


def _sentences(assessment: Assessment) -> Iterator[str]:
    interval = format_interval(assessment.headline.estimate)
    yield f"95 % confidence interval ({assessment.interval_scope}): {interval} %."
    yield f"Typical range: {assessment.typical_range_text}."
    yield from assessment.explanation
    if assessment.next_step:
        yield f"{assessment.next_step}: {assessment.plan_call}"
    yield from assessment.notes
    if assessment.additional is not None:
        yield from assessment.additional.sentences


def _tables(assessment: Assessment) -> Iterator[NotebookTable]:
    if assessment.segments:
        rows = [_segment_cells(segment) for segment in assessment.segments]
        heads = ("segment", "rows", "accuracy, %", "95 % interval", "typical range", "status")
        yield NotebookTable("Segments", heads, rows)
    if assessment.additional is not None:
        yield NotebookTable("Expected metrics", *assessment.additional.metric_table)
        yield NotebookTable("Expected metrics of segments", *assessment.additional.segment_table)
    estimates = [
        (
            estimate.method,
            format_percent(estimate.value),
            format_interval(estimate),
            estimate.assumes,
        )
        for estimate in assessment.estimates
    ]
    estimates += [(name, "–", "", reason) for name, reason in assessment.skipped.items()]
    yield NotebookTable(
        f"Estimates of {pluralize(len(assessment.estimates), 'method')}",
        ("method", "accuracy, %", "95 % interval", "assumption, or why not applicable"),
        estimates,
        is_open=False,
    )
    checks = sorted(
        assessment.diagnostics, key=lambda check: STATUSES_WORST_FIRST.index(check.status)
    )
    yield NotebookTable(
        pluralize(len(checks), "diagnostic"),
        ("status", "diagnostic", "value", "meaning", "what to do"),
        [(c.status, c.name, c.formatted_value, c.meaning, c.advice_text) for c in checks],
        is_open=False,
    )


def _segment_cells(segment: Segment) -> tuple[str, ...]:
    estimate, shift = segment.estimate, segment.shift
    if estimate is None:
        return segment.value, f"{segment.n:,}", "–", "", "", segment.reason
    typical = "" if shift is None else format_interval(shift)
    accuracy = format_percent(estimate.value)
    interval = format_interval(estimate)
    return segment.value, f"{segment.n:,}", accuracy, interval, typical, segment.status
