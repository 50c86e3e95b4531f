"""HTML page that compares the headline and every method with the true accuracy under each shift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oodometer.assessment.conformal_interval import ShiftInterval
from oodometer.assessment.result import format_interval, format_percent
from oodometer.core.errors import InputError
from oodometer.core.format import pluralize
from oodometer.core.results import Estimate, Status
from oodometer.estimators.atc import FalselyIdentified
from oodometer.report import charts
from oodometer.report.assessment_figures import estimate_in_percent
from oodometer.report.charts import Figure
from oodometer.report.page import render

# Errors of at least this fraction are drawn in the full color, smaller ones in a lighter color.
FULL_COLOR_ERROR = 0.15
# Largest error of an estimate that the summary counts as close to the truth.
CLOSE_ERROR = 0.05


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
    headline : Estimate, optional
        Headline of the assessment.
    shift : ShiftInterval, optional
        Typical range of the headline.
    status : {"ok", "warning", "critical"}
        Status of the headline.

    Examples
    --------
    >>> Comparison("blur", 0.75, {"ac": Estimate(0.8)}).truth
    0.75
    """

    name: str
    truth: float
    estimates: dict[str, Estimate]
    falsely_identified: FalselyIdentified | None = None
    headline: Estimate | None = None
    shift: ShiftInterval | None = None
    status: Status = "ok"


@dataclass(frozen=True)
class HeadlineRow:
    """Headline under one shift beside the true accuracy."""

    name: str
    truth: float
    headline: Estimate
    shift: ShiftInterval
    status: Status

    @property
    def error(self) -> float:
        """Return the headline minus the truth, as a fraction."""
        return self.headline.value - self.truth

    @property
    def is_hit(self) -> bool:
        """Return whether the typical range contains the truth."""
        return self.shift.low <= self.truth <= self.shift.high


def headline_rows(rows: Sequence[Comparison]) -> list[HeadlineRow]:
    """Return the shifts with a headline and a typical range."""
    return [
        HeadlineRow(row.name, row.truth, row.headline, row.shift, row.status)
        for row in rows
        if row.headline is not None and row.shift is not None
    ]


def headline_sentences(rows: Sequence[HeadlineRow]) -> tuple[str, ...]:
    """Return what the tool said, what was true, and how often the range contained the truth.

    >>> shift = ShiftInterval(0.7, 0.9, 0.9, n_domains=0, scaled_by_spread=False, bias=0.0)
    >>> headline_sentences([HeadlineRow("blur", 0.75, Estimate(0.8), shift, "ok")])[0]
    'The estimates are 5.0 points off on average over 1 test set; the typical range contains the truth in 1 of 1 case.'
    """
    n = len(rows)
    error = sum(abs(row.error) for row in rows) / n
    n_hits = sum(row.is_hit for row in rows)
    n_close = sum(abs(row.error) <= CLOSE_ERROR for row in rows)
    worst = max(rows, key=lambda row: abs(row.error))
    return (
        f"The estimates are {format_percent(error)} points off on average over "
        f"{pluralize(n, 'test set')}; the typical range contains the truth in {n_hits} of "
        f"{pluralize(n, 'case')}.",
        f"In {n_close} of {pluralize(n, 'case')}, the tool was at most "
        f"{100 * CLOSE_ERROR:.0f} points off; its largest error was "
        f"{format_percent(abs(worst.error))} points ({worst.name}: the tool said "
        f"{format_percent(worst.headline.value)} %, the truth was {format_percent(worst.truth)} %).",
        *_status_sentences(rows),
    )


def _status_sentences(rows: Sequence[HeadlineRow]) -> list[str]:
    """Return how far the tool was off if it warned, and if it did not."""
    errors: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        errors[row.status == "ok"].append(abs(row.error))
    if not errors[True] or not errors[False]:
        return []
    means = {is_ok: format_percent(sum(group) / len(group)) for is_ok, group in errors.items()}
    return [
        f"Where the status was ok ({pluralize(len(errors[True]), 'case')}), it was off by "
        f"{means[True]} points on average; where it warned, by {means[False]} points."
    ]


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
    headlines = headline_rows(rows)
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
            "headlines": headlines,
            "story": headline_sentences(headlines) if headlines else (),
            "picture": _headline_figure(headlines) if headlines else None,
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


def _headline_figure(rows: Sequence[HeadlineRow]) -> Figure:
    """Draw the headline with its typical range and the truth, one row per shift."""
    points = []
    for row in rows:
        said, truth, low, high = (
            round(100 * value, 2)
            for value in (row.headline.value, row.truth, row.shift.low, row.shift.high)
        )
        points.append(charts.IntervalPoint(row.name, said, low, high, series="the tool said"))
        points.append(charts.IntervalPoint(row.name, truth, series=charts.TRUTH_SERIES))
    n_hits = sum(row.is_hit for row in rows)
    ends = [end for row in rows for end in (row.shift.low, row.shift.high, row.truth)]
    return Figure(
        key="headlines",
        title="Estimate, typical range and truth",
        caption="The circle is the estimate of the tool, made without labels; its line is the "
        "typical range. The square is the true accuracy.",
        alt=f"Estimates, typical ranges and true accuracies under {pluralize(len(rows), 'shift')}; "
        f"the typical range contains the truth in {n_hits} of {pluralize(len(rows), 'case')}.",
        spec=charts.interval_chart(
            points,
            "accuracy, %",
            domain=charts.padded_percent_range([100 * end for end in ends]),
            digits=1,
        ),
        wide=True,
    )


def headline_cells(row: HeadlineRow) -> tuple[str, str, str, str, str]:
    """Return the shift, the estimate, its range, the truth, and whether the range contains it."""
    return (
        row.name,
        format_percent(row.headline.value),
        format_interval(row.shift),
        format_percent(row.truth),
        "yes" if row.is_hit else "no",
    )


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
