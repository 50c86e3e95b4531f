"""estimate(): what applies, how sure, which headline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oodometer
from oodometer import estimators
from oodometer.assessment._estimate import estimates
from oodometer.assessment.cbpe import METRIC_NAMES
from oodometer.assessment.optional_analyses import AdditionalRequests, run_additional
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import moments, rng_for, wilson_interval
from oodometer.estimators import get
from oodometer.estimators.average_confidence import AverageConfidence
from oodometer.testing import toy_pair, toy_predictions


def values(found: oodometer.Assessment) -> dict[str, float]:
    return {one.method: one.value for one in found.estimates}


def test_every_method_answers_where_all_is_given() -> None:
    source, target = toy_pair()
    found = oodometer.estimate(source, target)
    assert tuple(values(found)) == tuple(one.name for one in estimators.available())
    assert found.skipped == {}
    assert found.source_accuracy == source.correct.mean()
    assert found.temperature is not None
    for one in found.estimates:
        assert one.low is not None
        assert one.high is not None
        assert 0 <= one.low <= one.value <= one.high <= 1
        assert one.assumes
        assert one.temperature == found.temperature


@pytest.mark.parametrize("temperature", ["fit", None])
def test_estimates_are_what_estimate_says_one_by_one(temperature: Any) -> None:
    source, target = toy_pair()
    members = [get("gde"), get("doc"), get("atc-mc")]
    found, refused = estimates(
        source, target.with_other_models(), methods=members, temperature=temperature, seed=3
    )
    assert (list(found), list(refused)) == (["doc", "atc-mc"], ["gde"])
    for name, one in found.items():
        alone = oodometer.estimate(source, target, methods=[name], temperature=temperature, seed=3)
        assert one == alone.estimates[0]


def test_target_labels_change_nothing() -> None:
    source, target = toy_pair()
    assert target.labels is not None
    plain = oodometer.estimate(source, target.without_labels())
    for planted in (target.labels, (target.labels + 1) % 4):
        assert (
            oodometer.estimate(source, replace(target, labels=planted)).to_dict() == plain.to_dict()
        )


def test_a_seed_fixes_everything_and_another_moves_only_intervals() -> None:
    source, target = toy_pair()
    one, same, other = (oodometer.estimate(source, target, seed=s) for s in (5, 5, 6))
    assert one.to_dict() == same.to_dict()
    assert values(one) == values(other)
    assert [e.low for e in one.estimates] != [e.low for e in other.estimates]


def test_an_interval_does_not_depend_on_which_other_methods_run() -> None:
    source, target = toy_pair()
    alone = oodometer.estimate(source, target, methods=["im"])["im"]
    assert oodometer.estimate(source, target)["im"] == alone


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), k=st.integers(2, 6))
def test_rows_shuffled_and_classes_relabelled_give_the_same_estimates(seed: int, k: int) -> None:
    source, target = toy_pair(seed, k)
    rng = np.random.default_rng(seed)
    order = rng.permutation(k)

    def mixed(rows: Predictions) -> Predictions:
        some = rows.rows(rng.permutation(rows.n))
        assert some.labels is not None
        labels = np.argsort(order)[some.labels]
        return Predictions.from_logits(
            np.asarray(some.scores)[:, order], labels=labels, features=some.features
        )

    target = replace(target, other_models=())
    before = values(oodometer.estimate(source, target, replicates=20))
    after = values(oodometer.estimate(mixed(source), mixed(target), replicates=20))
    assert before.keys() == after.keys()
    for method, value in before.items():
        # The temperature is fitted to 1e-7, which may move a row across ATC's threshold.
        limit = 1.5 / target.n if method.startswith("atc") else 1e-4
        assert after[method] == pytest.approx(value, abs=limit), method


def test_intervals_shrink_as_rows_grow() -> None:
    wide = oodometer.estimate(toy_predictions(200), toy_predictions(200, seed=1))
    narrow = oodometer.estimate(toy_predictions(20_000), toy_predictions(20_000, seed=1))
    for one in narrow.estimates:
        other = wide[one.method]
        assert one.high - one.low < (other.high - other.low) / 4  # type: ignore[operator]


def test_a_source_without_errors_widens_the_interval_and_passes_atc_over() -> None:
    source, target = toy_predictions(60), toy_predictions(50, seed=1)
    perfect = Predictions.from_logits(source.scores, labels=source.classes)
    found = oodometer.estimate(perfect, target.without_labels())
    low = found["atc-mc"].low
    assert found["atc-mc"].value == 1.0
    assert low == pytest.approx(wilson_interval(60, 60)[0])
    assert found.headline.estimate.method == "doc"
    assert any("no error" in note for note in found["im"].notes)


def test_the_headline_says_by_which_rule() -> None:
    source, target = toy_pair()
    found = oodometer.estimate(source, target)
    assert found.headline.estimate == found["cot"]
    assert found.headline.why.startswith("the first of cot, atc-mc, atc-ne, doc")
    raw = oodometer.estimate(source, target, temperature=None).headline
    assert raw.estimate.method == "atc-mc"
    assert "; not cot: the scores were not calibrated" in raw.why
    told = oodometer.estimate(source, target, temperature=1.0).headline
    assert told.estimate.method == "cot"
    only = oodometer.estimate(source, target, methods="iw").headline
    assert (only.estimate.method, only.why) == ("iw", "the only method with a result")


def test_hard_classes_get_what_can_be_had_and_reasons_for_the_rest() -> None:
    source, target = toy_pair()
    hard = [Predictions.from_classes(r.classes, k=4, labels=r.labels) for r in (source, target)]
    found = oodometer.estimate(*hard, other_models=hard[1])
    assert list(values(found)) == ["gde", "bbse"]
    assert "confidence can't be computed from classes alone" in found.skipped["ac"]
    assert found.temperature is None
    with pytest.raises(NotApplicable, match="ac is not applicable: confidence"):
        found["ac"]
    with pytest.raises(KeyError):
        found["nothing"]


def test_signals_get_what_can_be_had() -> None:
    source, target = toy_pair()
    signals = [
        Predictions.from_confidence(
            r.confidence, k=4, negative_entropy=r.negative_entropy, correct=r.correct
        )
        for r in (source, target)
    ]
    found = oodometer.estimate(*signals)
    assert list(values(found)) == ["ac", "doc", "atc-mc", "atc-ne", "im"]
    whole = oodometer.estimate(source, target, temperature=None)
    for method, value in values(found).items():
        assert value == pytest.approx(values(whole)[method], abs=1e-12)


def test_a_method_asked_for_that_has_no_answer_is_an_error() -> None:
    source, target = toy_pair()
    with pytest.raises(
        NotApplicable, match="Not applicable: gde: it requires the predictions of a second model"
    ):
        oodometer.estimate(source, replace(target, other_models=()), methods=["ac", "gde"])


def test_before_and_after_temperature() -> None:
    source, target = toy_pair()
    before = oodometer.estimate(source, target, temperature=None)
    given = oodometer.estimate(source, target, temperature=2.0)
    assert before.temperature is None
    assert before["ac"].value == pytest.approx(target.confidence.mean())
    assert given["ac"].value == pytest.approx(target.at_temperature(2.0).confidence.mean())


def test_without_scores_on_one_side_no_temperature_is_fitted() -> None:
    source, target = toy_pair()
    hard = Predictions.from_classes(target.classes, k=4)
    found = oodometer.estimate(source, hard)
    assert found.temperature is None
    assert "temperature_fit" not in [d.name for d in found.diagnostics]
    assert list(values(found)) == ["bbse"]


@dataclass(frozen=True)
class Plain:
    """A stranger's estimator: no stages, no bootstrap of its own."""

    name: ClassVar[str] = "plain"
    assumes: ClassVar[str] = "nothing"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(float(target.confidence.mean()))


