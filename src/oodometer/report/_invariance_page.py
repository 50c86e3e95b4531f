"""HTML pages of the results of `invariance` and `rank`.

A page compares the models, tells whether the transform is suitable, and shows examples.
Ng, Hulkund, Cho & Ghassemi, "Predicting Out-of-Domain Generalization with Neighborhood
Invariance", TMLR 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oodometer import estimators
from oodometer.assessment.result import format_percent
from oodometer.core.errors import InputError
from oodometer.core.results import Status, worst_status
from oodometer.neighborhood.ranking import Ranking
from oodometer.neighborhood.results import (
    ENTROPY_LIMIT,
    MEASURES,
    InvarianceResult,
    ModelInvariance,
)
from oodometer.neighborhood.sampling import NeighborhoodSampler
from oodometer.report import invariance_figures as figures
from oodometer.report import leaderboard
from oodometer.report.charts import Figure
from oodometer.report.example_cards import build_card_groups
from oodometer.report.leaderboard import LeaderboardRow
from oodometer.report.neighborhood_view import check_same_run, class_name
from oodometer.report.page import render

# Nobody reads a longer table, and each row makes the page larger.
MAX_TABLE_ROWS = 200
MEASURE_MEANINGS = {
    "ni": "share of the most frequent class in the neighborhood",
    "ne": "negative entropy of the classes in the neighborhood; 0 if all are the same",
    "ei": "geometric mean of the confidences in example and draw if both have the same class, "
    "else 0",
    "pa": "share of pairs in the neighborhood with the same class; comparable between numbers of "
    "draws",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class NeighborhoodDetails:
    """Neighborhoods of a leaderboard, the measure that sorts it, and the model with examples."""

    result: InvarianceResult
    sampler: NeighborhoodSampler
    measure: str
    model: str


def invariance_page(
    neighborhoods: InvarianceResult,
    sampler: NeighborhoodSampler,
    *,
    title: str,
    reproduce: Mapping[str, str],
    known_accuracies: Mapping[str, float] | None = None,
    model: str | None = None,
) -> str:
    """Return the result of `invariance` as a complete HTML page.

    Parameters
    ----------
    neighborhoods : InvarianceResult
        Result of `invariance`.
    sampler : NeighborhoodSampler
        Data, transform and seed that `invariance` was called with.
    title : str
        Title of the page.
    reproduce : mapping from str to str
        Names and values of all settings that are needed to reproduce the numbers, such as the
        seed. The page lists them.
    known_accuracies : mapping from str to float, optional
        Accuracies of models on these data, by model. If the data are labelled, the accuracies of
        the other models are computed from the labels.
    model : str, optional
        Model whose examples are shown. Default: the model that ranks first.

    Returns
    -------
    str
        HTML that contains all styles, scripts and data, so the page needs no other file.

    Raises
    ------
    InputError
        If the data, transform or seed of `sampler` differ from those of the result.

    Examples
    --------
    >>> import numpy as np
    >>> from oodometer import invariance
    >>> from oodometer.data import as_dataset
    >>> from oodometer.neighborhood import prepare_transform
    >>> rows = as_dataset(np.eye(4))
    >>> transform = prepare_transform("gaussian", rows, rows, seed=0)
    >>> result = invariance(lambda x: x.argmax(1), rows, transform=transform, draws=2)
    >>> sampler = NeighborhoodSampler(rows, transform, seed=0)
    >>> page = invariance_page(result, sampler, title="Vectors", reproduce={})
    >>> "<title>Vectors</title>" in page
    True
    """
    check_same_run(neighborhoods, sampler)
    measure = neighborhoods.main_measure
    accuracies, omissions = _collect_accuracies(neighborhoods, sampler, known_accuracies)
    rows = leaderboard.leaderboard_from_neighborhoods(neighborhoods, measure, accuracies)
    details = NeighborhoodDetails(
        result=neighborhoods,
        sampler=sampler,
        measure=measure,
        model=neighborhoods[model or rows[0].model].model,
    )
    context = _page_context(rows, neighborhoods.measure_label(measure), details)
    context |= {"title": title, "reproduce": reproduce, "omissions": omissions}
    return render("invariance_page.html", context)


def ranking_page(
    ranking: Ranking,
    sampler: NeighborhoodSampler | None = None,
    *,
    title: str,
    reproduce: Mapping[str, str],
    known_accuracies: Mapping[str, float] | None = None,
    model: str | None = None,
) -> str:
    """Return the result of `rank` as a complete HTML page.

    Parameters
    ----------
    ranking : Ranking
        Result of `rank`.
    sampler : NeighborhoodSampler, optional
        Data, transform and seed that `rank` was called with, if it ranked by a neighborhood
        measure. Without `sampler`, the page shows no examples.
    title : str
        Title of the page.
    reproduce : mapping from str to str
        Names and values of all settings that are needed to reproduce the numbers, such as the
        seed. The page lists them.
    known_accuracies : mapping from str to float, optional
        Accuracies of models on these data, by model. If `sampler` is given and its data are
        labelled, the accuracies of the other models are computed from the labels.
    model : str, optional
        Model whose examples are shown. Default: the model that ranks first.

    Returns
    -------
    str
        HTML that contains all styles, scripts and data, so the page needs no other file.

    Raises
    ------
    InputError
        If the data, transform or seed of `sampler` differ from those of the ranking.

    Examples
    --------
    >>> import numpy as np
    >>> from oodometer import rank
    >>> models = {"sure": lambda x: np.tile([0.1, 0.9], (len(x), 1)), "unsure": lambda x: np.tile([0.5, 0.5], (len(x), 1))}
    >>> ranking = rank(models, np.eye(4), score=lambda predictions: predictions.confidence)
    >>> "<title>Two models</title>" in ranking_page(ranking, title="Two models", reproduce={})
    True
    """
    neighborhoods = ranking.neighborhoods
    details = None
    accuracies = dict(known_accuracies or {})
    omissions: list[str] = []
    if neighborhoods is not None and sampler is not None:
        check_same_run(neighborhoods, sampler)
        accuracies, omissions = _collect_accuracies(neighborhoods, sampler, known_accuracies)
        labels = {neighborhoods.measure_label(name): name for name in MEASURES}
        details = NeighborhoodDetails(
            result=neighborhoods,
            sampler=sampler,
            measure=next(labels[n] for n in (ranking.measure, *ranking.columns) if n in labels),
            model=neighborhoods[model or ranking.names[0]].model,
        )
    rows = leaderboard.leaderboard_from_ranking(ranking, accuracies)
    context = _page_context(rows, ranking.measure, details)
    context["remarks"] = [f"{note[0].upper()}{note[1:]}." for note in ranking.notes]
    context |= {"title": title, "reproduce": reproduce, "omissions": omissions}
    return render("invariance_page.html", context)


def _collect_accuracies(
    neighborhoods: InvarianceResult,
    sampler: NeighborhoodSampler,
    known_accuracies: Mapping[str, float] | None,
) -> tuple[dict[str, float], list[str]]:
    """Return computed and given accuracies, and a note if the labels cannot be used."""
    given = dict(known_accuracies or {})
    try:
        return {**leaderboard.accuracies(neighborhoods, sampler.dataset.labels), **given}, []
    except InputError as error:
        return given, [f"Accuracies by the labels of the data are not shown: {error}"]


def _page_context(
    rows: list[LeaderboardRow], measure: str, details: NeighborhoodDetails | None
) -> dict[str, Any]:
    n_concordant, n_pairs = leaderboard.concordant_pairs(rows)
    context: dict[str, Any] = {
        "all_rows": rows,
        "rows": rows[:MAX_TABLE_ROWS],
        "measure": measure,
        "summary": _summary_text(rows, measure, details),
        "figures": _model_figures(rows, measure, details),
        "n_concordant": n_concordant,
        "n_pairs": n_pairs,
        "measures": [name for name in MEASURES if details and rows[0].readings.get(name)],
        "meanings": MEASURE_MEANINGS,
        "probability": leaderboard.format_probability,
        "limit": ENTROPY_LIMIT,
        "assumptions": _estimator_assumptions((measure, *rows[0].scores)),
        "columns": list(rows[0].scores),
        "checks": _check_rows(rows[:MAX_TABLE_ROWS]),
        "first_status": worst_status(rows[0].diagnostics),
        "explanation": leaderboard.order_explanation(measure, tuple(rows[0].scores)),
        "remarks": [],
    }
    if details is not None:
        result = details.result
        order = [row.model for row in rows]
        last = order[0] if details.model == order[-1] else order[-1]
        compared = [result[name] for name in dict.fromkeys((details.model, last))]
        context |= {
            "result": result,
            "shown_model": details.model,
            "transform": details.sampler.transform,
            "entropy_figure": figures.entropy_figure(result, order),
            "suitability": suitability_text(result),
            "statuses": [_model_status(result[name]) for name in order[:MAX_TABLE_ROWS]],
            "distribution": figures.distribution_figure(compared, result, details.measure),
            "card_groups": build_card_groups(
                result[details.model], details.sampler, details.measure
            ),
        }
    return context


def _summary_text(
    rows: list[LeaderboardRow], measure: str, details: NeighborhoodDetails | None
) -> str:
    if details is not None and len(rows) == 1:
        return single_model_summary(details.result[0], details.measure)
    order = leaderboard.leaderboard_summary(rows, measure)
    return f"{order} {leaderboard.best_known_summary(rows)}".strip()


def single_model_summary(result: ModelInvariance, measure: str) -> str:
    """Describe the invariance of one model in a sentence."""
    percent = format_percent(result.mean_with_interval(measure).value)
    if measure == "ni":
        start = f"On average, {percent} % of a neighborhood get the same class"
    else:
        start = (
            f"Two members of a neighborhood get the same class with a probability of {percent} %"
        )
    return (
        f"{start}; for {format_percent(result.constant_share)} % of the examples no draw changes "
        "the decision."
    )


def suitability_text(neighborhoods: InvarianceResult) -> str:
    """Tell in a sentence whether the transform is suitable, and why."""
    transform = neighborhoods.transform
    increases = [
        result.entropy_difference
        for result in neighborhoods
        if result.entropy_difference is not None
    ]
    if not increases:
        return (
            f"Whether {transform} is suitable cannot be checked: the check needs probabilities, "
            "and the models return classes only."
        )
    if max(increases) < 0:
        return (
            f"{transform} is suitable: it does not raise the entropy of predictions (increases up "
            f"to about {ENTROPY_LIMIT} are acceptable)."
        )
    raised = f"it raises the entropy of predictions by {max(increases):.3f}"
    if len(increases) > 1:
        raised = f"it raises the entropy of predictions by at most {max(increases):.3f}"
    n_above = sum(increase > ENTROPY_LIMIT for increase in increases)
    if not n_above:
        return (
            f"{transform} is suitable: {raised} (increases up to about {ENTROPY_LIMIT} are "
            "acceptable)."
        )
    which = "" if len(neighborhoods) == 1 else f" for {n_above} of {len(increases)} models"
    return (
        f"{transform} is unsuitable{which}: {raised}, more than {ENTROPY_LIMIT}. It may destroy "
        "the classes; try another transform or a smaller magnitude."
    )


def _model_status(result: ModelInvariance) -> dict[str, Any]:
    """Return the row of one model in the table on the suitability of the transform."""
    increase = result.entropy_difference
    top, share = result.top_class
    warnings = result.warnings()
    status: Status = "warning" if warnings else "ok"
    if result.degenerate or (increase is not None and increase > ENTROPY_LIMIT):
        status = "critical"
    return {
        "model": result.model,
        "status": status,
        "entropy_difference": (
            "unknown" if increase is None else f"{increase:+z.3f}".replace("-", "−")
        ),
        "constant_share": format_percent(result.constant_share),
        "top_class": class_name(result.class_names, top),
        "top_share": format_percent(share),
        "meaning": "; ".join(warnings) or "no problem found",
    }


def _model_figures(
    rows: list[LeaderboardRow], measure: str, details: NeighborhoodDetails | None
) -> list[Figure]:
    if details is not None and len(rows) == 1:
        return [figures.measures_figure(rows[0], details.result)]
    order = figures.order_figure(rows, measure)
    accuracy = figures.accuracy_figure(rows)
    return [order] if accuracy is None else [order, accuracy]


def _estimator_assumptions(names: Sequence[str]) -> dict[str, str]:
    """Return the assumption of each name that is the name of an estimator."""
    assumptions = {estimator.name: estimator.assumes for estimator in estimators.available()}
    return {name: assumptions[name] for name in names if name in assumptions}


def _check_rows(rows: Sequence[LeaderboardRow]) -> list[dict[str, Any]]:
    """Return the rows of the table of diagnostics, one per model and diagnostic."""
    return [
        {
            "model": row.model,
            "status": check.status,
            "value": f"{check.value:.2f}",
            "meaning": check.meaning,
            "advice": check.advice_text,
        }
        for row in rows
        for check in row.diagnostics
    ]
