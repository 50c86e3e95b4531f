"""HTML page that compares the estimates of each method with the true accuracy under each shift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oodometer.assessment.result import format_percent
from oodometer.core.errors import InputError
from oodometer.core.format import pluralize
from oodometer.core.results import Estimate
from oodometer.estimators.atc import FalselyIdentified
from oodometer.report import charts
from oodometer.report.assessment_figures import estimate_in_percent
from oodometer.report.charts import Figure
from oodometer.report.page import render

# Errors of at least this fraction are drawn in the full color, smaller ones in a lighter color.
FULL_COLOR_ERROR = 0.15


@dataclass(frozen=True)
class Comparison:
    """True accuracy under one shift, and its estimates.

    Parameters
    ----------
    name : str
        Name of the shift.
    truth : float
        True accuracy, as a fraction.
    estimates : dict of str to Estimate
        Estimates by method.
    falsely_identified : FalselyIdentified, optional
        Shares of rows that are wrong and above the threshold of atc-mc, and of rows that are
        correct and below it.

    Examples
    --------
    >>> Comparison("blur", 0.75, {"ac": Estimate(0.8)}).truth
    0.75
    """

    name: str
    truth: float
    estimates: dict[str, Estimate]
    falsely_identified: FalselyIdentified | None = None


def falsely_identified_cells(rows: Sequence[Comparison]) -> list[tuple[str, str, str, str]]:
    """Return one row of cells per shift: its name, both shares in % and their difference."""
    return [
        (
            row.name,
            format_percent(row.falsely_identified.correct),
            format_percent(row.falsely_identified.incorrect),
            f"{100 * row.falsely_identified.bias:+z.1f}",
        )
        for row in rows
        if row.falsely_identified is not None
    ]


@dataclass(frozen=True)
class EstimateDeviation:
    """Deviation of one estimate from the true accuracy."""

    shift: str
    truth: float
    estimate: Estimate

    @property
    def error(self) -> float:
        """Return the estimate minus the truth, as a fraction."""
        return self.estimate.value - self.truth

    @property
    def signed_points(self) -> str:
        """Return the error in points with its sign; a plus sign means that it is too high."""
        return f"{100 * self.error:+z.1f}".replace("-", "−")

    @property
    def tint(self) -> float:
        """Return the strength of the cell's color in percent; larger errors are stronger."""
        return round(45 * min(abs(self.error) / FULL_COLOR_ERROR, 1.0), 1)

    @property
    def interval_covers_truth(self) -> bool | None:
        """Return whether the interval contains the truth; None without an interval."""
        low, high = self.estimate.low, self.estimate.high
        return None if low is None or high is None else low <= self.truth <= high


@dataclass(frozen=True)
class MethodRecord:
    """Deviations of one method under all shifts that it applies to."""

    method: str
    deviations: tuple[EstimateDeviation, ...]

    @property
    def mae(self) -> float:
        """Return the mean absolute error, as a fraction."""
        return sum(abs(deviation.error) for deviation in self.deviations) / len(self.deviations)

    def deviation_under(self, comparison: Comparison) -> EstimateDeviation | None:
        """Return the deviation under one shift; None if the method has no estimate."""
        return _deviation(comparison, self.method)


def _deviation(comparison: Comparison, method: str) -> EstimateDeviation | None:
    estimate = comparison.estimates.get(method)
    if estimate is None:
        return None
    return EstimateDeviation(comparison.name, comparison.truth, estimate)


def comparison_page(
    rows: Sequence[Comparison], *, title: str, methods: Sequence[str] | None = None
) -> str:
    """Return estimates and true accuracies as a complete HTML page.

    Parameters
    ----------
    rows : sequence of Comparison
        True accuracy and estimates per shift.
    title : str
        Title of the page.
    methods : sequence of str, optional
        Methods to show. Default: all.

    Returns
    -------
    str
        HTML that contains all styles, scripts and data, so the page needs no other file.

    Raises
    ------
    InputError
        If no row has an estimate of any of these methods.

    Examples
    --------
    >>> page = comparison_page([Comparison("blur", 0.75, {"ac": Estimate(0.8)})], title="Demo")
    >>> "<title>Demo</title>" in page
    True
    """
    records = method_records(rows, methods)
    if not any(record.deviations for record in records):
        names = ", ".join(record.method for record in records) or "any method"
        raise InputError(
            f"There are no estimates of {names} for {pluralize(len(rows), 'shift')}. "
            "Give rows with estimates of these methods."
        )
    return render(
        "demo_page.html",
        {
            "title": title,
            "rows": rows,
            "records": records,
            "best": rank_records(records)[0],
            "summary": comparison_summary(records),
            "figures": _scatter_figures(records),
            "falsely_identified": falsely_identified_cells(rows),
        },
    )


