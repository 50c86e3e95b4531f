"""Figures of an assessment, and explanations for those that do not apply."""

from __future__ import annotations

import oodometer
from oodometer import Assessment, Predictions
from oodometer.report.assessment_figures import as_assessed, draw_assessment_figures


def test_figures_have_titles_captions_and_alternative_texts(
    assessment: Assessment, source: Predictions, target: Predictions
) -> None:
    figures, omissions = draw_assessment_figures(assessment, source, target)
    assert len(figures) == 4
    assert omissions == []
    assert len({figure.key for figure in figures}) == 4
    for figure in figures:
        assert figure.title
        assert figure.caption
        assert figure.alt


def test_omitted_figures_are_explained(source: Predictions, target: Predictions) -> None:
    hard_source, hard_target = (
        Predictions.from_classes(
            rows.classes, k=4, labels=rows.labels, class_names=rows.class_names
        )
        for rows in (source, target)
    )
    assessment = oodometer.estimate(hard_source, hard_target, replicates=20)
    figures, omissions = draw_assessment_figures(assessment, hard_source, hard_target)
    assert len(figures) + len(omissions) == 4
    assert len(omissions) == 2
    assert all("not shown" in sentence for sentence in omissions)


def test_figures_use_the_temperature_of_the_assessment(
    assessment: Assessment, source: Predictions, target: Predictions
) -> None:
    shown_source, shown_target = as_assessed(assessment, source, target)
    assert shown_source.temperature == shown_target.temperature == assessment.temperature
