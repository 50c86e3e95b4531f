"""estimate(): applicable methods, confidence intervals, headline, segments and validation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oodometer
from oodometer import estimators
from oodometer.assessment import FittedEstimators, estimates
from oodometer.assessment.cbpe import METRIC_NAMES
from oodometer.assessment.headline import describe_regime
from oodometer.assessment.optional_analyses import AdditionalRequests, run_additional
from oodometer.assessment.reference import EstimateOptions, Reference
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import wilson_interval
from oodometer.estimators import get
from oodometer.estimators.average_confidence import AverageConfidence
from oodometer.estimators.regime_weighting import auc_standard_error
from oodometer.testing import toy_pair, toy_predictions


def values(result: oodometer.Assessment) -> dict[str, float]:
    return {e.method: e.value for e in result.estimates}


def check_interval(estimate: Estimate) -> None:
    """Check that the interval contains the estimate, or that a note states why there is none."""
    if estimate.low is None or estimate.high is None:
        assert any(note.startswith("no interval:") for note in estimate.notes), estimate.method
    else:
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1, estimate.method


def test_all_methods_are_applicable_with_complete_input() -> None:
    source, target = toy_pair()
    result = oodometer.estimate(source, target)
    assert tuple(values(result)) == tuple(member.name for member in estimators.available())
    assert result.skipped == {}
    assert result.source_accuracy == source.correct.mean()
    assert result.temperature is not None
    for estimate in result.estimates:
        check_interval(estimate)
        assert estimate.assumes
        assert estimate.temperature == result.temperature


@pytest.mark.parametrize("temperature", ["fit", None])
def test_estimates_equal_those_of_estimate_per_method(temperature: Any) -> None:
    source, target = toy_pair()
    members = [get("gde"), get("doc"), get("atc-mc")]
    results, skipped = estimates(
        source, target.with_other_models(), methods=members, temperature=temperature, seed=3
    )
    assert (list(results), list(skipped)) == (["doc", "atc-mc"], ["gde"])
    for name, result in results.items():
        alone = oodometer.estimate(source, target, methods=[name], temperature=temperature, seed=3)
        assert result == alone.estimates[0]


def test_fitted_estimators_equal_estimates_of_each_target() -> None:
    source, target = toy_pair()
    members = estimators.available()
    fitted = FittedEstimators.fit(source, members, seed=3)
    for rows in (target, target.rows(slice(0, 150))):
        assert fitted.estimates(rows) == estimates(source, rows, methods=members, seed=3)


def test_estimates_without_replicates_have_no_interval() -> None:
    source, target = toy_pair()
    members = estimators.available()
    results, _ = estimates(source, target, methods=members, seed=3)
    bare, _ = estimates(source, target, methods=members, seed=3, replicates=0)
    assert list(bare) == list(results)
    for name, estimate in bare.items():
        assert (estimate.value, estimate.low, estimate.high) == (results[name].value, None, None)
        assert (estimate.method, estimate.temperature) == (name, results[name].temperature)


def test_labels_of_the_target_are_ignored() -> None:
    source, target = toy_pair()
    assert target.labels is not None
    plain = oodometer.estimate(source, target.without_labels())
    for labels in (target.labels, (target.labels + 1) % 4):
        assert (
            oodometer.estimate(source, replace(target, labels=labels)).to_dict() == plain.to_dict()
        )


def test_seed_determines_the_result_and_affects_only_intervals() -> None:
    source, target = toy_pair()
    first, same, other = (oodometer.estimate(source, target, seed=s) for s in (5, 5, 6))
    assert first.to_dict() == same.to_dict()
    assert values(first) == values(other)
    assert [e.low for e in first.estimates] != [e.low for e in other.estimates]


def test_interval_does_not_depend_on_the_other_methods() -> None:
    source, target = toy_pair()
    alone = oodometer.estimate(source, target, methods=["im"])["im"]
    assert oodometer.estimate(source, target)["im"] == alone


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), k=st.integers(2, 6))
def test_estimates_are_invariant_to_row_and_class_order(seed: int, k: int) -> None:
    source, target = toy_pair(seed, k)
    rng = np.random.default_rng(seed)
    order = rng.permutation(k)

    def permuted(rows: Predictions) -> Predictions:
        shuffled = rows.rows(rng.permutation(rows.n))
        assert shuffled.labels is not None
        labels = np.argsort(order)[shuffled.labels]
        return Predictions.from_logits(
            np.asarray(shuffled.scores)[:, order], labels=labels, features=shuffled.features
        )

    target = replace(target, other_models=())
    first = oodometer.estimate(source, target, replicates=20)
    second = oodometer.estimate(permuted(source), permuted(target), replicates=20)
    before, after = values(first), values(second)
    assert before.keys() == after.keys()
    # The halves of the domain classifier are those of rows with even and odd numbers, so the order
    # of rows changes the weights of the regimes, but not the estimates that are averaged.
    average = regime_facts(second, "weight") @ regime_facts(first, "value")
    assert after.pop("regime") == pytest.approx(average, abs=1e-4)
    for method, value in after.items():
        # The temperature has a tolerance of 1e-7, which may move a row across ATC's threshold.
        limit = 1.5 / target.n if method.startswith("atc") else 1e-4
        assert before[method] == pytest.approx(value, abs=limit), method


def test_order_of_rows_changes_the_domain_auroc_by_less_than_its_noise() -> None:
    changes = []
    for seed in range(20):
        source, target = toy_pair(seed, 3)
        rng = np.random.default_rng(seed)
        shuffled = [rows.rows(rng.permutation(rows.n)) for rows in (source, target)]
        aucs = [
            get("regime").estimate(*pair).facts["regime_auc"]
            for pair in ((source, target), shuffled)
        ]
        changes.append((aucs[1] - aucs[0]) / auc_standard_error(source.n, target.n))
    assert np.std(changes) < 2
    assert abs(np.mean(changes)) < 1


def regime_facts(result: oodometer.Assessment, kind: str) -> np.ndarray:
    """Return the weights or the values of the three regimes."""
    names = {
        "weight": ("weight_confidence", "weight_label_shift", "weight_transport"),
        "value": ("confidence", "confidence_after_label_shift", "transport"),
    }
    return np.array([result["regime"].facts[name] for name in names[kind]])


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), k=st.integers(2, 6))
def test_regime_is_invariant_to_class_order(seed: int, k: int) -> None:
    source, target = toy_pair(seed, k)
    order = np.random.default_rng(seed).permutation(k)

    def permuted(rows: Predictions) -> Predictions:
        assert rows.labels is not None
        others = [
            Predictions.from_logits(np.asarray(o.scores)[:, order]) for o in rows.other_models
        ]
        return Predictions.from_logits(
            np.asarray(rows.scores)[:, order], labels=np.argsort(order)[rows.labels]
        ).with_other_models(*others)

    plain = get("regime").estimate(source, target)
    other = get("regime").estimate(permuted(source), permuted(target))
    assert other.value == pytest.approx(plain.value, abs=1e-6)
    assert other.facts == pytest.approx(plain.facts, abs=1e-6)


def test_intervals_shrink_with_the_number_of_rows() -> None:
    wide = oodometer.estimate(toy_predictions(200), toy_predictions(200, seed=1))
    narrow = oodometer.estimate(toy_predictions(20_000), toy_predictions(20_000, seed=1))
    for estimate in narrow.estimates:
        other = wide[estimate.method]
        if other.low is None:  # too few rows per class
            continue
        assert estimate.high - estimate.low < (other.high - other.low) / 4  # type: ignore[operator]


def test_source_without_errors_widens_intervals_and_excludes_atc() -> None:
    source, target = toy_predictions(60), toy_predictions(50, seed=1)
    perfect = Predictions.from_logits(source.scores, labels=source.classes)
    result = oodometer.estimate(perfect, target.without_labels())
    low = result["atc-mc"].low
    assert low is not None
    assert result["atc-mc"].value == 1.0
    # The accuracy on 50 rows varies more than that of the population.
    assert low < wilson_interval(60, 60)[0]
    assert result.headline.estimate.method not in ("atc-mc", "atc-ne")
    assert any("no error" in note for note in result["im"].notes)


def test_headline_explains_its_choice() -> None:
    source, target = toy_pair()
    result = oodometer.estimate(source, target)
    assert result.headline.estimate == result["regime"]
    assert result.headline.why == describe_regime(result["regime"])
    raw = oodometer.estimate(source, target, temperature=None, calibration="none").headline
    assert raw.estimate.method == "atc-mc"
    assert raw.why.startswith("the first of atc-mc, atc-ne, doc")
    for method in ("regime", "cot"):
        assert f"; not {method}: the scores were not calibrated" in raw.why
    explicit = oodometer.estimate(source, target, temperature=1.0).headline
    assert explicit.estimate.method == "regime"


def test_requested_methods_are_shown_with_that_of_the_headline() -> None:
    source, target = toy_pair()
    whole = oodometer.estimate(source, target)
    result = oodometer.estimate(source, target, methods="iw")
    assert list(values(result)) == ["iw", "regime"]
    assert result.skipped == {}
    assert result["iw"] == whole["iw"]
    # The diagnostics use the same methods, whichever were requested.
    assert result.headline == whole.headline
    spreads = [
        {d.name: d.value for d in each.diagnostics}["estimator_spread"] for each in (result, whole)
    ]
    assert spreads[0] == spreads[1]


def test_predictions_without_scores_skip_methods_with_reasons() -> None:
    source, target = toy_pair()
    hard = [Predictions.from_classes(r.classes, k=4, labels=r.labels) for r in (source, target)]
    result = oodometer.estimate(*hard, other_models=hard[1])
    assert list(values(result)) == ["gde", "bbse"]
    assert "confidence cannot be computed from classes alone" in result.skipped["ac"]
    assert result.temperature is None
    with pytest.raises(NotApplicable, match="ac is not applicable: confidence"):
        result["ac"]
    with pytest.raises(KeyError):
        result["nothing"]


def test_predictions_with_confidence_only_run_the_applicable_methods() -> None:
    source, target = toy_pair()
    signals = [
        Predictions.from_confidence(
            r.confidence, k=4, negative_entropy=r.negative_entropy, correct=r.correct
        )
        for r in (source, target)
    ]
    result = oodometer.estimate(*signals)
    assert list(values(result)) == ["ac", "doc", "atc-mc", "atc-ne", "im"]
    whole = oodometer.estimate(source, target, temperature=None, calibration="none")
    for method, value in values(result).items():
        assert value == pytest.approx(values(whole)[method], abs=1e-12)


def test_requested_method_that_is_not_applicable_raises() -> None:
    source, target = toy_pair()
    with pytest.raises(
        NotApplicable, match="Not applicable: gde: it requires the predictions of a second model"
    ):
        oodometer.estimate(source, replace(target, other_models=()), methods=["ac", "gde"])


def test_temperature_is_applied_to_both_sides() -> None:
    source, target = toy_pair()
    before = oodometer.estimate(source, target, temperature=None, calibration="temperature")
    calibrated = oodometer.estimate(source, target, temperature=2.0, calibration="temperature")
    assert before.temperature is None
    assert before["ac"].value == pytest.approx(target.confidence.mean())
    assert calibrated["ac"].value == pytest.approx(target.at_temperature(2.0).confidence.mean())


def test_no_temperature_is_fitted_without_scores_on_both_sides() -> None:
    source, target = toy_pair()
    hard = Predictions.from_classes(target.classes, k=4)
    result = oodometer.estimate(source, hard)
    assert result.temperature is None
    assert "temperature_fit" not in [d.name for d in result.diagnostics]
    assert list(values(result)) == ["bbse"]


@dataclass(frozen=True)
class Plain:
    """Third-party estimator without stages and without its own bootstrap."""

    name: ClassVar[str] = "plain"
    assumes: ClassVar[str] = "nothing"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(float(target.confidence.mean()))


def test_third_party_estimator_gets_a_row_bootstrap() -> None:
    source, target = toy_pair()
    result = oodometer.estimate(source, target, methods=[Plain(), "doc"], temperature=None)
    theirs = result["plain"]
    assert theirs.value == pytest.approx(target.confidence.mean())
    assert theirs.low is not None
    assert theirs.high is not None
    # How rows contribute is not known, so the accuracy on the target counts as independent.
    accuracy = (theirs.value + float(source.correct.mean())) / 2
    variance = target.confidence.var() + accuracy * (1 - accuracy)
    wide = 2 * 1.96 * np.sqrt(variance / target.n)
    # The standard deviation of 50 replicates has an error of about 10 %.
    assert theirs.high - theirs.low == pytest.approx(wide, rel=0.25)


@dataclass(frozen=True)
class Peeking(Plain):
    """Third-party estimator that reads target labels if there are any."""

    name: ClassVar[str] = "peeking"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(float(target.is_labelled))


def test_third_party_estimator_gets_no_target_labels() -> None:
    source, target = toy_pair()
    assert target.is_labelled
    assert oodometer.estimate(source, target, methods=[Peeking()])["peeking"].value == 0.0


@dataclass(frozen=True)
class Lopsided(StreamingEstimator[None, Any]):
    """Estimator whose bootstrap is biased upwards."""

    name: ClassVar[str] = "lopsided"
    assumes: ClassVar[str] = "nothing"
    needs: ClassVar[tuple[str, ...]] = ()
    paper: ClassVar[str] = "none"

    def learn(self, source: Predictions) -> None: ...

    def summarize(self, learned: None, batch: Predictions) -> Any:
        return batch.n

    def finish(self, learned: None, total: Any) -> Estimate:
        return Estimate(0.5)

    def resample(
        self, learned: None, total: Any, rng: np.random.Generator, count: int
    ) -> np.ndarray:
        return np.linspace(0.6, 1.4, count)


def test_interval_contains_the_estimate_and_is_within_0_and_1() -> None:
    source, target = toy_pair()
    result = oodometer.estimate(source, target, methods=[Lopsided()])["lopsided"]
    assert result.low is not None
    assert result.high is not None
    assert 0.0 <= result.low < result.value == 0.5 < result.high <= 1.0


def test_interval_is_wider_if_the_contributions_of_rows_are_unknown() -> None:
    source, target = toy_pair()

    @dataclass(frozen=True)
    class Opaque(AverageConfidence):
        name: ClassVar[str] = "opaque"

        def row_values(self, learned: None, total: Any, rows: Predictions) -> None:  # type: ignore[override]
            return None

    result = oodometer.estimate(source, target, methods=["ac", Opaque()])
    widths = [e.high - e.low for e in result.estimates if e.high is not None and e.low is not None]
    assert widths[0] < widths[1]


def test_segments_cover_the_target() -> None:
    source, target = toy_pair()
    by = np.where(np.arange(target.n) < 100, "a", "b")
    result = oodometer.estimate(source, target, segment_by=by)
    assert [(s.value, s.n) for s in result.segments] == [("a", 100), ("b", 200)]
    total = sum(s.estimate.value * s.n for s in result.segments if s.estimate) / target.n
    assert result.headline.estimate.method == "regime"
    assert {s.estimate.method for s in result.segments if s.estimate} == {"segment"}
    assert total == pytest.approx(result.headline.estimate.value, abs=1e-12)
    with pytest.raises(InputError, match="There are 300 rows but 5 values of segment_by"):
        oodometer.estimate(source, target, segment_by=[1, 2, 3, 4, 5])


def test_progress_reports_every_method() -> None:
    source, target = toy_pair()
    seen: list[tuple[int, int, str]] = []
    by = np.arange(target.n) % 2
    oodometer.estimate(source, target, segment_by=by, progress=lambda *step: seen.append(step))
    steps = [step for _, _, step in seen]
    assert "atc-mc" in steps
    assert all(0 <= done < total for done, total, _ in seen)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "not predictions"}, "There is no file or folder 'not predictions'"),
        ({"source": 3}, "source must be Predictions, the path of a file, a data frame"),
        ({"target": [[0.5, 0.6]]}, "target: probs must sum to 1 in every row"),
        ({"source": toy_predictions().without_labels()}, "The source has no labels"),
        ({"target": toy_predictions(k=3)}, "the source has 4 classes, the target has 3"),
        ({"other_models": toy_predictions(n=7)}, "The second model has 7 rows, the target 400"),
        ({"replicates": 5}, "replicates must be at least 20; got 5"),
        ({"temperature": -1.0}, "temperature must be above 0; got -1"),
        (
            {"temperature": "none"},
            "temperature must be 'fit', None or a number above 0; got 'none'",
        ),
        ({"methods": ["atc"]}, "No estimator is called 'atc'"),
    ],
)
def test_invalid_arguments_are_rejected(change: dict[str, Any], message: str) -> None:
    arguments = {"source": toy_predictions(), "target": toy_predictions(seed=1)} | change
    with pytest.raises(InputError, match=message):
        oodometer.estimate(**arguments)


def test_classes_are_matched_by_name_and_unknown_ones_reported() -> None:
    source, target = toy_pair()
    a = Predictions.from_probs(source.probs, labels=source.labels, class_names="wxyz")
    reordered = Predictions.from_probs(target.probs[:, ::-1], class_names="zyxw")
    same = oodometer.estimate(a, Predictions.from_probs(target.probs, class_names="wxyz"))
    assert values(oodometer.estimate(a, reordered)) == pytest.approx(values(same), abs=1e-4)
    with pytest.raises(InputError, match="Only one side has the class 'z'"):
        oodometer.estimate(a, Predictions.from_probs(target.probs, class_names="wxyq"))


def test_numeric_segments_are_sorted_by_number() -> None:
    source, target = toy_pair(0)
    by = np.resize([10, 9, 100], target.n)
    result = oodometer.estimate(source, target, segment_by=by, methods="ac", replicates=20)
    assert [segment.value for segment in result.segments] == ["9", "10", "100"]
    assert [segment.n for segment in result.segments] == [100, 100, 100]


def test_cot_interval_covers_the_accuracy_without_shift() -> None:
    """The interval includes the uncertainty of the calibration on the source."""
    covered = []
    for seed in range(15):
        source, target = (
            toy_predictions(20_000, seed=seed),
            toy_predictions(20_000, seed=seed + 1000),
        )
        estimate = oodometer.estimate(source, target, methods="cot", replicates=50)["cot"]
        if estimate.low is None or estimate.high is None:  # too few rows per class
            continue
        covered.append(estimate.low <= target.correct.mean() <= estimate.high)
    assert 0.85 <= np.mean(covered) <= 1.0


def test_interval_of_ac_is_that_of_calibration_and_label_noise() -> None:
    """Without shift, the variance of AC is Var(correct − p) (1/n_s + 1/n_t)."""
    source, target = toy_predictions(4000, seed=1), toy_predictions(2000, seed=2)
    result = oodometer.estimate(source, target, methods="ac")["ac"]
    assert result.low is not None
    assert result.high is not None
    scaled = source.at_temperature(result.temperature or 1.0)
    variance = float((scaled.correct - scaled.confidence).var()) * (1 / 4000 + 1 / 2000)
    assert result.high - result.low == pytest.approx(2 * 1.96 * np.sqrt(variance), rel=0.1)


def extreme_pair(name: str) -> tuple[Predictions, Predictions]:
    """Return a source and a target of extreme size or class frequencies."""
    rng = np.random.default_rng(0)

    def rows(n: int, k: int, shares: Any = None) -> Predictions:
        labels = rng.choice(k, n, p=shares)
        logits = 2 * np.eye(k)[labels] + rng.normal(size=(n, k))
        return Predictions.from_logits(logits, labels=labels, features=rng.normal(size=(n, 3)))

    return {
        "two classes": lambda: (rows(200, 2), rows(150, 2)),
        "a thousand classes": lambda: (rows(1500, 1000), rows(400, 1000)),
        "one target row": lambda: (rows(100, 4), rows(1, 4)),
        "two source rows": lambda: (rows(2, 4), rows(50, 4)),
        "one row each": lambda: (rows(1, 2), rows(1, 2)),
        "label shift": lambda: (rows(500, 3), rows(400, 3, [0.9, 0.08, 0.02])),
        "class missing from target": lambda: (rows(500, 3), rows(400, 3, [0.5, 0.5, 0.0])),
        "class missing from source": lambda: (rows(500, 3, [0.5, 0.5, 0.0]), rows(400, 3)),
    }[name]()


@pytest.mark.parametrize(
    "name",
    ["two classes", "a thousand classes", "one target row", "two source rows", "one row each",
     "label shift", "class missing from target", "class missing from source"],
)  # fmt: skip
def test_extreme_inputs_give_valid_numbers_or_reasons(name: str) -> None:
    source, target = extreme_pair(name)
    result = oodometer.estimate(source, target, replicates=20)
    for estimate in result.estimates:
        check_interval(estimate)
    assert all(result.skipped.values())
    assert {*values(result), *result.skipped} == {member.name for member in estimators.available()}
    # Critics of a thousand classes have a million weights and take a minute.
    additional = run_additional(
        AdditionalRequests(metrics=METRIC_NAMES, bound=source.k < 1000, margin=0.05),
        Reference(source),
        target,
    )
    for metric in additional.metrics:
        assert metric.reason or 0 <= metric.low <= metric.value <= metric.high <= 1  # type: ignore[operator]
    assert additional.bound is None or 0 <= additional.bound.value <= 1
    assert additional.verdict is None or 0 <= additional.verdict.p_value <= 1
    n_results = sum(part is not None for part in (additional.bound, additional.verdict))
    assert n_results + len(additional.reasons) == 1 + (source.k < 1000)


# Source as target -------------------------------------------------------------------------------


def test_source_as_target_has_the_bound_of_atc_in_a_note() -> None:
    source = toy_predictions(1000)
    result = oodometer.estimate(source, source, replicates=20)
    assert any("within 9.4 points" in note and "Proposition 2" in note for note in result.notes)
    only = oodometer.estimate(source, source, methods="doc", replicates=20)
    assert only.notes == ()


def test_source_as_target_is_critical_and_the_first_sentence_says_why() -> None:
    source = toy_predictions(1000)
    result = oodometer.estimate(source, source, replicates=20)
    assert (result.status, result.is_source, result.next_step) == ("critical", True, "")
    for text in (str(result), result.verdict):
        assert text.startswith("Source and target are the same rows, so the estimate says nothing")
    other = oodometer.estimate(source, toy_predictions(1000, seed=1), replicates=20)
    assert (other.status, other.is_source) == ("ok", False)


def test_other_target_has_no_note_about_the_source() -> None:
    source = toy_predictions(300)
    assert oodometer.estimate(source, toy_predictions(300, seed=1), replicates=20).notes == ()


def test_zeros_of_a_rounded_target_are_not_below_those_of_the_source(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    first = np.clip(rng.beta(0.4, 0.4, 6000), 2e-4, 1 - 2e-4)
    probs = np.stack([first, 1 - first], axis=1)
    labels = (rng.random(6000) > first).astype(int)
    source = Predictions.from_probs(probs[:3000], labels=labels[:3000])
    rounded = probs[3000:].round(3)
    assert (rounded == 0).sum() > 50
    result = oodometer.estimate(
        source, Predictions.from_probs(rounded), methods="ac", replicates=20
    )
    (outside,) = (check for check in result.diagnostics if check.name == "outside_support")
    assert outside.status == "ok"
    assert any("replaced by 0.0005" in note for note in result.notes)
    table = pa.table({"prob_0": rounded[:, 0], "prob_1": rounded[:, 1]})
    pq.write_table(table, tmp_path / "target.parquet")
    columns = {"prob_0": probs[:3000, 0], "prob_1": probs[:3000, 1], "label": labels[:3000]}
    pq.write_table(pa.table(columns), tmp_path / "source.parquet")
    options = EstimateOptions(methods="ac", replicates=20)
    batches = oodometer.estimate_files(
        tmp_path / "source.parquet", tmp_path / "target.parquet", options=options
    )
    assert batches["ac"].value == pytest.approx(result["ac"].value, abs=1e-9)
