"""The page of an assessment says what the assessment says."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest

import oodometer
from oodometer import Assessment, Predictions
from oodometer.assessment import points, span
from oodometer.report import assessment_page
from oodometer.report.figures import Shown, figures, lowest


def page_of(source: Predictions, target: Predictions, **options: object) -> str:
    found = oodometer.estimate(source, target, replicates=20, **options)  # type: ignore[arg-type]
    return assessment_page(found, source, target, title="A title", reproduce={})


def words(page: str) -> str:
    """The page's text, without its scripts."""
    without = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", without)).replace("\N{NO-BREAK SPACE}", " ")


def test_the_headline_and_the_verdict_are_in_it(assessed: str, assessment: Assessment) -> None:
    found = assessment.headline.estimate
    assert f"<strong>{points(found.value)}&nbsp;%</strong>" in assessed
    text = words(assessed)
    assert span(found) in text
    assert assessment.verdict in text
    assert found.assumes in text


def test_every_method_light_and_segment_is_in_a_table(
    assessed: str, assessment: Assessment
) -> None:
    for found in assessment.estimates:
        row = f'{found.method}</th><td class="number">{points(found.value)}</td>'
        assert row + f'<td class="number">{span(found)}</td>' in assessed
    text = words(assessed)
    for diagnostic in assessment.diagnostics:
        assert f"{diagnostic.light}{diagnostic.name}{diagnostic.value:.3g}" in text
    for segment in assessment.segments:
        assert segment.estimate is not None
        assert f"{segment.value}{segment.n}{points(segment.estimate.value)}" in text
    for method, reason in assessment.refused.items():
        assert f"{method}no answer: {reason}" in text


def test_it_says_how_to_reproduce(source: Predictions, target: Predictions) -> None:
    found = oodometer.estimate(source, target, replicates=20)
    facts = {"Command": "oodometer estimate <a> & b"}
    page = assessment_page(found, source, target, title="t", reproduce=facts)
    assert "<dt>Command</dt><dd><code>oodometer estimate &lt;a&gt; &amp; b</code></dd>" in page


def test_charts_show_the_calibrated_confidence(
    assessment: Assessment, source: Predictions, target: Predictions
) -> None:
    drawn = {f.key: f for f in figures(Shown.of(assessment, source, target))[0]}
    assert list(drawn) == ["methods", "confidence", "reliability", "classes", "segments"]
    assert assessment.temperature is not None
    mean = source.at_temperature(assessment.temperature).confidence.mean()
    assert f"mean {mean:.3f} on the source" in drawn["confidence"].alt
    threshold = assessment["atc-mc"].facts["threshold"]
    assert f"({threshold:.3f})" in drawn["confidence"].caption
    assert json.dumps(threshold) in json.dumps(drawn["confidence"].spec)


def test_no_raw_row_is_in_it(source: Predictions, target: Predictions) -> None:
    many = np.arange(50_000)
    small = page_of(source, target)
    large = page_of(source.rows(many % source.n), target.rows(many % target.n))
    assert abs(len(large) - len(small)) < 5_000


def test_classes_alone_give_a_page_without_confidence() -> None:
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
    reason = "confidence can't be had from classes alone; it needs probabilities"
    assert words(page).count(f"are left out: {reason}.") == 2


def test_signals_alone_give_a_page_without_classes() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1.0, size=200)
    correct = rng.random(200) < confidence
    source = Predictions.from_signals(confidence, k=5, correct=correct)
    page = page_of(source, Predictions.from_signals(confidence**2, k=5))
    assert 'id="classes-spec"' not in page
    assert 'id="confidence-spec"' in page
    assert "The predicted classes are left out: " in words(page)


def test_target_classes_may_come_in_another_order(
    source: Predictions, target: Predictions, assessment: Assessment
) -> None:
    order = [2, 0, 3, 1]
    assert target.scores is not None
    assert target.class_names is not None
    turned = Predictions.from_logits(
        target.scores[:, order], class_names=[target.class_names[j] for j in order]
    )
    straight, other = (figures(Shown.of(assessment, source, t))[0][3] for t in (target, turned))
    assert straight.key == "classes"
    assert straight.table == other.table


def test_very_many_classes_do_not_dwarf_those_that_are_drawn() -> None:
    logits = np.random.default_rng(0).normal(size=(2_000, 200))
    rows = Predictions.from_logits(logits, labels=logits.argmax(axis=1) // 2)
    found = oodometer.estimate(rows, rows, methods=["ac"], replicates=20)
    classes = figures(Shown.of(found, rows, rows))[0][3]
    assert classes.table is not None
    other, *_ = classes.table.rows[-1]
    assert other == "other (170 classes)"
    assert f"{other} are " in classes.caption
    assert other not in json.dumps(classes.spec)


def test_the_lowest_of_very_many_segments_are_shown(
    source: Predictions, target: Predictions
) -> None:
    many = target.rows(np.arange(2_000) % target.n)
    found = oodometer.estimate(source, many, by=np.arange(2_000) // 4, replicates=20)
    page = assessment_page(found, source, many, title="t", reproduce={})
    assert "Of 500 segments the 200 with the lowest estimates are listed." in page
    assert "Of 500 segments 40 are shown, the lowest with an answer." in words(page)
    kept = lowest(found.segments, 40)
    assert [int(s.value) for s in kept] == sorted((int(s.value) for s in kept), key=str)
    worst = max(s.estimate.value for s in kept if s.estimate)
    rest = [s for s in found.segments if s not in kept]
    assert all(s.estimate and s.estimate.value >= worst for s in rest)


@pytest.mark.parametrize("right", [True, False])
def test_a_source_without_errors_or_with_nothing_else_has_a_page(right: bool) -> None:
    probs = np.random.default_rng(0).dirichlet([0.3, 0.3], size=60)
    labels = probs.argmax(axis=1) if right else probs.argmin(axis=1)
    page = page_of(Predictions.from_probs(probs, labels=labels), Predictions.from_probs(probs))
    assert 'id="confidence-spec"' in page
