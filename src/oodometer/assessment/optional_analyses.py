"""What an assessment may be asked for beside the accuracy: other metrics, a bound, a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from oodometer.assessment import cbpe
from oodometer.assessment import dis2 as bound
from oodometer.assessment import noninferiority as noninferior
from oodometer.assessment.cbpe import Expected, expected_metrics
from oodometer.assessment.dis2 import Bound, lower_bound
from oodometer.assessment.noninferiority import Verdict, suitable
from oodometer.assessment.result import points
from oodometer.core.errors import NoAnswer
from oodometer.core.predictions import Predictions


@dataclass(frozen=True)
class Asked:
    """What is wanted; a margin is a fraction of accuracy that may be lost."""

    metrics: bool = False
    bound: bool = False
    margin: float | None = None


@dataclass(frozen=True)
class More:
    """What was found of it, and the reasons of what was not."""

    metrics: tuple[Expected, ...] = ()
    bound: Bound | None = None
    verdict: Verdict | None = None
    reasons: tuple[str, ...] = ()

    metrics_assume: ClassVar[str] = cbpe.ASSUMES

    @property
    def grid(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Metrics by class: the heads, and a row a class; all but accuracy, which is of all."""
        names = tuple(dict.fromkeys(one.metric for one in self.metrics if one.of != "all"))
        found = {(one.of, one.metric): _shown(one) for one in self.metrics}
        classes = dict.fromkeys(one.of for one in self.metrics if one.of != "all")
        rows = [(of, *(found[of, name] for name in names)) for of in classes]
        return ("class", *(name.replace("_", " ") for name in names)), rows

    @property
    def sentences(self) -> tuple[str, ...]:
        """The bound, the verdict and the reasons, in words."""
        found = [
            f"Accuracy to be expected: {_shown(one)}." for one in self.metrics if one.of == "all"
        ]
        if self.bound is not None:
            found.append(
                f"At least {points(self.bound.value)} % ({100 * (1 - self.bound.delta):g} %) of the "
                f"target is right if {bound.ASSUMES}. (Critics get {points(self.bound.discrepancy)} "
                f"points apart; {points(self.bound.margin)} points are for luck.)"
            )
        if self.verdict is not None:
            rejected = "rejected" if self.verdict.word == "SUITABLE" else "not rejected"
            found.append(
                f"{self.verdict.word}: that {points(self.verdict.margin)} points or more are lost is "
                f"{rejected} (p = {self.verdict.p_value:.2g}), if {noninferior.ASSUMES}. Expected: "
                f"{points(self.verdict.target)} % after {points(self.verdict.source)} %."
            )
        return (*found, *self.reasons)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "metrics": [one.to_dict() for one in self.metrics],
            "bound": None if self.bound is None else self.bound.to_dict(),
            "suitability": None if self.verdict is None else self.verdict.to_dict(),
            "reasons": list(self.reasons),
        }


def more(
    asked: Asked,
    source: Predictions,
    target: Predictions,
    *,
    temperature: float | None = None,
    seed: int = 0,
) -> More:
    """All that is asked for, of scores at a temperature; what has no answer has a reason."""
    target = target.without_labels().in_class_order(source.class_names)
    if temperature is not None:
        source, target = source.at_temperature(temperature), target.at_temperature(temperature)
    reasons = []

    def tried(name: str, wanted: bool, work: Any) -> Any:
        try:
            return work() if wanted else None
        except NoAnswer as reason:
            reasons.append(f"{name}: no answer: {reason}")
            return None

    margin = 0.0 if asked.margin is None else asked.margin
    return More(
        metrics=tried("metrics", asked.metrics, lambda: expected_metrics(target)) or (),
        bound=tried("bound", asked.bound, lambda: lower_bound(source, target, seed=seed)),
        verdict=tried(
            "suitability",
            asked.margin is not None,
            lambda: suitable(source, target, margin=margin, seed=seed),
        ),
        reasons=tuple(reasons),
    )


def _shown(one: Expected) -> str:
    """The value and its interval; where there is none, a dash."""
    if one.value is None or one.low is None or one.high is None:
        return "–"
    return f"{one.value:.2f} ({one.low:.2f}–{one.high:.2f})"
