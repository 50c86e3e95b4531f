"""Gates: conditions on estimates that decide about the exit code, with one-line reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from oodometer.assessment.cbpe import MACRO_SCOPE
from oodometer.cli._options import ACCURACY, STATUSES, GateOptions
from oodometer.cli._runtime import print_error
from oodometer.core.errors import InputError

if TYPE_CHECKING:
    from oodometer.assessment.result import Assessment
    from oodometer.monitor import MonitoredBatch, MonitorStatus

CANNOT_TELL = 3


@dataclass(frozen=True, kw_only=True)
class GateValue:
    """Value that gates compare: a metric of all rows or of a segment, period or batch."""

    where: str
    metric: str
    value: float | None
    low: float | None = None
    typical_low: float | None = None
    source: float | None = None
    is_last: bool = False
    is_part: bool = False

    def used(self, use: str) -> float | None:
        """Return the number that is compared."""
        return {"value": self.value, "low": self.low, "typical-low": self.typical_low}[use]

    @property
    def name(self) -> str:
        return self.metric if not self.where else f"{self.metric} of {self.where}"


@dataclass(frozen=True)
class GateResult:
    """Reasons why gates failed, and why they could not be decided."""

    failed: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 1 if a gate failed, 3 if one cannot be decided, else 0."""
        return 1 if self.failed else CANNOT_TELL if self.undecided else 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "passed": self.exit_code == 0,
            "failed": list(self.failed),
            "undecided": list(self.undecided),
        }

    def exit(self) -> None:
        """Exit with the code of the gates, with the reason as one line on standard error."""
        if self.exit_code:
            print_error("; ".join(self.failed or self.undecided))
            raise typer.Exit(self.exit_code)


def apply_gates(
    gates: GateOptions, values: Sequence[GateValue], status: str, default_place: str
) -> GateResult:
    """Return which conditions fail for the values of one target or monitor."""
    chosen = _select(values, gates.fail_at or default_place)
    failed: list[str] = []
    undecided: list[str] = []
    for metric, limit in gates.limits.items():
        concerned = [each for each in chosen if each.metric == metric]
        if not concerned:
            raise InputError(
                f"--fail-below {metric}={limit:g} needs --metric {metric}, which was not computed."
            )
        _compare(gates.use, concerned, limit, failed, undecided)
    if gates.fail_drop is not None:
        for each in chosen:
            if each.metric == ACCURACY and each.source is not None:
                _compare(gates.use, [each], each.source - gates.fail_drop, failed, undecided)
    if gates.fail_on is not None and STATUSES.index(status) >= STATUSES.index(gates.fail_on):
        failed.append(f"the status is {status}")
    return GateResult(tuple(dict.fromkeys(failed)), tuple(undecided))


def _compare(
    use: str, values: Sequence[GateValue], limit: float, failed: list[str], undecided: list[str]
) -> None:
    for each in values:
        number = each.used(use)
        kind = "" if use == "value" else f", {use}"
        if number is None:
            undecided.append(f"{each.name}{kind} is not known")
        elif number < limit:
            failed.append(f"{each.name} ({100 * number:.1f} %{kind}) below {100 * limit:.4g} %")


def _select(values: Sequence[GateValue], place: str) -> list[GateValue]:
    if place == "overall" or not any(each.is_part for each in values):
        return [each for each in values if not each.is_part]
    if place == "last":
        return [each for each in values if each.is_last]
    return list(values)


def assessment_values(assessment: Assessment, where: str = "") -> Iterator[GateValue]:
    """Yield the accuracy and the metrics of all rows, then those of the segments."""
    low, _ = assessment.interval or (None, None)
    typical = assessment.typical_range
    yield GateValue(
        where=where,
        metric=ACCURACY,
        value=assessment.accuracy,
        low=low,
        typical_low=None if typical is None else typical[0],
        source=assessment.source_accuracy,
    )
    for metric in _overall_metrics(assessment):
        yield GateValue(
            where=where, metric=metric.metric, value=metric.value, low=metric.low,
            source=metric.source_value,
        )  # fmt: skip
    last = assessment.segments[-1].value if assessment.segments else None
    prefix = f"{where}, " if where else ""
    for segment in assessment.segments:
        if segment.estimate is not None:
            known = segment.source_accuracy
            yield GateValue(
                where=f"{prefix}{segment.value}",
                metric=ACCURACY,
                value=segment.estimate.value,
                low=segment.estimate.low,
                typical_low=None if segment.shift is None else segment.shift.low,
                source=assessment.source_accuracy if known is None else known,
                is_last=segment.value == last,
                is_part=True,
            )
    for part in () if assessment.additional is None else assessment.additional.segment_metrics:
        for metric in part.metrics:
            yield GateValue(
                where=f"{prefix}{part.value}", metric=metric.metric, value=metric.value,
                low=metric.low, source=metric.source_value, is_last=part.value == last, is_part=True,
            )  # fmt: skip


def _overall_metrics(assessment: Assessment) -> list[Any]:
    """Return one value per metric: of the second of two classes, else the mean over classes."""
    if assessment.additional is None:
        return []
    metrics = [each for each in assessment.additional.metrics if each.metric != ACCURACY]
    if assessment.k == 2:
        metrics = [each for each in metrics if each.scope != MACRO_SCOPE]
    else:
        metrics = [each for each in metrics if each.scope == MACRO_SCOPE]
    # With two classes, the second class is the last one.
    return list({each.metric: each for each in metrics}.values())


def gate_assessment(gates: GateOptions, assessment: Assessment, where: str = "") -> GateResult:
    """Return which conditions fail for a target; a clear loss beyond --margin fails, too."""
    values = list(assessment_values(assessment, where))
    result = apply_gates(gates, values, assessment.status, "any")
    verdict = None if assessment.additional is None else assessment.additional.verdict
    if verdict is not None and verdict.decision == "UNSUITABLE":
        name = f" of {where}" if where else ""
        reason = (
            f"UNSUITABLE: the accuracy{name} falls by more than {100 * verdict.margin:g} points"
        )
        return GateResult((*result.failed, reason), result.undecided)
    return result


def gate_monitor(
    gates: GateOptions, status: MonitorStatus, batches: Sequence[MonitoredBatch]
) -> GateResult:
    """Return which conditions fail for the latest batch of a monitor, or for any batch."""
    values = [
        GateValue(
            where=f"batch {batch.time or batch.name or batch.number}",
            metric=ACCURACY,
            value=batch.estimate,
            low=batch.low,
            typical_low=batch.typical_low,
            source=status.source_accuracy,
            is_last=status.latest is not None and batch.number == status.latest.number,
            is_part=True,
        )
        for batch in batches
    ]
    if gates.fail_at == "overall":
        raise InputError("--fail-at of a monitor must be any or last; got 'overall'.")
    if not values:
        return GateResult((), ("no batch was added",) if gates.is_given else ())
    return apply_gates(gates, values, "critical" if status.state == "alarm" else "ok", "last")
