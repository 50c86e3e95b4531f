"""F1, balanced accuracy and AUROC, computed per class and averaged over classes (macro average).

Classes without rows have no value. They are left out of the average, and a note states their
number.
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

# Function that returns the numerator and the denominator of a ratio, given the numbers of true
# positives, of predictions and of rows of each class.
Ratio = Callable[[Ints, Ints, Ints], tuple[Ints, Ints]]
# Maximum number of bootstrap counts in memory at once. There is one count per replicate and pair of
# label and prediction, and 1,000 classes have a million such pairs.
MAX_HELD_COUNTS = 2_000_000
# If a class has fewer rows than this, a note warns that the value is imprecise.
MIN_CLASS_ROWS = 10


@dataclass(frozen=True)
class F1:
    """F1 score, averaged over classes.

    The F1 score of a class is 2 · true positives / (rows predicted as the class + rows labelled as
    the class).

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
    """Recall, averaged over classes.

    The recall of a class is true positives / rows labelled as the class.

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
    """Area under the ROC curve (AUROC) of each class against the rest, averaged over classes.

    The AUROC of a class is the probability that a random row of this class has a higher predicted
    probability of the class than a random row of another class. The confidence interval uses
    DeLong's variance and is computed on the log-odds scale.

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
        "how well the probability of a class ranks the rows of this class above all other rows"
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
            # If a group has only one row, its sampling error is unknown and is treated as 0.
            errors += (wins - areas[-1]) / np.sqrt(group_size * np.maximum(group_size - 1, 1))
        interval = _log_odds_interval(
            float(np.mean(areas)), math.sqrt(errors @ errors) / len(areas)
        )
        return _class_mean_score(view, np.array(areas), present, interval=interval)


def win_shares(scores: Floats, positive: Bools) -> Floats:
    """Return the share of the opposite group against which each row is ranked correctly.

    The two groups are the positive and the negative rows. A positive row is ranked correctly
    against a negative one if its score is higher. A tie counts ½.

    >>> win_shares(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False]))
    array([1.  , 0.75, 0.75, 1.  ])
    """
    order = np.argsort(scores)
    sorted_scores = scores[order]
    sorted_positive = positive[order]
    wins = np.empty(len(scores))
    for group in (sorted_positive, ~sorted_positive):
        # np.searchsorted is ten times faster on sorted values than on unsorted ones.
        own, others = sorted_scores[group], sorted_scores[~group]
        below = sum(np.searchsorted(others, own, side=end) for end in ("left", "right"))
        wins[order[group]] = below / (2 * len(others))
    wins[~positive] = 1 - wins[~positive]
    return wins


def _log_odds_interval(share: float, deviation: float) -> tuple[float, float]:
    """Return a normal interval for the log-odds of `share`, transformed back to the 0 … 1 scale."""
    if not deviation or not 0 < share < 1:
        return share, share
    factor = math.exp(min(Z95 * deviation / (share * (1 - share)), 500.0))
    odds = share / (1 - share)
    return odds / (odds + factor), odds / (odds + 1 / factor)


def _bootstrap_class_mean(view: ModelView, name: str, ratio: Ratio) -> Score:
    """Return the mean of a ratio over classes, with a bootstrap interval.

    The bootstrap resamples the number of rows for each pair of label and prediction.
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
    """Return the ratio of each replicate and class, (n, k); it is NaN for classes without rows."""
    labels, predictions = np.divmod(pairs, k)
    hits = _sum_by_class(counts * (labels == predictions), labels, k)
    predicted = _sum_by_class(counts, predictions, k)
    actual = _sum_by_class(counts, labels, k)
    numerator, denominator = ratio(hits, predicted, actual)
    return np.where(actual > 0, numerator / np.maximum(denominator, 1), np.nan)


def _sum_by_class(counts: Ints, classes: Ints, k: int) -> Ints:
    """Return the sum of the counts for each class, (n, k).

    `counts` has one column per pair of label and prediction, and `classes` has the class of each
    column.
    """
    order = np.argsort(classes, kind="stable")
    present, starts = np.unique(classes[order], return_index=True)
    totals = np.zeros((len(counts), k), dtype=np.int64)
    totals[:, present] = np.add.reduceat(counts[:, order], starts, axis=1)
    return totals


def _class_mean_score(
    view: ModelView, values: Floats, present: Bools, *, interval: tuple[float, float]
) -> Score:
    """Return a score with the mean of the classes' values, and with the value of each class."""
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
