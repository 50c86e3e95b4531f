"""Registry of measures: `MEMBERS`, `available()` and `get()`.

Most measures are from Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain
Generalization with Empirical Risk Minimizers", NeurIPS 2021. Two weight norms are from Ng et al.,
"Predicting Out-of-Domain Generalization with Neighborhood Invariance", TMLR 2023.
"""

from __future__ import annotations

from oodometer.core.errors import UnknownName
from oodometer.core.protocols import Measure
from oodometer.core.registry import load_entry_points
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
    """Return all measures: those of this package, then those of installed packages.

    Returns
    -------
    tuple of Measure
        One instance of each measure with its default settings.

    Raises
    ------
    InputError
        If an entry point of the group `oodometer.measures` does not return a measure.

    Examples
    --------
    >>> available()[0].name
    'entropy-source'
    """
    needs = "measure: it needs name, label, needs, assumes, paper and measure(subject)"
    others = load_entry_points("oodometer.measures", Measure, requirements=needs)  # type: ignore[type-abstract]
    return (*MEMBERS, *others)


def get(name: str) -> Measure:
    """Return the measure with a given name or label.

    Parameters
    ----------
    name : str
        Name of the measure, or its label, which is the name used in the paper. Case is ignored.

    Returns
    -------
    Measure
        The measure with its default settings.

    Raises
    ------
    UnknownName
        If no measure has this name.

    Examples
    --------
    >>> get("Entropy-Source")
    EntropySource()
    """
    members = available()
    for member in members:
        if name.lower() in (member.name, member.label.lower()):
            return member
    raise UnknownName("measure", name, [member.name for member in members])
