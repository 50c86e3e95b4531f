"""The page of a study: which measure tells accuracy, how, and what else the table shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.format import pluralize
from oodometer.report.assessment_figures import Figure
from oodometer.report.histograms import unique_labels
from oodometer.report.page import render
from oodometer.studies.analysis import STATISTIC_LABELS, MeasureComparison, compare_measures
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.report import charts
from oodometer.studies.report.correlations import build_correlation_section
from oodometer.studies.report.factors import build_factor_section
from oodometer.studies.report.patterns import build_pattern_section
from oodometer.studies.report.regret import build_regret_section
from oodometer.studies.report.scatter import build_scatter_section
from oodometer.studies.report.summary import computation_remarks, study_description, verdict
from oodometer.studies.report.tables import (
    defined_summaries,
    label_free_measures,
    most_informative_measures,
    sort_statistic,
    study_tables,
)

# Statistics that lie around 0, where a measure tells nothing.
ZERO_CENTERED_STATISTIC = "tau"


def study_page(table: EvaluationTable, *, title: str, reproduce: Mapping[str, str]) -> str:
    """What a table of evaluations says of its measures, as a whole HTML page.

    `reproduce` has what is needed to get the same numbers again, under the names it is shown with.
    A part that the table is too small for is a sentence that says why.
    """
    judged = compare_measures(table)
    parts: dict[str, Callable[[], Any]] = {
        "drawn": lambda: build_scatter_section(judged),
        "related": lambda: build_correlation_section(judged),
        "factored": lambda: build_factor_section(judged),
        "patterned": lambda: build_pattern_section(table),
        "regrets": lambda: build_regret_section(judged),
    }
    found = {name: _try_build(make) for name, make in parts.items()}
    return render(
        "study_page.html",
        {
            "title": title,
            "subject": study_description(judged),
            "verdict": verdict(judged),
            "overview": _overview_figure(judged),
            "tables": study_tables(judged),
            "labelled": [
                name for name in table.measures if name not in label_free_measures(table.measures)
            ],
            "kinds": len(table.architectures),
            "remarks": computation_remarks(judged),
            "reproduce": reproduce,
            "counted": pluralize,
            **{name: part for name, (part, _) in found.items()},
            "lacking": {name: reason for name, (_, reason) in found.items()},
        },
    )


def _try_build(make: Callable[[], Any]) -> tuple[Any, str]:
    """A part of the page, or why there is none."""
    try:
        return make(), ""
    except (NotApplicable, InputError) as reason:
        return None, str(reason).rstrip(".")


def _overview_figure(comparison: MeasureComparison) -> Figure | None:
    """The first statistic of the most telling measures, with deviations over groups."""
    order = sort_statistic(comparison)
    if order is None:
        return None
    found = defined_summaries(comparison, order)
    names = [name for name in most_informative_measures(comparison) if name in found]
    spans = []
    for label, name in zip(unique_labels(names), names, strict=True):
        mean, sd = found[name].mean or 0.0, found[name].sd or 0.0
        spans.append(
            charts.ValueSpan(label, round(mean, 3), round(mean - sd, 3), round(mean + sd, 3))
        )
    some = f" Of {len(found)} measures the {len(names)} are shown that are farthest from 0."
    rules = [("0: the measure tells nothing", 0.0)] if ZERO_CENTERED_STATISTIC in order else []
    return Figure(
        key="overview",
        title=f"{STATISTIC_LABELS[order]} of {'every measure' if len(names) == len(found) else 'measures'}",
        caption=f"The mean over groups, and one standard deviation over them to each side; the "
        f"numbers are in the table below.{some if len(names) < len(found) else ''}",
        alt=f"{STATISTIC_LABELS[order]} of {pluralize(len(names), 'measure')}, from {spans[0].value} of "
        f"{spans[0].name} to {spans[-1].value} of {spans[-1].name}.",
        spec=charts.span_chart(spans, title=STATISTIC_LABELS[order], rules=rules),
        wide=True,
    )
