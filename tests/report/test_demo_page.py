"""Comparison page: summary, table and panels show the given numbers."""

from __future__ import annotations

import pytest

from oodometer import Estimate, InputError
from oodometer.assessment.conformal_interval import ShiftInterval
from oodometer.report import Comparison, comparison_page
from oodometer.report.demo_page import (
    EstimateDeviation,
    MethodRecord,
    comparison_summary,
    headline_rows,
    headline_sentences,
    rank_records,
)


def record(method: str, *errors: float, half: float | None = None) -> MethodRecord:
    """Return a method with these errors, one per shift, where the true accuracy is 0.5."""
    ends = [(None, None) if half is None else (0.5 + e - half, 0.5 + e + half) for e in errors]
    deviations = (
        EstimateDeviation(f"shift {j}", 0.5, Estimate(0.5 + e, low=low, high=high))
        for j, (e, (low, high)) in enumerate(zip(errors, ends, strict=True))
    )
    return MethodRecord(method, tuple(deviations))


def test_best_method_has_the_lowest_error_among_the_most_complete() -> None:
    records = [record("a", 0.1, -0.1), record("b", 0.01), record("c", 0.05, -0.05)]
    assert [one.method for one in rank_records(records)] == ["c", "a"]
    assert records[0].mae == pytest.approx(0.1)


def test_summary_reports_errors_bias_and_coverage() -> None:
    records = [record("a", 0.02, -0.04, half=0.03), record("b", 0.1, 0.2, half=0.03)]
    assert comparison_summary(records) == (
        "Over 2 shifts, a has the lowest mean absolute error, 3.0 points (next: b, 15.0 points); "
        "its largest error is 4.0 points (shift 1, too low). Errors are known only because the "
        "targets are labelled. 3 of 4 estimates are too high; the 95 % confidence interval "
        "contains the truth in 1 of 4 cases, because it reflects sampling error only."
    )


def test_summary_of_one_method_makes_no_comparison() -> None:
    assert comparison_summary([record("a", 0.25)]) == (
        "Over 1 shift, a has a mean absolute error of 25.0 points; its largest error is 25.0 "
        "points (shift 0, too high). Errors are known only because the targets are labelled. "
        "1 of 1 estimate are too high."
    )


def test_summary_gives_no_reason_for_good_coverage() -> None:
    summary = comparison_summary([record("a", 0.01, -0.01, half=0.02)])
    assert summary.endswith("the 95 % confidence interval contains the truth in 2 of 2 cases.")


def rows() -> list[Comparison]:
    return [
        Comparison("fog", 0.75, {"a": Estimate(0.8), "b": Estimate(0.5)}),
        Comparison("snow", 0.5, {"a": Estimate(0.5)}),
    ]


def test_table_shows_truth_estimates_errors_and_the_best() -> None:
    page = comparison_page(rows(), title="t", methods=["b", "a", "nothing"])
    assert '<td class="number">75.0</td>' in page
    assert '<td class="number error high" style="--tint: 15.0%">80.0 <b>+5.0</b></td>' in page
    assert '<td class="number error low" style="--tint: 45.0%">50.0 <b>−25.0</b></td>' in page
    assert 'best">2.5 <span aria-hidden="true">★</span> best</td>' in page
    assert '<td class="number">25.0 (of 1)</td>' in page
    assert '<td class="number">–</td>' in page
    assert page.count('type="application/json"') == 2


def test_all_methods_are_shown_by_default() -> None:
    page = comparison_page(rows(), title="t")
    assert page.index(">a</th>") < page.index(">b</th>")


@pytest.mark.parametrize("comparisons", [[], [Comparison("fog", 0.5, {})]])
def test_missing_estimates_are_rejected(comparisons: list[Comparison]) -> None:
    with pytest.raises(InputError, match=r"There are no estimates of a for . shifts?\. Give"):
        comparison_page(comparisons, title="t", methods=["a"])


@pytest.mark.parametrize(
    ("error", "shown"), [(0.051, "+5.1"), (-0.2, "−20.0"), (-1e-6, "+0.0"), (0.0, "+0.0")]
)
def test_signed_points_have_a_sign_and_no_negative_zero(error: float, shown: str) -> None:
    assert EstimateDeviation("fog", 0.5, Estimate(0.5 + error)).signed_points == shown


def told(name: str, truth: float, said: float, half: float, status: str) -> Comparison:
    shift = ShiftInterval(said - half, said + half, 0.9, 0, False, 0.0)
    return Comparison(
        name, truth, {"a": Estimate(said)}, headline=Estimate(said), shift=shift,
        status=status,  # type: ignore[arg-type]
    )  # fmt: skip


STORY = [
    told("fog", 0.74, 0.8, 0.1, "ok"),
    told("snow", 0.5, 0.7, 0.1, "critical"),
    told("rain", 0.7, 0.69, 0.1, "warning"),
]


def test_hits_are_counted() -> None:
    first, second, third = headline_sentences(headline_rows(STORY))
    assert first == (
        "The estimates are 9.0 points off on average over 3 test sets; the typical range contains "
        "the truth in 2 of 3 cases."
    )
    assert second == (
        "In 1 of 3 cases, the tool was at most 5 points off; its largest error was 20.0 points "
        "(snow: the tool said 70.0 %, the truth was 50.0 %)."
    )
    assert third == (
        "Where the status was ok (1 case), it was off by 6.0 points on average; where it warned, "
        "by 10.5 points."
    )


def test_page_tells_the_story_before_the_methods() -> None:
    page = comparison_page([*STORY, Comparison("hail", 0.5, {"a": Estimate(0.5)})], title="t")
    order = [page.index(text) for text in (
        "contains the truth in 2 of 3", 'data-chart="headlines-spec"', 'class="told"',
        '<h2 id="summary">', 'class="errors"',
    )]  # fmt: skip
    assert order == sorted(order)
    table = page[page.index('class="told"') : page.index('<h2 id="summary">')]
    assert table.count("<tr>") == 4
    assert table.count(">yes</td>") == 2
    assert table.count(">no</td>") == 1
    assert "hail" not in table


def test_page_without_headlines_shows_the_methods_only() -> None:
    page = comparison_page(rows(), title="t")
    assert 'class="told"' not in page
    assert "headlines-spec" not in page
