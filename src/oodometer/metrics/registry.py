"""Registry of metrics: the list of members, `available()` and `get()`."""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.core.errors import UnknownName
from oodometer.core.protocols import Metric
from oodometer.core.registry import load_entry_points, resolve_members
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
    "available",
    "get",
    "resolve_metrics",
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


def available() -> tuple[Metric, ...]:
    """All metrics: ours, and those that installed packages add."""
    needs = "metric: it needs name, label, needs, assumes, paper and evaluate(view)"
    others = load_entry_points("oodometer.metrics", Metric, requirements=needs)  # type: ignore[type-abstract]
    return (*MEMBERS, *others)


def get(name: str) -> Metric:
    """The metric of that name.

    >>> get("NLL")
    NegativeLogLikelihood()
    """
    members = available()
    plain = name.lower().replace("-", "_").replace(" ", "_")
    for member in members:
        if plain == member.name:
            return member
    raise UnknownName("metric", name, [member.name for member in members])


def resolve_metrics(metrics: str | Metric | Sequence[str | Metric] | None) -> list[Metric]:
    """The metrics asked for, each once."""
    if metrics is None:
        return list(available())
    return resolve_members(metrics, Metric, family="metric", get=get)  # type: ignore[type-abstract]
