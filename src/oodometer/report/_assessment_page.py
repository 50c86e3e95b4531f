"""HTML page of an assessment: fill the template with its texts, tables and charts."""

from __future__ import annotations

from collections.abc import Mapping

from oodometer.assessment.additional_results import AdditionalResults
from oodometer.assessment.result import Assessment, concerned_methods
from oodometer.core.format import few_rows_warning, pluralize
from oodometer.core.predictions import Predictions
from oodometer.core.results import STATUSES_WORST_FIRST
from oodometer.estimators.atc import atc_source_bound
from oodometer.report.assessment_figures import draw_assessment_figures
from oodometer.report.page import render
from oodometer.report.segments import is_time_series, segment_figure, select_table_segments
from oodometer.report.terminal import drop_empty_columns
from oodometer.report.verdict import (
    REQUIRED_SHAPES,
    is_below_required,
    required_result,
    short_verdict,
    worst_segments,
)

# Number of segments in the table above the folded table of all segments.
MAX_WORST_SEGMENTS = 5


def assessment_page(
    assessment: Assessment,
    source: Predictions,
    target: Predictions,
    *,
    title: str,
    additional_results: AdditionalResults | None = None,
    reproduce: Mapping[str, str],
    date: str | None = None,
    required: float | None = None,
) -> str:
    """Return an assessment as a complete HTML page.

    Parameters
    ----------
    assessment : Assessment
        Result of `estimate`.
    source, target : Predictions
        Predictions that `estimate` was called with.
    title : str
        Title of the page.
    additional_results : AdditionalResults, optional
        Metrics other than accuracy, the lower bound and the non-inferiority verdict, each if it
        was requested.
    reproduce : mapping from str to str
        Names and values of all settings that are needed to reproduce the numbers, such as the
        seed. The page lists them.
    date : str, optional
        Date to show below the title.
    required : float, optional
        Required accuracy, as a fraction. Charts show it as a line, and the verdict says whether
        the estimate and its intervals are above or below it.

    Returns
    -------
    str
        HTML that contains all styles, scripts and data, so the page needs no other file.

    Raises
    ------
    MissingExtra
        If altair or vl-convert is missing.

    Examples
    --------
    >>> import oodometer
    >>> from oodometer.testing import toy_pair
    >>> source, target = toy_pair()
    >>> assessment = oodometer.estimate(source, target, replicates=20)
    >>> page = assessment_page(assessment, source, target, title="New site", reproduce={})
    >>> "<title>New site</title>" in page
    True
    """
    (methods, *figures), omissions = draw_assessment_figures(
        assessment, source, target, required=required
    )
    values = [estimate.value for estimate in assessment.estimates]
    return render(
        "assessment_page.html",
        {
            "title": title,
            "date": date,
            "required": required,
            "required_result": None if required is None else required_result(assessment, required),
            "required_shapes": REQUIRED_SHAPES,
            "is_below_required": is_below_required,
            "verdict": short_verdict(assessment, required=required),
            "assessment": assessment,
            "more": additional_results or AdditionalResults(),
            "lowest": min(values),
            "highest": max(values),
            "problems": sorted(
                (one for one in assessment.diagnostics if one.status != "ok"),
                key=lambda problem: STATUSES_WORST_FIRST.index(problem.status),
            ),
            "passed": [one for one in assessment.diagnostics if one.status == "ok"],
            "methods": methods,
            "atc_bound": _atc_source_bound(assessment),
            "figures": figures,
            "omissions": omissions,
            "is_timeline": is_time_series(assessment.segments),
            "segment_figure": segment_figure(assessment, required=required),
            "worst": worst_segments(assessment.segments, MAX_WORST_SEGMENTS),
            "segments": select_table_segments(assessment.segments),
            "few_rows": few_rows_warning([segment.n for segment in assessment.segments]),
            "drop_empty_columns": drop_empty_columns,
            "pluralize": pluralize,
            "concerned_methods": concerned_methods,
            "reproduce": reproduce,
        },
    )


def _atc_source_bound(assessment: Assessment) -> float | None:
    """Return the bound on the error of ATC on the source distribution; None without ATC."""
    if not {"atc-mc", "atc-ne"} & {estimate.method for estimate in assessment.estimates}:
        return None
    return min(atc_source_bound(assessment.n_source), 1.0)
