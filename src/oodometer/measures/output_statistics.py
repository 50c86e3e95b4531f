"""Scores of a target's answers as a whole: how sure and how varied they are. For ranking alone.

None of them is an accuracy. They order models on one target, or targets of one model, and a line
fitted to known accuracies can turn them into one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.core.softmax_kernels import row_blocks
from oodometer.measures.subject import Subject

# Above this mean surprise logits are believed as they are.
MAX_TAYLOR_SURPRISE = 5.0


@dataclass(frozen=True)
class NuclearNorm:
    """The sum of the singular values of the target's probabilities, 1 where sure and varied."""

    name: ClassVar[str] = "nuclear-norm"
    label: ClassVar[str] = "NuclearNorm"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = (
        "the surer and the more varied the answers, the fewer of them are wrong"
    )
    paper: ClassVar[str] = "Deng et al., ICML 2023"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        """‖P‖_* / √(min(n, k) · n)."""
        probs = _probs(subject)
        n, k = probs.shape
        squares = np.linalg.eigvalsh(_gram(probs))
        return Score(float(np.sqrt(np.maximum(squares, 0.0)).sum() / np.sqrt(min(n, k) * n)))


@dataclass(frozen=True)
class MutualInformation:
    """How much an answer tells of its row: H(mean p) − mean H(p), in nats."""

    name: ClassVar[str] = "mutual-information"
    label: ClassVar[str] = "MI"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = (
        "the surer and the more varied the answers, the fewer of them are wrong"
    )
    paper: ClassVar[str] = "Bridle et al., 1991"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        """The entropy of the mean answer, less the mean entropy of answers."""
        mean = _probs(subject).mean(axis=0, dtype=np.float64)
        seen = mean[mean > 0]
        of_mean = -float(seen @ np.log(seen))
        return Score(of_mean + float(subject.target.outputs.negative_entropy.mean(dtype=float)))


@dataclass(frozen=True)
class MetaDistributionEnergy:
    """How even the free energies of rows are: mean log softmax of them, + log n; 0 at the most."""

    name: ClassVar[str] = "mde"
    label: ClassVar[str] = "MDE"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = "rows on which the model errs have other energies than the rest"
    paper: ClassVar[str] = "Peng et al., ICLR 2024"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        """mean z − log mean exp z, z the log of the sum of the exponents of a row's logits."""
        logits = _logits(subject.target.outputs)
        top = logits.max(axis=1)
        energies = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        highest = energies.max()
        spread = highest + np.log(np.exp(energies - highest).mean())
        return Score(float(energies.mean() - spread))


@dataclass(frozen=True)
class MatrixNorm:
    """The fourth norm of normalised logits, which are trusted as far as they are sure."""

    name: ClassVar[str] = "mano"
    label: ClassVar[str] = "MaNo"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = "logits far from the boundaries between classes are right more often"
    paper: ClassVar[str] = "Xie et al., NeurIPS 2024"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        """(mean v⁴)^¼, v the rows of 1 + z + z²/2 (or exp z, of the sure) scaled to sum to 1."""
        logits = _logits(subject.target.outputs)
        centred = logits - logits.mean(axis=1, keepdims=True)
        top = centred.max(axis=1, keepdims=True)
        grown = np.exp(centred - top)
        surprise = float((top + np.log(grown.sum(axis=1, keepdims=True)) - centred).mean())
        if surprise <= MAX_TAYLOR_SURPRISE:
            grown = 1 + centred + centred**2 / 2
            grown -= grown.min(axis=1, keepdims=True)
        sums = grown.sum(axis=1, keepdims=True)
        even = np.full_like(grown, 1 / grown.shape[1])
        scaled = np.divide(grown, sums, out=even, where=sums > 0)
        return Score(float((scaled**4).mean() ** 0.25), facts={"mean_surprise": surprise})


@dataclass(frozen=True)
class Dispersion:
    """How far the features of predicted classes are from one another, as a log."""

    name: ClassVar[str] = "dispersion"
    label: ClassVar[str] = "Dispersion"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "features")
    assumes: ClassVar[str] = "classes whose features lie far apart are told apart rightly"
    paper: ClassVar[str] = "Xie et al., NeurIPS 2023"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        """log Σ_c (n_c / n) ‖μ_c − μ‖² / (k − 1)."""
        features = subject.target.features.astype(np.float64)
        classes, k = subject.target.outputs.classes, subject.target.outputs.k
        counts = np.bincount(classes, minlength=k)
        sums = np.zeros((k, features.shape[1]))
        np.add.at(sums, classes, features)
        means = sums[counts > 0] / counts[counts > 0, None]
        apart = ((means - features.mean(axis=0)) ** 2).sum(axis=1)
        value = float(counts[counts > 0] @ apart / len(features) / (k - 1))
        if value <= 0:
            raise NotApplicable("all rows are called one class, or their features are all alike")
        return Score(float(np.log(value)))


@dataclass(frozen=True)
class SoftmaxCorrelation:
    """How near the classes' co-occurrence is to that of sure answers, spread evenly over classes."""

    name: ClassVar[str] = "softmax-corr"
    label: ClassVar[str] = "SoftmaxCorr"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = (
        "the surer and the more varied the answers, the fewer of them are wrong"
    )
    paper: ClassVar[str] = "Tu et al., 2023"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        """The cosine between PᵀP and the unit matrix: tr(PᵀP) / (‖PᵀP‖_F √k)."""
        together = _gram(_probs(subject))
        length = float(np.sqrt((together**2).sum() * len(together)))
        return Score(float(np.trace(together)) / length)


def _probs(subject: Subject) -> Floats:
    return subject.target.outputs.probs


def _gram(probs: Floats) -> Floats:
    """PᵀP, in double precision, a block of rows at a time."""
    total = np.zeros((probs.shape[1], probs.shape[1]))
    for rows in row_blocks(*probs.shape):
        block = probs[rows].astype(np.float64)
        total += block.T @ block
    return total


def _logits(rows: Predictions) -> Floats:
    if rows.score_type != "logits" or rows.scores is None:
        raise NotApplicable("it needs logits; probabilities have lost how large they were")
    return rows.scores.astype(np.float64) / rows.temperature
