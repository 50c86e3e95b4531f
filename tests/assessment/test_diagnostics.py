"""Diagnostics: ok without shift, warning or critical under shift."""

from __future__ import annotations

import numpy as np
import pytest

import oodometer
from oodometer.assessment.diagnostics import DIAGNOSTICS, DiagnosticContext, diagnose
from oodometer.core.calibration import Temperature
from oodometer.core.predictions import Predictions
from oodometer.core.results import Diagnostic, Estimate, worst_status
from oodometer.testing import toy_predictions


def diagnostics_of(
    source: Predictions, target: Predictions, *estimates: Estimate
) -> dict[str, Diagnostic]:
    result = diagnose(DiagnosticContext(source, target.without_labels(), estimates, None))
    return {diagnostic.name: diagnostic for diagnostic in result}


def test_diagnostics_are_ok_without_shift() -> None:
    """Ten pairs without shift have over a hundred diagnostics; at most one is not ok by chance."""
    not_ok = []
    for seed in range(10):
        source = toy_predictions(2000, seed=seed)
        target = toy_predictions(1500, seed=seed + 100)
        result = oodometer.estimate(source, target)
        # There are no other models and no target labels.
        assert len(result.diagnostics) == len(DIAGNOSTICS) - 3
        not_ok += [d.name for d in result.diagnostics if d.status != "ok"]
    assert len(not_ok) <= 1, not_ok


def test_large_change_of_confidences_is_critical() -> None:
    source, target = toy_predictions(1000), toy_predictions(1000, sharpness=0.0, seed=1)
    result = diagnostics_of(source, target)["score_distance"]
    assert result.status == "critical"
    assert result.value > 0.3


def test_confidences_outside_the_source_range_are_counted() -> None:
    source = Predictions.from_probs([[0.9, 0.1]] * 50 + [[0.7, 0.3]] * 50, labels=[0] * 100)
    target = Predictions.from_probs([[0.6, 0.4]] * 30 + [[0.8, 0.2]] * 60 + [[0.99, 0.01]] * 10)
    result = diagnostics_of(source, target)["outside_support"]
    assert result.value == pytest.approx(0.4)
    assert result.status == "critical"


def test_one_predicted_class_is_critical() -> None:
    source = toy_predictions(400)
    collapsed = Predictions.from_logits(np.eye(4)[np.zeros(300, dtype=int)] * 3)
    result = diagnostics_of(source, collapsed)
    assert result["class_collapse"].value == 1.0
    assert result["class_collapse"].status == "critical"
    assert result["class_shift"].status == "critical"


def test_sampling_error_of_class_frequencies_is_not_a_shift() -> None:
    """Two samples of sixty rows and fifty classes differ by a third without shift."""
    source, target = toy_predictions(60, 50, seed=1), toy_predictions(60, 50, seed=2)
    result = diagnostics_of(source, target)["class_shift"]
    assert result.value > 0.3
    assert result.status == "ok"


def test_class_that_dominates_the_source_is_not_a_collapse() -> None:
    source = toy_predictions(400, class_shares=[0.94, 0.02, 0.02, 0.02])
    target = toy_predictions(400, class_shares=[0.95, 0.02, 0.02, 0.01], seed=3)
    assert diagnostics_of(source, target)["class_collapse"].status == "ok"


def decided(n_positive: int, n: int) -> Predictions:
    """Return predictions of two classes, of which the second is predicted `n_positive` times."""
    return Predictions.from_classes(np.arange(n) < n_positive, k=2, labels=np.zeros(n, dtype=int))


def test_tripled_frequency_of_a_rare_class_is_not_ok() -> None:
    result = diagnostics_of(decided(300, 10_000), decided(1060, 10_000))
    assert result["class_shift"].status == "ok"
    ratio = result["class_frequency_ratio"]
    assert ratio.value == pytest.approx(1060 / 300, rel=0.01)
    assert ratio.status == "critical"
    assert "(class 1: 3 % of the source, 10.6 % of the target)" in ratio.meaning
    back = diagnostics_of(decided(1060, 10_000), decided(300, 10_000))["class_frequency_ratio"]
    assert back.value == pytest.approx(ratio.value)
    assert (
        diagnostics_of(decided(300, 10_000), decided(600, 10_000))["class_frequency_ratio"].status
        == "warning"
    )


@pytest.mark.parametrize("share", [0.01, 0.03, 0.5])
def test_class_frequency_ratio_is_ok_without_shift(share: float) -> None:
    """At most 1 % of the pairs have a significant change by chance."""
    rng = np.random.default_rng(0)
    statuses = []
    for n_source, n_target in rng.binomial(2000, share, size=(200, 2)).tolist():
        result = diagnostics_of(decided(n_source, 2000), decided(n_target, 2000))
        statuses.append(result["class_frequency_ratio"].status)
    assert statuses.count("ok") >= 195


@pytest.mark.parametrize(
    ("errors", "status"), [(9, "critical"), (10, "warning"), (49, "warning"), (50, "ok")]
)
def test_status_of_few_source_errors(errors: int, status: str) -> None:
    labels = np.where(np.arange(500) < errors, 1, 0)
    source = Predictions.from_probs([[0.9, 0.1]] * 500, labels=labels)
    result = diagnostics_of(source, source)["source_errors"]
    assert (result.value, result.status) == (errors, status)


