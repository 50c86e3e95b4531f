"""The page of neighborhood invariance: models, the transform, and examples to look at.

Ng, Hulkund, Cho & Ghassemi, "Predicting Out-of-Domain Generalization with Neighborhood
Invariance", TMLR 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oodometer import estimators
from oodometer.assessment.result import format_percent
from oodometer.core.errors import InputError
from oodometer.neighborhood.ranking import Ranking
from oodometer.neighborhood.results import (
    ENTROPY_LIMIT,
    MEASURES,
    InvarianceResult,
    ModelInvariance,
)
from oodometer.neighborhood.sampling import NeighborhoodSampler
from oodometer.report import invariance_figures as figures
from oodometer.report import leaderboard as standings
from oodometer.report.assessment_figures import Figure
from oodometer.report.example_cards import build_card_groups
from oodometer.report.leaderboard import LeaderboardRow
from oodometer.report.neighborhood_view import check_same_run, class_name
from oodometer.report.page import render

# A table of more rows is not read, and would make the page heavy.
MAX_TABLE_ROWS = 200
MEASURE_MEANINGS = {
    "ni": "the share of its neighborhood that is in the most frequent class",
    "ne": "the negative entropy of the classes of its neighborhood: 0 where all are in one",
    "ei": "how sure the model is of it and of a draw, where both are in one class, and else 0",
    "pa": "the share of pairs in its neighborhood that are in one class, fair for any number of draws",
}


@dataclass(frozen=True, eq=False)
class InvariancePageData:
    """Models in their order by a measure, and what they were judged by, where it is neighborhoods."""

    rows: list[LeaderboardRow]
    measure: str
    neighborhoods: InvarianceResult | None = None
    sampler: NeighborhoodSampler | None = None
    measure_key: str = ""
    model: str = ""
    omissions: list[str] = field(default_factory=list)


def invariance_page(
    neighborhoods: InvarianceResult,
    sampler: NeighborhoodSampler,
    *,
    title: str,
    reproduce: Mapping[str, str],
    known_accuracies: Mapping[str, float] | None = None,
    model: str | None = None,
) -> str:
    """What `invariance` found, as a whole HTML page.

    `sampler` is what it was found with: data, transform and seed. `known_accuracies` has accuracies of models on
    these data; those of labelled data are found here. The examples are those of `model`, by default
    of the model that comes first.
    """
    check_same_run(neighborhoods, sampler)
    short = standings.main_measure(neighborhoods)
    told, lacking = _collect_accuracies(neighborhoods, sampler, known_accuracies)
    rows = standings.leaderboard_from_neighborhoods(neighborhoods, short, told)
    shown = neighborhoods[model or rows[0].model].model
    judged = InvariancePageData(
        rows, neighborhoods.measure_label(short), neighborhoods, sampler, short, shown, lacking
    )
    return _render_page(judged, title, reproduce)


def ranking_page(
    ranking: Ranking,
    sampler: NeighborhoodSampler | None = None,
    *,
    title: str,
    reproduce: Mapping[str, str],
    known_accuracies: Mapping[str, float] | None = None,
    model: str | None = None,
) -> str:
    """What `rank` found, as a whole HTML page; with examples, where it is by neighborhoods.

    For these `sampler` is needed: data, transform and seed of the ranking.
    """
    found = ranking.neighborhoods
    if found is None or sampler is None:
        return _render_page(InvariancePageData(standings.leaderboard_from_ranking(ranking, known_accuracies or {}), ranking.measure),
                     title, reproduce)  # fmt: skip
    check_same_run(found, sampler)
    told, lacking = _collect_accuracies(found, sampler, known_accuracies)
    rows = standings.leaderboard_from_ranking(ranking, told)
    short = next(one for one in MEASURES if found.measure_label(one) == ranking.measure)
    shown = found[model or rows[0].model].model
    judged = InvariancePageData(rows, ranking.measure, found, sampler, short, shown, lacking)
    return _render_page(judged, title, reproduce)


def _collect_accuracies(
    neighborhoods: InvarianceResult,
    sampler: NeighborhoodSampler,
    known_accuracies: Mapping[str, float] | None,
) -> tuple[dict[str, float], list[str]]:
    """Accuracies by labels and as given, and why there are none by labels."""
    try:
        return {
            **standings.accuracies(neighborhoods, sampler.dataset.labels),
            **(known_accuracies or {}),
        }, []
    except InputError as error:
        return dict(known_accuracies or {}), [
            f"Accuracies by the labels of the data are left out: {error}"
        ]


def _render_page(page_data: InvariancePageData, title: str, reproduce: Mapping[str, str]) -> str:
    found, show = page_data.neighborhoods, page_data.sampler
    right, pairs = standings.concordant_pairs(page_data.rows)
    context: dict[str, Any] = {
        "title": title,
        "judged": page_data,
        "rows": page_data.rows[:MAX_TABLE_ROWS],
        "reading": _summary_text(page_data),
        "figures": _model_figures(page_data),
        "right": right,
        "pairs": pairs,
        "measures": [one for one in MEASURES if page_data.rows[0].readings.get(one)],
        "meanings": MEASURE_MEANINGS,
        "chance": standings.format_probability,
        "limit": ENTROPY_LIMIT,
        "assumes": _estimator_assumption(page_data.measure),
        "reproduce": reproduce,
    }
    if found is not None and show is not None:
        order = [row.model for row in page_data.rows]
        context |= {
            "found": found,
            "transform": show.transform,
            "entropy": figures.entropy_figure(found, order),
            "suited": suitability_text(found),
            "lights": [_model_status(found[one]) for one in order[:MAX_TABLE_ROWS]],
            "first_light": _model_status(found[order[0]]),
            "spread": figures.distribution_figure(
                _models_to_compare(found, page_data), found, page_data.measure_key
            ),
            "walls": build_card_groups(found[page_data.model], show, page_data.measure_key),
        }
    return render("invariance_page.html", context)


def _summary_text(page_data: InvariancePageData) -> str:
    if page_data.neighborhoods is None or len(page_data.rows) > 1:
        said = standings.leaderboard_summary(page_data.rows, page_data.measure)
        return f"{said} {standings.best_known_summary(page_data.rows)}".strip()
    return single_model_summary(page_data.neighborhoods[0], page_data.measure_key)


def single_model_summary(result: ModelInvariance, measure_key: str) -> str:
    """What is said of a model on its own."""
    read = result.mean_with_interval(measure_key)
    if measure_key == "ni":
        said = f"On average {format_percent(read.value)} % of a neighborhood are put in one class"
    else:
        said = (
            "Two members of a neighborhood are put in one class with a probability of "
            f"{format_percent(read.value)} %"
        )
    return (
        f"{said}; {format_percent(result.constant_share)} % of the examples stay in their class whatever "
        "is done to them."
    )


def suitability_text(neighborhoods: InvarianceResult) -> str:
    """Whether the transform is suitable, in words."""
    rises = [one.entropy_difference for one in neighborhoods]
    told = [rise for rise in rises if rise is not None]
    if not told:
        return (
            f"Whether {neighborhoods.transform} is suitable can't be told: that takes probabilities, and "
            "there are classes only."
        )
    above = sum(rise > ENTROPY_LIMIT for rise in told)
    most = f"{max(told):.3f}"
    if max(told) < 0:
        return (
            f"{neighborhoods.transform} is suitable: it does not raise the entropy of predictions, and up "
            f"to about {ENTROPY_LIMIT} invariance works."
        )
    if not above:
        return (
            f"{neighborhoods.transform} is suitable: it raises the entropy of predictions by {most}"
            f"{' at most' if len(told) > 1 else ''}, and up to about {ENTROPY_LIMIT} invariance works."
        )
    whose = "" if len(neighborhoods) == 1 else f" for {above} of {len(told)} models"
    return (
        f"{neighborhoods.transform} is unsuitable{whose}: it raises the entropy of predictions by {most}"
        f"{' at most' if len(told) > 1 else ''}, more than {ENTROPY_LIMIT}. It may destroy the "
        "classes: another transform may do better, or a smaller magnitude."
    )


def _model_status(result: ModelInvariance) -> dict[str, Any]:
    """Return the status of one model under the transform, its numbers, and their meaning."""
    rise, (top, share) = result.entropy_difference, result.top_class
    notes = result.warnings()
    status = "ok" if not notes else "warning"
    if result.degenerate or (rise is not None and rise > ENTROPY_LIMIT):
        status = "critical"
    return {
        "model": result.model,
        "status": status,
        "rise": "unknown" if rise is None else f"{rise:+z.3f}".replace("-", "−"),
        "still": format_percent(result.constant_share),
        "top": class_name(result.class_names, top),
        "share": format_percent(share),
        "meaning": "; ".join(notes) or "no sign of trouble was found",
    }


def _model_figures(page_data: InvariancePageData) -> list[Figure]:
    """The charts of values and accuracies."""
    if page_data.neighborhoods is not None and len(page_data.rows) == 1:
        return [figures.measures_figure(page_data.rows[0], page_data.neighborhoods)]
    accuracy = figures.accuracy_figure(page_data.rows)
    order = figures.order_figure(page_data.rows, page_data.measure)
    return [order] if accuracy is None else [order, accuracy]


def _models_to_compare(
    neighborhoods: InvarianceResult, page_data: InvariancePageData
) -> list[ModelInvariance]:
    """The model shown and the last one; where it is the last itself, the first."""
    order = [row.model for row in page_data.rows]
    other = order[0] if page_data.model == order[-1] else order[-1]
    return [neighborhoods[one] for one in dict.fromkeys((page_data.model, other))]


def _estimator_assumption(measure: str) -> str:
    """What an estimator assumes, where the order is by one."""
    return next((one.assumes for one in estimators.available() if one.name == measure), "")