def test_a_strangers_estimator_gets_an_interval_by_drawing_rows() -> None:
    source, target = toy_pair()
    found = oodometer.estimate(source, target, methods=[Plain(), "ac"], temperature=None)
    theirs = found["plain"]
    assert theirs.value == pytest.approx(found["ac"].value)
    assert theirs.low is not None
    assert theirs.high is not None
    wide = 2 * 1.96 * target.confidence.std() / np.sqrt(target.n)
    # The spread of 50 replicates is itself known to about 10 %.
    assert theirs.high - theirs.low == pytest.approx(wide, rel=0.25)


@dataclass(frozen=True)
class Peeking(Plain):
    """A stranger's estimator that would read labels if it were shown any."""

    name: ClassVar[str] = "peeking"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        return Estimate(float(target.is_labelled))


def test_a_strangers_estimator_is_not_shown_the_targets_labels() -> None:
    source, target = toy_pair()
    assert target.is_labelled
    assert oodometer.estimate(source, target, methods=[Peeking()])["peeking"].value == 0.0


@dataclass(frozen=True)
class Lopsided(StreamingEstimator[None, Any]):
    """An estimator whose bootstrap is biased upwards."""

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


def test_an_interval_always_holds_its_estimate_and_stays_inside_0_to_1() -> None:
    source, target = toy_pair()
    found = oodometer.estimate(source, target, methods=[Lopsided()])["lopsided"]
    assert (found.low, found.value, found.high) == (0.5, 0.5, 1.0)


