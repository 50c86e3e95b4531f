"""Registry of measures: the list of members, `available()` and `get()`.

DG in the files beside this one is Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of
Domain Generalization with Empirical Risk Minimizers", NeurIPS 2021, and its appendix.
"""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.core.errors import UnknownName
from oodometer.core.protocols import Measure
from oodometer.core.registry import load_entry_points, resolve_members
from oodometer.measures._difference_and_ratio import COMPARISON_FORMS
from oodometer.measures.combined import DIVERGENCES, MultiSource, PlusSourceError
from oodometer.measures.entropy import EntropySource, EntropyTarget, SourceError
from oodometer.measures.fisher import FisherAlignment, FisherEigenvalues
from oodometer.measures.h_divergence import HDivergence
from oodometer.measures.hdh_divergence import HDeltaHDivergence
from oodometer.measures.jacobian import Jacobian
from oodometer.measures.mixup import Mixup
from oodometer.measures.mmd import MmdGaussian, MmdMeanCov, MmdRandomFeatures
from oodometer.measures.output_statistics import (
    Dispersion,
    MatrixNorm,
    MetaDistributionEnergy,
    MutualInformation,
    NuclearNorm,
    SoftmaxCorrelation,
)
from oodometer.measures.sharpness import Sharpness
from oodometer.measures.weight_norms import FrobeniusNorm, PathNorm, SpectralNorm

__all__ = [
    "MEMBERS",
    "Dispersion",
    "EntropySource",
    "EntropyTarget",
    "FisherAlignment",
    "FisherEigenvalues",
    "FrobeniusNorm",
    "HDeltaHDivergence",
    "HDivergence",
    "Jacobian",
    "MatrixNorm",
    "MetaDistributionEnergy",
    "Mixup",
    "MmdGaussian",
    "MmdMeanCov",
    "MmdRandomFeatures",
    "MultiSource",
    "MutualInformation",
    "NuclearNorm",
    "PathNorm",
    "PlusSourceError",
    "Sharpness",
    "SoftmaxCorrelation",
    "SourceError",
    "SpectralNorm",
    "available",
    "get",
    "resolve_measures",
]

MEMBERS: tuple[Measure, ...] = (
    EntropySource(),
    EntropyTarget(),
    SourceError(),
    *DIVERGENCES,
    MmdGaussian(),
    MmdRandomFeatures(),
    MmdMeanCov(),
    FisherEigenvalues("diff"),
    FisherEigenvalues("ratio"),
    FisherAlignment(),
    *(Jacobian(form) for form in COMPARISON_FORMS),
    *(Mixup(form, alpha) for alpha in (0.1, 0.3) for form in COMPARISON_FORMS),
    PathNorm(),
    Sharpness(),
    SpectralNorm(),
    FrobeniusNorm(),
    NuclearNorm(),
    MutualInformation(),
    MetaDistributionEnergy(),
    MatrixNorm(),
    Dispersion(),
    SoftmaxCorrelation(),
)


def available() -> tuple[Measure, ...]:
    """All measures: ours, and those that installed packages add."""
    needs = "measure: it needs name, label, needs, assumes, paper and measure(subject)"
    others = load_entry_points("oodometer.measures", Measure, requirements=needs)  # type: ignore[type-abstract]
    return (*MEMBERS, *others)


def get(name: str) -> Measure:
    """The measure of that name, or of the papers' name for it.

    >>> get("Entropy-Source")
    EntropySource()
    """
    members = available()
    for member in members:
        if name.lower() in (member.name, member.label.lower()):
            return member
    raise UnknownName("measure", name, [member.name for member in members])


def resolve_measures(measures: str | Measure | Sequence[str | Measure] | None) -> list[Measure]:
    """The measures asked for, each once."""
    if measures is None:
        return list(available())
    return resolve_members(measures, Measure, family="measure", get=get)  # type: ignore[type-abstract]
