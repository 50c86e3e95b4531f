"""Measures of target outputs alone: nuclear norm, mutual information, MDE, MaNo and others.

No statistic is an accuracy. A statistic can rank several models on one target, or several targets
of one model. A line fitted to known accuracies can convert a statistic into an accuracy.
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

# MaNo uses the softmax if the mean of −log p over rows and classes is above this value. Otherwise
# it uses the Taylor expansion of exp.
MAX_TAYLOR_SURPRISE = 5.0
_CONFIDENT_AND_DIVERSE = (
    "the more confident and the more diverse the predictions, the higher the accuracy"
)


@dataclass(frozen=True)
class NuclearNorm:
    """Normalized nuclear norm of the target probabilities, ‖P‖_* / √(min(n, k) · n).

    P is the n × k matrix of probabilities of n rows and k classes. The value is 1 if all
    predictions are certain and every class is predicted for the same number of rows.

    Examples
    --------
    >>> from oodometer.measures import build_subject
    >>> certain = Predictions.from_probs([[1.0, 0.0], [0.0, 1.0]])
    >>> NuclearNorm().measure(build_subject(None, certain, certain)).value
    1.0
    """

    name: ClassVar[str] = "nuclear-norm"
    label: ClassVar[str] = "NuclearNorm"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = _CONFIDENT_AND_DIVERSE
    paper: ClassVar[str] = "Deng et al., ICML 2023"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        probs = subject.target.outputs.probs
        n, k = probs.shape
        eigenvalues = np.linalg.eigvalsh(_gram(probs))
        return Score(float(np.sqrt(np.maximum(eigenvalues, 0.0)).sum() / np.sqrt(min(n, k) * n)))


@dataclass(frozen=True)
class MutualInformation:
    """Mutual information of row and predicted class, H(mean p) − mean H(p), in nats.

    H is the entropy, p are the probabilities of a row, and the means are over the target rows.

    Examples
    --------
    >>> from oodometer.measures import build_subject
    >>> certain = Predictions.from_probs([[1.0, 0.0], [0.0, 1.0]])
    >>> round(MutualInformation().measure(build_subject(None, certain, certain)).value, 4)
    0.6931
    """

    name: ClassVar[str] = "mutual-information"
    label: ClassVar[str] = "MI"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = _CONFIDENT_AND_DIVERSE
    paper: ClassVar[str] = "Bridle et al., 1991"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        mean = subject.target.outputs.probs.mean(axis=0, dtype=np.float64)
        positive = mean[mean > 0]
        entropy_of_mean = -float(positive @ np.log(positive))
        mean_negative_entropy = float(subject.target.outputs.negative_entropy.mean(dtype=float))
        return Score(entropy_of_mean + mean_negative_entropy)


@dataclass(frozen=True)
class MetaDistributionEnergy:
    """Meta-distribution energy (MDE), mean z − log mean exp z, where z is the free energy of a row.

    z is the log-sum-exp of the logits of a row, and the means are over the n target rows. The value
    is at most 0, and it is 0 if all free energies are equal. It equals the mean log-softmax of z
    over the rows, plus log n.

    Examples
    --------
    >>> from oodometer.measures import build_subject
    >>> equal = Predictions.from_logits([[1.0, 2.0], [2.0, 1.0]])
    >>> MetaDistributionEnergy().measure(build_subject(None, equal, equal)).value
    0.0
    """

    name: ClassVar[str] = "mde"
    label: ClassVar[str] = "MDE"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = "misclassified rows differ from the others in free energy"
    paper: ClassVar[str] = "Peng et al., ICLR 2024"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        logits = _logits(subject.target.outputs)
        top = logits.max(axis=1)
        energies = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        highest = energies.max()
        log_mean_exp = highest + np.log(np.exp(energies - highest).mean())
        return Score(float(energies.mean() - log_mean_exp))


@dataclass(frozen=True)
class MatrixNorm:
    """Matrix norm of normalized logits (MaNo), (mean v⁴)^¼.

    v has one row of normalized logits per target row. A row of v is computed from the centred
    logits z as 1 + z + z²/2; its minimum is subtracted, and the result is scaled to sum to 1. If
    the mean of −log p over rows and classes is above 5, the rows of v are the softmax of the logits
    instead.

    Examples
    --------
    >>> from oodometer.measures import build_subject
    >>> uniform = Predictions.from_logits([[1.0, 1.0]])
    >>> MatrixNorm().measure(build_subject(None, uniform, uniform)).value
    0.5
    """

    name: ClassVar[str] = "mano"
    label: ClassVar[str] = "MaNo"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = (
        "the further the logits are from the decision boundaries, the higher the accuracy"
    )
    paper: ClassVar[str] = "Xie et al., NeurIPS 2024"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        logits = _logits(subject.target.outputs)
        centred = logits - logits.mean(axis=1, keepdims=True)
        top = centred.max(axis=1, keepdims=True)
        weights = np.exp(centred - top)
        surprise = float((top + np.log(weights.sum(axis=1, keepdims=True)) - centred).mean())
        if surprise <= MAX_TAYLOR_SURPRISE:
            weights = 1 + centred + centred**2 / 2
            weights -= weights.min(axis=1, keepdims=True)
        sums = weights.sum(axis=1, keepdims=True)
        uniform = np.full_like(weights, 1 / weights.shape[1])
        scaled = np.divide(weights, sums, out=uniform, where=sums > 0)
        return Score(float((scaled**4).mean() ** 0.25), facts={"mean_surprise": surprise})


@dataclass(frozen=True)
class Dispersion:
    """Logarithm of the between-class dispersion of features, log Σ_c (n_c / n) ‖μ_c − μ‖² / (k − 1).

    n_c is the number of target rows that are predicted as class c, μ_c is the mean of their
    features, and μ is the mean of all target features.

    Examples
    --------
    >>> from oodometer.measures import build_subject
    >>> rows = Predictions.from_probs([[0.9, 0.1], [0.1, 0.9]], features=[[-1.0], [1.0]])
    >>> Dispersion().measure(build_subject(None, rows, rows)).value
    0.0
    """

    name: ClassVar[str] = "dispersion"
    label: ClassVar[str] = "Dispersion"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "features")
    assumes: ClassVar[str] = (
        "the further apart the features of predicted classes are, the higher the accuracy"
    )
    paper: ClassVar[str] = "Xie et al., NeurIPS 2023"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        features = subject.target.features.astype(np.float64)
        classes = subject.target.outputs.classes
        k = subject.target.outputs.k
        counts = np.bincount(classes, minlength=k)
        sums = np.zeros((k, features.shape[1]))
        np.add.at(sums, classes, features)
        class_means = sums[counts > 0] / counts[counts > 0, None]
        distances = ((class_means - features.mean(axis=0)) ** 2).sum(axis=1)
        value = float(counts[counts > 0] @ distances / len(features) / (k - 1))
        if value <= 0:
            raise NotApplicable("only one class is predicted, or all features are equal")
        return Score(float(np.log(value)))


@dataclass(frozen=True)
class SoftmaxCorrelation:
    """Cosine between the class correlation matrix PᵀP and the identity, tr(PᵀP) / (‖PᵀP‖_F √k).

    P has the probabilities of one target row per row, and k is the number of classes. The value is
    1 if all predictions are certain and every class is predicted for the same number of rows.

    Examples
    --------
    >>> from oodometer.measures import build_subject
    >>> certain = Predictions.from_probs([[1.0, 0.0], [0.0, 1.0]])
    >>> SoftmaxCorrelation().measure(build_subject(None, certain, certain)).value
    1.0
    """

    name: ClassVar[str] = "softmax-corr"
    label: ClassVar[str] = "SoftmaxCorr"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = _CONFIDENT_AND_DIVERSE
    paper: ClassVar[str] = "Tu et al., 2023"
    shared_work_group: ClassVar[str] = "outputs"

    def measure(self, subject: Subject) -> Score:
        gram = _gram(subject.target.outputs.probs)
        norm = float(np.sqrt((gram**2).sum() * len(gram)))
        return Score(float(np.trace(gram)) / norm)


def _gram(probs: Floats) -> Floats:
    """Return PᵀP in float64, computed in blocks of rows."""
    total = np.zeros((probs.shape[1], probs.shape[1]))
    for rows in row_blocks(*probs.shape):
        block = probs[rows].astype(np.float64)
        total += block.T @ block
    return total


def _logits(outputs: Predictions) -> Floats:
    if outputs.score_type != "logits" or outputs.scores is None:
        raise NotApplicable("it needs logits; probabilities do not contain their scale")
    return outputs.scores.astype(np.float64) / outputs.temperature
