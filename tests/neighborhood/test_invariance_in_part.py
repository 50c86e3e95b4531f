"""Neighborhoods looked at in part: precision, budgets, and going on where a run stopped."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError, NotApplicable
from oodometer.models import as_model
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.results import InvarianceResult, MeanWithInterval
from tests.neighborhood.test_invariance import Linear, Noise, values, vectors
from tests.support.stub_models import ByContent


def test_a_precision_is_reached_with_less_work_and_the_interval_is_as_asked() -> None:
    data = vectors(4000)
    found = invariance(Linear(), data, transform=Noise(), precision=0.02)
    assert found.sampling_cost.precision_reached
    assert found[0].mean_with_interval("pa").half_width <= 0.02
    assert found.sampling_cost.drawn < 0.2 * 4000 * 11
    full = invariance(Linear(), data, transform=Noise())
    assert (
        abs(found[0].mean_with_interval("pa").value - full[0].mean_with_interval("pa").value) < 0.03
    )


def test_a_precision_that_the_data_dont_allow_is_said_to_be_missed() -> None:
    found = invariance(Linear(), vectors(60), transform=Noise(), precision=0.001)
    assert not found.sampling_cost.precision_reached
    assert found.sampling_cost.drawn == 60 * 11
    assert found[0].complete


def test_all_alike_is_no_certainty() -> None:
    """A few examples that nothing moves do not make an interval of no width."""
    found = invariance(lambda inputs: np.zeros(len(inputs), dtype=int), vectors(5000), transform=Noise(),
                       precision=0.005)  # fmt: skip
    assert 300 < found.sampling_cost.examples < 1000
    assert found[0].mean_with_interval("pa").low < 1.0


@pytest.mark.parametrize(("budget", "spent"), [(150, 150), (700, 699), (1111, 1111)])
def test_a_budget_is_kept_and_never_a_draw_is_taken_for_an_example_not_begun(
    budget: int, spent: int
) -> None:
    model = ByContent()
    found = invariance(model, vectors(250), transform=Noise(), max_inputs=budget)
    assert found.sampling_cost.drawn == spent  # a third of an example is none
    assert sum(model.shown) <= budget
    assert (found[0].counts.classes[:, :3] >= 0).all()


def test_a_shorter_run_is_a_prefix_of_a_longer_one() -> None:
    data = vectors(300)
    small, large, full = (
        invariance(ByContent(), data, transform=Noise(), max_inputs=b, seed=7)
        for b in (300, 1500, 10**6)
    )
    for part, whole in ((small, large), (large, full)):
        short, long = part[0], whole[0]
        index = np.searchsorted(long.positions, short.positions)
        assert np.array_equal(long.positions[index], short.positions)
        known = short.counts.classes
        there = long.counts.classes[index]
        assert np.array_equal(known[known >= 0], there[known >= 0])
    plain = invariance(ByContent(), data, transform=Noise(), seed=7)
    assert np.array_equal(full[0].counts.classes, plain[0].counts.classes)


def test_going_on_wastes_nothing_and_gives_what_one_run_would() -> None:
    data, model = vectors(300), ByContent()
    begun = invariance(model, data, transform=Noise(), max_inputs=500)
    spent = sum(model.shown)
    done = invariance(model, data, transform=Noise(), resume=begun)
    assert sum(model.shown) - spent == 300 * 11 - begun.sampling_cost.drawn
    once = invariance(ByContent(), data, transform=Noise())
    assert np.array_equal(done[0].counts.classes, once[0].counts.classes)
    for (_, a), (_, b) in zip(done[0].all_measures(), once[0].all_measures(), strict=True):
        assert a.value == pytest.approx(b.value, abs=1e-12)


def test_going_on_with_more_draws_keeps_those_there_are() -> None:
    data, model = vectors(40), ByContent()
    few = invariance(model, data, transform=Noise(), draws=3)
    model.shown.clear()
    more = invariance(model, data, transform=Noise(), draws=8, resume=few)
    assert sum(model.shown) == 40 * 5
    whole = invariance(ByContent(), data, transform=Noise(), draws=8)
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
    found = invariance(Linear(), vectors(300), transform=Noise(), max_inputs=600)[0]
    assert not found.complete
    with pytest.raises(NotApplicable, match="ni hangs on the number of draws"):
        found.by_example("ni")
    assert [name for name, _ in found.all_measures()] == ["ei", "pa"]
    assert any("left out" in note for note in found.warnings())


def covers(n: int, draw: Callable[[np.random.Generator], np.ndarray], truth: float) -> float:
    """How often the interval of a mean holds the truth."""
    rng = np.random.default_rng(0)
    readings = (MeanWithInterval.from_values(draw(rng)) for _ in range(n))
    return float(np.mean([one.low <= truth <= one.high for one in readings]))


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999])
def test_intervals_hold_the_truth_about_as_often_as_they_say(share: float) -> None:
    held = covers(2000, lambda rng: (rng.random(400) < share).astype(float), share)
    assert held >= 0.92


def test_going_on_counts_all_that_was_spent() -> None:
    """And a smaller wish than what is there already asks nothing of the model."""
    data, model = vectors(300), ByContent()
    begun = invariance(model, data, transform=Noise(), max_inputs=900)
    assert begun.sampling_cost.drawn == begun.sampling_cost.classified == sum(model.shown) == 900
    more = invariance(model, data, transform=Noise(), max_inputs=1500, resume=begun)
    assert more.sampling_cost.drawn == more.sampling_cost.classified == sum(model.shown) == 1500
    model.shown.clear()
    for wish in ({"max_inputs": 300}, {"precision": 0.2}):
        same = invariance(model, data, transform=Noise(), resume=begun, **wish)
        assert model.shown == []
        assert same.sampling_cost.drawn == 900
        assert same.sampling_cost.examples == len(same[0].positions) == len(begun[0].positions)
        assert values(same) == values(begun)


def test_what_went_on_is_bit_for_bit_what_one_run_gives() -> None:
    data = vectors(230)
    once = invariance(ByContent(), data, transform=Noise())
    begun: InvarianceResult | None = None
    for budget in (100, 333, 1200, 2530):
        begun = invariance(ByContent(), data, transform=Noise(), max_inputs=budget, resume=begun)
    assert begun is not None
    assert values(begun) == values(once)
    assert begun.sampling_cost.drawn == once.sampling_cost.drawn


def test_going_on_from_one_draw_leaves_out_what_has_no_second() -> None:
    """With two members pa needs but one draw; with more it needs pairs of draws."""
    begun = invariance(ByContent(), vectors(50), transform=Noise(), draws=1)
    more = invariance(
        ByContent(), vectors(50), transform=Noise(), draws=5, max_inputs=60, resume=begun
    )
    assert len(more[0].positions) == 20
    assert np.isfinite(more[0].by_example("pa")).all()
    once = invariance(ByContent(), vectors(50), transform=Noise(), draws=5, max_inputs=60)
    assert values(more) == values(once)


def test_going_on_with_fewer_draws_keeps_those_there_are() -> None:
    begun = invariance(ByContent(), vectors(20), transform=Noise(), draws=8)
    again = invariance(ByContent(), vectors(20), transform=Noise(), draws=3, resume=begun)
    assert again.draws == 8
    assert values(again) == values(begun)


def test_names_of_classes_outlive_a_run_that_asks_nothing() -> None:
    opened = as_model(lambda x: np.tile([0.1, 0.9], (len(x), 1)), class_names=["cat", "dog"])
    begun = invariance(opened, vectors(30), transform=Noise())
    again = invariance(opened, vectors(30), transform=Noise(), resume=begun)
    assert again[0].class_names == ("cat", "dog")


def test_an_answer_in_part_is_the_answer_of_that_part_without_the_identity_too() -> None:
    data = vectors(250)
    found = invariance(ByContent(), data, transform=Noise(), max_inputs=300, identity=False)[0]
    assert len(found.positions) == 100
    alike = found.counts.classes[:, 1] == found.counts.classes[:, 2]
    assert found.mean_with_interval("pa").value == pytest.approx(alike.mean())


@pytest.mark.parametrize("wish", [{"max_inputs": 300}, {"precision": 0.06}])
@pytest.mark.parametrize("identity", [True, False])
def test_looking_at_a_part_does_not_bias(wish: dict[str, Any], identity: bool) -> None:
    """Over many seeds the mean of a part is the mean of the whole."""
    data, gaps = vectors(400), []
    for seed in range(80):
        given: dict[str, Any] = {"draws": 4, "identity": identity, "seed": seed}
        part = invariance(Linear(), data, transform=Noise(3.0), **given, **wish)
        whole = invariance(Linear(), data, transform=Noise(3.0), **given)
        assert part.sampling_cost.drawn < 0.7 * whole.sampling_cost.drawn
        gaps.append(
            part[0].mean_with_interval("pa").value - whole[0].mean_with_interval("pa").value
        )
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / np.sqrt(len(gaps))
    assert np.std(gaps) / np.sqrt(len(gaps)) < 0.006


def test_the_least_sure_model_decides_when_to_stop() -> None:
    sure = {"constant": lambda x: np.tile([0.9, 0.1], (len(x), 1))}
    alone = invariance(sure, vectors(3000), transform=Noise(), precision=0.02)
    both = invariance(
        {**sure, "by content": ByContent()}, vectors(3000), transform=Noise(), precision=0.02
    )
    assert both.sampling_cost.drawn > alone.sampling_cost.drawn
    assert all(one.mean_with_interval("pa").half_width <= 0.02 for one in both)


def test_a_precision_and_a_budget_stop_at_whichever_comes_first() -> None:
    wide = invariance(Linear(), vectors(3000), transform=Noise(), precision=0.04, max_inputs=30_000)
    assert wide.sampling_cost.precision_reached
    assert wide.sampling_cost.drawn < 3000
    short = invariance(Linear(), vectors(3000), transform=Noise(), precision=0.001, max_inputs=700)
    assert not short.sampling_cost.precision_reached
    assert 697 < short.sampling_cost.drawn <= 700
    assert short.sampling_cost.requested_half_width == 0.001


@dataclass(frozen=True)
class Coarse(Noise):
    """Has a setting besides its magnitude."""

    steps: int = 4


def test_another_setting_or_another_reference_is_another_run() -> None:
    begun = invariance(Linear(), vectors(30), transform=Coarse())
    with pytest.raises(InputError, match=r"settings .*steps=4.* this one has .*steps=5"):
        invariance(Linear(), vectors(30), transform=Coarse(steps=5), resume=begun)
    learned = invariance(Linear(), vectors(30), transform="gaussian")
    with pytest.raises(InputError, match=r"settings .*learned from"):
        invariance(
            Linear(), vectors(30), transform="gaussian", transform_data=vectors(9), resume=learned
        )
    plain = invariance(Linear(), vectors(30), transform=Noise(), transform_data=vectors(9))
    assert values(invariance(Linear(), vectors(30), transform=Noise(), resume=plain)) == values(
        plain
    )
