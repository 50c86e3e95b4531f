"""Mean entropy of the softmax on source and target, and the source error.

Vedantam et al., NeurIPS 2021, §7.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.measures.subject import VEDANTAM_2021, Subject


@dataclass(frozen=True)
class EntropySource:
    """Mean entropy of the softmax on the source, −Σ p log p, in nats.

    Examples
    --------
    >>> from oodometer import Predictions
    >>> from oodometer.measures import build_subject
    >>> uniform = Predictions.from_probs([[0.5, 0.5]], labels=[0])
    >>> round(EntropySource().measure(build_subject(None, uniform, uniform)).value, 4)
    0.6931
    """

    name: ClassVar[str] = "entropy-source"
    label: ClassVar[str] = "Entropy-Source"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = "higher entropy on the source means a higher error on the target"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "entropy"

    def measure(self, subject: Subject) -> Score:
        return Score(-float(subject.reference.outputs.negative_entropy.mean(dtype=float)))


@dataclass(frozen=True)
class EntropyTarget:
    """Mean entropy of the softmax on the target, −Σ p log p, in nats.

    Examples
    --------
    >>> from oodometer import Predictions
    >>> from oodometer.measures import build_subject
    >>> source = Predictions.from_probs([[0.5, 0.5]], labels=[0])
    >>> target = Predictions.from_probs([[1.0, 0.0], [0.5, 0.5]])
    >>> round(EntropyTarget().measure(build_subject(None, source, target)).value, 4)
    0.3466
    """

    name: ClassVar[str] = "entropy-target"
    label: ClassVar[str] = "Entropy-Target"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = "higher entropy on the target means a higher error there"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "entropy"

    def measure(self, subject: Subject) -> Score:
        return Score(-float(subject.target.outputs.negative_entropy.mean(dtype=float)))


@dataclass(frozen=True)
class SourceError:
    """Error rate on held-out source data, 1 − accuracy.

    Examples
    --------
    >>> from oodometer import Predictions
    >>> from oodometer.measures import build_subject
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2]], labels=[0, 1])
    >>> SourceError().measure(build_subject(None, source, source)).value
    0.5
    """

    name: ClassVar[str] = "source-error"
    label: ClassVar[str] = "Source-Error"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "the error on the source predicts the error on the target"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "entropy"

    def measure(self, subject: Subject) -> Score:
        return Score(1.0 - float(subject.source.outputs.correct.mean()))
