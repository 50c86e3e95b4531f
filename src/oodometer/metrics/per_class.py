"""F1, balanced accuracy and AUROC: macro averages over classes, with the value of each class.

Classes without rows have no value and are left out, with a note.
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

# Numerator and denominator from the true positives, predictions and rows of each class.
Ratio = Callable[[Ints, Ints, Ints], tuple[Ints, Ints]]
# Maximum number of bootstrap counts held at once: 1,000 classes can have a million pairs of label
# and prediction.
MAX_HELD_COUNTS = 2_000_000
# With fewer rows, the value of a class and its interval are rough.
MIN_CLASS_ROWS = 10


@dataclass(frozen=True)
class F1:
    """Mean over classes of 2 · true positives / (predictions of the class + rows of the class).

    Examples
    --------
    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import ViewSource
    >>> outputs = Predictions.from_classes([0, 0, 0, 1], k=2, labels=[0, 0, 1, 1])
    >>> F1().evaluate(ModelView(ViewSource("toy", outputs=outputs))).by_class
    {'0': 0.8, '1': 0.6666666666666666}
    """

    name: ClassVar[str] = "f1"
    label: ClassVar[str] = "F1"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "harmonic mean of precision and recall, averaged over classes"
    paper: ClassVar[str] = "van Rijsbergen 1979"

    def evaluate(self, view: ModelView) -> Score:
        return _bootstrap_class_mean(
            view, self.name, lambda hits, predicted, actual: (2 * hits, predicted + actual)
        )


@dataclass(frozen=True)
class BalancedAccuracy:
    """Mean over classes of the recall, true positives / rows of the class.

    Examples
    --------
    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import ViewSource
    >>> outputs = Predictions.from_classes([0, 0, 0, 1], k=2, labels=[0, 0, 0, 0])
    >>> BalancedAccuracy().evaluate(ModelView(ViewSource("toy", outputs=outputs))).value
    0.75
    """

    name: ClassVar[str] = "balanced_accuracy"
    label: ClassVar[str] = "Balanced accuracy"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "accuracy if every class had equally many rows"
    paper: ClassVar[str] = "Brodersen et al., ICPR 2010"

    def evaluate(self, view: ModelView) -> Score:
        return _bootstrap_class_mean(
            view, self.name, lambda hits, predicted, actual: (hits, actual)
        )


@dataclass(frozen=True)
class Auroc:
    """Mean over classes of the area under the ROC curve of one class against the rest.

    The AUROC of a class is the probability that a row of this class has a higher score for it than
    a row of another class. The confidence interval is DeLong's, on the log-odds.

    Examples
    --------
    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import ViewSource
    >>> outputs = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4]], labels=[0, 0, 1])
    >>> Auroc().evaluate(ModelView(ViewSource("toy", outputs=outputs))).value
    0.5
    """

    name: ClassVar[str] = "auroc"
    label: ClassVar[str] = "AUROC"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = (
        "how well the probability of each class ranks its rows above the others"
    )
    paper: ClassVar[str] = "DeLong et al., Biometrics 1988"

    def evaluate(self, view: ModelView) -> Score:
        labels = view.labels
        probs = view.outputs.probs
        counts = np.bincount(labels, minlength=view.outputs.k)
        if counts.max() == view.n:
            raise NotApplicable("all rows have the same label, and it compares rows of two classes")
        present = counts > 0
        areas = []
        errors = np.zeros(view.n)
        for j in np.flatnonzero(present):
            positive = labels == j
            wins = win_shares(np.ascontiguousarray(probs[:, j]), positive)
            areas.append(wins[positive].mean())
            group_size = np.where(positive, counts[j], view.n - counts[j])
            # The error of a group of one row is unknown; it counts as 0.
            errors += (wins - areas[-1]) / np.sqrt(group_size * np.maximum(group_size - 1, 1))
        interval = _log_odds_interval(
            float(np.mean(areas)), math.sqrt(errors @ errors) / len(areas)
        )
        return _class_mean_score(view, np.array(areas), present, interval=interval)


def win_shares(scores: Floats, positive: Bools) -> Floats:
    """Return the share of the other group that each row is ranked correctly against; ties count ½.

    >>> win_shares(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False]))
    array([1.  , 0.75, 0.75, 1.  ])
    """
    order = np.argsort(scores)
    sorted_scores = scores[order]
    sorted_positive = positive[order]
    wins = np.empty(len(scores))
    for group in (sorted_positive, ~sorted_positive):
        # Looking up sorted values is ten times faster than looking up unsorted ones.
        own, others = sorted_scores[group], sorted_scores[~group]
        below = sum(np.searchsorted(others, own, side=end) for end in ("left", "right"))
        wins[order[group]] = below / (2 * len(others))
    wins[~positive] = 1 - wins[~positive]
    return wins


def _log_odds_interval(share: float, deviation: float) -> tuple[float, float]:
    """Return the normal interval of the log-odds of `share`, transformed back into [0, 1]."""
    if not deviation or not 0 < share < 1:
        return share, share
    factor = math.exp(min(Z95 * deviation / (share * (1 - share)), 500.0))
    odds = share / (1 - share)
    return odds / (odds + factor), odds / (odds + 1 / factor)


def _bootstrap_class_mean(view: ModelView, name: str, ratio: Ratio) -> Score:
    """Return the mean over classes of a ratio, with a bootstrap interval.

    The bootstrap resamples the counts of pairs of label and prediction.
    """
    labels = view.labels.astype(np.int64)
    k = view.outputs.k
    pairs, counts = np.unique(labels * k + view.outputs.classes, return_counts=True)
    rng = rng_for(view.view_source.seed, name)
    max_replicates = max(MAX_HELD_COUNTS // len(pairs), 1)
    means: list[float] = []
    while len(means) < N_REPLICATES:
        drawn = bootstrap_counts(rng, counts, min(max_replicates, N_REPLICATES - len(means)))
        means += np.nanmean(_class_ratios(drawn, pairs, k, ratio), axis=1).tolist()
    values = _class_ratios(counts[None], pairs, k, ratio)[0]
    present = ~np.isnan(values)
    interval = interval_from_replicates(float(values[present].mean()), np.array(means))
    return _class_mean_score(view, values[present], present, interval=interval)


def _class_ratios(counts: Ints, pairs: Ints, k: int, ratio: Ratio) -> Floats:
    """Return the ratio per replicate and class, of shape (n, k); NaN for classes without rows."""
    labels, predictions = np.divmod(pairs, k)
    hits = _sum_by_class(counts * (labels == predictions), labels, k)
    predicted = _sum_by_class(counts, predictions, k)
    actual = _sum_by_class(counts, labels, k)
    numerator, denominator = ratio(hits, predicted, actual)
    return np.where(actual > 0, numerator / np.maximum(denominator, 1), np.nan)


def _sum_by_class(counts: Ints, classes: Ints, k: int) -> Ints:
    """Sum the counts of pairs by class, to shape (n, k)."""
    order = np.argsort(classes, kind="stable")
    present, starts = np.unique(classes[order], return_index=True)
    totals = np.zeros((len(counts), k), dtype=np.int64)
    totals[:, present] = np.add.reduceat(counts[:, order], starts, axis=1)
    return totals


def _class_mean_score(
    view: ModelView, values: Floats, present: Bools, *, interval: tuple[float, float]
) -> Score:
    """Return the mean of the values of the present classes, and each value by class name."""
    k = len(present)
    names = view.outputs.class_names or tuple(map(str, range(k)))
    n_absent = k - len(values)
    n_small = np.count_nonzero(np.bincount(view.labels, minlength=k)[present] < MIN_CLASS_ROWS)
    notes = []
    if n_absent:
        notes.append(f"{n_absent:,} of {k:,} classes have no rows and are left out")
    if n_small:
        notes.append(
            f"{n_small:,} of {k:,} classes have fewer than {MIN_CLASS_ROWS} rows, so the value is "
            "rough"
        )
    score = score_with_interval(float(values.mean()), interval, notes=tuple(notes))
    by_class = zip(np.flatnonzero(present), values, strict=True)
    return replace(score, by_class={names[j]: float(value) for j, value in by_class})
