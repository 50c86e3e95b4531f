"""HTML page of a study, which shows how well each measure predicts accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.format import pluralize
from oodometer.report.charts import Figure, FigureTable
from oodometer.report.histograms import truncate_name, unique_labels
from oodometer.report.page import render
from oodometer.studies.analysis import (
    STATISTIC_LABELS,
    AnalysisResult,
    MeasureComparison,
    compare_measures,
    run_analysis,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.factors import DEFAULT_ROTATION, Rotation, check_rotation
from oodometer.studies.report import charts
from oodometer.studies.report.best_hyperparameters import build_hyperparameter_section
from oodometer.studies.report.correlations import build_correlation_section
from oodometer.studies.report.difficulty import build_difficulty_section
from oodometer.studies.report.factors import build_factor_section
from oodometer.studies.report.id_ood_correlations import build_id_ood_correlation_section
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
from oodometer.studies.report.training_strategies import (
    build_augmentation_section,
    build_strategy_section,
)

# The statistics that have this text in their name are 0 for an uninformative measure.
ZERO_CENTERED_STATISTIC = "tau"
# Analyses that are shown as tables. The other analyses have sections of their own.
PAGE_ANALYSES = ("joint", "rank", "noise", "truth", "errors")
# Maximum number of rows per table of an analysis. The command prints all rows.
MAX_ANALYSIS_ROWS = 60
ArgumentT = TypeVar("ArgumentT")


def study_page(
    table: EvaluationTable,
    *,
    title: str,
    reproduce: Mapping[str, str],
    rotation: Rotation = DEFAULT_ROTATION,
    date: str | None = None,
) -> str:
    """Return the HTML page of a table of evaluations.

    If the table is too small for a section, the page has a sentence with the reason instead.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains.
    title : str
        Title of the page.
    reproduce : mapping of str to str
        Names and values of all settings that are needed to reproduce the numbers, such as the
        command and the versions. The page lists them.
    rotation : {"equamax", "varimax", "quartimax"}
        Rotation of the factors.
    date : str, optional
        Date to show below the title.

    Returns
    -------
    str
        Complete HTML document that loads nothing from the network.

    Raises
    ------
    InputError
        If the table has no measure.
    UnknownName
        If the rotation is unknown.
    """
    check_rotation(rotation)
    comparison = compare_measures(table)
    sections = {
        "drawn": _try_build(build_scatter_section, comparison),
        "related": _try_build(build_correlation_section, comparison),
        "averaged": _try_build(build_id_ood_correlation_section, comparison),
        "factored": _try_build(partial(build_factor_section, rotation=rotation), comparison),
        "patterned": _try_build(build_pattern_section, table),
        "difficulty": _try_build(build_difficulty_section, comparison),
        "strategies": _try_build(build_strategy_section, table),
        "augmentation": _try_build(build_augmentation_section, table),
        "hyperparameters": _try_build(build_hyperparameter_section, table),
        "regrets": _try_build(build_regret_section, comparison),
    }
    label_free = label_free_measures(table.measures)
    analyses, skipped_analyses = _run_page_analyses(comparison)
    return render(
        "study_page.html",
        {
            "title": title,
            "date": date,
            "subject": study_description(comparison),
            "verdict": verdict(comparison),
            "overview": overview_figure(comparison),
            "tables": study_tables(comparison),
            "labelled": [name for name in table.measures if name not in label_free],
            "kinds": len(table.architectures),
            "remarks": computation_remarks(comparison),
            "reproduce": reproduce,
            "counted": pluralize,
            **{name: section for name, (section, _) in sections.items()},
            "lacking": {name: reason for name, (_, reason) in sections.items()},
            "analyses": analyses,
            "skipped_analyses": skipped_analyses,
        },
        folder=Path(__file__).parent / "templates",
    )


def _try_build(build: Callable[[ArgumentT], Any], argument: ArgumentT) -> tuple[Any, str]:
    """Return a section of the page; if it cannot be built, return None and the reason."""
    try:
        return build(argument), ""
    except (NotApplicable, InputError) as reason:
        return None, str(reason).rstrip(".")


def _run_page_analyses(
    comparison: MeasureComparison,
) -> tuple[list[tuple[AnalysisResult, FigureTable]], dict[str, str]]:
    """Return analyses of the most informative measures, and why other analyses do not apply."""
    names = most_informative_measures(comparison)
    measures = {
        label: comparison.table.measures[name]
        for label, name in zip(unique_labels(names), names, strict=True)
    }
    table = replace(comparison.table, measures=measures)
    results = []
    reasons = {}
    for name in PAGE_ANALYSES:
        try:
            result = run_analysis(table, name)
        except (NotApplicable, InputError) as error:
            reasons[name] = str(error).rstrip(".")
            continue
        hidden = len(result.table.rows) - MAX_ANALYSIS_ROWS
        if hidden > 0:
            result = replace(result, notes=(*result.notes, f"{hidden:,} more rows are not shown."))
        rows = tuple(
            tuple(map(truncate_name, row)) for row in result.table.rows[:MAX_ANALYSIS_ROWS]
        )
        results.append((result, FigureTable(result.table.header, rows)))
    return results, reasons


def overview_figure(comparison: MeasureComparison) -> Figure | None:
    """Chart the sorting statistic of the most informative measures with standard deviations."""
    order = sort_statistic(comparison)
    if order is None:
        return None
    summaries = defined_summaries(comparison, order)
    names = [name for name in most_informative_measures(comparison) if name in summaries]
    spans = []
    for label, name in zip(unique_labels(names), names, strict=True):
        mean = summaries[name].mean or 0.0
        sd = summaries[name].sd or 0.0
        spans.append(
            charts.ValueSpan(label, round(mean, 3), round(mean - sd, 3), round(mean + sd, 3))
        )
    statistic = STATISTIC_LABELS[order]
    all_shown = len(names) == len(summaries)
    selection = f" The {len(names)} of {len(summaries)} measures farthest from 0 are shown."
    rules = [("0: the measure is uninformative", 0.0)] if ZERO_CENTERED_STATISTIC in order else []
    return Figure(
        key="overview",
        title=f"{statistic} of {'every measure' if all_shown else 'measures'}",
        caption="Mean over groups ± one standard deviation; the numbers are in the table below."
        f"{'' if all_shown else selection}",
        alt=f"{statistic} of {pluralize(len(names), 'measure')}, from {spans[0].value} of "
        f"{spans[0].name} to {spans[-1].value} of {spans[-1].name}.",
        spec=charts.span_chart(spans, title=statistic, rules=rules),
        wide=True,
    )
