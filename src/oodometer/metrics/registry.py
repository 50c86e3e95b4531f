"""Registry of metrics: the list of members, `every()` and `named()`."""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.core.errors import UnknownName
from oodometer.core.protocols import Metric
from oodometer.core.registry import added, asked_for
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
    "chosen",
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


def chosen(names: str | Metric | Sequence[str | Metric] | None) -> list[Metric]:
    """The metrics asked for, each once."""
    if names is None:
        return list(every())
    return asked_for(names, Metric, what="metric", named=named)  # type: ignore[type-abstract]
