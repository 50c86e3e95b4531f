"""Estimators of a model's accuracy on unlabelled data, from its predictions alone.

To add an estimator, write a new file in this package with a frozen dataclass, and add an instance
of it to `MEMBERS` in `registry.py`. Test it with `oodometer.testing.check_estimator`. Other
packages can register estimators by an entry point of the group `oodometer.estimators`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.estimators.registry import (
        ATC,
        BBSE,
        COT,
        COTT,
        GDE,
        LEAP,
        MEMBERS,
        MLLS,
        ON_REQUEST,
        PAPE,
        AgreementOnTheLine,
        ATCByClass,
        ATCDistance,
        AverageConfidence,
        BBSEOnFeatures,
        DifferenceOfConfidences,
        FalselyIdentified,
        ImportanceWeighting,
        LinearCorrection,
        Mandoline,
        MLLSOnFeatures,
        RegimeWeighting,
        atc_source_bound,
        available,
        falsely_identified,
        get,
    )

__all__ = [
    "ATC",
    "BBSE",
    "COT",
    "COTT",
    "GDE",
    "LEAP",
    "MEMBERS",
    "MLLS",
    "ON_REQUEST",
    "PAPE",
    "ATCByClass",
    "ATCDistance",
    "AgreementOnTheLine",
    "AverageConfidence",
    "BBSEOnFeatures",
    "DifferenceOfConfidences",
    "FalselyIdentified",
    "ImportanceWeighting",
    "LinearCorrection",
    "MLLSOnFeatures",
    "Mandoline",
    "RegimeWeighting",
    "atc_source_bound",
    "available",
    "falsely_identified",
    "get",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "ATC": "registry",
            "ATCByClass": "registry",
            "ATCDistance": "registry",
            "AgreementOnTheLine": "registry",
            "AverageConfidence": "registry",
            "BBSE": "registry",
            "BBSEOnFeatures": "registry",
            "COT": "registry",
            "COTT": "registry",
            "DifferenceOfConfidences": "registry",
            "FalselyIdentified": "registry",
            "GDE": "registry",
            "ImportanceWeighting": "registry",
            "LEAP": "registry",
            "LinearCorrection": "registry",
            "MEMBERS": "registry",
            "MLLS": "registry",
            "MLLSOnFeatures": "registry",
            "Mandoline": "registry",
            "RegimeWeighting": "registry",
            "ON_REQUEST": "registry",
            "PAPE": "registry",
            "atc_source_bound": "registry",
            "available": "registry",
            "falsely_identified": "registry",
            "get": "registry",
        },
    )
