"""Lights: quiet where nothing shifted, lit where something did."""

from __future__ import annotations

import numpy as np
import pytest

import oodometer
from oodometer.assessment.diagnostics import (
    DIAGNOSTICS,
    Diagnostic,
    DiagnosticContext,
    diagnose,
    worst_status,
)
from oodometer.core.calibration import Temperature
from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate
from oodometer.testing import toy_predictions


def lights(source: Predictions, target: Predictions, *estimates: Estimate) -> dict[str, Diagnostic]:
    found = diagnose(DiagnosticContext(source, target.without_labels(), estimates, None))
    return {diagnostic.name: diagnostic for diagnostic in found}


def test_every_light_is_green_on_data_of_the_same_kind() -> None:
    """Ten pairs without any shift: all lights each, at most one of a hundred lit by chance."""
    lit = []
    for seed in range(10):
        source = toy_predictions(2000, seed=seed)
        target = toy_predictions(1500, seed=seed + 100)
        found = oodometer.estimate(source, target)
        assert len(found.diagnostics) == len(DIAGNOSTICS) - 1  # there are no other models
        lit += [d.name for d in found.diagnostics if d.status != "green"]
    assert len(lit) <= 1, lit


def test_confidences_that_moved_far_are_seen() -> None:
    source, target = toy_predictions(1000), toy_predictions(1000, sharpness=0.0, seed=1)
    found = lights(source, target)["score_distance"]
    assert found.status == "red"
    assert found.value > 0.3


def test_confidence_never_seen_on_the_source_is_counted() -> None:
    source = Predictions.from_probs([[0.9, 0.1]] * 50 + [[0.7, 0.3]] * 50, labels=[0] * 100)
    target = Predictions.from_probs([[0.6, 0.4]] * 30 + [[0.8, 0.2]] * 60 + [[0.99, 0.01]] * 10)
    found = lights(source, target)["outside_support"]
    assert found.value == pytest.approx(0.4)
    assert found.status == "red"


def test_a_model_that_calls_everything_one_class_is_flagged() -> None:
    source = toy_predictions(400)
    collapsed = Predictions.from_logits(np.eye(4)[np.zeros(300, dtype=int)] * 3)
    found = lights(source, collapsed)
    assert found["class_collapse"].value == 1.0
    assert found["class_collapse"].status == "red"
    assert found["class_shift"].status == "red"


def test_classes_that_differ_by_chance_alone_are_no_shift() -> None:
    """Sixty rows of fifty classes: two such samples differ by a third without any shift."""
    source, target = toy_predictions(60, 50, seed=1), toy_predictions(60, 50, seed=2)
    found = lights(source, target)["class_shift"]
    assert found.value > 0.3
    assert found.status == "green"


def test_a_source_that_is_mostly_one_class_too_is_no_collapse() -> None:
    source = toy_predictions(400, class_shares=[0.94, 0.02, 0.02, 0.02])
    target = toy_predictions(400, class_shares=[0.95, 0.02, 0.02, 0.01], seed=3)
    assert lights(source, target)["class_collapse"].status == "green"


@pytest.mark.parametrize(
    ("errors", "light"), [(9, "red"), (10, "amber"), (49, "amber"), (50, "green")]
)
def test_few_source_errors_are_said(errors: int, light: str) -> None:
    labels = np.where(np.arange(500) < errors, 1, 0)
    source = Predictions.from_probs([[0.9, 0.1]] * 500, labels=labels)
    found = lights(source, source)["source_errors"]
    assert (found.value, found.status) == (errors, light)


def test_methods_that_disagree_are_said() -> None:
    rows = toy_predictions()
    near, far = (
        lights(rows, rows, Estimate(0.8), Estimate(0.82)),
        lights(rows, rows, Estimate(0.9), Estimate(0.6)),
    )
    assert near["estimator_spread"].status == "green"
    assert far["estimator_spread"].status == "red"
    assert far["estimator_spread"].value == pytest.approx(0.3)
    assert "estimator_spread" not in lights(rows, rows, Estimate(0.9))


def test_bins_without_source_rows_are_said() -> None:
    source = Predictions.from_probs([[0.95, 0.05]] * 40, labels=[0] * 39 + [1])
    target = Predictions.from_probs([[0.95, 0.05]] * 30 + [[0.55, 0.45]] * 10)
    found = oodometer.estimate(source, target, temperature=None)
    (light,) = [d for d in found.diagnostics if d.name == "borrowed_bins"]
    assert (light.value, light.status) == (0.25, "amber")


def test_uneven_weights_name_the_method_and_never_forbid() -> None:
    rows = toy_predictions()
    one = Estimate(0.5, method="bbse", facts={"effective_share": 0.9})
    two = Estimate(0.5, method="iw", facts={"effective_share": 0.02})
    found = lights(rows, rows, one, two)["weight_effective_share"]
    assert (found.value, found.status) == (0.02, "amber")
    assert "(iw)" in found.meaning


def test_a_temperature_at_its_bound_is_amber() -> None:
    rows = toy_predictions()
    at_bound = Temperature(0.05, 1.0, 0.5, converged=True, at_bound=True)
    found = diagnose(DiagnosticContext(rows, rows, (), at_bound))
    (fit,) = [d for d in found if d.name == "temperature_fit"]
    assert fit.status == "amber"
    assert "bound" in fit.meaning


def test_hard_classes_leave_out_what_needs_confidence() -> None:
    hard = Predictions.from_classes([0, 1, 1], k=2, labels=[0, 1, 0])
    found = lights(hard, hard)
    assert "score_distance" not in found
    assert "class_shift" in found


def test_the_worst_light_wins() -> None:
    def one(light: str) -> Diagnostic:
        return Diagnostic("d", 0.0, light, "m")  # type: ignore[arg-type]

    assert worst_status([]) == "green"
    assert worst_status([one("green"), one("amber")]) == "amber"
    assert worst_status([one("red"), one("amber")]) == "red"


def test_every_light_says_what_to_do_and_green_ones_nothing() -> None:
    found = oodometer.estimate(toy_predictions(300), toy_predictions(200, sharpness=0.0, seed=1))
    assert any(d.status != "green" for d in found.diagnostics)
    for diagnostic in found.diagnostics:
        assert diagnostic.advice
        assert diagnostic.advice not in diagnostic.meaning
        assert diagnostic.to_dict()["advice"] == diagnostic.advice
        assert diagnostic.advice_text == (
            "nothing" if diagnostic.status == "green" else diagnostic.advice
        )
