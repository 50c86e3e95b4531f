"""Measures: scores of a model that need no target labels.

To add a measure, create a new module in this package and define a frozen dataclass that has the
attributes of `oodometer.core.protocols.Measure`. Then add an instance of the class to `MEMBERS` in
`registry.py`, check the instance with `oodometer.testing.check_measure`, and add a row to
`docs/methods.md`. Other packages add measures by an entry point of the group `oodometer.measures`.
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
        },
    )
