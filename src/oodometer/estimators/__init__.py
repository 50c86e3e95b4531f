"""Estimators: accuracy on unlabelled data from predictions alone, one paper per file.

To add an estimator: write one file with a frozen dataclass in this package, and add an instance to `MEMBERS` in
`registry.py`. `oodometer.testing.check_estimator` and `docs/methods.md` say what it needs. Another package adds its
own by an entry point of the group `oodometer.estimators`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.estimators.registry import (
        MEMBERS,
        Agreement,
        AgreementOnTheLine,
        AverageConfidence,
        AverageThresholdedConfidence,
        BlackBoxShift,
        ConfidenceTransport,
        ContingencyTable,
        DifferenceOfConfidences,
        FineTuned,
        ImportanceReweighting,
        ImportanceWeighting,
        MaximumLikelihoodShift,
        RecalibratedConfidence,
        ThresholdByClass,
        ThresholdWithDistance,
        TransportThreshold,
        every,
        named,
    )

__all__ = [
    "MEMBERS",
    "Agreement",
    "AgreementOnTheLine",
    "AverageConfidence",
    "AverageThresholdedConfidence",
    "BlackBoxShift",
    "ConfidenceTransport",
    "ContingencyTable",
    "DifferenceOfConfidences",
    "FineTuned",
    "ImportanceReweighting",
    "ImportanceWeighting",
    "MaximumLikelihoodShift",
    "RecalibratedConfidence",
    "ThresholdByClass",
    "ThresholdWithDistance",
    "TransportThreshold",
    "every",
    "named",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Agreement": "registry",
        "AgreementOnTheLine": "registry",
        "AverageConfidence": "registry",
        "AverageThresholdedConfidence": "registry",
        "BlackBoxShift": "registry",
        "ConfidenceTransport": "registry",
        "ContingencyTable": "registry",
        "DifferenceOfConfidences": "registry",
        "FineTuned": "registry",
        "ImportanceReweighting": "registry",
        "ImportanceWeighting": "registry",
        "MEMBERS": "registry",
        "MaximumLikelihoodShift": "registry",
        "RecalibratedConfidence": "registry",
        "ThresholdByClass": "registry",
        "ThresholdWithDistance": "registry",
        "TransportThreshold": "registry",
        "every": "registry",
        "named": "registry",
    },
)
