"""Line through known accuracies: falling lines and uncertain directions are reported."""

from __future__ import annotations

import pytest

from oodometer.neighborhood.accuracy_line import accuracy_line_notes, fit_accuracy_line
from oodometer.neighborhood.ranking import rank
from tests.neighborhood.test_invariance import Noise, vectors
from tests.neighborhood.test_ranking import Wobbly

VALUES = {"a": 0.5, "b": 0.6, "c": 0.7, "d": 0.8, "e": 0.9}


def test_rising_line_gets_no_note() -> None:
    accuracies = {"a": 0.5, "b": 0.55, "c": 0.65, "d": 0.7, "e": 0.8}
    assert accuracy_line_notes("NI", VALUES, accuracies) == ()


def test_falling_line_is_contrary_to_the_assumption() -> None:
    accuracies = {"a": 0.8, "b": 0.7, "c": 0.65, "d": 0.55, "e": 0.5}
    (note,) = accuracy_line_notes("NI", VALUES, accuracies)
    assert "the line through the 5 known accuracies falls" in note
    assert "contrary to the assumption of the measure" in note


def test_direction_that_depends_on_one_model_is_uncertain() -> None:
    """The line rises only because of e; without e, it falls."""
    accuracies = {"a": 0.7, "b": 0.65, "c": 0.6, "e": 0.95}
    (note,) = accuracy_line_notes("NI", VALUES, accuracies)
    assert "is uncertain: it does not rise without e." in note
    falling = {"a": 0.6, "b": 0.65, "c": 0.7, "e": 0.3}
    notes = accuracy_line_notes("NI", VALUES, falling)
    assert len(notes) == 2
    assert "it rises without e." in notes[1]


def test_ranking_reports_a_falling_line() -> None:
    models = {f"m{j}": Wobbly(f"m{j}", 1.0 + 2 * j) for j in range(4)}
    values = {
        entry.model: entry.value for entry in rank(models, vectors(200), transform=Noise(0.6))
    }
    known = {name: 1.2 - values[name] for name in ("m0", "m1", "m2", "m3")}
    result = rank(models, vectors(200), transform=Noise(0.6), known_accuracies=known)
    assert [entry.accuracy for entry in result] == pytest.approx([known[m] for m in result.names])
    assert any("accuracies falls" in note for note in result.notes)
    assert any("accuracies falls" in note for note in result.to_dict()["notes"])
    assert "Note: the line through the 4 known accuracies falls" in str(result)
    assert fit_accuracy_line(values, known).slope == pytest.approx(-1.0)