def test_the_interval_is_the_middle_95_percent_of_the_replicates() -> None:
    @dataclass(frozen=True)
    class Even(Lopsided):
        def resample(
            self, learned: None, total: Any, rng: np.random.Generator, count: int
        ) -> np.ndarray:
            return np.linspace(0.0, 1.0, count)

    source, target = toy_pair()
    found = oodometer.estimate(source, target, methods=[Even()])["lopsided"]
    assert found.low == pytest.approx(0.025)
    assert found.high == pytest.approx(0.975)


def test_segments_cover_the_target_and_an_empty_answer_has_a_reason() -> None:
    source, target = toy_pair()
    by = np.where(np.arange(target.n) < 100, "a", "b")
    found = oodometer.estimate(source, target, segment_by=by)
    assert [(s.value, s.n) for s in found.segments] == [("a", 100), ("b", 200)]
    total = sum(s.estimate.value * s.n for s in found.segments if s.estimate) / target.n
    assert found.headline.estimate.method == "cot"
    assert {s.estimate.method for s in found.segments if s.estimate} == {"atc-mc"}
    assert total == pytest.approx(found["atc-mc"].value)
    with pytest.raises(InputError, match="There are 300 rows but 5 values of segment_by"):
        oodometer.estimate(source, target, segment_by=[1, 2, 3, 4, 5])


def test_progress_is_told_of_every_method_and_segment() -> None:
    source, target = toy_pair()
    seen: list[tuple[int, int, str]] = []
    by = np.arange(target.n) % 2
    oodometer.estimate(source, target, segment_by=by, progress=lambda *step: seen.append(step))
    words = [what for _, _, what in seen]
    assert "atc-mc" in words
    assert "segment 1" in words
    assert all(0 <= done < total for done, total, _ in seen)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": "not predictions"}, "source must be Predictions; got str"),
        ({"target": [[0.5, 0.5]]}, "target must be Predictions; got list"),
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
def test_what_is_wrong_is_said_at_the_door(change: dict[str, Any], words: str) -> None:
    given = {"source": toy_predictions(), "target": toy_predictions(seed=1)} | change
    with pytest.raises(InputError, match=words):
        oodometer.estimate(**given)


