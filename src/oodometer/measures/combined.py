"""Divergences averaged over source domains, and divergences plus the source error.

Vedantam et al., NeurIPS 2021, §6, §7.2.
"""

from __future__ import annotations

from collections.abc import Hashable
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
    """Mean of a measure over the source domains; each domain is compared with the target.

    The facts of the score contain the value of each domain.

    Parameters
    ----------
    base : Measure
        Measure to average.

    Examples
    --------
    >>> MultiSource(HDivergence()).name, MultiSource(HDivergence()).label
    ('h-divergence-ms', 'H-divergence MS')
    """

    base: Measure

    @property
    def name(self) -> str:
        return f"{self.base.name}-ms"

    @property
    def label(self) -> str:
        return f"{self.base.label} MS"

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*self.base.needs, "source domains")

    @property
    def assumes(self) -> str:
        return f"{self.base.assumes}; each source domain counts equally"

    @property
    def paper(self) -> str:
        return self.base.paper

    @property
    def shared_work_group(self) -> Hashable:
        return getattr(self.base, "shared_work_group", self.base.name)

    def measure(self, subject: Subject) -> Score:
        domains = subject.reference.domain_names
        if not domains:
            raise NotApplicable("it needs source domains: the domain of each row is not known")
        scores = {domain: self._measure_domain(subject, domain) for domain in domains}
        notes = (f"{domain}: {note}" for domain, score in scores.items() for note in score.notes)
        return Score(
            fmean(score.value for score in scores.values()),
            notes=tuple(notes),
            facts={f"domain_{domain}": score.value for domain, score in scores.items()},
        )

    def _measure_domain(self, subject: Subject, domain: str) -> Score:
        try:
            return measure_one(self.base, subject.select_domain(domain))
        except NotApplicable as error:
            raise NotApplicable(f"source domain {domain!r}: {error}") from error


@dataclass(frozen=True)
class PlusSourceError:
    """Sum of a measure and the error rate on held-out source data.

    The facts of the score contain the error rate.

    Parameters
    ----------
    base : Measure
        Measure to which the error rate is added.

    Examples
    --------
    >>> PlusSourceError(MultiSource(HDivergence(half="train"))).label
    'H-divergence (train) MS + Source-Error'
    """

    base: Measure

    @property
    def name(self) -> str:
        return f"{self.base.name}+{SourceError.name}"

    @property
    def label(self) -> str:
        return f"{self.base.label} + {SourceError.label}"

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*self.base.needs, *SourceError.needs)

    @property
    def assumes(self) -> str:
        return f"{self.base.assumes}; {SourceError.assumes}"

    @property
    def paper(self) -> str:
        return self.base.paper

    @property
    def shared_work_group(self) -> Hashable:
        return getattr(self.base, "shared_work_group", self.base.name)

    def measure(self, subject: Subject) -> Score:
        score = measure_one(self.base, subject)
        error = SourceError().measure(subject).value
        facts = {**score.facts, "source_error": error}
        return replace(score, value=score.value + error, low=None, high=None, facts=facts)


def _variants(divergence: Divergence) -> tuple[Measure, ...]:
    multi_source = MultiSource(divergence)
    return divergence, PlusSourceError(divergence), multi_source, PlusSourceError(multi_source)


_BASE_DIVERGENCES: tuple[Divergence, ...] = (
    HDivergence("linear"),
    HDivergence("larger"),
    HDeltaHDivergence("linear"),
    HDeltaHDivergence("larger"),
)
DIVERGENCES: tuple[Measure, ...] = tuple(
    member
    for divergence, half in product(_BASE_DIVERGENCES, get_args(Half))
    for member in _variants(replace(divergence, half=half))
)
