"""Models beside one another: their values, how sure the order is, and the accuracies that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from oodometer.assessment.result import points
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import Array
from oodometer.neighborhood.ranking import Ranked, Ranking
from oodometer.neighborhood.results import Invariance, Neighborhoods, Reading
from oodometer.report.histograms import shortened

# A model that beats the next this often is said to be ahead for sure.
SURE = 0.95


@dataclass(frozen=True)
class Standing:
    """One model's place, and all that is said of it; `predicted` is by the line of known models."""

    model: str
    value: float
    low: float
    high: float
    beats_next: float | None = None
    predicted: float | None = None
    known: float | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def ranked(found: Ranking, known: Mapping[str, float]) -> list[Standing]:
    """The models of a ranking, best first."""
    judged = {one.model: one for one in found.neighborhoods or ()}
    return [_standing(one, known.get(one.model), judged.get(one.model)) for one in found]


def compared(found: Neighborhoods, measure: str, known: Mapping[str, float]) -> list[Standing]:
    """The models of a run by one measure, highest first, of equal ones the first."""
    rows = []
    for one in found:
        read = one.reading(measure)
        place = Ranked(one.model, read.value, read.low, read.high, None, one.notes())
        rows.append(_standing(place, known.get(one.model), one))
    return sorted(rows, key=lambda row: -row.value)


def _standing(place: Ranked, known: float | None, judged: Invariance | None) -> Standing:
    return Standing(
        place.model,
        place.value,
        place.low,
        place.high,
        place.beats_next,
        place.accuracy,
        known,
        dict(judged.readings()) if judged else {},
        place.notes,
    )


def main_measure(found: Neighborhoods) -> str:
    """NI where all draws were made, or else PA, which does not hang on their number."""
    return "ni" if all(one.complete for one in found) else "pa"


def accuracies(found: Neighborhoods, labels: Array | None) -> dict[str, float]:
    """Every model's accuracy on the examples that were judged, where the data have labels.

    >>> from oodometer import invariance
    >>> found = invariance(lambda x: x.argmax(1), np.eye(4), "gaussian", draws=1)
    >>> list(accuracies(found, np.array([0, 1, 2, 0])).values())
    [0.75]
    """
    return {} if labels is None else {one.model: _accuracy(one, labels) for one in found}


def _accuracy(found: Invariance, labels: Array) -> float:
    """Of the examples themselves, not of their draws."""
    classes, truth = found.tally.classes[:, 0], np.asarray(labels)[found.positions]
    names = found.class_names
    if names is not None:
        # By name: where names are numbers, a number would be taken for a name.
        said = [names[number] for number in classes]
        known = Predictions.from_classes(said, labels=truth, class_names=names)
    else:
        most = max(int(one.max()) for one in (classes, truth) if one.dtype.kind in "iuf")
        known = Predictions.from_classes(classes, k=max(most + 1, 2), labels=truth)
    return float(np.mean(known.correct))


def pairs_right(rows: Sequence[Standing]) -> tuple[int, int]:
    """How many pairs of models of different known accuracy are in the right order, and of how many.

    >>> a, b = Standing("a", 0.9, 0.8, 1.0, known=0.7), Standing("b", 0.8, 0.7, 0.9, known=0.6)
    >>> pairs_right([a, b, Standing("c", 0.7, 0.6, 0.8, known=0.65)])
    (2, 3)
    """
    told = [row for row in rows if row.known is not None]
    gaps = [
        ((one.known or 0.0) - (other.known or 0.0), one.value - other.value)
        for one, other in combinations(told, 2)
    ]
    real = [(truth, said) for truth, said in gaps if truth != 0.0]
    return sum(truth * said > 0 for truth, said in real), len(real)


def reading(rows: Sequence[Standing], measure: str) -> str:
    """What the order says, in words, and how sure it is.

    >>> a = Standing("a", 0.9, 0.88, 0.92, beats_next=0.99)
    >>> reading([a, Standing("b", 0.8, 0.7, 0.9)], "NI-Rotate")
    'a has the highest NI-Rotate, and is ahead of b (0.800) with a probability of 99 %.'
    """
    first, second = rows[0], rows[1]
    start = f"{in_text(first.model)} has the highest {measure}"
    beaten = f"{in_text(second.model)} ({second.value:.3f})"
    if first.beats_next is None:
        return f"{start}; next is {beaten}."
    ahead = f"{start}, and is ahead of {beaten} with a probability of {chance(first.beats_next)}."
    if len(rows) == 2:
        return ahead
    sure = sum((row.beats_next or 0.0) >= SURE for row in rows[:-1])
    return (
        f"{ahead} Of the {len(rows) - 1} steps from one model to the next, {sure} "
        f"{'is' if sure == 1 else 'are'} sure ({100 * SURE:.0f} % or more)."
    )


def best_known(rows: Sequence[Standing]) -> str:
    """Whether the first model is the best of those whose accuracy is known, in words.

    >>> a, b = Standing("a", 0.9, 0.8, 1.0, known=0.5), Standing("b", 0.8, 0.7, 0.9, known=0.75)
    >>> best_known([a, b])
    'Of the models of known accuracy b is best (75.0 %), a has 50.0 %.'
    """
    told = [(row.known, row.model) for row in rows if row.known is not None]
    first = rows[0]
    if len(told) < 2:
        return ""
    accuracy, model = max(told, key=lambda one: one[0])
    start = f"Of the models of known accuracy {in_text(model)} is best ({points(accuracy)} %)"
    if first.known is None or first.known == accuracy:
        return f"{start}."
    return f"{start}, {in_text(first.model)} has {points(first.known)} %."


def in_text(name: str) -> str:
    """A name within a sentence; one that is written from right to left turns nothing but itself.

    >>> in_text("a"), in_text("\\u05d0")
    ('a', '\\u2068א\\u2069')
    """
    short = shortened(name)
    return (
        short if name.isascii() else f"\N{FIRST STRONG ISOLATE}{short}\N{POP DIRECTIONAL ISOLATE}"
    )


def chance(probability: float) -> str:
    """A probability that was counted over draws: never quite none, never quite sure.

    >>> chance(0.874), chance(1.0), chance(0.0)
    ('87 %', 'over 99 %', 'under 1 %')
    """
    shown = round(100 * probability)
    if 0 < shown < 100:
        return f"{shown} %"
    return "over 99 %" if probability > 0.5 else "under 1 %"
