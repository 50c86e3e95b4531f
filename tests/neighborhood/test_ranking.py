"""rank(): the order, and how sure it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate
from oodometer.data import as_dataset
from oodometer.estimators import get
from oodometer.models.inference import predict_dataset
from oodometer.neighborhood import ranking
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.ranking import rank
from tests.neighborhood.test_invariance import Linear, Noise, vectors


class Wobbly(Linear):
    """Decides by the sign of a wave: the shorter it is, the less a decision is worth."""

    def __init__(self, name: str, waves: float) -> None:
        super().__init__(name)
        self.waves = waves

    def classify(self, inputs: Any) -> Predictions:
        gap = 4 * np.sin(self.waves * inputs[:, 0])
        return Predictions.from_logits(np.stack([np.zeros(len(gap)), gap], axis=1))


MODELS = [Wobbly("shaky", 9.0), Wobbly("calm", 1.0), Wobbly("middling", 3.0)]


def labelled(n: int, seed: int) -> Any:
    data = vectors(n, seed)
    return as_dataset(data, labels=(data[:, 0] > 0).astype(int))


def test_the_order_is_that_of_the_measure() -> None:
    data = vectors(400)
    found = rank(MODELS, data, transform=Noise(0.6))
    values = {
        one.model: one.mean_with_interval("ni").value
        for one in invariance(MODELS, data, transform=Noise(0.6))
    }
    assert found.names == ("calm", "middling", "shaky")
    assert {one.model: one.value for one in found} == pytest.approx(values)
    assert found.measure == "NI-Noise"
    assert all(one.low <= one.value <= one.high for one in found)


def test_clear_differences_are_sure_and_none_is_even() -> None:
    found = rank(MODELS, vectors(400), transform=Noise(0.6))
    assert found.models[0].beats_next == pytest.approx(1.0, abs=0.01)
    assert found.models[-1].beats_next is None
    twins = rank({"a": MODELS[0], "b": MODELS[0]}, vectors(100), transform=Noise(0.6))
    assert twins.models[0].beats_next == 0.5


def test_the_bootstrap_is_paired_by_example() -> None:
    """A model that is better on every example beats the next for sure, however examples vary."""
    said = {"low": 0.0, "high": 0.01}
    values = np.random.default_rng(0).random(200)

    def score(rows: Predictions) -> np.ndarray:
        return values + said["high" if rows.confidence[0] > 0.8 else "low"]

    models = {name: lambda x, p=p: np.tile([1 - p, p], (len(x), 1))
              for name, p in (("low", 0.7), ("high", 0.9))}  # fmt: skip
    found = rank(models, vectors(200), score=score)
    assert found.names == ("high", "low")
    assert found.models[0].beats_next == 1.0
    assert found.models[0].high - found.models[0].low > 0.05


def test_probabilities_are_those_of_drawing_again_one_by_one() -> None:
    data = vectors(60)
    models = [Wobbly("a", 2.0), Wobbly("b", 2.2)]
    found = rank(models, data, transform=Noise(0.8))
    measured = invariance(models, data, transform=Noise(0.8))
    first, second = (measured[name].by_example("ni") for name in found.names)
    rng = np.random.default_rng(5)
    drawn = [rng.integers(0, 60, 60) for _ in range(4000)]
    wins = [np.sign(first[i].mean() - second[i].mean()) / 2 + 0.5 for i in drawn]
    assert found.models[0].beats_next == pytest.approx(np.mean(wins), abs=0.05)


@pytest.mark.parametrize("by", ["pa", "ne", "ei"])
def test_any_neighborhood_measure_ranks(by: str) -> None:
    found = rank(MODELS, vectors(300), score=by, transform=Noise(0.6))
    assert found.names[0] == "calm"
    assert found.measure == f"{by.upper()}-Noise"


def test_an_estimator_ranks_by_its_estimates() -> None:
    source, target = labelled(300, 1), vectors(250, 2)
    found = rank(MODELS, target, score="doc", source=source)
    for one in found:
        model = next(m for m in MODELS if m.name == one.model)
        known, new = predict_dataset(model, source), predict_dataset(model, as_dataset(target))
        assert one.value == get("doc").estimate(known, new).value
    assert found.names[0] == "calm"
    assert found.models[0].beats_next == 1.0
    assert rank(MODELS, target, score=get("doc"), source=source) == found


@dataclass(frozen=True)
class OneSided:
    """The mean confidence of one side; it must not be told the labels of the target."""

    side: str
    name: str = "one-sided"
    assumes: str = "nothing"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        assert source.is_labelled
        assert not target.is_labelled
        return Estimate(float((source if self.side == "source" else target).confidence.mean()))


@pytest.mark.parametrize("side", ["source", "target"])
def test_both_sides_are_drawn_again_and_labels_of_the_target_are_hidden(side: str) -> None:
    found = rank(MODELS[:2], labelled(80, 2), score=OneSided(side), source=labelled(90, 1))
    assert all(0.01 < one.high - one.low < 0.2 for one in found)


def test_draws_are_those_asked_for() -> None:
    found = rank(MODELS[:1], vectors(50), transform=Noise(0.6), draws=3)
    measured = invariance(MODELS[:1], vectors(50), transform=Noise(0.6), draws=3)
    assert found.models[0].value == pytest.approx(measured[0].mean_with_interval("ni").value)


@pytest.mark.parametrize("n", [50, 9000])
def test_as_many_draws_again_for_few_rows_as_for_many(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = []

    def noted(*given: Any) -> Any:
        shapes.append(given[4].shape)
        return plain(*given)

    plain = ranking._build_ranking
    monkeypatch.setattr(ranking, "_build_ranking", noted)
    rank(MODELS[:1], vectors(n), score=lambda rows: rows.confidence)
    assert shapes == [(1000, 1)]


def test_same_seed_same_ranking_and_another_draws_otherwise() -> None:
    data = vectors(80)
    first, again, other = (
        rank(MODELS, data, transform=Noise(0.6), seed=seed) for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_neither_the_order_of_the_data_nor_batches_change_a_ranking() -> None:
    data = vectors(80)
    order = np.random.default_rng(1).permutation(80)
    first = rank(MODELS, data, transform=Noise(0.6))
    second = rank(MODELS, data[order], transform=Noise(0.6), batch_size=7, threads=2)
    for one, other in zip(first, second, strict=True):
        assert one.beats_next == other.beats_next
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def test_what_is_wrong_is_said() -> None:
    data = vectors(20)
    with pytest.raises(InputError, match=r"by 'atc-mc' needs labelled source data; got none"):
        rank(MODELS, data, score="atc-mc")
    with pytest.raises(InputError, match="got data without labels"):
        rank(MODELS, data, score="atc-mc", source=data)
    with pytest.raises(
        UnknownName, match=r"No measure or estimator is called 'nii'. Did you mean 'ni'"
    ):
        rank(MODELS, data, score="nii")
    with pytest.raises(InputError, match="one finite number per row, 20 in all"):
        rank(MODELS, data, score=lambda rows: rows.confidence[:3])


def test_a_constant_model_is_named_as_one() -> None:
    def constant(inputs: Any) -> Any:
        return np.tile([0.9, 0.1], (len(inputs), 1))

    found = rank({"constant": constant, "real": MODELS[1]}, vectors(100), transform=Noise(0.6))
    assert found.names[0] == "constant"
    assert any("means nothing" in note for note in found.models[0].notes)


def test_it_reads_as_text_and_as_json() -> None:
    found = rank(MODELS, vectors(50), transform=Noise(0.6))
    assert str(found).startswith("1. calm: NI-Noise")
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [one["model"] for one in plain["models"]] == list(found.names)


def test_a_line_through_known_models_predicts_the_others() -> None:
    models = {f"m{j}": Wobbly(f"m{j}", 1.0 + j) for j in range(5)}
    data = vectors(200)
    values = {one.model: one.value for one in rank(models, data, transform=Noise(0.6))}
    known = {name: 1.5 * values[name] - 0.6 for name in ("m0", "m2", "m3")}
    found = rank(models, data, transform=Noise(0.6), known_accuracies=known)
    for one in found:
        assert one.accuracy == pytest.approx(1.5 * one.value - 0.6)
    assert rank(models, data, transform=Noise(0.6)).models[0].accuracy is None


def test_a_predicted_accuracy_may_leave_its_range() -> None:
    """It is cut for display only: cut values would be no line, and score worse or better."""
    models = {f"m{j}": Wobbly(f"m{j}", 1.0 + j) for j in range(5)}
    values = {one.model: one.value for one in rank(models, vectors(200), transform=Noise(0.6))}
    lowest = sorted(values, key=lambda name: values[name])[:3]
    slope = 0.9 / (values[lowest[2]] - values[lowest[0]])
    known = {name: slope * (values[name] - values[lowest[0]]) for name in lowest}
    found = rank(models, vectors(200), transform=Noise(0.6), known_accuracies=known)
    best = found.models[0]
    assert best.accuracy == pytest.approx(slope * (best.value - values[lowest[0]]))
    assert (best.accuracy or 0.0) > 1.0


def test_a_line_needs_three_distinct_points_of_models_that_are_there() -> None:
    data = vectors(20)
    with pytest.raises(InputError, match="three distinct points; got 2"):
        rank(MODELS, data, transform=Noise(0.6), known_accuracies={"calm": 0.9, "shaky": 0.5})
    with pytest.raises(UnknownName, match="No model is called 'clam'"):
        rank(MODELS, data, transform=Noise(0.6), known_accuracies={"clam": 0.9})
    with pytest.raises(InputError, match="'calm' must be a fraction from 0 to 1; got 90"):
        rank(MODELS, data, transform=Noise(0.6), known_accuracies={"calm": 90})


class Fickle:
    """Answers for the rows themselves, and for all but one of so many draws of them."""

    name = "fickle"
    assumes = "nothing"

    def __init__(self, every: int) -> None:
        self.every, self.asked = every, 0

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        self.asked += 1
        if self.asked > len(MODELS) and self.asked % self.every == 0:
            raise NotApplicable("not today")
        return Estimate(float(target.confidence.mean()))


def test_draws_without_an_answer_are_left_out_unless_they_are_most() -> None:
    source, target = labelled(60, 1), vectors(40, 2)
    found = rank(MODELS, target, score=Fickle(10), source=source)
    assert found.models[0].low < found.models[0].value < found.models[0].high
    with pytest.raises(NotApplicable, match="no answer for most draws of the examples: not today"):
        rank(MODELS, target, score=Fickle(2), source=source)


def test_the_targets_labels_are_never_looked_at() -> None:
    """Names of folders that the model knows nothing of are no hindrance."""
    target = as_dataset(vectors(40, 2), labels=["ham", "egg"] * 20)
    plain = rank(MODELS, vectors(40, 2), score="doc", source=labelled(60, 1))
    assert rank(MODELS, target, score="doc", source=labelled(60, 1)).models == plain.models
