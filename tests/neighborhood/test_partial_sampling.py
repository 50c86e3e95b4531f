"""Partial sampling of neighborhoods: precision, limits on inputs, resumed runs."""

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


def test_precision_is_reached_with_fewer_inputs() -> None:
    data = vectors(4000)
    result = invariance(Linear(), data, transform=Noise(), precision=0.02)
    assert result.sampling_cost.precision_reached
    assert result[0].mean_with_interval("pa").half_width <= 0.02
    assert result.sampling_cost.drawn < 0.2 * 4000 * 11
    full = invariance(Linear(), data, transform=Noise())
    assert (
        abs(result[0].mean_with_interval("pa").value - full[0].mean_with_interval("pa").value)
        < 0.03
    )


def test_unreachable_precision_is_reported() -> None:
    result = invariance(Linear(), vectors(60), transform=Noise(), precision=0.001)
    assert not result.sampling_cost.precision_reached
    assert result.sampling_cost.drawn == 60 * 11
    assert result[0].complete


def test_equal_values_do_not_give_a_zero_width_interval() -> None:
    def constant(inputs: Any) -> Any:
        return np.zeros(len(inputs), dtype=int)

    result = invariance(constant, vectors(5000), transform=Noise(), precision=0.005)
    assert 300 < result.sampling_cost.examples < 1000
    assert result[0].mean_with_interval("pa").low < 1.0


@pytest.mark.parametrize(("budget", "spent"), [(150, 150), (700, 699), (1111, 1111)])
def test_max_inputs_is_respected_with_whole_examples(budget: int, spent: int) -> None:
    model = ByContent()
    result = invariance(model, vectors(250), transform=Noise(), max_inputs=budget)
    assert result.sampling_cost.drawn == spent  # examples are sampled with both first draws
    assert sum(model.shown) <= budget
    assert (result[0].counts.classes[:, :3] >= 0).all()


def test_shorter_run_is_a_prefix_of_a_longer_one() -> None:
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


def test_resumed_run_repeats_no_input_and_matches_one_run() -> None:
    data, model = vectors(300), ByContent()
    first = invariance(model, data, transform=Noise(), max_inputs=500)
    spent = sum(model.shown)
    done = invariance(model, data, transform=Noise(), resume=first)
    assert sum(model.shown) - spent == 300 * 11 - first.sampling_cost.drawn
    once = invariance(ByContent(), data, transform=Noise())
    assert np.array_equal(done[0].counts.classes, once[0].counts.classes)
    for (_, a), (_, b) in zip(done[0].all_measures(), once[0].all_measures(), strict=True):
        assert a.value == pytest.approx(b.value, abs=1e-12)


def test_resuming_with_more_draws_keeps_earlier_ones() -> None:
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
        ({"seed": 1}, "the earlier run had seed 0, this one has 1"),
        ({"transform": Noise(0.5)}, "magnitude 1.0, this one has 0.5"),
        ({"data": vectors(30, seed=9)}, "fingerprint"),
        ({"models": Linear("other")}, "models"),
        ({"identity": False}, "identity"),
    ],
)
def test_resuming_with_other_settings_is_rejected(change: dict[str, Any], word: str) -> None:
    arguments: dict[str, Any] = {"models": Linear(), "data": vectors(30), "transform": Noise()}
    first = invariance(**arguments)
    with pytest.raises(InputError, match=re.escape(word)):
        invariance(**(arguments | change), resume=first)


def test_partial_draws_give_pa_but_not_ni() -> None:
    result = invariance(Linear(), vectors(300), transform=Noise(), max_inputs=600)[0]
    assert not result.complete
    with pytest.raises(NotApplicable, match="ni depends on the number of draws"):
        result.by_example("ni")
    assert [name for name, _ in result.all_measures()] == ["ei", "pa"]
    assert any("ni and ne are skipped" in warning for warning in result.warnings())


def coverage(n: int, draw: Callable[[np.random.Generator], np.ndarray], truth: float) -> float:
    """Return how often the interval of a mean contains the true mean."""
    rng = np.random.default_rng(0)
    means = (MeanWithInterval.from_values(draw(rng)) for _ in range(n))
    return float(np.mean([mean.low <= truth <= mean.high for mean in means]))


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999])
def test_intervals_have_their_nominal_coverage(share: float) -> None:
    assert coverage(2000, lambda rng: (rng.random(400) < share).astype(float), share) >= 0.92


def test_sampling_cost_includes_the_resumed_run() -> None:
    """A resumed run with a lower limit than already reached classifies nothing."""
    data, model = vectors(300), ByContent()
    first = invariance(model, data, transform=Noise(), max_inputs=900)
    assert first.sampling_cost.drawn == first.sampling_cost.classified == sum(model.shown) == 900
    more = invariance(model, data, transform=Noise(), max_inputs=1500, resume=first)
    assert more.sampling_cost.drawn == more.sampling_cost.classified == sum(model.shown) == 1500
    model.shown.clear()
    for options in ({"max_inputs": 300}, {"precision": 0.2}):
        same = invariance(model, data, transform=Noise(), resume=first, **options)
        assert model.shown == []
        assert same.sampling_cost.drawn == 900
        assert same.sampling_cost.examples == len(same[0].positions) == len(first[0].positions)
        assert values(same) == values(first)


