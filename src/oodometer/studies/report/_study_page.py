"""The page of a study: which measure tells accuracy, how, and what else the table shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.format import counted
from oodometer.report.assessment_figures import Figure
from oodometer.report.histograms import labels
from oodometer.report.page import render
from oodometer.studies.analysis import LABELS, Judgement, judge
from oodometer.studies.analysis.evaluation_table import Table
from oodometer.studies.report import charts
from oodometer.studies.report.correlations import related
from oodometer.studies.report.factors import factored
from oodometer.studies.report.patterns import patterned
from oodometer.studies.report.regret import regrets
from oodometer.studies.report.scatter import panels
from oodometer.studies.report.summary import remarks, subject, verdict
from oodometer.studies.report.tables import (
    answers,
    most_telling,
    order_of,
    study_tables,
    unlabelled,
)

# Statistics that lie around 0, where a measure tells nothing.
AROUND_ZERO = "tau"


def study_page(table: Table, *, title: str, reproduce: Mapping[str, str]) -> str:
    """What a table of evaluations says of its measures, as a whole HTML page.

    `reproduce` has what is needed to get the same numbers again, under the names it is shown with.
    A part that the table is too small for is a sentence that says why.
    """
    judged = judge(table)
    parts: dict[str, Callable[[], Any]] = {
        "drawn": lambda: panels(judged),
        "related": lambda: related(judged),
        "factored": lambda: factored(judged),
        "patterned": lambda: patterned(table),
        "regrets": lambda: regrets(judged),
    }
    found = {name: _or_reason(make) for name, make in parts.items()}
    return render(
        "study_page.html",
        {
            "title": title,
            "subject": subject(judged),
            "verdict": verdict(judged),
            "overview": _overview(judged),
            "tables": study_tables(judged),
            "labelled": [name for name in table.measures if name not in unlabelled(table.measures)],
            "kinds": len(table.architectures),
            "remarks": remarks(judged),
            "reproduce": reproduce,
            "counted": counted,
            **{name: part for name, (part, _) in found.items()},
            "lacking": {name: reason for name, (_, reason) in found.items()},
        },
    )


def _or_reason(make: Callable[[], Any]) -> tuple[Any, str]:
    """A part of the page, or why there is none."""
    try:
        return make(), ""
    except (NoAnswer, InputError) as reason:
        return None, str(reason).rstrip(".")


def _overview(judged: Judgement) -> Figure | None:
    """The first statistic of the most telling measures, with deviations over groups."""
    order = order_of(judged)
    if order is None:
        return None
    found = answers(judged, order)
    names = [name for name in most_telling(judged) if name in found]
    spans = []
    for label, name in zip(labels(names), names, strict=True):
        mean, sd = found[name].mean or 0.0, found[name].sd or 0.0
        spans.append(charts.Span(label, round(mean, 3), round(mean - sd, 3), round(mean + sd, 3)))
    some = f" Of {len(found)} measures the {len(names)} are shown that are farthest from 0."
    rules = [("0: the measure tells nothing", 0.0)] if AROUND_ZERO in order else []
    return Figure(
        key="overview",
        title=f"{LABELS[order]} of {'every measure' if len(names) == len(found) else 'measures'}",
        caption=f"The mean over groups, and one standard deviation over them to each side; the "
        f"numbers are in the table below.{some if len(names) < len(found) else ''}",
        alt=f"{LABELS[order]} of {counted(len(names), 'measure')}, from {spans[0].value} of "
        f"{spans[0].name} to {spans[-1].value} of {spans[-1].name}.",
        spec=charts.spans(spans, title=LABELS[order], rules=rules),
        wide=True,
    )
