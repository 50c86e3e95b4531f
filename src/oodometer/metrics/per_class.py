"""F1, balanced accuracy and AUROC: means over classes, each with every class's own value.

A class that no row is of has no value and is left out, with a note.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.core.stats import (
    N_REPLICATES,
    Z95,
    bootstrap_counts,
    interval_from_replicates,
    rng_for,
    score_with_interval,
)
from oodometer.models.model_view import ModelView

# Of a class's hits, decisions and rows: what is divided, and what by.
Ratio = Callable[[Ints, Ints, Ints], tuple[Ints, Ints]]
# At most so many counts are held at once: a thousand classes may have a million pairs.
MAX_HELD_COUNTS = 2_000_000
# Of fewer rows than this, neither a class's value nor an interval says much.
MIN_CLASS_ROWS = 10


@dataclass(frozen=True)
class F1:
    """The mean over classes of 2 · hits / (rows said to be of the class + rows that are).

    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import ViewSource
    >>> said = Predictions.from_classes([0, 0, 0, 1], k=2, labels=[0, 0, 1, 1])
    >>> F1().evaluate(ModelView(ViewSource("toy", outputs=said))).by_class
    {'0': 0.8, '1': 0.6666666666666666}
    """

    name: ClassVar[str] = "f1"
    label: ClassVar[str] = "F1"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "how well rows of a class are found, and no others taken for them"
    paper: ClassVar[str] = "van Rijsbergen 1979"

    def evaluate(self, view: ModelView) -> Score:
        """The mean, and the value of every class."""
        return _bootstrap_class_mean(
            view, self.name, lambda hits, said, true: (2 * hits, said + true)
        )


@dataclass(frozen=True)
class BalancedAccuracy:
    """The mean over classes of the accuracy on the rows of a class: hits / rows that are of it.

    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import ViewSource
    >>> said = Predictions.from_classes([0, 0, 0, 1], k=2, labels=[0, 0, 0, 0])
    >>> BalancedAccuracy().evaluate(ModelView(ViewSource("toy", outputs=said))).value
    0.75
    """

    name: ClassVar[str] = "balanced_accuracy"
    label: ClassVar[str] = "Balanced accuracy"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "how often decisions are right where every class counts the same"
    paper: ClassVar[str] = "Brodersen et al., ICPR 2010"

    def evaluate(self, view: ModelView) -> Score:
        """The mean, and the value of every class."""
        return _bootstrap_class_mean(view, self.name, lambda hits, said, true: (hits, true))


@dataclass(frozen=True)
class Auroc:
    """The mean over classes of how often a row of it is held likelier to be of it than another row.

    The interval is DeLong's, on the log-odds: a row errs by how often it wins, less how often rows
    of its side do.
    """

    name: ClassVar[str] = "auroc"
    label: ClassVar[str] = "AUROC"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "how well the probability of a class puts its rows before others"
    paper: ClassVar[str] = "DeLong et al., Biometrics 1988"

    def evaluate(self, view: ModelView) -> Score:
        """The mean, and the value of every class."""
        labels, probs = view.labels, view.outputs.probs
        counts = np.bincount(labels, minlength=view.outputs.k)
        if counts.max() == view.n:
            raise NotApplicable("all rows are of one class, and rows of two are compared")
        present = counts > 0
        areas, errors = [], np.zeros(view.n)
        for j in np.flatnonzero(present):
            own = labels == j
            wins = win_shares(np.ascontiguousarray(probs[:, j]), own)
            areas.append(wins[own].mean())
            side = np.where(own, counts[j], view.n - counts[j])
            # A side of one row does not differ from itself: its error is not known, and 0 here.
            errors += (wins - areas[-1]) / np.sqrt(side * np.maximum(side - 1, 1))
        ends = _log_odds_interval(float(np.mean(areas)), math.sqrt(errors @ errors) / len(areas))
        return _class_mean_score(view, np.array(areas), present, ends=ends)


def win_shares(scores: Floats, positive: Bools) -> Floats:
    """The share of the other side that a row is rightly above, or rightly below; ties by half.

    >>> win_shares(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False]))
    array([1.  , 0.75, 0.75, 1.  ])
    """
    order = np.argsort(scores)
    ranked, marked = scores[order], positive[order]
    wins = np.empty(len(scores))
    for side in (marked, ~marked):
        # What is looked up is in order too, which is ten times faster.
        own, others = ranked[side], ranked[~side]
        below = sum(np.searchsorted(others, own, side=end) for end in ("left", "right"))
        wins[order[side]] = below / (2 * len(others))
    wins[~positive] = 1 - wins[~positive]
    return wins


def _log_odds_interval(share: float, deviation: float) -> tuple[float, float]:
    """The normal interval of log (share / (1 − share)), turned back: it stays between 0 and 1."""
    if not deviation or not 0 < share < 1:
        return share, share
    far = math.exp(min(Z95 * deviation / (share * (1 - share)), 500.0))
    odds = share / (1 - share)
    return odds / (odds + far), odds / (odds + 1 / far)


def _bootstrap_class_mean(view: ModelView, name: str, ratio: Ratio) -> Score:
    """The mean of a ratio a class, and its interval by the means of rows drawn again."""
    labels, k = view.labels.astype(np.int64), view.outputs.k
    pairs, counts = np.unique(labels * k + view.outputs.classes, return_counts=True)
    rng, most = rng_for(view.view_source.seed, name), max(MAX_HELD_COUNTS // len(pairs), 1)
    means: list[float] = []
    while len(means) < N_REPLICATES:
        drawn = bootstrap_counts(rng, counts, min(most, N_REPLICATES - len(means)))
        means += np.nanmean(_class_ratios(drawn, pairs, k, ratio), axis=1).tolist()
    values = _class_ratios(counts[None], pairs, k, ratio)[0]
    present = ~np.isnan(values)
    ends = interval_from_replicates(float(values[present].mean()), np.array(means))
    return _class_mean_score(view, values[present], present, ends=ends)


def _class_ratios(rows: Ints, pairs: Ints, k: int, ratio: Ratio) -> Floats:
    """(replicates, k) of counts of pairs of label and decision; NaN where no row is of a class."""
    true, said = np.divmod(pairs, k)
    real = _sum_by_class(rows, true, k)
    above, below = ratio(
        _sum_by_class(rows * (true == said), true, k), _sum_by_class(rows, said, k), real
    )
    return np.where(real > 0, above / np.maximum(below, 1), np.nan)


def _sum_by_class(rows: Ints, classes: Ints, k: int) -> Ints:
    """Counts of pairs summed by class, (replicates, k)."""
    order = np.argsort(classes, kind="stable")
    found, starts = np.unique(classes[order], return_index=True)
    totals = np.zeros((len(rows), k), dtype=np.int64)
    totals[:, found] = np.add.reduceat(rows[:, order], starts, axis=1)
    return totals


def _class_mean_score(
    view: ModelView, values: Floats, present: Bools, *, ends: tuple[float, float]
) -> Score:
    """The mean of values of the classes present, and each by its name."""
    k, absent = len(present), len(present) - len(values)
    names = view.outputs.class_names or tuple(map(str, range(k)))
    few = np.count_nonzero(np.bincount(view.labels, minlength=k)[present] < MIN_CLASS_ROWS)
    told = {
        f"{absent:,} of {k:,} classes are left out, for no row is of them": absent > 0,
        f"{few:,} of {k:,} classes have fewer than {MIN_CLASS_ROWS} rows, so this is rough": few
        > 0,
    }
    made = score_with_interval(
        float(values.mean()), ends, notes=tuple(note for note, holds in told.items() if holds)
    )
    named = zip(np.flatnonzero(present), values, strict=True)
    return replace(made, by_class={names[j]: float(value) for j, value in named})
