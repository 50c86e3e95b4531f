"""rank(): the order of models and its bootstrap probabilities."""

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
    """Model that decides by the sign of a wave; shorter waves are less invariant."""

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


def test_order_follows_the_measure() -> None:
    data = vectors(400)
    result = rank(MODELS, data, transform=Noise(0.6))
    values = {
        model.model: model.mean_with_interval("ni").value
        for model in invariance(MODELS, data, transform=Noise(0.6))
    }
    assert result.names == ("calm", "middling", "shaky")
    assert {entry.model: entry.value for entry in result} == pytest.approx(values)
    assert result.measure == "NI-Noise"
    assert all(entry.low <= entry.value <= entry.high for entry in result)


def test_higher_in_resamples_is_one_for_clear_and_half_for_no_differences() -> None:
    result = rank(MODELS, vectors(400), transform=Noise(0.6))
    assert result.models[0].higher_in_resamples == pytest.approx(1.0, abs=0.01)
    assert result.models[-1].higher_in_resamples is None
    twins = rank({"a": MODELS[0], "b": MODELS[0]}, vectors(100), transform=Noise(0.6))
    assert twins.models[0].higher_in_resamples == 0.5


def test_bootstrap_is_paired_by_example() -> None:
    """A model that is better on every example is higher in all resamples."""
    values = np.random.default_rng(0).random(200)

    def score(rows: Predictions) -> np.ndarray:
        return values + (0.01 if rows.confidence[0] > 0.8 else 0.0)

    models = {
        "low": lambda x: np.tile([0.3, 0.7], (len(x), 1)),
        "high": lambda x: np.tile([0.1, 0.9], (len(x), 1)),
    }
    result = rank(models, vectors(200), score=score)
    assert result.names == ("high", "low")
    assert result.models[0].higher_in_resamples == 1.0
    assert result.models[0].high - result.models[0].low > 0.05


def test_higher_in_resamples_matches_a_naive_bootstrap() -> None:
    data = vectors(60)
    models = [Wobbly("a", 2.0), Wobbly("b", 2.2)]
    result = rank(models, data, transform=Noise(0.8))
    measured = invariance(models, data, transform=Noise(0.8))
    first, second = (measured[name].by_example("ni") for name in result.names)
    rng = np.random.default_rng(5)
    resamples = [rng.integers(0, 60, 60) for _ in range(4000)]
    wins = [np.sign(first[i].mean() - second[i].mean()) / 2 + 0.5 for i in resamples]
    assert result.models[0].higher_in_resamples == pytest.approx(np.mean(wins), abs=0.05)


@pytest.mark.parametrize("by", ["pa", "ne", "ei"])
def test_every_neighborhood_measure_ranks(by: str) -> None:
    result = rank(MODELS, vectors(300), score=by, transform=Noise(0.6))
    assert result.names[0] == "calm"
    assert result.measure == f"{by.upper()}-Noise"


def test_estimator_ranks_by_its_estimates() -> None:
    source, target = labelled(300, 1), vectors(250, 2)
    result = rank(MODELS, target, score="doc", source=source)
    for entry in result:
        model = next(m for m in MODELS if m.name == entry.model)
        known, new = predict_dataset(model, source), predict_dataset(model, as_dataset(target))
        assert entry.value == get("doc").estimate(known, new).value
    assert result.names[0] == "calm"
    assert result.models[0].higher_in_resamples == 1.0
    assert rank(MODELS, target, score=get("doc"), source=source) == result


@dataclass(frozen=True)
class OneSided:
    """Estimator: mean confidence of one side; fails if it gets labels of the target."""

    side: str
    name: str = "one-sided"
    assumes: str = "nothing"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        assert source.is_labelled
        assert not target.is_labelled
        return Estimate(float((source if self.side == "source" else target).confidence.mean()))


@pytest.mark.parametrize("side", ["source", "target"])
def test_bootstrap_resamples_both_sides_and_hides_target_labels(side: str) -> None:
    result = rank(MODELS[:2], labelled(80, 2), score=OneSided(side), source=labelled(90, 1))
    assert all(0.01 < entry.high - entry.low < 0.2 for entry in result)


def test_draws_are_passed_on() -> None:
    result = rank(MODELS[:1], vectors(50), transform=Noise(0.6), draws=3)
    measured = invariance(MODELS[:1], vectors(50), transform=Noise(0.6), draws=3)
    assert result.models[0].value == pytest.approx(measured[0].mean_with_interval("ni").value)


