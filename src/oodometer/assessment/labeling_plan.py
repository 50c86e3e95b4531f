"""plan_labels(): how many rows to label for a given precision, and which rows.

Rows are selected by systematic sampling: they are sorted by confidence, and every k-th row is
selected from a random start. This is like stratified sampling with one label per stratum. Every row
has the same probability of being selected, so the labels need no weights. The selected rows are in
random order: if labeling stops early, the rows that were labelled are a random sample as well.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from oodometer.assessment.ppi import MIN_LABELS, expected_correctness
from oodometer.assessment.prediction_inputs import open_source, open_target
from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import InputError, out_of_range
from oodometer.core.result_views import ResultViews, TableRows
from oodometer.core.stats import Z95, rng_for
from oodometer.data.atomic import atomic_write


@dataclass(frozen=True, eq=False, repr=False)
class LabelingPlan(ResultViews):
    """Rows to label for a given half-width of the 95 % confidence interval.

    Parameters
    ----------
    half_width : float
        Half-width of the 95 % confidence interval, a fraction.
    rows : array of int
        Numbers of the rows to label, in random order, so that any first part of them is a valid
        sample. The first row of the target has number 0.
    n_labels : int
        Number of labels that is sufficient if the scores are calibrated.
    n_labels_without_scores : int
        Number of labels that simple random sampling would need.
    n_rows : int, optional
        Number of rows of the target.
    confidence : array of float, optional
        Confidence of each row to label.
    ids : array, optional
        Id of each row to label, if the target has ids.

    Examples
    --------
    >>> plan = LabelingPlan(0.02, np.array([3, 7]), n_labels=2, n_labels_without_scores=4)
    >>> plan.label_savings, plan
    (0.5, LabelingPlan(n_labels=2, half_width=0.02, n_labels_without_scores=4))
    """

    renderer: ClassVar[str] = "oodometer.report.plan_views"

    half_width: float
    rows: Ints
    n_labels: int
    n_labels_without_scores: int
    n_rows: int | None = None
    confidence: Floats | None = None
    ids: Array | None = None

    @property
    def label_savings(self) -> float:
        """Return the share of labels that is saved compared with simple random sampling."""
        if not self.n_labels_without_scores:
            return 0.0
        return 1 - self.n_labels / self.n_labels_without_scores

    @property
    def summary(self) -> str:
        """Return in one sentence how many rows to label, and for which precision."""
        points = round(100 * self.half_width, 1)
        if self.n_labels == self.n_rows:
            return (
                f"Label all {self.n_rows:,} rows for a confidence interval of ±{points:g} points."
            )
        total = "" if self.n_rows is None else f" of {self.n_rows:,}"
        text = (
            f"Label {self.n_labels:,}{total} rows for a confidence interval of ±{points:g} points"
        )
        if self.n_labels_without_scores == self.n_labels:
            return f"{text}."
        return f"{text} (simple random sampling would need {self.n_labels_without_scores:,})."

    def key_values(self) -> dict[str, Any]:
        return {
            "n_labels": self.n_labels,
            "half_width": self.half_width,
            "n_labels_without_scores": self.n_labels_without_scores,
        }

    def tables(self) -> dict[str, TableRows]:
        """Return the table `rows`: the rows to label, with a column `label` to fill in."""
        rows: TableRows = []
        for place, number in enumerate(self.rows.tolist()):
            row: dict[str, Any] = {"row": number}
            if self.ids is not None:
                row["id"] = self.ids[place]
            if self.confidence is not None:
                row["confidence"] = float(self.confidence[place])
            rows.append({**row, "label": None})
        return {"rows": rows}

    def to_csv(self, path: str | Path) -> None:
        """Write the rows to label as a CSV file, with a column `label` to fill in.

        The filled-in file is the argument `target_labels` of `estimate`.

        Parameters
        ----------
        path : str or Path
            File to write; an existing file is replaced.
        """
        (rows,) = self.tables().values()
        with atomic_write(Path(path)) as part, part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(rows[0])
            for row in rows:
                cells = row | {"label": ""}
                if "confidence" in row:
                    cells["confidence"] = f"{row['confidence']:.4f}"
                writer.writerow(cells.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            "half_width": self.half_width,
            "n_labels": self.n_labels,
            "n_labels_without_scores": self.n_labels_without_scores,
            "label_savings": self.label_savings,
            "rows": self.rows.tolist(),
        }


def plan_labels(
    target: Any,
    *,
    source: Any = None,
    half_width: float = 0.02,
    n_labels: int | None = None,
    seed: int = 0,
) -> LabelingPlan:
    """Return how many and which rows to label for a confidence interval of a given half-width.

    Parameters
    ----------
    target : Predictions, path, data frame or array of probabilities
        Predictions on the unlabelled data; see `estimate`. From predicted classes without scores,
        rows are chosen at random.
    source : Predictions, path, data frame, or pair (probs, labels), optional
        Predictions on labelled data, to calibrate the confidences of the target. Without a source
        the confidences are assumed to be calibrated.
    half_width : float
        Desired half-width of the 95 % confidence interval, a fraction above 0 and below 0.5.
    n_labels : int, optional
        Number of rows to label. The half-width of the plan is then the one that this number of
        labels gives, and `half_width` is not used.
    seed : int
        Random seed.

    Returns
    -------
    LabelingPlan
        Rows to label, their number, and the number of labels that simple random sampling would
        need. `LabelingPlan.to_csv` writes the table to fill in.

    Raises
    ------
    InputError
        If `half_width` is not a fraction above 0 and below 0.5, or `n_labels` is below 1.

    Examples
    --------
    >>> from oodometer import Predictions
    >>> target = Predictions.from_confidence(np.repeat([0.5, 1.0], 5000), k=2)
    >>> plan = plan_labels(target, half_width=0.02)
    >>> plan.n_labels, plan.n_labels_without_scores, len(plan.rows)
    (1201, 1801, 1201)
    """
    predictions = open_target(target).predictions
    if predictions.has_confidence:
        scores = predictions.confidence.astype(float)
    else:
        scores = np.full(predictions.n, 0.5)  # the largest variance, as nothing is known
    if source is not None:
        labelled = open_source(source, seed=seed).predictions
        scores = expected_correctness(labelled, predictions.reorder_classes(labelled.class_names))
    if n_labels is not None:
        plan = _plan_of_size(scores, n_labels, seed)
    else:
        plan = plan_from_scores(scores, half_width=half_width, seed=seed)
    return replace(
        plan,
        n_rows=predictions.n,
        confidence=predictions.confidence[plan.rows] if predictions.has_confidence else None,
        ids=None if predictions.ids is None else predictions.ids[plan.rows],
    )


def _plan_of_size(scores: Floats, n_labels: int, seed: int) -> LabelingPlan:
    """Return a plan of a given number of labels."""
    if n_labels < 1:
        raise out_of_range("n_labels", n_labels, low=1)
    count = min(n_labels, len(scores))
    deviation = math.sqrt(float((scores * (1 - scores)).mean()) / count)
    half_width = min(max(Z95 * deviation, 1e-6), 0.499)
    mean = float(scores.mean())
    return LabelingPlan(
        half_width=half_width,
        rows=_sampling_order(systematic_sample(scores, count, seed), seed),
        n_labels=count,
        n_labels_without_scores=_required_labels(
            mean * (1 - mean), half_width, len(scores), at_least=count
        ),
    )


def plan_from_scores(scores: Floats, *, half_width: float = 0.02, seed: int = 0) -> LabelingPlan:
    """Return the plan for rows, given the probability f of each row that the model is correct.

    For simple random sampling, the variance per label is θ(1 − θ), where θ is the mean of f. If
    labels are combined with the scores f, the variance per label is the mean of f(1 − f).
    """
    if not 0 < half_width < 0.5:
        hint = f" Did you mean {half_width / 100:g}?" if 1 <= half_width < 50 else ""
        raise InputError(
            f"half_width must be a fraction above 0 and below 0.5; got {half_width:g}.{hint}"
        )
    mean = float(scores.mean())
    n_labels = _required_labels(float((scores * (1 - scores)).mean()), half_width, len(scores))
    n_without_scores = _required_labels(mean * (1 - mean), half_width, len(scores))
    return LabelingPlan(
        half_width=half_width,
        rows=_sampling_order(systematic_sample(scores, n_labels, seed), seed),
        n_labels=n_labels,
        n_labels_without_scores=max(n_without_scores, n_labels),
    )


def labels_for_accuracy(accuracy: float, n_rows: int, half_width: float = 0.03) -> int:
    """Return how many of `n_rows` rows to label for a given half-width, without using scores.

    >>> labels_for_accuracy(0.9, 5000)
    385
    """
    return _required_labels(accuracy * (1 - accuracy), half_width, n_rows)


def _required_labels(
    variance: float, half_width: float, n_rows: int, *, at_least: int = MIN_LABELS
) -> int:
    """Return n with z² · variance / n = half_width², at least `at_least` and at most `n_rows`."""
    # Rounding errors must not add a label.
    required = math.ceil(round(variance * (Z95 / half_width) ** 2, 6))
    return min(max(required, at_least), n_rows)


def systematic_sample(scores: Floats, n_labels: int, seed: int) -> Ints:
    """Select every k-th row by score, from a random start; order rows of equal score at random."""
    rng = rng_for(seed, "labelling")
    order = np.lexsort((rng.random(len(scores)), scores))
    step = len(scores) / n_labels
    ranks = ((np.arange(n_labels) + rng.random()) * step).astype(np.int64)
    return np.sort(order[np.minimum(ranks, len(scores) - 1)])


def _sampling_order(rows: Ints, seed: int) -> Ints:
    """Return rows in random order, so that the first rows of a plan are a random sample, too."""
    return rng_for(seed, "labelling order").permutation(rows)
