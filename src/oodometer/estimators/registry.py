"""Registry of estimators: the list of members, `every()` and `named()`."""

from __future__ import annotations

from oodometer.core.errors import UnknownName
from oodometer.core.protocols import Estimator
from oodometer.core.registry import added
from oodometer.estimators.aline import AgreementOnTheLine
from oodometer.estimators.atc import AverageThresholdedConfidence
from oodometer.estimators.atc_by_class import ThresholdByClass
from oodometer.estimators.atc_distance import ThresholdWithDistance
from oodometer.estimators.average_confidence import AverageConfidence
from oodometer.estimators.cot import ConfidenceTransport, TransportThreshold
from oodometer.estimators.difference_of_confidences import DifferenceOfConfidences
from oodometer.estimators.gde import Agreement
from oodometer.estimators.importance_weighting import ImportanceWeighting
from oodometer.estimators.label_shift import BlackBoxShift, MaximumLikelihoodShift
from oodometer.estimators.leap import ContingencyTable
from oodometer.estimators.linear_correction import FineTuned
from oodometer.estimators.mandoline import ImportanceReweighting
from oodometer.estimators.pape import RecalibratedConfidence

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

MEMBERS: tuple[Estimator, ...] = (
    AverageConfidence(),
    DifferenceOfConfidences(),
    AverageThresholdedConfidence("mc"),
    AverageThresholdedConfidence("ne"),
    ImportanceReweighting(),
    Agreement(),
    BlackBoxShift(),
    MaximumLikelihoodShift(),
    ImportanceWeighting(),
    ConfidenceTransport(),
    TransportThreshold(),
    ThresholdByClass(),
    ThresholdWithDistance(),
    RecalibratedConfidence(),
    ContingencyTable(),
    AgreementOnTheLine("s"),
    AgreementOnTheLine("d"),
)


def every() -> tuple[Estimator, ...]:
    """All estimators: ours, and those that installed packages add."""
    needs = "estimator: it needs name, assumes and estimate(source, target)"
    others = added("oodometer.estimators", Estimator, else_say=needs)  # type: ignore[type-abstract]
    return (*MEMBERS, *others)


def named(name: str) -> Estimator:
    """The estimator of that name.

    >>> named("doc")
    DifferenceOfConfidences()
    """
    for member in MEMBERS:  # to look for those of other packages takes a while
        if member.name == name.lower():
            return member
    found = {member.name: member for member in every()}
    if name.lower() not in found:
        raise UnknownName("estimator", name, found)
    return found[name.lower()]
