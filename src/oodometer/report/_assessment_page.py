"""The page of an assessment."""

from __future__ import annotations

from oodometer.assessment.diagnostics import STATUSES_WORST_FIRST
from oodometer.assessment.optional_analyses import AdditionalResults
from oodometer.assessment.result import Assessment
from oodometer.core.format import few_rows_warning, pluralize
from oodometer.core.predictions import Predictions
from oodometer.report.assessment_figures import FigureInput, draw_assessment_figures
from oodometer.report.page import render
from oodometer.report.segments import is_time_series, segment_figure, select_table_segments


def assessment_page(
    assessment: Assessment,
    source: Predictions,
    target: Predictions,
    *,
    title: str,
    additional_results: AdditionalResults | None = None,
    reproduce: dict[str, str],
) -> str:
    """What was found about the target, as a whole HTML page.

    `source` and `target` are the predictions that `estimate` was given. `reproduce` has what is
    needed to get the same numbers again, under the names it is shown with; `additional_results` what was asked for
    beside the accuracy.
    """
    (methods, *others), lacking = draw_assessment_figures(
        FigureInput.from_assessment(assessment, source, target)
    )
    values = [found.value for found in assessment.estimates]
    return render(
        "assessment_page.html",
        {
            "title": title,
            "assessment": assessment,
            "more": additional_results or AdditionalResults(),
            "lowest": min(values),
            "highest": max(values),
            "diagnostics": sorted(
                assessment.diagnostics, key=lambda d: STATUSES_WORST_FIRST.index(d.status)
            ),
            "methods": methods,
            "figures": others,
            "lacking": lacking,
            "timed": is_time_series(assessment.segments),
            "segment_figure": segment_figure(assessment),
            "segments": select_table_segments(assessment.segments),
            "few": few_rows_warning([one.n for one in assessment.segments]),
            "counted": pluralize,
            "reproduce": reproduce,
        },
    )
