"""What is wanted of a model on a test domain: values by name, and all that each hangs on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from oodometer.core.errors import InputError
from oodometer.core.keys import settings_key
from oodometer.core.protocols import Estimator, Measure, Metric, Transform
from oodometer.neighborhood.results import MEASURES
from oodometer.studies.analysis.evaluation_table import PRE_CALIBRATION_SUFFIX
from oodometer.studies.store.export import ACCURACY

Family = Literal["accuracy", "metric", "estimator", "invariance", "measure"]
TemperatureMode = Literal["fit", "none"]
# What can be had from kept predictions alone.
NEEDS_MET_BY_PREDICTIONS = ("outputs", "labels", "source domains")


@dataclass(frozen=True)
class RequestedValue:
    """One thing to be computed, which gives one value or several.

    names       of the values, in tables
    settings    all that they hang on but the model, the rows and the source
    component   the metric, estimator, measure or transform
    option      the temperature of an estimate, the draws of a transform
    """

    family: Family
    names: tuple[str, ...]
    settings: str
    component: Any = None
    option: Any = None

    @property
    def needs_source(self) -> bool:
        """Whether it hangs on the source."""
        return self.family in ("estimator", "measure")

    @property
    def needs_only_predictions(self) -> bool:
        """Whether kept predictions are enough, and the model need not be asked."""
        if self.family in ("metric", "measure"):
            return set(self.component.needs) <= set(NEEDS_MET_BY_PREDICTIONS)
        return self.family != "invariance"

    @property
    def needs_other_model(self) -> bool:
        """Whether it needs a second model."""
        needs = getattr(self.component, "needs", ())
        return self.family == "estimator" and "second model" in needs


@dataclass(frozen=True)
class TransformRequest:
    """A transform, with how many draws of each example, and what its values are called after."""

    transform: Transform
    draws: int
    display_name: str


def build_requests(
    *,
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    temperatures: Sequence[TemperatureMode],
    invariance: Sequence[TransformRequest],
    measures: Sequence[Measure],
    seed: int,
) -> tuple[RequestedValue, ...]:
    """Accuracy, and all that was asked for; no two values have one name."""
    random = f"seed {seed}"
    found = [RequestedValue("accuracy", (ACCURACY,), "")]
    found += [
        RequestedValue("metric", (m.name,), f"{settings_key(m)}, {random}", m) for m in metrics
    ]
    found += [
        RequestedValue(
            "estimator",
            (m.name if temperature == "fit" else f"{m.name}{PRE_CALIBRATION_SUFFIX}",),
            f"{settings_key(m)}, temperature {temperature}, {random}",
            m,
            temperature,
        )
        for m in estimators
        for temperature in temperatures
    ]
    found += [
        RequestedValue(
            "invariance",
            tuple(f"{name}-{stir.display_name}" for name in MEASURES),
            f"{settings_key(stir.transform)}, {stir.draws} draws, {random}",
            stir.transform,
            stir.draws,
        )
        for stir in invariance
    ]
    found += [
        RequestedValue("measure", (m.name,), f"{settings_key(m)}, {random}", m) for m in measures
    ]
    _check_unique(name for one in found for name in one.names)
    return tuple(found)


def _check_unique(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(
                f"Two values would be called {name!r}. Leave one of them out, or set it otherwise."
            )
        seen.add(name)