def test_resumed_runs_are_identical_to_one_run() -> None:
    data = vectors(230)
    once = invariance(ByContent(), data, transform=Noise())
    first: InvarianceResult | None = None
    for budget in (100, 333, 1200, 2530):
        first = invariance(ByContent(), data, transform=Noise(), max_inputs=budget, resume=first)
    assert first is not None
    assert values(first) == values(once)
    assert first.sampling_cost.drawn == once.sampling_cost.drawn


def test_resuming_from_one_draw_omits_examples_without_a_second() -> None:
    """With two members pa needs one draw only; with more it needs pairs of draws."""
    first = invariance(ByContent(), vectors(50), transform=Noise(), draws=1)
    more = invariance(
        ByContent(), vectors(50), transform=Noise(), draws=5, max_inputs=60, resume=first
    )
    assert len(more[0].positions) == 20
    assert np.isfinite(more[0].by_example("pa")).all()
    once = invariance(ByContent(), vectors(50), transform=Noise(), draws=5, max_inputs=60)
    assert values(more) == values(once)


def test_resuming_with_fewer_draws_keeps_earlier_ones() -> None:
    first = invariance(ByContent(), vectors(20), transform=Noise(), draws=8)
    again = invariance(ByContent(), vectors(20), transform=Noise(), draws=3, resume=first)
    assert again.draws == 8
    assert values(again) == values(first)


def test_class_names_survive_a_resume_without_new_inputs() -> None:
    opened = as_model(lambda x: np.tile([0.1, 0.9], (len(x), 1)), class_names=["cat", "dog"])
    first = invariance(opened, vectors(30), transform=Noise())
    again = invariance(opened, vectors(30), transform=Noise(), resume=first)
    assert again[0].class_names == ("cat", "dog")


def test_partial_pa_without_identity_is_the_agreement_of_two_draws() -> None:
    data = vectors(250)
    result = invariance(ByContent(), data, transform=Noise(), max_inputs=300, identity=False)[0]
    assert len(result.positions) == 100
    agree = result.counts.classes[:, 1] == result.counts.classes[:, 2]
    assert result.mean_with_interval("pa").value == pytest.approx(agree.mean())


@pytest.mark.parametrize("options", [{"max_inputs": 300}, {"precision": 0.06}])
@pytest.mark.parametrize("identity", [True, False])
def test_partial_sampling_is_unbiased(options: dict[str, Any], identity: bool) -> None:
    """Over many seeds the mean of partial runs is that of complete runs."""
    data, gaps = vectors(400), []
    for seed in range(80):
        common: dict[str, Any] = {"draws": 4, "identity": identity, "seed": seed}
        part = invariance(Linear(), data, transform=Noise(3.0), **common, **options)
        whole = invariance(Linear(), data, transform=Noise(3.0), **common)
        assert part.sampling_cost.drawn < 0.7 * whole.sampling_cost.drawn
        gaps.append(
            part[0].mean_with_interval("pa").value - whole[0].mean_with_interval("pa").value
        )
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / np.sqrt(len(gaps))
    assert np.std(gaps) / np.sqrt(len(gaps)) < 0.006


def test_widest_interval_of_all_models_decides_when_to_stop() -> None:
    sure = {"constant": lambda x: np.tile([0.9, 0.1], (len(x), 1))}
    alone = invariance(sure, vectors(3000), transform=Noise(), precision=0.02)
    both = invariance(
        {**sure, "by content": ByContent()}, vectors(3000), transform=Noise(), precision=0.02
    )
    assert both.sampling_cost.drawn > alone.sampling_cost.drawn
    assert all(model.mean_with_interval("pa").half_width <= 0.02 for model in both)


def test_precision_and_max_inputs_stop_at_whichever_comes_first() -> None:
    wide = invariance(Linear(), vectors(3000), transform=Noise(), precision=0.04, max_inputs=30_000)
    assert wide.sampling_cost.precision_reached
    assert wide.sampling_cost.drawn < 3000
    short = invariance(Linear(), vectors(3000), transform=Noise(), precision=0.001, max_inputs=700)
    assert not short.sampling_cost.precision_reached
    assert 697 < short.sampling_cost.drawn <= 700
    assert short.sampling_cost.requested_half_width == 0.001


@dataclass(frozen=True)
class Coarse(Noise):
    """Transform with a setting besides its magnitude."""

    steps: int = 4


def test_other_transform_settings_or_reference_cannot_be_resumed() -> None:
    first = invariance(Linear(), vectors(30), transform=Coarse())
    with pytest.raises(InputError, match=r"settings .*steps=4.* this one has .*steps=5"):
        invariance(Linear(), vectors(30), transform=Coarse(steps=5), resume=first)
    learned = invariance(Linear(), vectors(30), transform="gaussian")
    with pytest.raises(InputError, match=r"settings .*learned from"):
        invariance(
            Linear(), vectors(30), transform="gaussian", transform_data=vectors(9), resume=learned
        )
    plain = invariance(Linear(), vectors(30), transform=Noise(), transform_data=vectors(9))
    assert values(invariance(Linear(), vectors(30), transform=Noise(), resume=plain)) == values(
        plain
    )
