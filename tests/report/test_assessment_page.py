"""HTML page of an assessment: it shows the numbers of the assessment."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oodometer
from oodometer import Assessment, Predictions
from oodometer.assessment.result import concerned_methods, format_interval, format_percent
from oodometer.report import assessment_page
from oodometer.report.assessment_figures import draw_assessment_figures
from oodometer.report.verdict import short_verdict


def page_of(source: Predictions, target: Predictions, **options: object) -> str:
    result = oodometer.estimate(source, target, replicates=20, **options)  # type: ignore[arg-type]
    return assessment_page(result, source, target, title="A title", reproduce={})


def words(page: str) -> str:
    """Return the text of a page, without scripts."""
    without = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", without)).replace("\N{NO-BREAK SPACE}", " ")


def test_page_contains_headline_explanation_and_next_step(
    assessed: str, assessment: Assessment
) -> None:
    estimate = assessment.headline.estimate
    assert f"<strong>{format_percent(estimate.value)}&nbsp;%</strong>" in assessed
    text = words(assessed)
    assert format_interval(estimate) in text
    assert assessment.shift is not None
    assert format_interval(assessment.shift) in text
    assert assessment.range_basis in text
    assert all(sentence in text for sentence in assessment.explanation)
    assert assessment.next_step in text
    assert f"<code>{assessment.plan_command}</code>" in assessed
    assert estimate.assumes in text


def test_answer_comes_first_and_details_are_folded(assessed: str, assessment: Assessment) -> None:
    parts = [
        'aria-label="Verdict"', 'id="parts"', 'id="worst"', 'id="diagnostics"', 'id="methods"',
        'id="passed"', 'id="charts"', 'id="assumed"', 'id="reproduce"',
    ]  # fmt: skip
    order = [assessed.index(part) for part in parts]
    assert order == sorted(order)
    folded = [
        one for box in re.findall(r'<details class="foldable">.*?</summary>', assessed, re.DOTALL)
        for one in re.findall(r'id="(\w+)"', box)
    ]  # fmt: skip
    assert folded == ["methods", "passed", "charts", "assumed", "reproduce"]
    assert all(sentence in words(assessed) for sentence in short_verdict(assessment))


def test_folded_table_has_all_segments_and_the_first_table_the_lowest(
    source: Predictions, target: Predictions
) -> None:
    result = oodometer.estimate(source, target, segment_by=np.arange(300) % 9, replicates=20)
    page = assessment_page(result, source, target, title="t", reproduce={})
    worst = page[page.index('id="worst"') : page.index('<details class="foldable">')]
    lowest = sorted(s.estimate.value for s in result.segments if s.estimate)[:5]
    shown = re.findall(r'</td><td class="number">([\d.]+)</td>', worst)
    assert shown == [format_percent(value) for value in lowest]
    assert "The 5 lowest of 9 segments" in worst
    rest = page[page.index('id="segments"') : page.index('id="diagnostics"')]
    assert rest.count('<th scope="row">') == 9


def test_required_accuracy_is_a_line_and_part_of_the_verdict(
    source: Predictions, target: Predictions, assessment: Assessment
) -> None:
    options: dict[str, Any] = {"title": "t", "reproduce": {}}
    page = assessment_page(assessment, source, target, required=0.995, date="1 May", **options)
    assert "elow the required 99.5 %" in words(page)
    assert re.search(r'class="light (critical|warning)"[^%]*required accuracy (missed|unc)', page)
    assert "below required" in words(page)  # segments
    assert '<line class="required" x1="99.5%"' in page
    assert page.count("required: 99.5 %") == 2  # in the charts of methods and segments
    assert '<p class="quiet date">1 May</p>' in page
    plain = assessment_page(assessment, source, target, **options)
    assert "required: " not in plain
    assert "below required" not in plain
    assert 'class="quiet date"' not in plain


def test_next_step_names_the_target(
    source: Predictions, target: Predictions, assessment: Assessment
) -> None:
    named = replace(assessment, plan_arguments=("new site.csv",))
    page = assessment_page(named, source, target, title="t", reproduce={})
    assert (
        f"<code>oodometer plan &#39;new site.csv&#39; --labels {assessment.labels_needed}" in page
    )


def test_tables_list_every_method_diagnostic_and_segment(
    assessed: str, assessment: Assessment
) -> None:
    for estimate in assessment.estimates:
        row = f'{estimate.method}</th><td class="number">{format_percent(estimate.value)}</td>'
        assert row + f'<td class="number">{format_interval(estimate)}</td>' in assessed
    text = words(assessed)
    for diagnostic in assessment.diagnostics:
        cells = (
            f"{diagnostic.name}{diagnostic.value:.3g}{diagnostic.meaning}"
            f"{concerned_methods(diagnostic)}{diagnostic.advice_text}"
        )
        assert f"{diagnostic.status}{cells}" in text
    for segment in assessment.segments:
        assert segment.estimate is not None
        assert f"{segment.value}{segment.n}{format_percent(segment.estimate.value)}" in text
    for method, reason in assessment.skipped.items():
        assert f"{method}not applicable: {reason}" in text


def test_worst_diagnostics_come_first_with_advice(assessed: str, assessment: Assessment) -> None:
    statuses = re.findall(r'<tr><td><span class="light (\w+)">', assessed)
    assert statuses == sorted(statuses, key=["critical", "warning", "ok"].index)
    assert len(statuses) == len(assessment.diagnostics)
    problems = [d for d in assessment.diagnostics if d.status != "ok"]
    assert problems
    assert assessed.count('<td class="prose quiet"') == statuses.count("ok")
    assert all(d.advice and d.advice == d.advice_text for d in problems)
    assert all(d.advice_text == "nothing" for d in assessment.diagnostics if d not in problems)


def test_gauge_shows_the_headline_and_its_intervals(
    assessment: Assessment, source: Predictions, target: Predictions
) -> None:
    value = assessment.headline.estimate.value
    estimate = replace(assessment.headline.estimate, low=value - 0.03, high=value + 0.02)
    result = replace(assessment, headline=replace(assessment.headline, estimate=estimate))
    page = assessment_page(result, source, target, title="t", reproduce={})
    (gauge,) = re.findall(r'<svg class="gauge".*?</svg>', page, flags=re.DOTALL)
    values = [e.value for e in assessment.estimates]
    assert result.shift is not None
    ends = (value - 0.03, assessment.source_interval[0], min(values), result.shift.low)
    drawn = re.findall(r'<rect class="(\w+)" x="([\d.]+)%"', gauge)
    assert {name: float(x) for name, x in drawn} == {
        name: pytest.approx(100 * end)
        for name, end in zip(("interval", "source", "methods", "shift"), ends, strict=True)
    }
    assert f"all methods {format_percent(min(values))}–{format_percent(max(values))}" in gauge


def test_page_without_history_does_not_speak_of_past_domains(
    assessed: str, assessment: Assessment
) -> None:
    assert assessment.shift is not None
    assert assessment.shift.n_domains == 0
    text = words(assessed)
    assert "past domains" not in text
    assert "domains of the history" not in text
    suites = f"typical of {assessment.shift.n_suites} suites of reference cases, not a guarantee"
    assert f"The range is {suites}." in text
    assert f"The typical range assumes: {assessment.shift.assumes}." in text


def test_page_shows_the_correction_by_a_history(source: Predictions, target: Predictions) -> None:
    truths = np.array([0.7, 0.75, 0.8, 0.72, 0.78, 0.74])
    history = oodometer.History(truths + 0.05, truths)
    result = oodometer.estimate(source, target, replicates=20, history=history)
    page = assessment_page(result, source, target, title="t", reproduce={})
    text = words(page)
    value = result.headline.estimate.value
    assert value == pytest.approx(result[result.headline.estimate.method].value - 0.05)
    assert f"<strong>{format_percent(value)}&nbsp;%</strong>" in page
    assert "typical of 6 past domains and " in text
    assert "the estimate was corrected by -5.0 points" in text
    assert "the headline is corrected by -5.0 points" in text
    assert "before its correction by the history" in text


def test_page_without_typical_range_says_why(
    assessment: Assessment, source: Predictions, target: Predictions
) -> None:
    result = replace(assessment, shift=None)
    page = assessment_page(result, source, target, title="t", reproduce={})
    assert '<rect class="shift"' not in page
    assert "Typical range: unknown: there are no reference cases for the method" in words(page)


def test_estimate_without_interval_is_drawn_as_a_point(
    assessment: Assessment, source: Predictions, target: Predictions
) -> None:
    bare = replace(assessment.headline.estimate, low=None, high=None)
    headline = replace(assessment.headline, estimate=bare)
    result = replace(assessment, headline=headline)
    page = assessment_page(result, source, target, title="t", reproduce={})
    assert '<circle class="estimate"' in page
    assert '<rect class="interval"' not in page


def test_page_contains_how_to_reproduce(source: Predictions, target: Predictions) -> None:
    result = oodometer.estimate(source, target, replicates=20)
    facts = {"Command": "oodometer estimate <a> & b"}
    page = assessment_page(result, source, target, title="t", reproduce=facts)
    assert "<dt>Command</dt><dd><code>oodometer estimate &lt;a&gt; &amp; b</code></dd>" in page


def test_charts_show_the_calibrated_confidence(
    assessment: Assessment, source: Predictions, target: Predictions
) -> None:
    drawn = draw_assessment_figures(assessment, source, target)[0]
    figures = {figure.key: figure for figure in drawn}
    assert list(figures) == ["methods", "confidence", "reliability", "classes"]
    assert assessment.temperature is not None
    mean = source.at_temperature(assessment.temperature).confidence.mean()
    assert f"mean is {mean:.3f} on the source" in figures["confidence"].alt
    threshold = assessment["atc-mc"].facts["threshold"]
    assert f"({threshold:.3f})" in figures["confidence"].caption
    assert json.dumps(threshold) in json.dumps(figures["confidence"].spec)


def test_page_size_does_not_depend_on_the_number_of_rows(
    source: Predictions, target: Predictions
) -> None:
    many = np.arange(50_000)
    small = page_of(source, target)
    large = page_of(source.rows(many % source.n), target.rows(many % target.n))
    assert abs(len(large) - len(small)) < 5_000


def test_many_rows_and_classes_give_a_small_page() -> None:
    """Charts contain counts; their number does not depend on rows and classes."""

    def made(n: int, k: int) -> str:
        rng = np.random.default_rng(n)
        labels = rng.integers(k, size=n)
        logits = rng.normal(size=(n, k)).astype(np.float32)
        logits[np.arange(n), labels] += 4
        rows = Predictions.from_logits(logits, labels=labels)
        return page_of(
            rows, rows, methods=["ac", "doc", "atc-mc"], segment_by=np.arange(n) * 99 // n
        )

    for n, k in ((2_000, 100), (20_000, 1_000)):
        page = made(n, k)
        assert len(page.encode()) < 2_000_000
        # Bins, classes and segments are limited; only the non-empty reliability bins differ.
        assert 850 < values_in(page) < 950


def values_in(page: str) -> int:
    """Count the numbers and names in the charts of a page."""
    specs = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page)
    tables = [rows for spec in specs for rows in json.loads(spec)["datasets"].values()]
    return sum(len(row) for rows in tables for row in rows)


def test_classes_only_give_a_page_without_confidence() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=200)
    source = Predictions.from_classes(
        np.where(rng.random(200) < 0.8, labels, 0), k=3, labels=labels
    )
    target = Predictions.from_classes(rng.integers(3, size=100), k=3)
    page = page_of(source, target)
    assert 'id="confidence-spec"' not in page
    assert 'id="reliability-spec"' not in page
    assert 'id="classes-spec"' in page
    reason = "confidence cannot be computed from classes alone; it needs probabilities"
    for name in ("confidence", "reliability diagram"):
        assert f"Figure not shown ({name}): {reason}." in words(page)


def test_confidences_only_give_a_page_without_classes() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1.0, size=200)
    correct = rng.random(200) < confidence
    source = Predictions.from_confidence(confidence, k=5, correct=correct)
    page = page_of(source, Predictions.from_confidence(confidence**2, k=5))
    assert 'id="classes-spec"' not in page
    assert 'id="confidence-spec"' in page
    reason = "the predicted classes are unknown, only confidences were given"
    assert f"Figure not shown (predicted classes): {reason}." in words(page)


def test_order_of_target_classes_does_not_matter(
    source: Predictions, target: Predictions, assessment: Assessment
) -> None:
    order = [2, 0, 3, 1]
    assert target.scores is not None
    assert target.class_names is not None
    turned = Predictions.from_logits(
        target.scores[:, order], class_names=[target.class_names[j] for j in order]
    )
    straight, other = (
        draw_assessment_figures(assessment, source, rows)[0][3] for rows in (target, turned)
    )
    assert straight.key == "classes"
    assert straight.table == other.table


def test_dominant_group_of_other_classes_is_not_drawn() -> None:
    logits = np.random.default_rng(0).normal(size=(2_000, 200))
    rows = Predictions.from_logits(logits, labels=logits.argmax(axis=1) // 2)
    result = oodometer.estimate(rows, rows, methods=["ac"], replicates=20)
    classes = draw_assessment_figures(result, rows, rows)[0][3]
    assert classes.table is not None
    other, *_ = classes.table.rows[-1]
    assert other == "other (170 classes)"
    assert f"{other} have " in classes.caption
    assert other not in json.dumps(classes.spec)


@pytest.mark.parametrize("right", [True, False])
def test_source_with_only_correct_or_only_wrong_rows_has_a_page(right: bool) -> None:
    probs = np.random.default_rng(0).dirichlet([0.3, 0.3], size=60)
    labels = probs.argmax(axis=1) if right else probs.argmin(axis=1)
    page = page_of(Predictions.from_probs(probs, labels=labels), Predictions.from_probs(probs))
    assert 'id="confidence-spec"' in page