def test_classes_are_matched_by_name_and_a_stranger_is_named() -> None:
    source, target = toy_pair()
    a = Predictions.from_probs(source.probs, labels=source.labels, class_names="wxyz")
    turned = Predictions.from_probs(target.probs[:, ::-1], class_names="zyxw")
    same = oodometer.estimate(a, Predictions.from_probs(target.probs, class_names="wxyz"))
    assert values(oodometer.estimate(a, turned)) == pytest.approx(values(same), abs=1e-4)
    with pytest.raises(InputError, match="Only one side has the class 'z'"):
        oodometer.estimate(a, Predictions.from_probs(target.probs, class_names="wxyq"))


def test_segments_of_numbers_are_in_the_order_of_numbers() -> None:
    source, target = toy_pair(0)
    by = np.resize([10, 9, 100], target.n)
    found = oodometer.estimate(source, target, segment_by=by, methods="ac", replicates=20)
    assert [segment.value for segment in found.segments] == ["9", "10", "100"]
    assert [segment.n for segment in found.segments] == [100, 100, 100]


def test_what_believes_scores_is_as_unsure_as_the_source_is_of_them() -> None:
    """Where nothing has shifted, the interval of cot holds the accuracy as often as it says."""
    held = []
    for seed in range(40):
        source, target = toy_predictions(150, seed=seed), toy_predictions(4000, seed=seed + 1000)
        one = oodometer.estimate(source, target, methods="cot", replicates=50)["cot"]
        assert one.low is not None
        assert one.high is not None
        held.append(one.low <= target.correct.mean() <= one.high)
    assert 0.85 <= np.mean(held) <= 1.0


def test_the_doubt_is_that_of_a_mean_of_differences() -> None:
    source, target = toy_pair()
    found = oodometer.estimate(source, target, methods="ac", temperature=None)["ac"]
    assert found.low is not None
    drawn = AverageConfidence().resample(
        None, moments(target.confidence), rng_for(0, "bootstrap", "ac"), 200
    )
    alone = found.value - np.quantile(drawn, 0.025)
    off = [right - sure for right, sure in zip(source.correct, source.confidence, strict=True)]
    doubt = 1.959964 * np.sqrt(np.mean((off - np.mean(off)) ** 2) / len(off))
    assert found.value - found.low == pytest.approx(np.sqrt(alone**2 + doubt**2), rel=1e-4)


def odd_pair(name: str) -> tuple[Predictions, Predictions]:
    """Source and target at the edge of what there is."""
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
        "labels shifted": lambda: (rows(500, 3), rows(400, 3, [0.9, 0.08, 0.02])),
        "a class that is gone": lambda: (rows(500, 3), rows(400, 3, [0.5, 0.5, 0.0])),
        "a class that is new": lambda: (rows(500, 3, [0.5, 0.5, 0.0]), rows(400, 3)),
    }[name]()


@pytest.mark.parametrize(
    "name",
    ["two classes", "a thousand classes", "one target row", "two source rows", "one row each",
     "labels shifted", "a class that is gone", "a class that is new"],
)  # fmt: skip
def test_at_the_edge_numbers_stay_in_range_or_have_a_reason(name: str) -> None:
    source, target = odd_pair(name)
    found = oodometer.estimate(source, target, replicates=20)
    for one in found.estimates:
        assert one.low is not None
        assert one.high is not None
        assert 0 <= one.low <= one.value <= one.high <= 1, one.method
    assert all(found.skipped.values())
    assert {*values(found), *found.skipped} == {one.name for one in estimators.available()}
    # Critics of a thousand classes have a million weights, which takes a minute.
    beside = run_additional(
        AdditionalRequests(metrics=METRIC_NAMES, bound=source.k < 1000, margin=0.05), source, target
    )
    for metric in beside.metrics:
        assert metric.reason or 0 <= metric.low <= metric.value <= metric.high <= 1  # type: ignore[operator]
    assert beside.bound is None or 0 <= beside.bound.value <= 1
    assert beside.verdict is None or 0 <= beside.verdict.p_value <= 1
    told = sum(part is not None for part in (beside.bound, beside.verdict))
    assert told + len(beside.reasons) == 1 + (source.k < 1000)
