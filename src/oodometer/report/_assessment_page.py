"""The page of an assessment."""

from __future__ import annotations

from oodometer.assessment.diagnostics import WORST_FIRST
from oodometer.assessment.optional_analyses import More
from oodometer.assessment.result import Assessment
from oodometer.core.format import counted, of_few_rows
from oodometer.core.predictions import Predictions
from oodometer.report.assessment_figures import Shown, figures
from oodometer.report.page import render
from oodometer.report.segments import listed, over_time, segment_figure


def assessment_page(
    assessment: Assessment,
    source: Predictions,
    target: Predictions,
    *,
    title: str,
    more: More | None = None,
    reproduce: dict[str, str],
) -> str:
    """What was found about the target, as a whole HTML page.

    `source` and `target` are the predictions that `estimate` was given. `reproduce` has what is
    needed to get the same numbers again, under the names it is shown with; `more` what was asked for
    beside the accuracy.
    """
    (methods, *others), lacking = figures(Shown.of(assessment, source, target))
    values = [found.value for found in assessment.estimates]
    return render(
        "assessment_page.html",
        {
            "title": title,
            "assessment": assessment,
            "more": more or More(),
            "lowest": min(values),
            "highest": max(values),
            "lights": sorted(assessment.diagnostics, key=lambda d: WORST_FIRST.index(d.light)),
            "methods": methods,
            "figures": others,
            "lacking": lacking,
            "timed": over_time(assessment.segments),
            "segment_figure": segment_figure(assessment),
            "segments": listed(assessment.segments),
            "few": of_few_rows([one.n for one in assessment.segments]),
            "counted": counted,
            "reproduce": reproduce,
        },
    )
