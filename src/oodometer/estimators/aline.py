"""ALine: agreement on the line. Baek et al., NeurIPS 2022.

Where models' accuracies on two sets lie on a line (on the probit scale), so do the agreements of
their pairs, and that line needs no labels: its slope and intercept carry accuracies over.
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

# Pairs that agree on less or more than this have no say: probits run off to infinity.
MIN_AGREEMENT, MAX_AGREEMENT = 0.05, 0.98
MIN_MODELS = 3
# Below this the agreements lie on no line, and nor may the accuracies.
MIN_AGREEMENT_R2 = 0.95
# Rows that the bootstrap draws again; of more, every second, third, … is taken.
MAX_BOOTSTRAP_ROWS = 20_000
# An accuracy of 0 or 1 has no probit; this one is near enough.
ACCURACY_MARGIN = 1e-4


@dataclass(frozen=True)
class AgreementLine:
    """The line, how well agreements lie on it, and every model's accuracy by both readings."""

    slope: float
    intercept: float
    r2: float
    n_pairs: int
    aline_s: Floats
    aline_d: Floats


def fit_agreement_line(
    accuracy: Floats, source_agreements: Floats, target_agreements: Floats
) -> AgreementLine:
    """The line through agreements of all pairs (in the order of `model_pairs`), and what it says.

    S: acc_t = Φ(s · Φ⁻¹(acc_s) + c). D: the least-squares solution w of
    ½(w_i + w_j) = Φ⁻¹(b_ij) + s · (½(Φ⁻¹ acc_i + Φ⁻¹ acc_j) − Φ⁻¹(a_ij)), acc_t = Φ(w).
    """
    from scipy.special import ndtr, ndtri

    kept = (
        (source_agreements >= MIN_AGREEMENT)
        & (source_agreements <= MAX_AGREEMENT)
        & (target_agreements >= MIN_AGREEMENT)
        & (target_agreements <= MAX_AGREEMENT)
    )
    if np.count_nonzero(kept) < MIN_MODELS:
        raise NotApplicable(
            f"{np.count_nonzero(kept)} pairs of models agree on {MIN_AGREEMENT:.0%} to {MAX_AGREEMENT:.0%} of both "
            f"sides; a line needs {MIN_MODELS}"
        )
    first, second = (side[kept] for side in model_pairs(len(accuracy)))
    a, b = ndtri(source_agreements[kept]), ndtri(target_agreements[kept])
    around = a - a.mean()
    if not around.any():
        raise NotApplicable(
            "all pairs of models agree alike on the source; no line goes through that"
        )
    slope = float(around @ b / (around @ around))
    intercept = float(b.mean() - slope * a.mean())
    spread = float(((b - b.mean()) ** 2).sum())
    r2 = 1 - float(((b - slope * a - intercept) ** 2).sum()) / spread if spread else 1.0
    known = ndtri(np.clip(accuracy, ACCURACY_MARGIN, 1 - ACCURACY_MARGIN))
    design = np.zeros((len(a), len(accuracy)))
    design[np.arange(len(a)), first] = design[np.arange(len(a)), second] = 0.5
    wanted = b + slope * ((known[first] + known[second]) / 2 - a)
    # Models without a pair that has a say, and directions that no pair tells of, stay on the line.
    on_line = slope * known + intercept
    moved = np.linalg.lstsq(design, wanted - design @ on_line, rcond=None)[0]
    return AgreementLine(slope, intercept, r2, len(a), ndtr(on_line), ndtr(on_line + moved))


