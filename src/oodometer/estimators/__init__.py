"""Estimators of accuracy from outputs alone: the registry is the list below.

Another package adds its own through an entry point of the group `oodometer.estimators`.
"""

from __future__ import annotations

from oodometer.core import Estimator
from oodometer.errors import InputError, UnknownName
from oodometer.estimators.agreement import Agreement
from oodometer.estimators.atc import AverageThresholdedConfidence
from oodometer.estimators.average_confidence import AverageConfidence
from oodometer.estimators.covariate import ImportanceWeighting
from oodometer.estimators.difference import DifferenceOfConfidences
from oodometer.estimators.label_shift import BlackBoxShift, MaximumLikelihoodShift
from oodometer.estimators.line import FineTuned
from oodometer.estimators.reweighting import ImportanceReweighting

__all__ = [
    "MEMBERS",
    "Agreement",
    "AverageConfidence",
    "AverageThresholdedConfidence",
    "BlackBoxShift",
    "DifferenceOfConfidences",
    "FineTuned",
    "ImportanceReweighting",
    "ImportanceWeighting",
    "MaximumLikelihoodShift",
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
)


def every() -> tuple[Estimator, ...]:
    """All estimators: ours, and those that installed packages add."""
    from importlib.metadata import entry_points  # slow to import, and not always needed

    added = []
    for entry in entry_points(group="oodometer.estimators"):
        member = entry.load()()
        if not isinstance(member, Estimator):
            raise InputError(
                f"The entry point {entry.name!r} gives a {type(member).__name__}, which is no "
                "estimator: it needs name, assumes and estimate(source, target)."
            )
        added.append(member)
    return (*MEMBERS, *added)


def named(name: str) -> Estimator:
    """The estimator of that name.

    >>> named("doc")
    DifferenceOfConfidences()
    """
    found = {member.name: member for member in every()}
    if name.lower() not in found:
        raise UnknownName("estimator", name, found)
    return found[name.lower()]
