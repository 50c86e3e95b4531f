"""Leaderboard of models, sorted by a measure, with the accuracies that are known or predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from oodometer.assessment.result import format_percent
from oodometer.core.array_types import Array
from oodometer.core.predictions import Predictions
from oodometer.core.results import Diagnostic
from oodometer.neighborhood.ranking import Ranking
from oodometer.neighborhood.results import InvarianceResult, MeanWithInterval, ModelInvariance
from oodometer.report.histograms import truncate_name

# A step from one model to the next is called certain from this share of resamples on.
MIN_CERTAIN_SHARE = 0.95


@dataclass(frozen=True)
class LeaderboardRow:
    """Model with the value that it is ranked by, its other measures and its accuracies.

    `predicted_accuracy` is predicted from the value, by a line fitted to the models of known
    accuracy. `scores` are further scores by name, and `caution` tells why the rank may be wrong.
    """

    model: str
    value: float
    low: float
    high: float
    higher_in_resamples: float | None = None
    predicted_accuracy: float | None = None
    known_accuracy: float | None = None
    readings: Mapping[str, MeanWithInterval] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    caution: str = ""


def leaderboard_from_ranking(
    ranking: Ranking, known_accuracies: Mapping[str, float]
) -> list[LeaderboardRow]:
    """Return the models of a ranking, best first."""
    results = {result.model: result for result in ranking.neighborhoods or ()}
    return [
        LeaderboardRow(
            model=entry.model,
            value=entry.value,
            low=entry.low,
            high=entry.high,
            higher_in_resamples=entry.higher_in_resamples,
            predicted_accuracy=entry.accuracy,
            known_accuracy=known_accuracies.get(entry.model),
            readings=dict(results[entry.model].all_measures()) if results else {},
            notes=entry.notes,
            diagnostics=entry.diagnostics,
            scores=entry.scores,
            caution=entry.caution,
        )
        for entry in ranking
    ]


def leaderboard_from_neighborhoods(
    neighborhoods: InvarianceResult, measure: str, known_accuracies: Mapping[str, float]
) -> list[LeaderboardRow]:
    """Return the models sorted by one measure, highest first; ties keep their order."""
    rows = []
    for result in neighborhoods:
        mean = result.mean_with_interval(measure)
        rows.append(
            LeaderboardRow(
                model=result.model,
                value=mean.value,
                low=mean.low,
                high=mean.high,
                known_accuracy=known_accuracies.get(result.model),
                readings=dict(result.all_measures()),
                notes=result.warnings(),
            )
        )
    return sorted(rows, key=lambda row: -row.value)


def accuracies(neighborhoods: InvarianceResult, labels: Array | None) -> dict[str, float]:
    """Return the accuracy of each model on the sampled examples; empty without labels.

    >>> from oodometer import invariance
    >>> result = invariance(lambda x: x.argmax(1), np.eye(4), transform="gaussian", draws=1)
    >>> list(accuracies(result, np.array([0, 1, 2, 0])).values())
    [0.75]
    """
    if labels is None:
        return {}
    return {result.model: _accuracy(result, labels) for result in neighborhoods}


def _accuracy(result: ModelInvariance, labels: Array) -> float:
    """Return the accuracy on the examples themselves, not on their draws."""
    classes = result.counts.classes[:, 0]
    truth = np.asarray(labels)[result.positions]
    if result.class_names is not None:
        # Classes are compared by name: if names are numbers, the number of a class could equal the
        # name of another class.
        names = [result.class_names[number] for number in classes]
        predictions = Predictions.from_classes(names, labels=truth, class_names=result.class_names)
    else:
        largest = max(
            int(values.max()) for values in (classes, truth) if values.dtype.kind in "iuf"
        )
        predictions = Predictions.from_classes(classes, k=max(largest + 1, 2), labels=truth)
    return float(np.mean(predictions.correct))


def concordant_pairs(rows: Sequence[LeaderboardRow]) -> tuple[int, int]:
    """Count the pairs of models in the right order, and all pairs whose known accuracies differ.

    >>> a, b = LeaderboardRow("a", 0.9, 0.8, 1.0, known_accuracy=0.7), LeaderboardRow("b", 0.8, 0.7, 0.9, known_accuracy=0.6)
    >>> concordant_pairs([a, b, LeaderboardRow("c", 0.7, 0.6, 0.8, known_accuracy=0.65)])
    (2, 3)
    """
    known = [(row.known_accuracy, row.value) for row in rows if row.known_accuracy is not None]
    differences = [
        (accuracy - other_accuracy, value - other_value)
        for (accuracy, value), (other_accuracy, other_value) in combinations(known, 2)
        if accuracy != other_accuracy
    ]
    n_concordant = sum(accuracy * value > 0 for accuracy, value in differences)
    return n_concordant, len(differences)


def leaderboard_summary(rows: Sequence[LeaderboardRow], measure: str) -> str:
    """Describe the order of the models and its reliability.

    >>> a = LeaderboardRow("a", 0.9, 0.88, 0.92, higher_in_resamples=0.99)
    >>> leaderboard_summary([a, LeaderboardRow("b", 0.8, 0.78, 0.82)], "NI-RandAug")
    'a has the highest NI-RandAug; it is higher than that of b (0.800) in 99 % of resamples.'
    """
    order = _order_summary(rows, measure)
    return f"{order} {rows[0].caution}" if rows[0].caution else order


def _order_summary(rows: Sequence[LeaderboardRow], measure: str) -> str:
    first, second = rows[0], rows[1]
    start = f"{format_inline_name(first.model)} has the highest {measure}"
    next_model = f"{format_inline_name(second.model)} ({second.value:.3f})"
    if first.higher_in_resamples is None:
        return f"{start}; next is {next_model}."
    share = format_probability(first.higher_in_resamples)
    summary = f"{start}; it is higher than that of {next_model} in {share} of resamples."
    if first.value == second.value:
        names = [format_inline_name(row.model) for row in (first, second)]
        summary = (
            f"{names[0]} and {names[1]} have the same {measure} ({first.value:.3f}), and no model has "
            f"a higher one; that of {names[0]} is higher in {share} of resamples."
        )
    if len(rows) == 2:
        return summary
    n_certain = sum((row.higher_in_resamples or 0.0) >= MIN_CERTAIN_SHARE for row in rows[:-1])
    return (
        f"{summary} {n_certain} of the {len(rows) - 1} steps from one model to the next "
        f"{'is' if n_certain == 1 else 'are'} certain ({100 * MIN_CERTAIN_SHARE:.0f} % of resamples "
        "or more)."
    )


def order_explanation(measure: str, columns: Sequence[str] = ()) -> str:
    """Return the statement beside a table of ranked models: what the share of resamples means.

    >>> order_explanation("NI-RandAug")
    'The share of resamples is the certainty of the order by NI-RandAug, not of the accuracies.'
    """
    combined = ""
    if len(columns) > 1:
        combined = (
            f"{measure} is the mean of the standardized ranks by {' and by '.join(columns)}: 0 for "
            "the worst model, 1 for the best. "
        )
    return (
        f"{combined}The share of resamples is the certainty of the order by {measure}, not of the "
        "accuracies."
    )


def best_known_summary(rows: Sequence[LeaderboardRow]) -> str:
    """Name the model with the highest known accuracy; if it is not the first, compare them.

    >>> a, b = LeaderboardRow("a", 0.9, 0.8, 1.0, known_accuracy=0.5), LeaderboardRow("b", 0.8, 0.7, 0.9, known_accuracy=0.75)
    >>> best_known_summary([a, b])
    'Of the models of known accuracy, b is best (75.0 %); a has 50.0 %.'
    """
    known = [(row.known_accuracy, row.model) for row in rows if row.known_accuracy is not None]
    if len(known) < 2:
        return ""
    accuracy, model = max(known, key=lambda pair: pair[0])
    start = (
        f"Of the models of known accuracy, {format_inline_name(model)} is best "
        f"({format_percent(accuracy)} %)"
    )
    first = rows[0]
    if first.known_accuracy is None or first.known_accuracy == accuracy:
        return f"{start}."
    return (
        f"{start}; {format_inline_name(first.model)} has {format_percent(first.known_accuracy)} %."
    )


def format_inline_name(name: str) -> str:
    """Shorten a name for a sentence; isolate right-to-left text from the text around it.

    >>> format_inline_name("a"), format_inline_name("\\u05d0")
    ('a', '\\u2068א\\u2069')
    """
    short = truncate_name(name)
    if name.isascii():
        return short
    return f"\N{FIRST STRONG ISOLATE}{short}\N{POP DIRECTIONAL ISOLATE}"


def format_probability(probability: float) -> str:
    """Format a share of bootstrap replicates in percent, but never as 0 % or 100 %.

    >>> format_probability(0.874), format_probability(1.0), format_probability(0.0)
    ('87 %', 'over 99 %', 'under 1 %')
    """
    percent = round(100 * probability)
    if 0 < percent < 100:
        return f"{percent} %"
    return "over 99 %" if probability > 0.5 else "under 1 %"
