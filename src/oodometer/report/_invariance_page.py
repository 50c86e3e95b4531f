"""The page of neighborhood invariance: models, the transform, and examples to look at.

Ng, Hulkund, Cho & Ghassemi, "Predicting Out-of-Domain Generalization with Neighborhood
Invariance", TMLR 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oodometer import estimators
from oodometer.assessment.result import points
from oodometer.core.errors import InputError
from oodometer.neighborhood._neighborhood_sampler import Show
from oodometer.neighborhood.ranking import Ranking
from oodometer.neighborhood.results import ENTROPY_LIMIT, MEASURES, Invariance, Neighborhoods
from oodometer.report import invariance_figures as figures
from oodometer.report import leaderboard as standings
from oodometer.report.assessment_figures import Figure
from oodometer.report.example_cards import walls
from oodometer.report.leaderboard import Standing
from oodometer.report.neighborhood_view import check_same, class_name
from oodometer.report.page import render

# A table of more rows is not read, and would make the page heavy.
MOST_ROWS = 200
MEANINGS = {
    "ni": "the share of its neighborhood that is in the most frequent class",
    "ne": "the negative entropy of the classes of its neighborhood: 0 where all are in one",
    "ei": "how sure the model is of it and of a draw, where both are in one class, and else 0",
    "pa": "the share of pairs in its neighborhood that are in one class, fair for any number of draws",
}


@dataclass(frozen=True, eq=False)
class Judged:
    """Models in their order by a measure, and what they were judged by, where it is neighborhoods."""

    rows: list[Standing]
    measure: str
    found: Neighborhoods | None = None
    show: Show | None = None
    short: str = ""
    model: str = ""
    lacking: list[str] = field(default_factory=list)


def invariance_page(
    found: Neighborhoods,
    show: Show,
    *,
    title: str,
    reproduce: Mapping[str, str],
    known: Mapping[str, float] | None = None,
    model: str | None = None,
) -> str:
    """What `invariance` found, as a whole HTML page.

    `show` is what it was found with: data, transform and seed. `known` has accuracies of models on
    these data; those of labelled data are found here. The examples are those of `model`, by default
    of the model that comes first.
    """
    check_same(found, show)
    short = standings.main_measure(found)
    told, lacking = _known(found, show, known)
    rows = standings.compared(found, short, told)
    shown = found[model or rows[0].model].model
    judged = Judged(rows, found.named(short), found, show, short, shown, lacking)
    return _page(judged, title, reproduce)


def ranking_page(
    ranking: Ranking,
    show: Show | None = None,
    *,
    title: str,
    reproduce: Mapping[str, str],
    known: Mapping[str, float] | None = None,
    model: str | None = None,
) -> str:
    """What `rank` found, as a whole HTML page; with examples, where it is by neighborhoods.

    For these `show` is needed: data, transform and seed of the ranking.
    """
    found = ranking.neighborhoods
    if found is None or show is None:
        return _page(Judged(standings.ranked(ranking, known or {}), ranking.measure),
                     title, reproduce)  # fmt: skip
    check_same(found, show)
    told, lacking = _known(found, show, known)
    rows = standings.ranked(ranking, told)
    short = next(one for one in MEASURES if found.named(one) == ranking.measure)
    shown = found[model or rows[0].model].model
    judged = Judged(rows, ranking.measure, found, show, short, shown, lacking)
    return _page(judged, title, reproduce)


def _known(
    found: Neighborhoods, show: Show, known: Mapping[str, float] | None
) -> tuple[dict[str, float], list[str]]:
    """Accuracies by labels and as given, and why there are none by labels."""
    try:
        return {**standings.accuracies(found, show.dataset.labels), **(known or {})}, []
    except InputError as error:
        return dict(known or {}), [f"Accuracies by the labels of the data are left out: {error}"]


def _page(judged: Judged, title: str, reproduce: Mapping[str, str]) -> str:
    found, show = judged.found, judged.show
    right, pairs = standings.pairs_right(judged.rows)
    context: dict[str, Any] = {
        "title": title,
        "judged": judged,
        "rows": judged.rows[:MOST_ROWS],
        "reading": _reading(judged),
        "figures": _models(judged),
        "right": right,
        "pairs": pairs,
        "measures": [one for one in MEASURES if judged.rows[0].readings.get(one)],
        "meanings": MEANINGS,
        "chance": standings.chance,
        "limit": ENTROPY_LIMIT,
        "assumes": _assumes(judged.measure),
        "reproduce": reproduce,
    }
    if found is not None and show is not None:
        order = [row.model for row in judged.rows]
        context |= {
            "found": found,
            "transform": show.transform,
            "entropy": figures.entropy_figure(found, order),
            "suited": suited(found),
            "lights": [_light(found[one]) for one in order[:MOST_ROWS]],
            "first_light": _light(found[order[0]]),
            "spread": figures.spread_figure(_beside(found, judged), found, judged.short),
            "walls": walls(found[judged.model], show, judged.short),
        }
    return render("invariance_page.html", context)


def _reading(judged: Judged) -> str:
    if judged.found is None or len(judged.rows) > 1:
        said = standings.reading(judged.rows, judged.measure)
        return f"{said} {standings.best_known(judged.rows)}".strip()
    return alone(judged.found[0], judged.short)


def alone(found: Invariance, short: str) -> str:
    """What is said of a model on its own."""
    read = found.reading(short)
    if short == "ni":
        said = f"On average {points(read.value)} % of a neighborhood are put in one class"
    else:
        said = (
            "Two members of a neighborhood are put in one class with a probability of "
            f"{points(read.value)} %"
        )
    return (
        f"{said}; {points(found.constant_share)} % of the examples stay in their class whatever "
        "is done to them."
    )


def suited(found: Neighborhoods) -> str:
    """Whether the transform is suitable, in words."""
    rises = [one.entropy_difference for one in found]
    told = [rise for rise in rises if rise is not None]
    if not told:
        return (
            f"Whether {found.transform} is suitable can't be told: that takes probabilities, and "
            "there are classes only."
        )
    above = sum(rise > ENTROPY_LIMIT for rise in told)
    most = f"{max(told):.3f}"
    if max(told) < 0:
        return (
            f"{found.transform} is suitable: it does not raise the entropy of predictions, and up "
            f"to about {ENTROPY_LIMIT} invariance works."
        )
    if not above:
        return (
            f"{found.transform} is suitable: it raises the entropy of predictions by {most}"
            f"{' at most' if len(told) > 1 else ''}, and up to about {ENTROPY_LIMIT} invariance works."
        )
    whose = "" if len(found) == 1 else f" for {above} of {len(told)} models"
    return (
        f"{found.transform} is unsuitable{whose}: it raises the entropy of predictions by {most}"
        f"{' at most' if len(told) > 1 else ''}, more than {ENTROPY_LIMIT}. It may destroy the "
        "classes: another transform may do better, or a smaller magnitude."
    )


def _light(found: Invariance) -> dict[str, Any]:
    """One model under the transform: its light, its numbers, and what they mean."""
    rise, (top, share) = found.entropy_difference, found.top_class
    notes = found.notes()
    color = "green" if not notes else "amber"
    if found.degenerate or (rise is not None and rise > ENTROPY_LIMIT):
        color = "red"
    return {
        "model": found.model,
        "light": color,
        "rise": "unknown" if rise is None else f"{rise:+z.3f}".replace("-", "−"),
        "still": points(found.constant_share),
        "top": class_name(found.class_names, top),
        "share": points(share),
        "meaning": "; ".join(notes) or "no sign of trouble was found",
    }


def _models(judged: Judged) -> list[Figure]:
    """The charts of values and accuracies."""
    if judged.found is not None and len(judged.rows) == 1:
        return [figures.measures_figure(judged.rows[0], judged.found)]
    accuracy = figures.accuracy_figure(judged.rows)
    order = figures.order_figure(judged.rows, judged.measure)
    return [order] if accuracy is None else [order, accuracy]


def _beside(found: Neighborhoods, judged: Judged) -> list[Invariance]:
    """The model shown and the last one; where it is the last itself, the first."""
    order = [row.model for row in judged.rows]
    other = order[0] if judged.model == order[-1] else order[-1]
    return [found[one] for one in dict.fromkeys((judged.model, other))]


def _assumes(measure: str) -> str:
    """What an estimator assumes, where the order is by one."""
    return next((one.assumes for one in estimators.every() if one.name == measure), "")
