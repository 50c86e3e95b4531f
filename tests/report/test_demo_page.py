"""Estimates beside the truth: the sentence, the table and the panels come from the numbers."""

from __future__ import annotations

import pytest

from oodometer import Estimate, InputError
from oodometer.report import Comparison, comparison_page
from oodometer.report.demo_page import (
    EstimateDeviation,
    MethodRecord,
    comparison_summary,
    rank_records,
)


def record(method: str, *errors: float, half: float | None = None) -> MethodRecord:
    """A method that was off by this much, shift by shift, where the truth is one half."""
    ends = [(None, None) if half is None else (0.5 + e - half, 0.5 + e + half) for e in errors]
    misses = (
        EstimateDeviation(f"shift {j}", 0.5, Estimate(0.5 + e, low=low, high=high))
        for j, (e, (low, high)) in enumerate(zip(errors, ends, strict=True))
    )
    return MethodRecord(method, tuple(misses))


def test_the_best_is_the_nearest_of_those_that_answered_most() -> None:
    records = [record("a", 0.1, -0.1), record("b", 0.01), record("c", 0.05, -0.05)]
    assert [one.method for one in rank_records(records)] == ["c", "a"]
    assert records[0].mae == pytest.approx(0.1)


def test_the_sentence_counts() -> None:
    records = [record("a", 0.02, -0.04, half=0.03), record("b", 0.1, 0.2, half=0.03)]
    assert comparison_summary(records) == (
        "Over 2 shifts a came nearest to the truth, off by 3.0 points on average (next b, 15.0) "
        "and by 4.0 at worst (shift 1, too low), which is known only because labels were at hand; "
        "of 4 estimates 3 were too high, and the 95 % interval held the truth in 1 of 4, for it "
        "covers sampling alone."
    )


def test_the_sentence_of_one_method_and_one_shift_ranks_nothing() -> None:
    assert comparison_summary([record("a", 0.25)]) == (
        "Over 1 shift a was off by 25.0 points on average and by 25.0 at worst (shift 0, too "
        "high), which is known only because labels were at hand; of 1 estimate 1 were too high."
    )


def test_intervals_that_hold_are_not_excused() -> None:
    said = comparison_summary([record("a", 0.01, -0.01, half=0.02)])
    assert said.endswith("the 95 % interval held the truth in 2 of 2.")


def rows() -> list[Comparison]:
    return [
        Comparison("fog", 0.75, {"a": Estimate(0.8), "b": Estimate(0.5)}),
        Comparison("snow", 0.5, {"a": Estimate(0.5)}),
    ]


def test_the_table_has_truth_estimates_errors_and_the_best() -> None:
    page = comparison_page(rows(), title="t", methods=["b", "a", "nothing"])
    assert '<td class="number">75.0</td>' in page
    assert '<td class="number error high" style="--tint: 15.0%">80.0 <b>+5.0</b></td>' in page
    assert '<td class="number error low" style="--tint: 45.0%">50.0 <b>−25.0</b></td>' in page
    assert 'best">2.5 <span aria-hidden="true">★</span> best</td>' in page
    assert '<td class="number">25.0 (of 1)</td>' in page
    assert '<td class="number">–</td>' in page
    assert page.count('type="application/json"') == 2


def test_all_methods_are_compared_when_none_are_named() -> None:
    page = comparison_page(rows(), title="t")
    assert page.index(">a</th>") < page.index(">b</th>")


@pytest.mark.parametrize("given", [[], [Comparison("fog", 0.5, {})]])
def test_nothing_to_compare_is_told(given: list[Comparison]) -> None:
    with pytest.raises(InputError, match=r"nothing to compare: . shifts? and no estimate of a"):
        comparison_page(given, title="t", methods=["a"])


@pytest.mark.parametrize(
    ("error", "shown"), [(0.051, "+5.1"), (-0.2, "−20.0"), (-1e-6, "+0.0"), (0.0, "+0.0")]
)
def test_errors_have_a_sign_and_zero_has_one_form(error: float, shown: str) -> None:
    assert EstimateDeviation("fog", 0.5, Estimate(0.5 + error)).signed_points == shown
