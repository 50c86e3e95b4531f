"""Registry of estimators: the built-in estimators, `available()` and `get()`."""

from __future__ import annotations

from oodometer.core.errors import UnknownName
from oodometer.core.protocols import Estimator
from oodometer.core.registry import load_entry_points
from oodometer.estimators.aline import AgreementOnTheLine
from oodometer.estimators.atc import ATC
from oodometer.estimators.atc_by_class import ATCByClass
from oodometer.estimators.atc_distance import ATCDistance
from oodometer.estimators.average_confidence import AverageConfidence
from oodometer.estimators.cot import COT, COTT
from oodometer.estimators.difference_of_confidences import DifferenceOfConfidences
from oodometer.estimators.gde import GDE
from oodometer.estimators.importance_weighting import ImportanceWeighting
from oodometer.estimators.label_shift import BBSE, MLLS
from oodometer.estimators.leap import LEAP
from oodometer.estimators.linear_correction import LinearCorrection
from oodometer.estimators.mandoline import Mandoline
from oodometer.estimators.pape import PAPE

__all__ = [
    "ATC",
    "BBSE",
    "COT",
    "COTT",
    "GDE",
    "LEAP",
    "MEMBERS",
    "MLLS",
    "PAPE",
    "ATCByClass",
    "ATCDistance",
    "AgreementOnTheLine",
    "AverageConfidence",
    "DifferenceOfConfidences",
    "ImportanceWeighting",
    "LinearCorrection",
    "Mandoline",
    "available",
    "get",
]

MEMBERS: tuple[Estimator, ...] = (
    AverageConfidence(),
    DifferenceOfConfidences(),
    ATC("mc"),
    ATC("ne"),
    Mandoline(),
    GDE(),
    BBSE(),
    MLLS(),
    ImportanceWeighting(),
    COT(),
    COTT(),
    ATCByClass(),
    ATCDistance(),
    PAPE(),
    LEAP(),
    AgreementOnTheLine("s"),
    AgreementOnTheLine("d"),
)


def available() -> tuple[Estimator, ...]:
    """Return all estimators, including those that other installed packages register.

    Returns
    -------
    tuple of Estimator
        Built-in estimators, followed by those of the entry-point group `oodometer.estimators`.

    Examples
    --------
    >>> [estimator.name for estimator in available()][:3]
    ['ac', 'doc', 'atc-mc']
    """
    needs = "estimator: it needs name, assumes and estimate(source, target)"
    others = load_entry_points("oodometer.estimators", Estimator, requirements=needs)  # type: ignore[type-abstract]
    return (*MEMBERS, *others)


def get(name: str) -> Estimator:
    """Return the estimator with a given name.

    Parameters
    ----------
    name : str
        Name of the estimator. Upper and lower case are not distinguished.

    Returns
    -------
    Estimator
        The estimator with its default settings.

    Raises
    ------
    UnknownName
        If there is no estimator with this name.

    Examples
    --------
    >>> get("doc")
    DifferenceOfConfidences()
    """
    for member in MEMBERS:  # search built-in estimators first, because loading entry points is slow
        if member.name == name.lower():
            return member
    members = {member.name: member for member in available()}
    if name.lower() not in members:
        raise UnknownName("estimator", name, members)
    return members[name.lower()]
