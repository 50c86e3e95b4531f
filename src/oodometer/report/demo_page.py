"""The page that holds estimates against the truth, shift by shift and method by method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oodometer.assessment.result import format_percent
from oodometer.core.errors import InputError
from oodometer.core.results import Estimate
from oodometer.report import charts
from oodometer.report.assessment_figures import Figure, estimate_in_percent
from oodometer.report.page import render

# An error of this much has the full colour.
FULL_COLOR_ERROR = 0.15


@dataclass(frozen=True)
class Comparison:
    """The true accuracy under one shift, and what the methods said of it."""

    name: str
    truth: float
    estimates: dict[str, Estimate]


@dataclass(frozen=True)
class EstimateDeviation:
    """How far one estimate was off, below zero where it was too low."""

    shift: str
    truth: float
    estimate: Estimate

    @property
    def error(self) -> float:
        """Estimate less truth, in a fraction."""
        return self.estimate.value - self.truth

    @property
    def signed_points(self) -> str:
        """The error in points, with its sign; a plus is too high."""
        return f"{100 * self.error:+z.1f}".replace("-", "−")

    @property
    def tint(self) -> float:
        """How strongly the error is coloured, in percent."""
        return round(45 * min(abs(self.error) / FULL_COLOR_ERROR, 1.0), 1)

    @property
    def interval_covers_truth(self) -> bool | None:
        """Whether the interval held the truth, if there is one."""
        low, high = self.estimate.low, self.estimate.high
        return None if low is None or high is None else low <= self.truth <= high


@dataclass(frozen=True)
class MethodRecord:
    """One method under every shift that it had an answer for."""

    method: str
    deviations: tuple[EstimateDeviation, ...]

    @property
    def mae(self) -> float:
        """Mean absolute error, in a fraction."""
        return sum(abs(miss.error) for miss in self.deviations) / len(self.deviations)

    def deviation_under(self, comparison: Comparison) -> EstimateDeviation | None:
        """How far it was off under one shift."""
        found = comparison.estimates.get(self.method)
        return (
            None if found is None else EstimateDeviation(comparison.name, comparison.truth, found)
        )


def comparison_page(
    rows: Sequence[Comparison], *, title: str, methods: Sequence[str] | None = None
) -> str:
    """Estimates against the truth, as a whole HTML page; of all methods, if none are named."""
    records = method_records(rows, methods)
    if not any(record.deviations for record in records):
        raise InputError(
            f"There is nothing to compare: {_pluralize(len(rows), 'shift')} and no estimate of "
            f"{', '.join(r.method for r in records) or 'any method'}. Give rows that have such estimates."
        )
    return render(
        "demo_page.html",
        {
            "title": title,
            "rows": rows,
            "records": records,
            "best": rank_records(records)[0],
            "reading": comparison_summary(records),
            "figures": _scatter_figures(records),
        },
    )


def method_records(
    rows: Sequence[Comparison], methods: Sequence[str] | None = None
) -> list[MethodRecord]:
    """What the methods said under every shift; all of them, if none are named."""
    if methods is None:
        methods = list(dict.fromkeys(method for row in rows for method in row.estimates))
    return [_method_record(rows, method) for method in methods]


def _method_record(rows: Sequence[Comparison], method: str) -> MethodRecord:
    """What one method said under every shift."""
    empty = MethodRecord(method, ())
    return MethodRecord(
        method, tuple(miss for row in rows if (miss := empty.deviation_under(row)) is not None)
    )


def rank_records(records: Sequence[MethodRecord]) -> list[MethodRecord]:
    """The methods with most answers, nearest to the truth first; who skips the hard ones is out."""
    most = max(len(record.deviations) for record in records)
    return sorted((r for r in records if len(r.deviations) == most), key=lambda record: record.mae)


def comparison_summary(records: Sequence[MethodRecord]) -> str:
    """One sentence of what the numbers say, and what they don't."""
    best, *others = rank_records(records)
    worst = max(best.deviations, key=lambda miss: abs(miss.error))
    beside = f" (next {others[0].method}, {format_percent(others[0].mae)})" if others else ""
    nearest = "came nearest to the truth, " if others else "was "
    return (
        f"Over {_pluralize(len(best.deviations), 'shift')} {best.method} {nearest}off by "
        f"{format_percent(best.mae)} points on average{beside} and by {format_percent(abs(worst.error))} at worst "
        f"({worst.shift}, {_error_direction(worst.error)}), which is known only because labels were at hand; "
        f"{_bias_summary(records)}."
    )


def _bias_summary(records: Sequence[MethodRecord]) -> str:
    """How often the estimates were too high, and the intervals right."""
    misses = [miss for record in records for miss in record.deviations]
    high = sum(miss.error > 0 for miss in misses)
    held = [miss.interval_covers_truth for miss in misses if miss.interval_covers_truth is not None]
    said = f"of {_pluralize(len(misses), 'estimate')} {high} were too high"
    if not held:
        return said
    why = ", for it covers sampling alone" if sum(held) < 0.9 * len(held) else ""
    return f"{said}, and the 95 % interval held the truth in {sum(held)} of {len(held)}{why}"


def _pluralize(n: int, noun: str) -> str:
    """A number with its noun."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _error_direction(error: float) -> str:
    """Which way an estimate was off."""
    return "too high" if error > 0 else "too low" if error < 0 else "exact"


def _scatter_pair(deviation: EstimateDeviation) -> charts.TruthEstimatePair:
    """One estimate as it is drawn."""
    return charts.TruthEstimatePair(
        deviation.shift, round(100 * deviation.truth, 2), *estimate_in_percent(deviation.estimate)
    )


def _scatter_figures(records: Sequence[MethodRecord]) -> list[Figure]:
    """One scatter a method, all on the same axes."""
    drawn = [(r, [_scatter_pair(miss) for miss in r.deviations]) for r in records if r.deviations]
    # One method's wide interval would press all points into a corner, so it does not count here.
    ends = [end for _, pairs in drawn for p in pairs for end in (p.truth, p.estimate)]
    return [
        Figure(
            key=f"panel-{j}",
            title=record.method,
            caption=f"Off by {format_percent(record.mae)} points on average.",
            alt=f"Estimates of {record.method} against the truth under "
            f"{_pluralize(len(pairs), 'shift')}; off by {format_percent(record.mae)} points on average.",
            spec=charts.estimate_scatter_chart(pairs, charts.padded_percent_range(ends)),
        )
        for j, (record, pairs) in enumerate(drawn)
    ]