@pytest.mark.parametrize("n", [50, 9000])
def test_number_of_replicates_does_not_depend_on_rows(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = []

    def recorded(*arguments: Any) -> Any:
        shapes.append(arguments[2].shape)
        return original(*arguments)

    original = ranking._ordered_entries
    monkeypatch.setattr(ranking, "_ordered_entries", recorded)
    rank(MODELS[:1], vectors(n), score=lambda rows: rows.confidence)
    assert shapes == [(1000, 1)]


def test_seed_determines_the_ranking() -> None:
    data = vectors(80)
    first, again, other = (
        rank(MODELS, data, transform=Noise(0.6), seed=seed) for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_resultdoes_not_depend_on_row_order_or_batch_size() -> None:
    data = vectors(80)
    order = np.random.default_rng(1).permutation(80)
    first = rank(MODELS, data, transform=Noise(0.6))
    second = rank(MODELS, data[order], transform=Noise(0.6), batch_size=7, threads=2)
    for one, other in zip(first, second, strict=True):
        assert one.higher_in_resamples == other.higher_in_resamples
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def test_invalid_scores_and_sources_are_rejected() -> None:
    data = vectors(20)
    with pytest.raises(InputError, match=r"by 'atc-mc' needs labelled source data; got none"):
        rank(MODELS, data, score="atc-mc")
    with pytest.raises(InputError, match="got data without labels"):
        rank(MODELS, data, score="atc-mc", source=data)
    with pytest.raises(
        UnknownName, match=r"No measure or estimator is called 'nii'. Did you mean 'ni'"
    ):
        rank(MODELS, data, score="nii")
    with pytest.raises(
        InputError,
        match=r"one finite number per row, of shape \(20,\); got an array of shape \(3,\)",
    ):
        rank(MODELS, data, score=lambda rows: rows.confidence[:3])


def test_constant_model_gets_a_note() -> None:
    def constant(inputs: Any) -> Any:
        return np.tile([0.9, 0.1], (len(inputs), 1))

    result = rank({"constant": constant, "real": MODELS[1]}, vectors(100), transform=Noise(0.6))
    assert result.names[0] == "constant"
    assert any("meaningless" in note for note in result.models[0].notes)


def test_resultas_text_and_json() -> None:
    result = rank(MODELS, vectors(50), transform=Noise(0.6))
    assert str(result).startswith("1. calm: NI-Noise")
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert [entry["model"] for entry in plain["models"]] == list(result.names)


def test_line_through_known_models_predicts_the_others() -> None:
    models = {f"m{j}": Wobbly(f"m{j}", 1.0 + j) for j in range(5)}
    data = vectors(200)
    values = {one.model: one.value for one in rank(models, data, transform=Noise(0.6))}
    known = {name: 1.5 * values[name] - 0.6 for name in ("m0", "m2", "m3")}
    result = rank(models, data, transform=Noise(0.6), known_accuracies=known)
    for entry in result:
        assert entry.accuracy == pytest.approx(1.5 * entry.value - 0.6)
    assert rank(models, data, transform=Noise(0.6)).models[0].accuracy is None


def test_predicted_accuracy_is_not_clipped() -> None:
    """Values are clipped for display only; clipped values would not be on the line."""
    models = {f"m{j}": Wobbly(f"m{j}", 1.0 + j) for j in range(5)}
    values = {one.model: one.value for one in rank(models, vectors(200), transform=Noise(0.6))}
    lowest = sorted(values, key=lambda name: values[name])[:3]
    slope = 0.9 / (values[lowest[2]] - values[lowest[0]])
    known = {name: slope * (values[name] - values[lowest[0]]) for name in lowest}
    result = rank(models, vectors(200), transform=Noise(0.6), known_accuracies=known)
    best = result.models[0]
    assert best.accuracy == pytest.approx(slope * (best.value - values[lowest[0]]))
    assert (best.accuracy or 0.0) > 1.0


def test_known_accuracies_need_three_distinct_known_models() -> None:
    data = vectors(20)
    with pytest.raises(InputError, match="three distinct points; got 2"):
        rank(MODELS, data, transform=Noise(0.6), known_accuracies={"calm": 0.9, "shaky": 0.5})
    with pytest.raises(UnknownName, match="No model is called 'clam'"):
        rank(MODELS, data, transform=Noise(0.6), known_accuracies={"clam": 0.9})
    with pytest.raises(InputError, match="'calm' must be a fraction from 0 to 1; got 90"):
        rank(MODELS, data, transform=Noise(0.6), known_accuracies={"calm": 90})


class Unreliable:
    """Estimator that raises on every n-th call, except on the original rows."""

    name = "unreliable"
    assumes = "nothing"

    def __init__(self, every: int) -> None:
        self.every = every
        self.calls = 0

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        self.calls += 1
        if self.calls > len(MODELS) and self.calls % self.every == 0:
            raise NotApplicable("too few rows")
        return Estimate(float(target.confidence.mean()))


def test_not_applicable_replicates_are_skipped_unless_most() -> None:
    source, target = labelled(60, 1), vectors(40, 2)
    best = rank(MODELS, target, score=Unreliable(10), source=source).models[0]
    assert best.low < best.value < best.high
    message = "unreliable does not apply to most bootstrap replicates: too few rows"
    with pytest.raises(NotApplicable, match=message):
        rank(MODELS, target, score=Unreliable(2), source=source)


def test_target_labels_are_ignored() -> None:
    """Folder names that are not classes of the model do not matter."""
    target = as_dataset(vectors(40, 2), labels=["ham", "egg"] * 20)
    plain = rank(MODELS, vectors(40, 2), score="doc", source=labelled(60, 1))
    assert rank(MODELS, target, score="doc", source=labelled(60, 1)).models == plain.models


def test_smoothness_ranks_without_the_identity() -> None:
    texts = [f"a {word} book about {word} houses" for word in ("good", "bad", "old", "new")]
    models = {
        "count": lambda rows: [text.count("good") % 2 for text in rows],
        "zero": lambda rows: [0] * len(rows),
    }
    ranking = rank(models, texts, transform="MS-RandRep")
    assert ranking.measure == "MS-RandRep"
    assert ranking.neighborhoods is not None
    assert not ranking.neighborhoods.identity
    assert rank(models, texts, transform="RandRep").measure == "NI-RandRep"
    assert rank(models, texts, transform="MS-RandRep", identity=True).measure == "NI-RandRep"


def test_combination_is_the_mean_of_standardized_ranks() -> None:
    source, target = labelled(300, 1), vectors(250, 2)
    result = rank(MODELS, target, score="ni+doc", source=source, transform=Noise(0.6))
    ni = {e.model: e.value for e in rank(MODELS, target, transform=Noise(0.6))}
    doc = {e.model: e.value for e in rank(MODELS, target, score="doc", source=source)}
    assert result.measure == "NI-Noise + doc"
    assert result.columns == ("NI-Noise", "doc")
    for entry in result:
        assert entry.scores == pytest.approx({"NI-Noise": ni[entry.model], "doc": doc[entry.model]})
        ranks = [sum(x[entry.model] > other for other in x.values()) / 2 for x in (ni, doc)]
        assert entry.value == pytest.approx(np.mean(ranks))
    assert result.names[0] == "calm"
    assert result.models[0].higher_in_resamples == 1.0
    assert result.neighborhoods is not None
    assert rank(MODELS, target, score="DOC + ni", source=source, transform=Noise(0.6)) == result


def test_default_score_depends_on_the_source() -> None:
    target = vectors(60, 2)
    assert rank(MODELS, target, transform=Noise(0.6)).measure == "NI-Noise"
    with_source = rank(MODELS, target, source=labelled(80, 1), transform=Noise(0.6))
    assert with_source.measure == "NI-Noise + doc"


def test_explicit_measure_keeps_its_order_and_shows_estimates() -> None:
    target, source = vectors(120, 2), labelled(80, 1)
    plain = rank(MODELS, target, score="ni", transform=Noise(0.6))
    shown = rank(MODELS, target, score="ni", source=source, transform=Noise(0.6))
    assert shown.names == plain.names
    assert [entry.value for entry in shown] == [entry.value for entry in plain]
    assert shown.columns == ("doc",)
    assert plain.columns == ()


def test_estimates_of_models_without_probabilities_are_replaced_by_a_note() -> None:
    models = {f"m{j}": lambda x, j=j: (x[:, j] > 0).astype(int) for j in range(2)}
    options = {"source": labelled(80, 1), "transform": Noise(0.6)}
    result = rank(models, vectors(60), score="ni", **options)
    assert result.columns == ()
    assert any("are not estimated by doc" in note for note in result.notes)
    with pytest.raises(NotApplicable):
        rank(models, vectors(60), **options)


def test_ties_of_a_combination_go_to_the_estimate() -> None:
    entries = ranking._ordered_entries(
        ("a", "b"), np.array([0.5, 0.5]), np.full((3, 2), 0.5), [(), ()], ties=np.array([0.1, 0.2])
    )
    assert [entry.model for entry in entries] == ["b", "a"]


@pytest.mark.parametrize("score", ["ni+pa", "doc+atc-mc", "ni+doc+atc-mc"])
def test_only_one_measure_and_one_estimator_are_combined(score: str) -> None:
    with pytest.raises(InputError, match="one neighborhood measure and one estimator"):
        rank(MODELS, vectors(20), score=score, source=labelled(30, 1))


def test_combination_needs_a_labelled_source() -> None:
    with pytest.raises(InputError, match="'doc' needs labelled source data; got none"):
        rank(MODELS, vectors(20), score="ni+doc")
