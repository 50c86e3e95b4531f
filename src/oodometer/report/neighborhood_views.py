"""Views of rankings and of invariance: HTML in notebooks, HTML reports and charts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError
from oodometer.core.format import format_number, pluralize
from oodometer.core.results import worst_status
from oodometer.neighborhood.ranking import Ranking
from oodometer.neighborhood.results import MEASURES, InvarianceResult
from oodometer.neighborhood.sampling import NeighborhoodSampler
from oodometer.report import invariance_figures as figures
from oodometer.report import leaderboard
from oodometer.report._invariance_page import invariance_page, ranking_page, suitability_text
from oodometer.report.charts import Figure
from oodometer.report.leaderboard import LeaderboardRow
from oodometer.report.notebook import (
    FigureBuilders,
    IntervalBar,
    NotebookContent,
    NotebookTable,
    draw,
    render_notebook,
)
from oodometer.report.page import versions_text, write_page


def notebook_html(result: Ranking | InvarianceResult) -> str:
    """Return a ranking or the invariance of models as a fragment of HTML for notebooks."""
    content = (
        _ranking_content(result) if isinstance(result, Ranking) else _invariance_content(result)
    )
    return render_notebook(content)


def write_report(
    result: Ranking | InvarianceResult, path: str | Path, *, title: str | None
) -> None:
    """Write the HTML report of a ranking or of the invariance of models."""
    reproduce = {"Versions": versions_text(), "Seed": str(result.seed)}
    if isinstance(result, Ranking):
        neighborhoods = result.neighborhoods
        page = ranking_page(
            result,
            None if neighborhoods is None else _require_sampler(neighborhoods),
            title=title or f"{result.data}: which model is best?",
            reproduce=reproduce,
            known_accuracies=result.known_accuracies,
        )
    else:
        page = invariance_page(
            result,
            _require_sampler(result),
            title=title or f"{result.data}: how stable are the decisions?",
            reproduce=reproduce,
        )
    write_page(page, path)


def draw_chart(result: Ranking | InvarianceResult, kind: str | None) -> Any:
    """Return a chart: order, accuracies, entropy or distribution; of one model, measures."""
    neighborhoods = result.neighborhoods if isinstance(result, Ranking) else result
    rows = _leaderboard(result)
    measure = result.measure if isinstance(result, Ranking) else _main_label(result)
    order = [row.model for row in rows]
    builders: FigureBuilders = {
        "order": partial(figures.order_figure, rows, measure),
        "accuracies": partial(figures.accuracy_figure, rows),
        "entropy": partial(_entropy_figure, neighborhoods, order),
        "distribution": partial(_distribution_figure, neighborhoods, order),
    }
    if isinstance(result, InvarianceResult) and len(rows) == 1:
        builders = {"measures": partial(figures.measures_figure, rows[0], result), **builders}
    return draw(builders, kind)


def _entropy_figure(result: InvarianceResult | None, order: Sequence[str]) -> Figure | None:
    return None if result is None else figures.entropy_figure(result, order)


def _distribution_figure(result: InvarianceResult | None, order: Sequence[str]) -> Figure | None:
    """Draw the distribution of the main measure for the first and the last model."""
    if result is None:
        return None
    compared = [result[name] for name in dict.fromkeys((order[0], order[-1]))]
    return figures.distribution_figure(compared, result, result.main_measure)


def _require_sampler(result: InvarianceResult) -> NeighborhoodSampler:
    if result.sampler is None:
        raise InputError(
            "The result no longer holds its data and transform, because it was pickled. Compute it "
            "again, or call oodometer.report.invariance_page with a sampler."
        )
    return result.sampler


def _leaderboard(result: Ranking | InvarianceResult) -> list[LeaderboardRow]:
    if isinstance(result, Ranking):
        return leaderboard.leaderboard_from_ranking(result, result.known_accuracies)
    return leaderboard.leaderboard_from_neighborhoods(result, result.main_measure, {})


def _main_label(result: InvarianceResult) -> str:
    return result.measure_label(result.main_measure)


def _bars(rows: Sequence[LeaderboardRow]) -> list[IntervalBar]:
    return [IntervalBar(row.model, row.low, row.high, row.value) for row in rows]


def _ranking_content(ranking: Ranking) -> NotebookContent:
    rows = _leaderboard(ranking)
    heads = ("rank", "model", ranking.measure, "95 % interval", "higher than the next", "status")
    cells = [
        (
            str(place),
            row.model,
            format_number(row.value),
            _format_interval(row.low, row.high),
            ""
            if row.higher_in_resamples is None
            else leaderboard.format_probability(row.higher_in_resamples),
            worst_status(row.diagnostics),
            *(format_number(row.scores[name]) for name in ranking.columns),
        )
        for place, row in enumerate(rows, start=1)
    ]
    return NotebookContent(
        headline=f"{leaderboard.format_inline_name(rows[0].model)} ranks first of {pluralize(len(rows), 'model')}",
        subject=f"on {ranking.data}, {pluralize(ranking.n, 'row')}",
        bars=_bars(rows),
        sentences=[
            leaderboard.leaderboard_summary(rows, ranking.measure),
            leaderboard.order_explanation(ranking.measure, ranking.columns),
            *(row.caution for row in rows if row.caution),
            *(f"{note[0].upper()}{note[1:]}." for note in ranking.notes),
        ],
        tables=[NotebookTable("Models", (*heads, *ranking.columns), cells)],
    )


def _invariance_content(result: InvarianceResult) -> NotebookContent:
    rows = _leaderboard(result)
    names = [name for name in MEASURES if any(name in row.readings for row in rows)]
    cells = [
        (
            row.model,
            *(
                f"{format_number(mean.value)} ({_format_interval(mean.low, mean.high)})"
                if mean
                else ""
                for mean in (row.readings.get(name) for name in names)
            ),
            "; ".join(row.notes),
        )
        for row in rows
    ]
    heads = ("model", *(result.measure_label(name) for name in names), "notes")
    return NotebookContent(
        headline=f"{_main_label(result)} of {pluralize(len(rows), 'model')}",
        subject=f"on {result.data}, {pluralize(result.n, 'row')}",
        bars=_bars(rows),
        sentences=[suitability_text(result)],
        tables=[NotebookTable("Models", heads, cells)],
    )


def _format_interval(low: float, high: float) -> str:
    return f"{format_number(low)} to {format_number(high)}"
