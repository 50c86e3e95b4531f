"""Divergences over several source domains, and with the error on the source added. DG §6, §7.2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean
from typing import get_args

from oodometer.core.errors import NotApplicable
from oodometer.core.protocols import Measure, Need
from oodometer.core.results import Score
from oodometer.measures.entropy import SourceError
from oodometer.measures.h_divergence import Divergence, Half, HDivergence
from oodometer.measures.hdh_divergence import HDeltaHDivergence
from oodometer.measures.subject import Subject, measure_one


@dataclass(frozen=True)
class MultiSource:
    """The mean of a measure over the source domains, each taken alone against the target.

    >>> MultiSource(HDivergence()).name, MultiSource(HDivergence()).label
    ('h-divergence-ms', 'H-divergence MS')
    """

    base: Measure

    @property
    def name(self) -> str:
        """The measure's, and `-ms`."""
        return f"{self.base.name}-ms"

    @property
    def label(self) -> str:
        """The measure's, and MS."""
        return f"{self.base.label} MS"

    @property
    def needs(self) -> tuple[Need, ...]:
        """What the measure needs, and which domain a source row is of."""
        return (*self.base.needs, "source domains")

    @property
    def assumes(self) -> str:
        """As the measure does, of every source domain."""
        return f"{self.base.assumes}; every source domain alike"

    @property
    def paper(self) -> str:
        """The measure's."""
        return self.base.paper

    def measure(self, subject: Subject) -> Score:
        """The mean over domains; their values are facts."""
        if not subject.reference.domain_names:
            raise NotApplicable("it needs source domains: it is not known which domain a row is of")
        scores = {
            name: self._measure_domain(subject, name) for name in subject.reference.domain_names
        }
        notes = (f"{name}: {note}" for name, score in scores.items() for note in score.notes)
        return Score(
            fmean(score.value for score in scores.values()),
            notes=tuple(notes),
            facts={f"domain_{name}": score.value for name, score in scores.items()},
        )

    def _measure_domain(self, subject: Subject, name: str) -> Score:
        try:
            return measure_one(self.base, subject.select_domain(name))
        except NotApplicable as refusal:
            raise NotApplicable(f"of the source domain {name!r}: {refusal}") from refusal


@dataclass(frozen=True)
class PlusSourceError:
    """A measure, and the share of wrong decisions on held-out source data added to it.

    >>> PlusSourceError(MultiSource(HDivergence(half="train"))).label
    'H-divergence (train) MS + Source-Error'
    """

    base: Measure

    @property
    def name(self) -> str:
        """The measure's, and `+source-error`."""
        return f"{self.base.name}+{SourceError.name}"

    @property
    def label(self) -> str:
        """The measure's, and "+ Source-Error"."""
        return f"{self.base.label} + {SourceError.label}"

    @property
    def needs(self) -> tuple[Need, ...]:
        """What the measure needs, and what the error does."""
        return (*self.base.needs, *SourceError.needs)

    @property
    def assumes(self) -> str:
        """As the measure and the error do."""
        return f"{self.base.assumes}; {SourceError.assumes}"

    @property
    def paper(self) -> str:
        """The measure's."""
        return self.base.paper

    def measure(self, subject: Subject) -> Score:
        """The sum; the error is a fact."""
        found, error = measure_one(self.base, subject), SourceError().measure(subject).value
        facts = {**found.facts, "source_error": error}
        return replace(found, value=found.value + error, low=None, high=None, facts=facts)


def _variants(divergence: Divergence) -> tuple[Measure, ...]:
    """Of all source domains as one, and of each alone; without the error, and with it."""
    several = MultiSource(divergence)
    return divergence, PlusSourceError(divergence), several, PlusSourceError(several)


_BASE_DIVERGENCES: tuple[Divergence, ...] = (
    HDivergence("linear"),
    HDivergence("larger"),
    HDeltaHDivergence("linear"),
    HDeltaHDivergence("larger"),
)
DIVERGENCES: tuple[Measure, ...] = tuple(
    member
    for fit, half in product(_BASE_DIVERGENCES, get_args(Half))
    for member in _variants(replace(fit, half=half))
)
