"""The page that holds estimates against the truth, shift by shift and method by method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oodometer.assessment.result import points
from oodometer.core.errors import InputError
from oodometer.core.protocols import Estimate
from oodometer.report import charts
from oodometer.report.assessment_figures import Figure, in_points
from oodometer.report.page import render

# An error of this much has the full colour.
FULL_COLOR = 0.15


@dataclass(frozen=True)
class Comparison:
    """The true accuracy under one shift, and what the methods said of it."""

    name: str
    truth: float
    estimates: dict[str, Estimate]


@dataclass(frozen=True)
class Miss:
    """How far one estimate was off, below zero where it was too low."""

    shift: str
    truth: float
    found: Estimate

    @property
    def error(self) -> float:
        """Estimate less truth, in a fraction."""
        return self.found.value - self.truth

    @property
    def signed(self) -> str:
        """The error in points, with its sign; a plus is too high."""
        return f"{100 * self.error:+z.1f}".replace("-", "−")

    @property
    def tint(self) -> float:
        """How strongly the error is coloured, in percent."""
        return round(45 * min(abs(self.error) / FULL_COLOR, 1.0), 1)

    @property
    def held(self) -> bool | None:
        """Whether the interval held the truth, if there is one."""
        low, high = self.found.low, self.found.high
        return None if low is None or high is None else low <= self.truth <= high


@dataclass(frozen=True)
class Record:
    """One method under every shift that it had an answer for."""

    method: str
    misses: tuple[Miss, ...]

    @property
    def mae(self) -> float:
        """Mean absolute error, in a fraction."""
        return sum(abs(miss.error) for miss in self.misses) / len(self.misses)

    def under(self, shift: Comparison) -> Miss | None:
        """How far it was off under one shift."""
        found = shift.estimates.get(self.method)
        return None if found is None else Miss(shift.name, shift.truth, found)


def comparison_page(
    rows: Sequence[Comparison], *, title: str, methods: Sequence[str] | None = None
) -> str:
    """Estimates against the truth, as a whole HTML page; of all methods, if none are named."""
    records = records_of(rows, methods)
    if not any(record.misses for record in records):
        raise InputError(
            f"There is nothing to compare: {_counted(len(rows), 'shift')} and no estimate of "
            f"{', '.join(r.method for r in records) or 'any method'}. Give rows that have such estimates."
        )
    return render(
        "demo_page.html",
        {
            "title": title,
            "rows": rows,
            "records": records,
            "best": ranked(records)[0],
            "reading": reading(records),
            "figures": _panels(records),
        },
    )


def records_of(rows: Sequence[Comparison], methods: Sequence[str] | None = None) -> list[Record]:
    """What the methods said under every shift; all of them, if none are named."""
    if methods is None:
        methods = list(dict.fromkeys(method for row in rows for method in row.estimates))
    return [_record(rows, method) for method in methods]


def _record(rows: Sequence[Comparison], method: str) -> Record:
    """What one method said under every shift."""
    empty = Record(method, ())
    return Record(method, tuple(miss for row in rows if (miss := empty.under(row)) is not None))


def ranked(records: Sequence[Record]) -> list[Record]:
    """The methods with most answers, nearest to the truth first; who skips the hard ones is out."""
    most = max(len(record.misses) for record in records)
    return sorted((r for r in records if len(r.misses) == most), key=lambda record: record.mae)


def reading(records: Sequence[Record]) -> str:
    """One sentence of what the numbers say, and what they don't."""
    best, *others = ranked(records)
    worst = max(best.misses, key=lambda miss: abs(miss.error))
    beside = f" (next {others[0].method}, {points(others[0].mae)})" if others else ""
    nearest = "came nearest to the truth, " if others else "was "
    return (
        f"Over {_counted(len(best.misses), 'shift')} {best.method} {nearest}off by "
        f"{points(best.mae)} points on average{beside} and by {points(abs(worst.error))} at worst "
        f"({worst.shift}, {_side(worst.error)}), which is known only because labels were at hand; "
        f"{_leaning(records)}."
    )


def _leaning(records: Sequence[Record]) -> str:
    """How often the estimates were too high, and the intervals right."""
    misses = [miss for record in records for miss in record.misses]
    high = sum(miss.error > 0 for miss in misses)
    held = [miss.held for miss in misses if miss.held is not None]
    said = f"of {_counted(len(misses), 'estimate')} {high} were too high"
    if not held:
        return said
    why = ", for it covers sampling alone" if sum(held) < 0.9 * len(held) else ""
    return f"{said}, and the 95 % interval held the truth in {sum(held)} of {len(held)}{why}"


def _counted(n: int, noun: str) -> str:
    """A number with its noun."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _side(error: float) -> str:
    """Which way an estimate was off."""
    return "too high" if error > 0 else "too low" if error < 0 else "exact"


def _pair(miss: Miss) -> charts.Pair:
    """One estimate as it is drawn."""
    return charts.Pair(miss.shift, round(100 * miss.truth, 2), *in_points(miss.found))


def _panels(records: Sequence[Record]) -> list[Figure]:
    """One scatter a method, all on the same axes."""
    drawn = [(r, [_pair(miss) for miss in r.misses]) for r in records if r.misses]
    # One method's wide interval would press all points into a corner, so it does not count here.
    ends = [end for _, pairs in drawn for p in pairs for end in (p.truth, p.estimate)]
    return [
        Figure(
            key=f"panel-{j}",
            title=record.method,
            caption=f"Off by {points(record.mae)} points on average.",
            alt=f"Estimates of {record.method} against the truth under "
            f"{_counted(len(pairs), 'shift')}; off by {points(record.mae)} points on average.",
            spec=charts.scatter(pairs, charts.around(ends)),
        )
        for j, (record, pairs) in enumerate(drawn)
    ]