def test_status_of_disagreeing_methods() -> None:
    rows = toy_predictions()
    near, far = (
        diagnostics_of(rows, rows, Estimate(0.8), Estimate(0.82)),
        diagnostics_of(rows, rows, Estimate(0.9), Estimate(0.6)),
    )
    assert near["estimator_spread"].status == "ok"
    assert far["estimator_spread"].status == "critical"
    assert far["estimator_spread"].value == pytest.approx(0.3)
    assert "estimator_spread" not in diagnostics_of(rows, rows, Estimate(0.9))


def test_bins_without_source_rows_are_a_warning() -> None:
    source = Predictions.from_probs([[0.95, 0.05]] * 40, labels=[0] * 39 + [1])
    target = Predictions.from_probs([[0.95, 0.05]] * 30 + [[0.55, 0.45]] * 10)
    result = oodometer.estimate(source, target, temperature=None)
    (diagnostic,) = [d for d in result.diagnostics if d.name == "borrowed_bins"]
    assert (diagnostic.value, diagnostic.status) == (0.25, "warning")


def test_uneven_weights_name_the_method_and_are_never_critical() -> None:
    rows = toy_predictions()
    even = Estimate(0.5, method="bbse", facts={"effective_share": 0.9})
    uneven = Estimate(0.5, method="iw", facts={"effective_share": 0.02})
    result = diagnostics_of(rows, rows, even, uneven)["weight_effective_share"]
    assert (result.value, result.status) == (0.02, "warning")
    assert "(iw)" in result.meaning


def test_temperature_at_its_bound_is_a_warning() -> None:
    rows = toy_predictions()
    at_bound = Temperature(0.05, 1.0, 0.5, converged=True, at_bound=True)
    result = diagnose(DiagnosticContext(rows, rows, (), at_bound))
    (fit,) = [d for d in result if d.name == "temperature_fit"]
    assert fit.status == "warning"
    assert "bound" in fit.meaning


def test_predictions_without_scores_skip_diagnostics_of_confidence() -> None:
    hard = Predictions.from_classes([0, 1, 1], k=2, labels=[0, 1, 0])
    result = diagnostics_of(hard, hard)
    assert "score_distance" not in result
    assert "class_shift" in result


def test_worst_status_of_several() -> None:
    def diagnostic(status: str) -> Diagnostic:
        return Diagnostic("d", 0.0, status, "m")  # type: ignore[arg-type]

    assert worst_status([]) == "ok"
    assert worst_status([diagnostic("ok"), diagnostic("warning")]) == "warning"
    assert worst_status([diagnostic("critical"), diagnostic("warning")]) == "critical"


def test_diagnostics_have_advice_unless_they_are_ok() -> None:
    result = oodometer.estimate(toy_predictions(300), toy_predictions(200, sharpness=0.0, seed=1))
    assert any(d.status != "ok" for d in result.diagnostics)
    for diagnostic in result.diagnostics:
        assert diagnostic.advice
        assert diagnostic.advice not in diagnostic.meaning
        assert diagnostic.to_dict()["advice"] == diagnostic.advice
        assert diagnostic.advice_text == (
            "nothing" if diagnostic.status == "ok" else diagnostic.advice
        )


# Falsely identified predictions of ATC ------------------------------------------------------------


def with_all_labels(source: Predictions, target: Predictions) -> dict[str, Diagnostic]:
    assert target.labels is not None
    rows = np.arange(target.n)
    result = oodometer.estimate(
        source, target, target_labels=(rows, target.labels), replicates=20, temperature=None
    )
    return {diagnostic.name: diagnostic for diagnostic in result.diagnostics}


def test_falsely_identified_shares_differ_by_the_error_of_atc() -> None:
    source, target = toy_predictions(2000), toy_predictions(1500, sharpness=1.0, seed=1)
    found = with_all_labels(source, target)
    assert target.labels is not None
    atc = oodometer.estimate(source, target, methods="atc-mc", temperature=None)["atc-mc"]
    gap = found["falsely_correct"].value - found["falsely_incorrect"].value
    assert gap == pytest.approx(atc.value - target.correct.mean(), abs=1e-9)


def test_unbiased_atc_has_no_warning() -> None:
    found = with_all_labels(toy_predictions(2000), toy_predictions(1500, seed=1))
    assert found["falsely_correct"].status == found["falsely_incorrect"].status == "ok"


@pytest.mark.parametrize("too_high", [True, False])
def test_biased_atc_is_a_warning_on_the_larger_share(too_high: bool) -> None:
    source, target = toy_predictions(2000), toy_predictions(1500, seed=1)
    assert target.labels is not None
    labels = (target.labels + 1) % 4 if too_high else target.classes
    found = with_all_labels(source, Predictions.from_logits(target.scores, labels=labels))
    statuses = (found["falsely_correct"].status, found["falsely_incorrect"].status)
    assert statuses == (("warning", "ok") if too_high else ("ok", "warning"))


def test_without_target_labels_nothing_is_falsely_identified() -> None:
    result = oodometer.estimate(toy_predictions(300), toy_predictions(200, seed=1), replicates=20)
    assert not {"falsely_correct", "falsely_incorrect"} & {d.name for d in result.diagnostics}
