"""Models beside one another: their values, how sure the order is, and the accuracies that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from oodometer.assessment.result import format_percent
from oodometer.core.array_types import Array
from oodometer.core.predictions import Predictions
from oodometer.neighborhood.ranking import RankedModel, Ranking
from oodometer.neighborhood.results import InvarianceResult, MeanWithInterval, ModelInvariance
from oodometer.report.histograms import truncate_name

# A model that beats the next this often is said to be ahead for sure.
CONFIDENT_WIN_PROBABILITY = 0.95


@dataclass(frozen=True)
class LeaderboardRow:
    """One model's place, and all that is said of it; `predicted_accuracy` is by the line of known models."""

    model: str
    value: float
    low: float
    high: float
    beats_next: float | None = None
    predicted_accuracy: float | None = None
    known_accuracy: float | None = None
    readings: Mapping[str, MeanWithInterval] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def leaderboard_from_ranking(
    ranking: Ranking, known_accuracies: Mapping[str, float]
) -> list[LeaderboardRow]:
    """The models of a ranking, best first."""
    judged = {one.model: one for one in ranking.neighborhoods or ()}
    return [
        _leaderboard_row(one, known_accuracies.get(one.model), judged.get(one.model))
        for one in ranking
    ]


def leaderboard_from_neighborhoods(
    neighborhoods: InvarianceResult, measure: str, known_accuracies: Mapping[str, float]
) -> list[LeaderboardRow]:
    """The models of a run by one measure, highest first, of equal ones the first."""
    rows = []
    for one in neighborhoods:
        read = one.mean_with_interval(measure)
        place = RankedModel(one.model, read.value, read.low, read.high, None, one.warnings())
        rows.append(_leaderboard_row(place, known_accuracies.get(one.model), one))
    return sorted(rows, key=lambda row: -row.value)


def _leaderboard_row(
    entry: RankedModel, known_accuracy: float | None, invariance: ModelInvariance | None
) -> LeaderboardRow:
    return LeaderboardRow(
        entry.model,
        entry.value,
        entry.low,
        entry.high,
        entry.beats_next,
        entry.accuracy,
        known_accuracy,
        dict(invariance.all_measures()) if invariance else {},
        entry.notes,
    )


def main_measure(neighborhoods: InvarianceResult) -> str:
    """NI where all draws were made, or else PA, which does not hang on their number."""
    return "ni" if all(one.complete for one in neighborhoods) else "pa"


def accuracies(neighborhoods: InvarianceResult, labels: Array | None) -> dict[str, float]:
    """Every model's accuracy on the examples that were judged, where the data have labels.

    >>> from oodometer import invariance
    >>> found = invariance(lambda x: x.argmax(1), np.eye(4), transform="gaussian", draws=1)
    >>> list(accuracies(found, np.array([0, 1, 2, 0])).values())
    [0.75]
    """
    return {} if labels is None else {one.model: _accuracy(one, labels) for one in neighborhoods}


def _accuracy(result: ModelInvariance, labels: Array) -> float:
    """Of the examples themselves, not of their draws."""
    classes, truth = result.counts.classes[:, 0], np.asarray(labels)[result.positions]
    names = result.class_names
    if names is not None:
        # By name: where names are numbers, a number would be taken for a name.
        said = [names[number] for number in classes]
        known = Predictions.from_classes(said, labels=truth, class_names=names)
    else:
        most = max(int(one.max()) for one in (classes, truth) if one.dtype.kind in "iuf")
        known = Predictions.from_classes(classes, k=max(most + 1, 2), labels=truth)
    return float(np.mean(known.correct))


def concordant_pairs(rows: Sequence[LeaderboardRow]) -> tuple[int, int]:
    """How many pairs of models of different known accuracy are in the right order, and of how many.

    >>> a, b = LeaderboardRow("a", 0.9, 0.8, 1.0, known_accuracy=0.7), LeaderboardRow("b", 0.8, 0.7, 0.9, known_accuracy=0.6)
    >>> concordant_pairs([a, b, LeaderboardRow("c", 0.7, 0.6, 0.8, known_accuracy=0.65)])
    (2, 3)
    """
    told = [row for row in rows if row.known_accuracy is not None]
    gaps = [
        ((one.known_accuracy or 0.0) - (other.known_accuracy or 0.0), one.value - other.value)
        for one, other in combinations(told, 2)
    ]
    real = [(truth, said) for truth, said in gaps if truth != 0.0]
    return sum(truth * said > 0 for truth, said in real), len(real)


def leaderboard_summary(rows: Sequence[LeaderboardRow], measure: str) -> str:
    """What the order says, in words, and how sure it is.

    >>> a = LeaderboardRow("a", 0.9, 0.88, 0.92, beats_next=0.99)
    >>> leaderboard_summary([a, LeaderboardRow("b", 0.8, 0.7, 0.9)], "NI-Rotate")
    'a has the highest NI-Rotate, and is ahead of b (0.800) with a probability of 99 %.'
    """
    first, second = rows[0], rows[1]
    start = f"{format_inline_name(first.model)} has the highest {measure}"
    beaten = f"{format_inline_name(second.model)} ({second.value:.3f})"
    if first.beats_next is None:
        return f"{start}; next is {beaten}."
    ahead = f"{start}, and is ahead of {beaten} with a probability of {format_probability(first.beats_next)}."
    if len(rows) == 2:
        return ahead
    sure = sum((row.beats_next or 0.0) >= CONFIDENT_WIN_PROBABILITY for row in rows[:-1])
    return (
        f"{ahead} Of the {len(rows) - 1} steps from one model to the next, {sure} "
        f"{'is' if sure == 1 else 'are'} sure ({100 * CONFIDENT_WIN_PROBABILITY:.0f} % or more)."
    )


def best_known_summary(rows: Sequence[LeaderboardRow]) -> str:
    """Whether the first model is the best of those whose accuracy is known, in words.

    >>> a, b = LeaderboardRow("a", 0.9, 0.8, 1.0, known_accuracy=0.5), LeaderboardRow("b", 0.8, 0.7, 0.9, known_accuracy=0.75)
    >>> best_known_summary([a, b])
    'Of the models of known accuracy b is best (75.0 %), a has 50.0 %.'
    """
    told = [(row.known_accuracy, row.model) for row in rows if row.known_accuracy is not None]
    first = rows[0]
    if len(told) < 2:
        return ""
    accuracy, model = max(told, key=lambda one: one[0])
    start = f"Of the models of known accuracy {format_inline_name(model)} is best ({format_percent(accuracy)} %)"
    if first.known_accuracy is None or first.known_accuracy == accuracy:
        return f"{start}."
    return (
        f"{start}, {format_inline_name(first.model)} has {format_percent(first.known_accuracy)} %."
    )


def format_inline_name(name: str) -> str:
    """A name within a sentence; one that is written from right to left turns nothing but itself.

    >>> format_inline_name("a"), format_inline_name("\\u05d0")
    ('a', '\\u2068א\\u2069')
    """
    short = truncate_name(name)
    return (
        short if name.isascii() else f"\N{FIRST STRONG ISOLATE}{short}\N{POP DIRECTIONAL ISOLATE}"
    )


def format_probability(probability: float) -> str:
    """A probability that was counted over draws: never quite none, never quite sure.

    >>> format_probability(0.874), format_probability(1.0), format_probability(0.0)
    ('87 %', 'over 99 %', 'under 1 %')
    """
    shown = round(100 * probability)
    if 0 < shown < 100:
        return f"{shown} %"
    return "over 99 %" if probability > 0.5 else "under 1 %"
