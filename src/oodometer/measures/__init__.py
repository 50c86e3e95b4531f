"""Measures: scores of a model without target labels.

To add a measure: write one file with a frozen dataclass in this package, and add an instance to `MEMBERS` in
`registry.py`. `oodometer.testing.check_measure` and `docs/methods.md` say what it needs. Another package adds its
own by an entry point of the group `oodometer.measures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.measures._measure import Measurements, SubsetNoise, build_subject, measure
    from oodometer.measures.registry import (
        MEMBERS,
        Dispersion,
        EntropySource,
        EntropyTarget,
        FisherAlignment,
        FisherEigenvalues,
        FrobeniusNorm,
        HDeltaHDivergence,
        HDivergence,
        Jacobian,
        MatrixNorm,
        MetaDistributionEnergy,
        Mixup,
        MmdGaussian,
        MmdMeanCov,
        MmdRandomFeatures,
        MultiSource,
        MutualInformation,
        NuclearNorm,
        PathNorm,
        PlusSourceError,
        Sharpness,
        SoftmaxCorrelation,
        SourceError,
        SpectralNorm,
        available,
        get,
        resolve_measures,
    )

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
    "Measurements",
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
    "SubsetNoise",
    "available",
    "build_subject",
    "get",
    "measure",
    "resolve_measures",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "Dispersion": "registry",
            "EntropySource": "registry",
            "EntropyTarget": "registry",
            "FisherAlignment": "registry",
            "FisherEigenvalues": "registry",
            "FrobeniusNorm": "registry",
            "HDeltaHDivergence": "registry",
            "HDivergence": "registry",
            "Jacobian": "registry",
            "MEMBERS": "registry",
            "MatrixNorm": "registry",
            "Measurements": "_measure",
            "MetaDistributionEnergy": "registry",
            "Mixup": "registry",
            "MmdGaussian": "registry",
            "MmdMeanCov": "registry",
            "MmdRandomFeatures": "registry",
            "MultiSource": "registry",
            "MutualInformation": "registry",
            "NuclearNorm": "registry",
            "PathNorm": "registry",
            "PlusSourceError": "registry",
            "Sharpness": "registry",
            "SoftmaxCorrelation": "registry",
            "SourceError": "registry",
            "SpectralNorm": "registry",
            "SubsetNoise": "_measure",
            "available": "registry",
            "build_subject": "_measure",
            "get": "registry",
            "measure": "_measure",
            "resolve_measures": "registry",
        },
    )
