"""Registry of metrics: the built-in metrics, `available()` and `get()`."""

from __future__ import annotations

from oodometer.core.errors import UnknownName
from oodometer.core.protocols import Metric
from oodometer.core.registry import load_entry_points
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
]

MEMBERS: tuple[Metric, ...] = (
    Error(),
    NegativeLogLikelihood(),
    CalibrationError(),
    AdversarialError(),
    AdversarialError(sizes=(0.001,)),
    AdversarialError(sizes=(0.02,)),
    DemographicDisparity(),
    BalancedAccuracy(),
    F1(),
    Auroc(),
)


def available() -> tuple[Metric, ...]:
    """Return all metrics, including those that other installed packages register.

    Returns
    -------
    tuple of Metric
        One instance of each metric with its default settings; built-in metrics come first.

    Raises
    ------
    InputError
        If an entry point of the group `oodometer.metrics` does not return a metric.

    Examples
    --------
    >>> available()[0].name
    'error'
    """
    needs = "metric: it needs name, label, needs, assumes, paper and evaluate(view)"
    others = load_entry_points("oodometer.metrics", Metric, requirements=needs)  # type: ignore[type-abstract]
    return (*MEMBERS, *others)


def get(name: str) -> Metric:
    """Return the metric with a given name.

    Parameters
    ----------
    name : str
        Name of the metric. Upper and lower case are not distinguished, and hyphens and spaces are
        equivalent to underscores.

    Returns
    -------
    Metric
        The metric with its default settings.

    Raises
    ------
    UnknownName
        If no metric has this name.

    Examples
    --------
    >>> get("NLL")
    NegativeLogLikelihood()
    """
    members = available()
    normalized = name.lower().replace("-", "_").replace(" ", "_")
    for member in members:
        if normalized == member.name:
            return member
    raise UnknownName("metric", name, [member.name for member in members])
