"""The page of an assessment."""

from __future__ import annotations

from oodometer.assessment import Assessment
from oodometer.predictions import Predictions
from oodometer.report.figures import Shown, figures, lowest
from oodometer.report.page import render

# A table of more rows is not read, and would make the page heavy.
MOST_ROWS = 200


def assessment_page(
    assessment: Assessment,
    source: Predictions,
    target: Predictions,
    *,
    title: str,
    reproduce: dict[str, str],
) -> str:
    """What was found about the target, as a whole HTML page.

    `source` and `target` are the predictions that `estimate` was given. `reproduce` has what is
    needed to get the same numbers again, under the names it is shown with.
    """
    drawn, lacking = figures(Shown.of(assessment, source, target))
    return render(
        "assessed.html",
        {
            "title": title,
            "assessment": assessment,
            "figures": drawn,
            "lacking": lacking,
            "segments": lowest(assessment.segments, MOST_ROWS),
            "reproduce": reproduce,
        },
    )
