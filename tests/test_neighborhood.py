"""invariance(): against one input at a time, in any batches, orders and numbers of workers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from oodometer import inputs as batches
from oodometer.core import Transform
from oodometer.datasets import as_dataset
from oodometer.draws import Draws
from oodometer.errors import InputError, NoAnswer
from oodometer.inputs import Kind
from oodometer.neighborhood import invariance
from oodometer.predictions import Predictions
from oodometer.readings import MEASURES, Invariance, Neighborhoods
from oodometer.testing import toy_inputs
from oodometer.transforms import fitting
from tests.standins import ByContent, literal

KINDS: tuple[Kind, ...] = ("images", "text", "pairs", "vectors", "table")
CASES = [(kind, member) for kind in KINDS for member in fitting(kind)
         if member.name != "backtranslate"]  # fmt: skip


@dataclass(frozen=True)
class Noise(Transform):
    """Adds noise; vectors only, quick."""

    name: ClassVar[str] = "noise"
    label: ClassVar[str] = "Noise"
    kinds: ClassVar[tuple[Kind, ...]] = ("vectors",)
    assumes: ClassVar[str] = "a little noise changes nothing"
    magnitude: float = 1.0

    def apply(self, inputs: Any, draws: Draws) -> Any:
        return inputs + self.magnitude * (draws.uniforms(inputs.shape[1]) - 0.5)


def vectors(n: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 2))


@dataclass
class Linear:
    """Two classes, by the sign of the first column."""

    name: str = "linear"
    bias: float = 0.0

    def classify(self, inputs: Any) -> Predictions:
        gap = 4 * (inputs[:, 0] - self.bias)
        return Predictions.from_logits(np.stack([np.zeros(len(gap)), gap], axis=1))


def values(found: Neighborhoods) -> list[tuple[float, ...]]:
    return [tuple(r.value for _, r in one.readings()) for one in found]


@pytest.mark.parametrize(("kind", "member"), CASES, ids=lambda v: getattr(v, "name", v))
def test_measures_are_those_of_a_literal_loop(kind: Kind, member: Transform) -> None:
    dataset = as_dataset(toy_inputs(kind, n=7))
    model = ByContent()
    found = invariance(model, dataset, member, draws=4, seed=5, batch=9)[0]
    ready = member.learn(dataset.take(np.arange(7)))
    twins = [literal(model, dataset, ready, i, draws=4, seed=5) for i in range(7)]
    for measure in MEASURES:
        expected = [getattr(twin, measure) for twin in twins]
        assert found.by_example(measure) == pytest.approx(expected, abs=1e-9), measure
        assert found.reading(measure).value == pytest.approx(np.mean(expected), abs=1e-9)
    assert found.entropy_difference == pytest.approx(np.mean([t.rise for t in twins]), abs=1e-9)


def test_without_the_identity_it_has_no_vote() -> None:
    dataset, model = as_dataset(vectors(20)), ByContent()
    found = invariance(model, dataset, Noise(), draws=3, identity=False)[0]
    for i in range(20):
        twin = literal(model, dataset, Noise(), i, draws=3, seed=0, identity=False)
        for measure in MEASURES:
            assert found.by_example(measure)[i] == pytest.approx(getattr(twin, measure), abs=1e-9)


@pytest.mark.parametrize("batch", [1, 7, 512])
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("wish", [{}, {"budget": 150}, {"precision": 0.08}])
def test_batches_and_workers_change_nothing(batch: int, workers: int, wish: dict[str, Any]) -> None:
    data = vectors(230)
    expected = invariance(ByContent(), data, Noise(), draws=5, seed=2, **wish)
    found = invariance(
        ByContent(), data, Noise(), draws=5, seed=2, batch=batch, workers=workers, **wish
    )
    assert values(found) == values(expected)
    assert np.array_equal(found[0].tally.classes, expected[0].tally.classes)
    assert found.effort == expected.effort


@pytest.mark.parametrize("wish", [{}, {"budget": 150}])
def test_the_order_of_the_data_changes_nothing(wish: dict[str, Any]) -> None:
    data = vectors(100)
    order = np.random.default_rng(3).permutation(100)
    straight = invariance(ByContent(), data, Noise(), draws=4, **wish)[0]
    mixed = invariance(ByContent(), data[order], Noise(), draws=4, **wish)[0]
    for one in ("ni", "pa") if straight.complete else ("pa",):
        there = dict(zip(straight.positions, straight.by_example(one), strict=True))
        here = dict(zip(order[mixed.positions], mixed.by_example(one), strict=True))
        assert here == there


def test_seeds_differ_and_examples_have_draws_of_their_own() -> None:
    data = vectors(40)
    first, second = (invariance(ByContent(), data, Noise(), seed=s) for s in (0, 1))
    assert values(first) != values(second)


def test_all_models_see_the_same_draws_and_each_is_judged_alone() -> None:
    data, models = vectors(50), [ByContent("a"), ByContent("b", salt=9), Linear()]
    together = invariance(models, data, Noise())
    alone = [invariance(model, data, Noise()) for model in models]
    assert values(together) == [values(one)[0] for one in alone]
    assert together.models == ("a", "b", "linear")
    assert together["b"] is together[1]


def test_models_of_one_name_are_told_apart_and_mappings_name_them() -> None:
    data = vectors(10)
    assert invariance([Linear(), Linear()], data, Noise()).models == ("linear", "linear (2)")
    named = invariance({"old": Linear(), "new": Linear(bias=1.0)}, data, Noise())
    assert named.models == ("old", "new")


def test_identical_draws_are_classified_once() -> None:
    """At 8×8 many whole-image draws are alike; and a still transform gives only the example."""
    data, model = vectors(30), ByContent()
    found = invariance(model, data, Noise(magnitude=0.0), draws=9)
    assert sum(model.shown) == found.effort.classified == 30
    assert found.effort.drawn == 300
    assert found[0].reading("ni").value == 1.0


def test_only_a_batch_is_in_memory_at_a_time() -> None:
    model = ByContent()
    invariance(model, vectors(200), Noise(), draws=4, batch=50)
    assert max(model.shown) <= 50


def test_hard_labels_are_a_legal_model() -> None:
    found = invariance(ByContent(hard=True), vectors(30), Noise())[0]
    soft = invariance(ByContent(), vectors(30), Noise())[0]
    for measure in ("ni", "ne", "pa"):
        assert found.reading(measure) == soft.reading(measure)
    with pytest.raises(NoAnswer, match="ei needs probabilities"):
        found.reading("ei")
    assert found.entropy_difference is None
    assert "can't be told" in found.notes()[0]


def test_a_precision_is_reached_with_less_work_and_the_interval_is_as_asked() -> None:
    data = vectors(4000)
    found = invariance(Linear(), data, Noise(), precision=0.02)
    assert found.effort.reached
    assert found[0].reading("pa").half_width <= 0.02
    assert found.effort.drawn < 0.2 * 4000 * 11
    full = invariance(Linear(), data, Noise())
    assert abs(found[0].reading("pa").value - full[0].reading("pa").value) < 0.03


def test_a_precision_that_the_data_dont_allow_is_said_to_be_missed() -> None:
    found = invariance(Linear(), vectors(60), Noise(), precision=0.001)
    assert not found.effort.reached
    assert found.effort.drawn == 60 * 11
    assert found[0].complete


def test_all_alike_is_no_certainty() -> None:
    """A few examples that nothing moves do not make an interval of no width."""
    found = invariance(lambda inputs: np.zeros(len(inputs), dtype=int), vectors(5000), Noise(),
                       precision=0.005)  # fmt: skip
    assert 300 < found.effort.examples < 1000
    assert found[0].reading("pa").low < 1.0


@pytest.mark.parametrize("budget", [150, 700, 1111])
def test_a_budget_is_kept_and_never_a_draw_is_taken_for_an_example_not_begun(budget: int) -> None:
    model = ByContent()
    found = invariance(model, vectors(250), Noise(), budget=budget)
    assert budget - 3 < found.effort.drawn <= budget
    assert sum(model.shown) <= budget
    assert (found[0].tally.classes[:, :3] >= 0).all()


def test_a_shorter_run_is_a_prefix_of_a_longer_one() -> None:
    data = vectors(300)
    small, large, full = (
        invariance(ByContent(), data, Noise(), budget=b, seed=7) for b in (300, 1500, 10**6)
    )
    for part, whole in ((small, large), (large, full)):
        short, long = part[0], whole[0]
        index = np.searchsorted(long.positions, short.positions)
        assert np.array_equal(long.positions[index], short.positions)
        known = short.tally.classes
        there = long.tally.classes[index]
        assert np.array_equal(known[known >= 0], there[known >= 0])
    plain = invariance(ByContent(), data, Noise(), seed=7)
    assert np.array_equal(full[0].tally.classes, plain[0].tally.classes)


def test_going_on_wastes_nothing_and_gives_what_one_run_would() -> None:
    data, model = vectors(300), ByContent()
    begun = invariance(model, data, Noise(), budget=500)
    spent = sum(model.shown)
    done = invariance(model, data, Noise(), resume=begun)
    assert sum(model.shown) - spent == 300 * 11 - begun.effort.drawn
    once = invariance(ByContent(), data, Noise())
    assert np.array_equal(done[0].tally.classes, once[0].tally.classes)
    for (_, a), (_, b) in zip(done[0].readings(), once[0].readings(), strict=True):
        assert a.value == pytest.approx(b.value, abs=1e-12)


def test_going_on_with_more_draws_keeps_those_there_are() -> None:
    data, model = vectors(40), ByContent()
    few = invariance(model, data, Noise(), draws=3)
    model.shown.clear()
    more = invariance(model, data, Noise(), draws=8, resume=few)
    assert sum(model.shown) == 40 * 5
    whole = invariance(ByContent(), data, Noise(), draws=8)
    assert values(more)[0] == pytest.approx(values(whole)[0], abs=1e-12)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"seed": 1}, "seed 0, this one has 1"),
        ({"transform": Noise(0.5)}, "magnitude 1.0, this one has 0.5"),
        ({"data": vectors(30, seed=9)}, "fingerprint"),
        ({"models": Linear("other")}, "models"),
        ({"identity": False}, "identity"),
    ],
)
def test_only_the_same_run_can_be_gone_on_with(change: dict[str, Any], word: str) -> None:
    given: dict[str, Any] = {"models": Linear(), "data": vectors(30), "transform": Noise()}
    begun = invariance(**given)
    with pytest.raises(InputError, match=re.escape(word)):
        invariance(**(given | change), resume=begun)


def test_part_of_the_draws_gives_pa_but_not_ni() -> None:
    found = invariance(Linear(), vectors(300), Noise(), budget=600)[0]
    assert not found.complete
    with pytest.raises(NoAnswer, match="ni hangs on the number of draws"):
        found.by_example("ni")
    assert [name for name, _ in found.readings()] == ["ei", "pa"]
    assert any("left out" in note for note in found.notes())


def test_a_transform_of_another_kind_is_refused_with_those_that_fit() -> None:
    with pytest.raises(InputError, match=r"'eda' changes text and pairs; .* are vectors. For vec"):
        invariance(Linear(), vectors(5), "eda")


def test_a_model_that_gives_too_few_rows_is_named() -> None:
    @dataclass
    class Short:
        name: str = "short"

        def classify(self, inputs: Any) -> Predictions:
            return Predictions.from_classes([0] * (len(inputs) - 1), k=2)

    with pytest.raises(InputError, match=r"'short' gave \d+ rows for \d+ inputs"):
        invariance(Short(), vectors(20), Noise())


def test_the_entropy_rise_warns_of_a_transform_that_destroys_classes() -> None:
    """Sure predictions far from the border become unsure near it."""
    data = np.array([[1.5, 0.0], [-1.5, 0.0]] * 30) + vectors(60) * 0.01
    gentle = invariance(Linear(), data, Noise(magnitude=0.1))[0]
    rough = invariance(Linear(), data, Noise(magnitude=4.0))[0]
    assert gentle.notes() == ()
    assert rough.entropy_difference is not None
    assert rough.entropy_difference > 0.1
    assert "unsuitable" in rough.notes()[0]


def test_the_constant_classifier_is_found_out() -> None:
    def constant(inputs: Any) -> Any:
        return np.tile([0.9, 0.1], (len(inputs), 1))

    found = invariance(constant, vectors(80), Noise())[0]
    assert found.reading("ni").value == 1.0
    assert found.degenerate
    assert found.top_class == (0, 1.0)
    assert any("means nothing" in note for note in found.notes())
    assert not invariance(Linear(), vectors(80), Noise(magnitude=0.0))[0].degenerate


def test_transforms_learn_from_the_reference_where_there_is_one() -> None:
    narrow, wide = vectors(50), 100 * vectors(50)
    own = invariance(Linear(), narrow, "gaussian")[0]
    other = invariance(Linear(), narrow, "gaussian", reference=wide)[0]
    assert other.reading("ni").value < own.reading("ni").value - 0.1
    with pytest.raises(InputError, match="reference data are text, the data vectors"):
        invariance(Linear(), narrow, "gaussian", reference=["a text"])


def test_progress_ends_at_the_total() -> None:
    seen: list[tuple[int, int]] = []
    invariance(Linear(), vectors(50), Noise(), progress=lambda a, b, _: seen.append((a, b)))
    assert seen[-1] == (550, 550)
    assert seen == sorted(seen)


def test_what_comes_out_can_be_read_as_text_and_as_json() -> None:
    import json

    found = invariance(Linear(), vectors(50), "gaussian")
    assert "NI-Gaussian" in str(found)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["models"][0]["ni"]["value"] == found[0].reading("ni").value
    assert plain["effort"]["drawn"] == 550


def test_no_models_and_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="no models"):
        invariance([], vectors(5), Noise())
    with pytest.raises(InputError, match="No transform is called 'nois'"):
        invariance(Linear(), vectors(5), "nois")
    with pytest.raises(InputError, match="No model is called 'x'"):
        invariance(Linear(), vectors(5), Noise())["x"]


def test_batches_of_inputs_are_left_as_they_were() -> None:
    data = vectors(30)
    kept = data.copy()
    invariance(Linear(), data, Noise())
    assert batches.same(data, kept)


def covers(n: int, draw: Callable[[np.random.Generator], np.ndarray], truth: float) -> float:
    """How often the interval of a mean holds the truth."""
    from oodometer.readings import Reading

    rng = np.random.default_rng(0)
    readings = (Reading.of(draw(rng)) for _ in range(n))
    return float(np.mean([one.low <= truth <= one.high for one in readings]))


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999])
def test_intervals_hold_the_truth_about_as_often_as_they_say(share: float) -> None:
    held = covers(2000, lambda rng: (rng.random(400) < share).astype(float), share)
    assert held >= 0.92


def test_rows_of_a_tally_are_those_asked_for() -> None:
    found: Invariance = invariance(ByContent(), vectors(10), Noise())[0]
    some = found.tally.rows(np.array([3, 1]))
    assert np.array_equal(some.classes, found.tally.classes[[3, 1]])
    assert np.array_equal(some.even, found.tally.even[[3, 1]])
