"""Comparison of predicted class frequencies: unusual models, false alarms, class names."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from oodometer.core.predictions import Predictions
from oodometer.core.results import Diagnostic
from oodometer.data import as_dataset
from oodometer.neighborhood.class_frequencies import (
    PredictedClasses,
    class_frequency_diagnostics,
    differences_from_median,
    noise_of_distances,
    two_model_note,
)
from oodometer.neighborhood.ranking import Ranking, rank
from tests.neighborhood.test_invariance import Noise, vectors

NAMES = ("low", "high")


class Cut:
    """Model that assigns class 1 above a threshold, with probabilities."""

    def __init__(self, name: str, threshold: float) -> None:
        self.name = name
        self.threshold = threshold

    def classify(self, inputs: Any) -> Predictions:
        gap = 8 * (inputs[:, 0] - self.threshold)
        logits = np.stack([np.zeros(len(gap)), gap], axis=1)
        return Predictions.from_logits(logits, class_names=NAMES)


# The first model assigns nearly all rows to class "low", but not enough to be called constant.
COLLAPSED = Cut("collapsed", 1.2)
ORDINARY = [Cut(f"ordinary {j}", 0.05 * j) for j in range(3)]


def ranked(*models: Cut, n: int = 600, **options: Any) -> Ranking:
    return rank(list(models), vectors(n), transform=Noise(0.6), **options)


def aligned(classes: dict[str, Any]) -> PredictedClasses:
    result = PredictedClasses.align(classes, dict.fromkeys(classes))
    assert result is not None
    return result


def test_collapsed_model_is_critical_and_stays_first() -> None:
    result = ranked(*ORDINARY, COLLAPSED)
    first = result.models[0]
    assert first.model == "collapsed"
    assert first.higher_in_resamples is not None
    assert first.higher_in_resamples > 0.99
    (check,) = first.diagnostics
    assert (check.name, check.status) == ("class_frequency_difference", "critical")
    assert first.caution.startswith("The rank of collapsed is not to be trusted: it assigns ")
    assert "% of the examples to class low, the other models " in check.meaning
    assert not any("nearly constant" in note for note in first.notes)
    for entry in result.models[1:]:
        assert [check.status for check in entry.diagnostics] == ["ok"]
        assert entry.caution == ""
    assert first.caution in str(result)
    assert "beats" not in str(result)


def test_collapsed_model_is_found_by_every_kind_of_score() -> None:
    models = [*ORDINARY, COLLAPSED]
    data = vectors(600)
    source = as_dataset(vectors(300, 1), labels=(vectors(300, 1)[:, 0] > 0).astype(int))
    options: dict[str, Any]
    for options in (
        {"score": lambda rows: rows.confidence},
        {"score": "doc", "source": source},
        {"score": "ni+doc", "source": source, "transform": Noise(0.6)},
    ):
        statuses = {e.model: e.diagnostics[0].status for e in rank(models, data, **options)}
        assert statuses["collapsed"] == "critical"
        assert {statuses[model.name] for model in ORDINARY} == {"ok"}


def test_json_has_status_value_and_meaning() -> None:
    plain = json.loads(json.dumps(ranked(*ORDINARY, COLLAPSED).to_dict(), allow_nan=False))
    first = plain["models"][0]
    assert set(first) == {
        "model", "value", "low", "high", "higher_in_resamples", "notes", "accuracy",
        "diagnostics", "scores",
    }  # fmt: skip
    (check,) = first["diagnostics"]
    assert check["status"] == "critical"
    assert check["value"] > 0.2
    assert set(check) == {"name", "value", "status", "meaning", "advice", "methods"}
    assert check["methods"] == []
    assert plain["notes"] == []


def test_shares_in_the_message_are_those_of_the_models() -> None:
    classes = {"a": [0] * 90 + [1] * 10, "b": [0, 1] * 50, "c": [0] * 60 + [1] * 40}
    check = class_frequency_diagnostics(aligned(classes), seed=0)[0]
    assert "assigns 90.0 % of the examples to class 0, the other models 50.0 to 60.0 %" in (
        check.meaning
    )


def test_equal_frequencies_are_rarely_above_zero_and_never_critical() -> None:
    """Independent models with the same frequencies: about 1 % of values above 0 are allowed."""
    rng = np.random.default_rng(3)
    checks: list[Diagnostic] = []
    for seed in range(60):
        classes = {f"m{j}": rng.choice(3, size=120, p=[0.5, 0.3, 0.2]) for j in range(5)}
        checks += class_frequency_diagnostics(aligned(classes), seed=seed)
    assert np.mean([check.value > 0 for check in checks]) <= 0.02
    assert {check.status for check in checks} == {"ok"}


def test_noise_matches_a_naive_bootstrap() -> None:
    rng = np.random.default_rng(1)
    classes = rng.integers(0, 2, size=(3, 80))
    observed = differences_from_median(
        np.stack([np.bincount(row, minlength=2) / 80 for row in classes])
    )
    distances = []
    for _ in range(2000):
        rows = rng.integers(0, 80, 80)
        shares = np.stack([np.bincount(row[rows], minlength=2) / 80 for row in classes])
        change = differences_from_median(shares) - observed
        distances.append(np.abs(change).sum(axis=1) / 2)
    expected = np.quantile(distances, 0.99, axis=0)
    noise = noise_of_distances(aligned({"a": classes[0], "b": classes[1], "c": classes[2]}), 0)
    assert noise == pytest.approx(expected, abs=0.04)


def test_row_order_has_no_effect() -> None:
    rng = np.random.default_rng(2)
    classes = {name: rng.integers(0, 3, 70) for name in "abcd"}
    order = rng.permutation(70)
    shuffled = {name: values[order] for name, values in classes.items()}
    first, second = (class_frequency_diagnostics(aligned(x), seed=0) for x in (classes, shuffled))
    assert first == second


def test_two_models_get_a_note_that_blames_neither() -> None:
    result = ranked(ORDINARY[0], COLLAPSED)
    assert all(entry.diagnostics == () for entry in result)
    assert all(entry.caution == "" for entry in result)
    (note,) = result.notes
    assert "With two models it is not known which of them is wrong" in note
    assert f"Note: {note}." in str(result)
    assert result.to_dict()["notes"] == [note]
    assert ranked(*ORDINARY[:2]).notes == ()


def test_noise_of_two_models_is_that_of_their_distance() -> None:
    rng = np.random.default_rng(0)
    notes = [
        two_model_note(aligned({name: rng.integers(0, 2, 40) for name in "ab"}), seed=seed)
        for seed in range(50)
    ]
    assert sum(bool(note) for note in notes) <= 1


def test_classes_are_compared_by_name_if_orders_differ() -> None:
    rows = {"a": [0, 0, 1], "b": [1, 1, 0]}
    predicted = PredictedClasses.align(rows, {"a": ("x", "y"), "b": ("y", "x")})
    assert predicted is not None
    assert predicted.frequencies().tolist() == [[2 / 3, 1 / 3]] * 2
    assert (
        PredictedClasses.align(
            {**rows, "c": [0, 0, 0]}, {"a": ("x", "y"), "b": ("y", "x"), "c": None}
        )
        is None
    )


def test_models_of_unknown_and_different_classes_get_a_note() -> None:
    def unnamed(inputs: Any) -> Any:
        return np.tile([0.4, 0.6], (len(inputs), 1))

    other = Cut("other", 0.0)
    other.classify = lambda inputs: Predictions.from_probs(  # type: ignore[method-assign]
        np.tile([0.4, 0.6], (len(inputs), 1)), class_names=("no", "yes")
    )
    models = {"unnamed": unnamed, "cut": ORDINARY[0], "other": other}
    result = rank(models, vectors(30), score=lambda rows: rows.confidence)
    assert "cannot be compared" in result.notes[0]
