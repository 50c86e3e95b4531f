"""Terminal output of assessments: the short answer, one line, and all details."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import oodometer
from oodometer import Assessment, Predictions, Reference
from oodometer.assessment.optional_analyses import (
    AdditionalRequests,
    resolve_expected_metrics,
    run_additional,
)
from oodometer.assessment.result import format_interval, format_percent
from oodometer.core.results import STATUS_SHAPES
from oodometer.report import terminal_assessment
from oodometer.report.terminal_assessment import MAX_LINES, TargetResult
from oodometer.report.verdict import headline_problems, short_verdict
from oodometer.testing import toy_pair, toy_predictions

PATH = "new site/target.parquet"


def details(width: int, **settings: Any) -> str:
    source, target = toy_pair()
    result = oodometer.estimate(source, target, **settings)
    out = io.StringIO()
    result = replace(result, plan_arguments=(PATH,))
    terminal_assessment.show_details(Console(file=out, width=width), result)
    return out.getvalue()


def answer(assessment: Assessment, width: int = 80, **settings: Any) -> str:
    out = io.StringIO()
    result = TargetResult(
        target=PATH,
        assessment=replace(assessment, plan_arguments=(PATH,)),
        additional=settings.pop("additional", None),
    )
    terminal_assessment.show_answer(Console(file=out, width=width), result, **settings)
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_tables_fit_the_terminal(width: int) -> None:
    source, target = toy_pair()
    result = oodometer.estimate(source, target, segment_by=np.arange(target.n) % 20)
    # A command is not wrapped, so that it can be copied.
    for text in (details(width), answer(result, width)):
        lines = [line for line in text.splitlines() if not line.startswith("  oodometer ")]
        assert max(map(len, lines)) <= width


def test_details_show_intervals_first_and_do_not_repeat_them() -> None:
    source, target = toy_pair()
    result = oodometer.estimate(source, target)
    text = " ".join(details(300).split())
    assert result.shift is not None
    for interval in (result.headline.estimate, result.shift):
        assert text.partition(" Estimates method ")[0].count(format_interval(interval)) == 1
    assert f"Typical range: {result.typical_range_text}" in text
    assert all(sentence in text for sentence in result.explanation)
    assert f"{result.next_step}: {replace(result, plan_arguments=(PATH,)).plan_command}" in text
    assert all(estimate.assumes in text for estimate in result.estimates)


def test_text_from_files_is_never_markup() -> None:
    by = np.where(np.arange(300) % 2, "[red]site[/red]", "[link=x]y[/link]")
    source, target = toy_pair()
    result = oodometer.estimate(source, target, segment_by=by)
    for text in (details(120, segment_by=by), answer(result, 120)):
        assert "[red]site[/red]" in text
        assert "[link=x]y[/link]" in text


def test_answer_has_verdict_intervals_disagreement_problems_and_next_step() -> None:
    source, target = toy_predictions(600), toy_predictions(500, sharpness=0.0, seed=1)
    result = oodometer.estimate(source, target)
    text = answer(result)
    words = " ".join(text.split())
    assert words.startswith(" ".join(short_verdict(result)))
    assert result.shift is not None
    low, high = (format_percent(end) for end in result.source_interval)
    for shown in (
        f"Accuracy on the target {format_percent(result.headline.estimate.value)} %",
        f"Confidence interval (95 %) {format_interval(result.headline.estimate)} ",
        f"Typical range (90 %) {format_interval(result.shift)} ",
        f"Accuracy on the source {format_percent(result.source_accuracy)} % ({low}–{high})",
    ):
        assert shown in words
    others = [e for e in result.estimates if e.method != result.headline.estimate.method]
    highest, lowest = (choose(others, key=lambda e: e.value) for choose in (max, min))
    assert f"Highest other method {highest.method}, {format_percent(highest.value)} %" in words
    assert f"Lowest other method {lowest.method}, {format_percent(lowest.value)} %" in words
    assert headline_problems(result)
    for problem in headline_problems(result):
        line = f"{STATUS_SHAPES[problem.status]} {problem.name}: {problem.advice}"
        assert line in text.splitlines()
    assert f"  oodometer plan 'new site/target.parquet' --labels {result.labels_needed} " in text
    assert text.endswith("--verbose\n")


def cases() -> dict[str, tuple[Predictions, Predictions, dict[str, Any]]]:
    """Return source, target and options of estimate() for several kinds of data."""
    two = toy_predictions(600, k=2), toy_predictions(500, k=2, sharpness=0.3, seed=1)
    ten = toy_predictions(900, k=10), toy_predictions(700, k=10, sharpness=0.3, seed=1)
    days = np.datetime64("2026-03-01") + np.arange(500) // 10
    truths = np.array([0.7, 0.75, 0.8, 0.72, 0.78, 0.74])
    assert two[1].labels is not None
    labels = [int(label) if j < 120 else None for j, label in enumerate(two[1].labels)]
    return {
        "two classes": (*two, {}),
        "ten classes": (*ten, {}),
        "no shift": (two[0], toy_predictions(500, k=2, seed=2), {}),
        "segments": (*two, {"segment_by": np.arange(500) % 40}),
        "periods": (*ten, {"segment_by": np.resize(days, 700)}),
        "history": (*two, {"history": oodometer.History(truths + 0.05, truths)}),
        "labels": (*two, {"target_labels": labels}),
        "one method": (*two, {"methods": "doc"}),
    }


@pytest.mark.parametrize("required", [None, 0.9])
@pytest.mark.parametrize("with_more", [False, True])
@pytest.mark.parametrize("case", cases())
def test_answer_has_at_most_25_lines_of_80_columns(
    case: str, with_more: bool, required: float | None
) -> None:
    source, target, options = cases()[case]
    result = oodometer.estimate(source, target, replicates=20, **options)
    additional = None
    if with_more:
        requests = AdditionalRequests(
            metrics=resolve_expected_metrics(["all"]), bound=True, margin=0.05
        )
        additional = run_additional(requests, Reference(source), target)
    lines = answer(result, required=required, additional=additional).splitlines()
    assert MAX_LINES == 25
    assert 8 <= len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= 80
    assert ("Lower bound (DIS²)" in "\n".join(lines)) == with_more


def test_long_lists_are_shortened_and_counted() -> None:
    source, target, options = cases()["segments"]
    result = oodometer.estimate(source, target, replicates=20, **options)
    text = answer(result)
    assert "Segments: 3 of 40, lowest first" in text
    values = sorted(s.estimate.value for s in result.segments if s.estimate)
    shown = [line.split()[2] for line in text.splitlines() if line[:7].strip().isdigit()]
    assert shown == [format_percent(value) for value in values[:3]]


def test_advice_on_every_diagnostic_fits_one_line() -> None:
    texts: dict[str, str] = {}
    for source, target, options in cases().values():
        result = oodometer.estimate(source, target, replicates=20, **options)
        texts |= {d.name: f"▲ {d.name}: {d.advice}" for d in result.diagnostics}
    assert len(texts) >= 12
    assert {name: text for name, text in texts.items() if len(text) > 80} == {}


def test_one_line_has_estimate_intervals_and_status() -> None:
    source, target = toy_pair()
    result = oodometer.estimate(source, target, replicates=20)
    for name_target in (False, True):
        out = io.StringIO()
        terminal_assessment.show_line(
            Console(file=out, width=20),
            TargetResult(target=PATH, assessment=result),
            name_target=name_target,
        )
        (line,) = out.getvalue().splitlines()
        assert line.startswith(PATH) == name_target
        assert result.shift is not None
        for interval in (result.headline.estimate, result.shift):
            assert format_interval(interval) in line
        assert line.endswith(result.headline.status)


@pytest.mark.parametrize("n", [2, 60])
def test_several_targets_fit_25_lines(n: int) -> None:
    source = toy_predictions(600)
    reference = Reference(source, methods=["doc"], replicates=20)
    results = [
        TargetResult(
            target=f"site_{j}.parquet",
            assessment=reference.estimate(
                toy_predictions(200, sharpness=3.0 - j / n, seed=j),
                segment_by=np.arange(200) % 4,
            ),
        )
        for j in range(n)
    ]
    out = io.StringIO()
    terminal_assessment.show_answers(Console(file=out, width=80), results, required=0.8)
    lines = out.getvalue().splitlines()
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= 80
    text = " ".join(out.getvalue().split())
    lowest = min(results, key=lambda result: result.assessment.headline.estimate.value)
    assert f"{lowest.target} has the lowest" in text
    below = sum(r.assessment.headline.estimate.value < 0.8 for r in results)
    assert f"{below} of {n} are below the required 80.0 %." in text
    assert ("targets, lowest first)" in text) == (n == 60)
    assert sum(line.startswith("site_") for line in lines) >= 5
