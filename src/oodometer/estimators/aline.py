"""Agreement-on-the-line: accuracy from the agreement of models (ALine; Baek et al., NeurIPS 2022).

The agreement of two models is the share of rows for which they predict the same class. Plot the
accuracy of several models on the source (x) and on the target (y), both on the probit scale. If the
points are on a line, the agreements of pairs of models on source and target are on the same line.
The line of the agreements can be fitted without target labels, and predicts the target accuracy of
a model from its source accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import poisson_bootstrap_weights
from oodometer.estimators.label_shift import require_labels

# Pairs of models whose agreement is outside this range are not used, because the probit diverges
# towards 0 and 1.
MIN_AGREEMENT = 0.05
MAX_AGREEMENT = 0.98
MIN_MODELS = 3
# If the R² is below this value, the agreements are not on a line, and the accuracies may not be
# either.
MIN_AGREEMENT_R2 = 0.95
# Maximum number of rows that the bootstrap resamples. If there are more, every k-th row is used.
MAX_BOOTSTRAP_ROWS = 20_000
# Accuracies are clipped to this distance from 0 and 1, which have no finite probit.
ACCURACY_MARGIN = 1e-4


@dataclass(frozen=True)
class AgreementLine:
    """Line fitted to the agreements, its R², and the target accuracies that it predicts.

    `aline_s` and `aline_d` have one accuracy per model, predicted by ALine-S and by ALine-D.
    """

    slope: float
    intercept: float
    r2: float
    n_pairs: int
    aline_s: Floats
    aline_d: Floats


def fit_agreement_line(
    accuracy: Floats, source_agreements: Floats, target_agreements: Floats
) -> AgreementLine:
    """Fit a line to the agreements of all pairs of models, in the order of `model_pairs`.

    The line has the slope s and the intercept c on the probit scale. ALine-S predicts the target
    accuracy acc_t = Φ(s · Φ⁻¹(acc_s) + c). ALine-D predicts acc_t = Φ(w), where w is the
    least-squares solution of the equations

        ½(w_i + w_j) = Φ⁻¹(b_ij) + s · (½(Φ⁻¹ acc_i + Φ⁻¹ acc_j) − Φ⁻¹(a_ij))

    over all pairs i, j. a_ij and b_ij are the agreements on source and target.
    """
    from scipy.special import ndtr, ndtri

    used = (
        (source_agreements >= MIN_AGREEMENT)
        & (source_agreements <= MAX_AGREEMENT)
        & (target_agreements >= MIN_AGREEMENT)
        & (target_agreements <= MAX_AGREEMENT)
    )
    if np.count_nonzero(used) < MIN_MODELS:
        raise NotApplicable(
            f"{np.count_nonzero(used)} pairs of models agree on {MIN_AGREEMENT:.0%} to "
            f"{MAX_AGREEMENT:.0%} of the rows of source and target; a line requires {MIN_MODELS}"
        )
    first, second = (side[used] for side in model_pairs(len(accuracy)))
    a, b = ndtri(source_agreements[used]), ndtri(target_agreements[used])
    centered = a - a.mean()
    if not centered.any():
        raise NotApplicable(
            "all pairs of models agree equally often on the source, so no line can be fitted"
        )
    slope = float(centered @ b / (centered @ centered))
    intercept = float(b.mean() - slope * a.mean())
    variation = float(((b - b.mean()) ** 2).sum())
    r2 = 1 - float(((b - slope * a - intercept) ** 2).sum()) / variation if variation else 1.0
    probits = ndtri(np.clip(accuracy, ACCURACY_MARGIN, 1 - ACCURACY_MARGIN))
    design = np.zeros((len(a), len(accuracy)))
    design[np.arange(len(a)), first] = design[np.arange(len(a)), second] = 0.5
    right_side = b + slope * ((probits[first] + probits[second]) / 2 - a)
    # The unknowns are distances from the line, so that the solution leaves models without a used
    # pair on the line.
    on_line = slope * probits + intercept
    distance = np.linalg.lstsq(design, right_side - design @ on_line, rcond=None)[0]
    return AgreementLine(
        slope=slope,
        intercept=intercept,
        r2=r2,
        n_pairs=len(a),
        aline_s=ndtr(on_line),
        aline_d=ndtr(on_line + distance),
    )


def model_pairs(n_models: int) -> tuple[Ints, Ints]:
    """Return the indices of the first and the second model of every pair."""
    pairs = np.array(list(combinations(range(n_models), 2)), dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def agreements(classes: Ints, weights: Floats | None = None) -> Floats:
    """Return the share of rows on which each pair of models agrees.

    `classes` has shape (models, n). The result has shape (pairs,). If the rows have weights, of
    shape (…, n), the result has shape (…, pairs).

    >>> agreements(np.array([[0, 1, 1], [0, 1, 0], [1, 1, 0]])).round(2).tolist()
    [0.67, 0.33, 0.67]
    """
    shares = [
        (classes[i] == classes[j]).mean()
        if weights is None
        else weights @ (classes[i] == classes[j])
        for i, j in combinations(range(len(classes)), 2)
    ]
    return np.stack(shares, axis=-1)


@dataclass(frozen=True)
class ModelClasses:
    """Predicted classes of several models, (models, n); the assessed model comes first.

    `correct` is whether each class is correct, or None if there are no labels.
    """

    classes: Ints
    correct: Bools | None


@dataclass(frozen=True)
class AgreementOnTheLine(StreamingEstimator[ModelClasses, ModelClasses]):
    """Target accuracy, predicted from the source accuracy by a line fitted to model agreements.

    The predictions of at least three models on source and target are required.

    Parameters
    ----------
    reading : {"s", "d"}
        "s" (ALine-S) reads each model's accuracy from the line. "d" (ALine-D) also takes into
        account how far the agreement of each pair of models is from the line.

    Raises
    ------
    InputError
        If `reading` is neither "s" nor "d".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, 4000)
    >>> def predict(skills):
    ...     models = [np.where(rng.random(4000) < p, labels, rng.integers(0, 5, 4000)) for p in skills]
    ...     first, *others = [Predictions.from_classes(m, k=5, labels=labels) for m in models]
    ...     return first.with_other_models(*others)
    >>> source, target = predict([0.9, 0.8, 0.7, 0.6]), predict([0.8, 0.7, 0.6, 0.5])
    >>> value = AgreementOnTheLine("s").estimate(source, target).value
    >>> bool(abs(value - target.correct.mean()) < 0.05)
    True
    """

    reading: Literal["s", "d"] = "d"

    assumes: ClassVar[str] = (
        "on the probit scale, the accuracies of models on source and target lie on a line, and the "
        "agreement rates between pairs of models lie on the same line"
    )
    needs: ClassVar[tuple[str, ...]] = ("classes", "source labels", "two more models on both sides")
    paper: ClassVar[str] = "Baek et al., NeurIPS 2022"
    supports_decisions: ClassVar[bool] = False
    is_mergeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.reading not in ("s", "d"):
            raise InputError(f"reading must be 's' or 'd'; got {self.reading!r}.")

    @property
    def name(self) -> str:
        return f"aline-{self.reading}"

    def learn(self, source: Predictions) -> ModelClasses:
        """Return the predicted classes of all models, and whether they are correct."""
        classes = _stack_classes(source, "source")
        return ModelClasses(classes, classes == require_labels(source))

    def summarize(self, learned: ModelClasses, batch: Predictions) -> ModelClasses:
        """Return the predicted classes of all models."""
        classes = _stack_classes(batch, "target")
        if len(classes) != len(learned.classes):
            raise NotApplicable(
                f"there are predictions of {len(learned.classes)} models on the source and of "
                f"{len(classes)} on the target; the same models are required on both"
            )
        return ModelClasses(classes, None)

    def finish(self, learned: ModelClasses, total: ModelClasses) -> Estimate:
        """Return the target accuracy that the line predicts for the first model."""
        assert learned.correct is not None
        line = fit_agreement_line(
            learned.correct.mean(axis=1), agreements(learned.classes), agreements(total.classes)
        )
        notes: tuple[str, ...] = ()
        if line.r2 < MIN_AGREEMENT_R2:
            notes = (
                f"agreements are not on a line (R² {line.r2:.2f}); accuracies may not be either",
            )
        facts = {
            "agreement_r2": line.r2,
            "agreement_is_linear": float(line.r2 >= MIN_AGREEMENT_R2),
            "slope": line.slope,
            "pairs": line.n_pairs,
        }
        return Estimate(self._read_accuracy(line), notes=notes, facts=facts)

    def _read_accuracy(self, line: AgreementLine) -> float:
        return float((line.aline_s if self.reading == "s" else line.aline_d)[0])

    def resample(
        self, learned: ModelClasses, total: ModelClasses, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample the rows of source and target, and fit the line again."""
        assert learned.correct is not None
        source, weights, subsample = _resample_agreements(rng, learned.classes, count)
        target, _, _ = _resample_agreements(rng, total.classes, count)
        accuracy = weights @ learned.correct[:, subsample].T
        values = np.full(count, self.finish(learned, total).value)
        for j in range(count):
            try:
                values[j] = self._read_accuracy(
                    fit_agreement_line(accuracy[j], source[j], target[j])
                )
            except NotApplicable:
                continue
        # If only every k-th row is used, the standard error is √k times that of all rows.
        stride = subsample.step or 1
        return np.asarray(values.mean() + (values - values.mean()) / np.sqrt(stride))


def _resample_agreements(
    rng: np.random.Generator, classes: Ints, count: int
) -> tuple[Floats, Floats, slice]:
    """Return the agreements of each replicate, the rows' bootstrap weights, and the used rows."""
    subsample = slice(None, None, -(-classes.shape[1] // MAX_BOOTSTRAP_ROWS))
    rows = classes[:, subsample]
    weights = poisson_bootstrap_weights(rng, (count, rows.shape[1])).astype(np.float32)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1)
    return agreements(rows, weights), weights, subsample


def _stack_classes(rows: Predictions, side: str) -> Ints:
    if len(rows.other_models) < MIN_MODELS - 1:
        raise NotApplicable(f"it requires predictions of {MIN_MODELS} or more models on the {side}")
    return np.stack([rows.classes, *(model.classes for model in rows.other_models)])
