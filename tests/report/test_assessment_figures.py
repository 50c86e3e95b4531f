"""Which figures a report has, and what it says of those it has not."""

from __future__ import annotations

import oodometer
from oodometer import Assessment, Predictions
from oodometer.report.assessment_figures import FigureInput, draw_assessment_figures


def test_every_figure_has_words_for_those_who_do_not_see_it(
    assessment: Assessment, source: Predictions, target: Predictions
) -> None:
    found, lacking = draw_assessment_figures(
        FigureInput.from_assessment(assessment, source, target)
    )
    assert len(found) == 4
    assert lacking == []
    assert len({figure.key for figure in found}) == 4
    for figure in found:
        assert figure.title
        assert figure.caption
        assert figure.alt


def test_hard_classes_have_fewer_figures_and_a_sentence_for_each_other(
    source: Predictions, target: Predictions
) -> None:
    hard = [
        Predictions.from_classes(r.classes, k=4, labels=r.labels, class_names=r.class_names)
        for r in (source, target)
    ]
    found = oodometer.estimate(*hard, replicates=20)
    drawn, lacking = draw_assessment_figures(FigureInput.from_assessment(found, *hard))
    assert len(drawn) + len(lacking) == 4
    assert len(lacking) == 2
    assert all("left out" in sentence for sentence in lacking)


def test_predictions_are_shown_at_the_temperature_of_the_assessment(
    assessment: Assessment, source: Predictions, target: Predictions
) -> None:
    shown = FigureInput.from_assessment(assessment, source, target)
    assert shown.source.temperature == shown.target.temperature == assessment.temperature
