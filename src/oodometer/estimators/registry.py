"""Registry of estimators: the built-in estimators, `available()` and `get()`."""

from __future__ import annotations

from oodometer.core.errors import UnknownName
from oodometer.core.protocols import Estimator
from oodometer.core.registry import load_entry_points
from oodometer.estimators.aline import AgreementOnTheLine
from oodometer.estimators.atc import ATC, FalselyIdentified, atc_source_bound, falsely_identified
from oodometer.estimators.atc_by_class import ATCByClass
from oodometer.estimators.atc_distance import ATCDistance
from oodometer.estimators.average_confidence import AverageConfidence
from oodometer.estimators.cot import COT, COTT
from oodometer.estimators.difference_of_confidences import DifferenceOfConfidences
from oodometer.estimators.gde import GDE
from oodometer.estimators.generalized_label_shift import BBSEOnFeatures, MLLSOnFeatures
from oodometer.estimators.importance_weighting import ImportanceWeighting
from oodometer.estimators.label_shift import BBSE, MLLS
from oodometer.estimators.leap import LEAP
from oodometer.estimators.linear_correction import LinearCorrection
from oodometer.estimators.mandoline import Mandoline
from oodometer.estimators.pape import PAPE
from oodometer.estimators.regime_weighting import RegimeWeighting

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
    RegimeWeighting(),
)
# Estimators that run only if they are named, because they take longer than all others together.
ON_REQUEST: tuple[Estimator, ...] = (BBSEOnFeatures(), MLLSOnFeatures())


def available() -> tuple[Estimator, ...]:
    """Return all estimators that run by default, including those of other installed packages.

    The estimators in `ON_REQUEST` are not among them; `get` returns them by name.

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
    for member in (
        *MEMBERS,
        *ON_REQUEST,
    ):  # search built-in estimators first, because loading entry points is slow
        if member.name == name.lower():
            return member
    members = {member.name: member for member in (*available(), *ON_REQUEST)}
    if name.lower() not in members:
        raise UnknownName("estimator", name, members)
    return members[name.lower()]
