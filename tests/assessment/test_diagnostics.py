"""Diagnostics: ok without shift, warning or critical under shift."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

import oodometer
from oodometer.assessment.diagnostics import (
    DIAGNOSTICS,
    OUTSIDE_SUPPORT_LEVEL,
    THRESHOLD_METHODS,
    DiagnosticContext,
    _rows_outside_by_chance,
    confidence_distance,
    diagnose,
)
from oodometer.assessment.headline import METHOD_ORDER
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
        # There are no other models, no target labels, and the source is above chance.
        assert len(result.diagnostics) == len(DIAGNOSTICS) - 4
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


def scored(confidences: np.ndarray, *, labelled: bool) -> Predictions:
    """Return two-class rows with given confidences."""
    probs = np.stack([confidences, 1 - confidences], axis=1)
    return Predictions.from_probs(probs, labels=np.zeros(len(probs), int) if labelled else None)


@pytest.mark.parametrize(("n_source", "n_target"), [(50, 2000), (300, 100), (1000, 20_000)])
def test_confidences_outside_the_source_range_are_ok_without_shift(
    n_source: int, n_target: int
) -> None:
    """At most 1 % of the pairs without shift are not ok; more than 8 of 300 is very unlikely."""
    rng = np.random.default_rng(0)
    statuses = []
    for _ in range(300):
        source, target = (
            scored(rng.uniform(0.6, 0.9, n), labelled=True) for n in (n_source, n_target)
        )
        statuses.append(diagnostics_of(source, target)["outside_support"].status)
    assert statuses.count("ok") >= 292


@pytest.mark.parametrize(("n_source", "n_target"), [(5, 5), (50, 400), (400, 50)])
def test_rows_outside_by_chance_match_the_bound(n_source: int, n_target: int) -> None:
    count = _rows_outside_by_chance(n_source, n_target)
    ratio = n_target / (n_source + n_target)
    assert (count + 1) * ratio**count == pytest.approx(OUTSIDE_SUPPORT_LEVEL, rel=1e-3)
    # The exact probability is at most the bound: the ranks of the rows are exchangeable.
    rng = np.random.default_rng(1)
    exceeded = 0
    for _ in range(2000):
        ranks = rng.permutation(n_source + n_target)
        source, target = ranks[:n_source], ranks[n_source:]
        exceeded += ((target < source.min()) | (target > source.max())).sum() >= count
    assert exceeded / 2000 <= OUTSIDE_SUPPORT_LEVEL + 0.007


def test_few_source_rows_do_not_hide_many_rows_outside_their_range() -> None:
    rng = np.random.default_rng(0)
    source = scored(rng.uniform(0.6, 0.9, 60), labelled=True)
    target = scored(rng.uniform(0.7, 1.0, 1000), labelled=False)
    assert diagnostics_of(source, target)["outside_support"].status == "critical"


def test_confidence_distance_is_that_of_scipy() -> None:
    source, target = toy_predictions(300), toy_predictions(200, sharpness=1.0, seed=1)
    expected = ks_2samp(source.confidence, target.confidence).statistic
    assert confidence_distance(source, target) == pytest.approx(expected)
    result = diagnostics_of(source, target)["score_distance"]
    assert result.value == pytest.approx(expected)


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


def test_sampling_error_of_the_largest_class_is_not_a_collapse() -> None:
    """With 12 target rows, a class of 60 % has 75 % or more in one of four samples."""
    grown = []
    rng = np.random.default_rng(0)
    for n_positive in rng.binomial(12, 0.6, 200).tolist():
        result = diagnostics_of(decided(600, 1000), decided(n_positive, 12))
        grown.append(result["class_collapse"].status != "ok")
    assert sum(grown) <= 6
    large = diagnostics_of(decided(600, 1000), decided(750, 1000))
    assert large["class_collapse"].status != "ok"


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


def test_diagnostics_of_one_kind_of_method_concern_these_methods_only() -> None:
    rows = toy_predictions(300)
    facts = {"effective_share": 0.1, "borrowed_share": 0.5}
    found = diagnostics_of(
        rows, rows, Estimate(0.5, "im", facts=facts), Estimate(0.5, "iw", facts=facts)
    )
    assert found["source_errors"].methods == THRESHOLD_METHODS
    assert found["borrowed_bins"].methods == ("im",)
    assert not found["source_errors"].concerns("regime")
    assert found["source_errors"].concerns("atc-mc")
    for name in ("score_distance", "outside_support", "class_collapse", "estimator_spread"):
        assert found[name].methods == ()
        assert all(found[name].concerns(method) for method in METHOD_ORDER)


def test_status_of_the_headline_is_that_of_the_diagnostics_that_concern_it() -> None:
    """A source with few errors is critical for thresholds, not for the headline."""
    rng = np.random.default_rng(0)

    def confident(n: int) -> Predictions:
        labels = rng.integers(0, 2, n)
        odds = 6 + rng.normal(size=n)
        sign = np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), 1, -1)
        positive = np.where(labels == 1, sign, -sign) * odds
        return Predictions.from_logits(np.stack([-positive, positive], axis=1) / 2, labels=labels)

    source, target = confident(1500), confident(1000)
    assert 1 <= (~source.correct).sum() < 10
    result = oodometer.estimate(source, target)
    checks = {check.name: check for check in result.diagnostics}
    assert checks["source_errors"].status == "critical"
    assert result.headline.estimate.method == "regime"
    concerning = [check for check in result.diagnostics if check.concerns("regime")]
    assert result.headline.status == worst_status(concerning) != "critical"
    assert "source_errors" not in result.verdict


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


def binary_pair(
    *, inverted: bool, class_names: tuple[str, str] | None = None
) -> tuple[Predictions, Predictions]:
    """Return source and target with one column of probabilities, of the first class if inverted."""
    rng = np.random.default_rng(0)
    probs = rng.beta(0.3, 0.3, size=(2, 1000))
    labels = rng.random((2, 1000)) < probs
    pair = [
        Predictions.from_probs(
            np.column_stack([p, 1 - p] if inverted else [1 - p, p]),
            labels=[class_names[label] for label in y.astype(int)]
            if class_names
            else y.astype(int),
            class_names=class_names,
        )
        for p, y in zip(probs, labels, strict=True)
    ]
    return pair[0], pair[1]


def test_inverted_probabilities_are_reported_first() -> None:
    result = oodometer.estimate(*binary_pair(inverted=True, class_names=("no", "yes")))
    first = result.diagnostics[0]
    assert (first.name, first.status, result.status) == (
        "source_below_chance",
        "critical",
        "critical",
    )
    assert first.value == result.source_accuracy < 0.3
    assert f"{100 * first.value:.1f} %, far below chance" in first.advice
    assert "must be the probability of the second class (yes)" in first.advice
    right = oodometer.estimate(*binary_pair(inverted=False))
    assert "source_below_chance" not in [each.name for each in right.diagnostics]


@pytest.mark.parametrize(("n_correct", "is_reported"), [(80, True), (150, False), (250, False)])
def test_accuracy_below_chance_must_be_significant(n_correct: int, is_reported: bool) -> None:
    k, n = 3, 500
    labels = np.arange(n) % k
    classes = np.where(np.arange(n) < n_correct, labels, (labels + 1) % k)
    source = Predictions.from_classes(classes, labels=labels, k=k)
    names = [each.name for each in diagnose(DiagnosticContext(source, source, (), None))]
    assert ("source_below_chance" in names) == is_reported


def test_decisions_by_a_threshold_may_be_below_chance() -> None:
    source, _ = binary_pair(inverted=True)
    context = DiagnosticContext(source.decide(0.5), source, (), None)
    assert "source_below_chance" not in [each.name for each in diagnose(context)]
