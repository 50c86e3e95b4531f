"""What is measured of a model on labelled data: the registry is the list below.

Another package adds its own through an entry point of the group `oodometer.metrics`.
"""

from __future__ import annotations

from oodometer.core.errors import UnknownName
from oodometer.core.registry import added
from oodometer.measures.subject import Metric
from oodometer.metrics.adversarial import AdversarialError
from oodometer.metrics.basic import CalibrationError, Error, NegativeLogLikelihood
from oodometer.metrics.disparity import DemographicDisparity
from oodometer.metrics.per_class import F1, Auroc, BalancedAccuracy

__all__ = [
    "F1",
    "MEMBERS",
    "AdversarialError",
    "Auroc",
    "BalancedAccuracy",
    "CalibrationError",
    "DemographicDisparity",
    "Error",
    "NegativeLogLikelihood",
    "every",
    "named",
]

MEMBERS: tuple[Metric, ...] = (
    Error(),
    NegativeLogLikelihood(),
    CalibrationError(),
    AdversarialError(),
    DemographicDisparity(),
    BalancedAccuracy(),
    F1(),
    Auroc(),
)


def every() -> tuple[Metric, ...]:
    """All metrics: ours, and those that installed packages add."""
    needs = "metric: it needs name, label, needs, assumes, paper and score(view)"
    others = added("oodometer.metrics", Metric, else_say=needs)  # type: ignore[type-abstract]
    return (*MEMBERS, *others)


def named(name: str) -> Metric:
    """The metric of that name.

    >>> named("NLL")
    NegativeLogLikelihood()
    """
    members = every()
    plain = name.lower().replace("-", "_").replace(" ", "_")
    for member in members:
        if plain == member.name:
            return member
    raise UnknownName("metric", name, [member.name for member in members])
