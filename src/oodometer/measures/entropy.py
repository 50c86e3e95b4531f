"""How unsure the model is, on either side, and how often it errs on the source. DG §7.3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.measures.subject import VEDANTAM_2021, Subject


@dataclass(frozen=True)
class EntropySource:
    """Mean entropy of the softmax on the source, in nats."""

    name: ClassVar[str] = "entropy-source"
    label: ClassVar[str] = "Entropy-Source"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = "a model that is unsure where it was trained errs more elsewhere"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "entropy"

    def measure(self, subject: Subject) -> Score:
        """−Σ p log p, the mean over S."""
        return Score(-float(subject.reference.outputs.negative_entropy.mean(dtype=float)))


@dataclass(frozen=True)
class EntropyTarget:
    """Mean entropy of the softmax on the target, in nats."""

    name: ClassVar[str] = "entropy-target"
    label: ClassVar[str] = "Entropy-Target"
    needs: ClassVar[tuple[Need, ...]] = ("outputs",)
    assumes: ClassVar[str] = "a model that is unsure on the target errs more there"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "entropy"

    def measure(self, subject: Subject) -> Score:
        """−Σ p log p, the mean over T."""
        return Score(-float(subject.target.outputs.negative_entropy.mean(dtype=float)))


@dataclass(frozen=True)
class SourceError:
    """The share of wrong decisions on held-out source data."""

    name: ClassVar[str] = "source-error"
    label: ClassVar[str] = "Source-Error"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "what is hard on the source is hard on the target"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "entropy"

    def measure(self, subject: Subject) -> Score:
        """1 − accuracy."""
        return Score(1.0 - float(subject.source.outputs.correct.mean()))