def method_records(
    rows: Sequence[Comparison], methods: Sequence[str] | None = None
) -> list[MethodRecord]:
    """Return the record of each method, by default of all methods that have an estimate."""
    if methods is None:
        methods = list(dict.fromkeys(method for row in rows for method in row.estimates))
    records = []
    for method in methods:
        deviations = [_deviation(row, method) for row in rows]
        known = tuple(deviation for deviation in deviations if deviation is not None)
        records.append(MethodRecord(method, known))
    return records


def rank_records(records: Sequence[MethodRecord]) -> list[MethodRecord]:
    """Return the methods with the largest number of estimates, lowest mean absolute error first.

    A method with fewer estimates than another is left out, because the shifts without an estimate
    may be the difficult ones.
    """
    most = max(len(record.deviations) for record in records)
    complete = [record for record in records if len(record.deviations) == most]
    return sorted(complete, key=lambda record: record.mae)


def comparison_summary(records: Sequence[MethodRecord]) -> str:
    """Name the best method with its errors, and count the estimates that are too high."""
    best, *others = rank_records(records)
    worst = max(best.deviations, key=lambda deviation: abs(deviation.error))
    subject = f"Over {pluralize(len(best.deviations), 'shift')}, {best.method}"
    if others:
        next_best = f" (next: {others[0].method}, {format_percent(others[0].mae)} points)"
        errors = f"has the lowest mean absolute error, {format_percent(best.mae)} points{next_best}"
    else:
        errors = f"has a mean absolute error of {format_percent(best.mae)} points"
    return (
        f"{subject} {errors}; its largest error is {format_percent(abs(worst.error))} points "
        f"({worst.shift}, {_error_direction(worst.error)}). Errors are known only because the "
        f"targets are labelled. {_bias_summary(records)}."
    )


def _bias_summary(records: Sequence[MethodRecord]) -> str:
    """Count estimates that are too high, and intervals that contain the truth."""
    deviations = [deviation for record in records for deviation in record.deviations]
    n_high = sum(deviation.error > 0 for deviation in deviations)
    covered = [
        deviation.interval_covers_truth
        for deviation in deviations
        if deviation.interval_covers_truth is not None
    ]
    summary = f"{n_high} of {pluralize(len(deviations), 'estimate')} are too high"
    if not covered:
        return summary
    n_covered = sum(covered)
    reason = ""
    if n_covered < 0.9 * len(covered):
        reason = ", because it reflects sampling error only"
    return (
        f"{summary}; the 95 % confidence interval contains the truth in {n_covered} of "
        f"{len(covered)} cases{reason}"
    )


def _error_direction(error: float) -> str:
    if error == 0:
        return "exact"
    return "too high" if error > 0 else "too low"


def _scatter_pair(deviation: EstimateDeviation) -> charts.TruthEstimatePair:
    truth = round(100 * deviation.truth, 2)
    return charts.TruthEstimatePair(
        deviation.shift, truth, *estimate_in_percent(deviation.estimate)
    )


def _scatter_figures(records: Sequence[MethodRecord]) -> list[Figure]:
    """Draw one scatter plot per method, all on the same axes."""
    drawn = [
        (record, [_scatter_pair(deviation) for deviation in record.deviations])
        for record in records
        if record.deviations
    ]
    # The axes do not extend over the intervals: a single wide interval would compress all points
    # into a corner.
    ends = [end for _, pairs in drawn for pair in pairs for end in (pair.truth, pair.estimate)]
    domain = charts.padded_percent_range(ends)
    return [
        Figure(
            key=f"panel-{number}",
            title=record.method,
            caption=f"Mean absolute error: {format_percent(record.mae)} points.",
            alt=f"Estimates of {record.method} against the true accuracy under "
            f"{pluralize(len(pairs), 'shift')}; the mean absolute error is "
            f"{format_percent(record.mae)} points.",
            spec=charts.estimate_scatter_chart(pairs, domain),
        )
        for number, (record, pairs) in enumerate(drawn)
    ]