def model_pairs(n_models: int) -> tuple[Ints, Ints]:
    """First and second of every pair of models."""
    pairs = np.array(list(combinations(range(n_models), 2)), dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def agreements(classes: Ints, weights: Floats | None = None) -> Floats:
    """The share of rows on which each pair of (models, n) classes agree; (…, pairs) by weights.

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
    """Classes by model (the judged one first), and where they are right, of a labelled source."""

    classes: Ints
    correct: Bools | None


@dataclass(frozen=True)
class AgreementOnTheLine(StreamingEstimator[ModelClasses, ModelClasses]):
    """The source accuracy, carried over by the line that agreements of models lie on.

    It takes at least three models' answers on both sides, given as peers. `s` reads every accuracy
    off the line; `d` uses each pair's own distance from it.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, 4000)
    >>> def answers(right):
    ...     models = [np.where(rng.random(4000) < p, labels, rng.integers(0, 5, 4000)) for p in right]
    ...     one, *others = [Predictions.from_classes(m, k=5, labels=labels) for m in models]
    ...     return one.with_other_models(*others)
    >>> source, target = answers([0.9, 0.8, 0.7, 0.6]), answers([0.8, 0.7, 0.6, 0.5])
    >>> found = AgreementOnTheLine("s").estimate(source, target).value
    >>> bool(abs(found - target.correct.mean()) < 0.05)
    True
    """

    reading: Literal["s", "d"] = "d"

    assumes: ClassVar[str] = (
        "accuracies of models on source and target lie on a line, and so do their agreements"
    )
    needs: ClassVar[tuple[str, ...]] = ("classes", "source labels", "two more models on both sides")
    paper: ClassVar[str] = "Baek et al., NeurIPS 2022"
    is_mergeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.reading not in ("s", "d"):
            raise InputError(f"reading must be 's' or 'd'; got {self.reading!r}.")

    @property
    def name(self) -> str:
        """`aline-s` or `aline-d`."""
        return f"aline-{self.reading}"

    def learn(self, source: Predictions) -> ModelClasses:
        """The classes that all models gave, and where they are right."""
        found = _stack_classes(source, "source")
        return ModelClasses(found, found == require_labels(source))

    def summarize(self, learned: ModelClasses, batch: Predictions) -> ModelClasses:
        """The classes that all models gave."""
        found = _stack_classes(batch, "target")
        if len(found) != len(learned.classes):
            raise NotApplicable(
                f"{len(learned.classes)} models answered on the source and {len(found)} on the "
                "target; the same are needed on both"
            )
        return ModelClasses(found, None)

    def finish(self, learned: ModelClasses, total: ModelClasses) -> Estimate:
        """The first model's accuracy by the line."""
        assert learned.correct is not None
        line = fit_agreement_line(
            learned.correct.mean(axis=1), agreements(learned.classes), agreements(total.classes)
        )
        notes: tuple[str, ...] = ()
        if line.r2 < MIN_AGREEMENT_R2:
            notes = (f"agreements are off the line (R² {line.r2:.2f}): accuracies may be too",)
        facts = {
            "agreement_r2": line.r2,
            "agreement_is_linear": float(line.r2 >= MIN_AGREEMENT_R2),
            "slope": line.slope,
            "pairs": line.n_pairs,
        }
        return Estimate(float(self._read_accuracy(line)), notes=notes, facts=facts)

    def _read_accuracy(self, line: AgreementLine) -> float:
        return float((line.aline_s if self.reading == "s" else line.aline_d)[0])

    def resample(
        self, learned: ModelClasses, total: ModelClasses, rng: np.random.Generator, count: int
    ) -> Floats:
        """Rows of both sides drawn again; the line fitted again."""
        assert learned.correct is not None
        source, known, shrunk = _resample_agreements(rng, learned.classes, count)
        target, _, _ = _resample_agreements(rng, total.classes, count)
        accuracy = known @ learned.correct[:, shrunk].T
        whole = self.finish(learned, total).value
        values = np.full(count, whole)
        for j in range(count):
            try:
                values[j] = self._read_accuracy(
                    fit_agreement_line(accuracy[j], source[j], target[j])
                )
            except NotApplicable:
                continue
        # Of a part of the rows the spread is too wide by the root of that part.
        step = shrunk.step or 1
        return np.asarray(values.mean() + (values - values.mean()) / np.sqrt(step))


def _resample_agreements(
    rng: np.random.Generator, classes: Ints, count: int
) -> tuple[Floats, Floats, slice]:
    """Agreements by draw, the weights of the rows, and which rows those are."""
    some = slice(None, None, -(-classes.shape[1] // MAX_BOOTSTRAP_ROWS))
    part = classes[:, some]
    weights = poisson_bootstrap_weights(rng, (count, part.shape[1])).astype(np.float32)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1)
    return agreements(part, weights), weights, some


def _stack_classes(rows: Predictions, side: str) -> Ints:
    if len(rows.other_models) < MIN_MODELS - 1:
        raise NotApplicable(
            f"it compares {MIN_MODELS} or more models; give the others' predictions of the {side}"
        )
    return np.stack([rows.classes, *(peer.classes for peer in rows.other_models)])
