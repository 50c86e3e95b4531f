"""What is known of neighborhoods: intervals, tallies, names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import UnknownName
from oodometer.core.stats import wilson_interval
from oodometer.neighborhood.results import (
    DecisionCounts,
    InvarianceResult,
    MeanWithInterval,
    ModelInvariance,
    SamplingCost,
)


def tally(classes: list[list[int]]) -> DecisionCounts:
    made = np.array(classes)
    return DecisionCounts(made, *(np.zeros(len(made)) for _ in range(4)))


def test_of_yes_and_no_the_interval_is_wilsons_but_for_the_two_added() -> None:
    values = np.array([1.0] * 170 + [0.0] * 30)
    found = MeanWithInterval.from_values(values)
    low, high = wilson_interval(170, 200)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-3)
    assert found.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(200))


def test_values_close_together_are_surer_than_yes_and_no() -> None:
    rng = np.random.default_rng(0)
    close, far = 0.8 + 0.05 * rng.normal(size=500), (rng.random(500) < 0.8).astype(float)
    assert (
        MeanWithInterval.from_values(close).half_width
        < 0.4 * MeanWithInterval.from_values(far).half_width
    )


def test_close_values_have_the_interval_of_the_central_limit() -> None:
    values = np.random.default_rng(1).uniform(0.3, 0.9, 4000)
    found = MeanWithInterval.from_values(values)
    assert found.half_width == pytest.approx(1.96 * found.standard_error, rel=0.02)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_value_is_inside_and_the_interval_within_its_range(values: list[float]) -> None:
    found = MeanWithInterval.from_values(np.array(values))
    assert 0.0 <= found.low <= found.value + 1e-12
    assert found.value - 1e-12 <= found.high <= 1.0
    assert found.low < found.high


def test_negative_entropy_is_read_on_its_own_scale() -> None:
    floor = -float(np.log(11))
    shares = np.random.default_rng(0).uniform(0, 1, 100)
    plain, scaled = (
        MeanWithInterval.from_values(shares),
        MeanWithInterval.from_values(floor * (1 - shares), floor, 0.0),
    )
    assert scaled.low == pytest.approx(floor * (1 - plain.low))
    assert scaled.high == pytest.approx(floor * (1 - plain.high))


def test_the_half_width_is_that_of_the_wider_side() -> None:
    assert MeanWithInterval(0.9, 0.01, 0.7, 0.95).half_width == pytest.approx(0.2)
    assert MeanWithInterval(0.1, 0.01, 0.05, 0.3).half_width == pytest.approx(0.2)


def test_one_example_is_hardly_anything() -> None:
    assert MeanWithInterval.from_values(np.array([1.0])).low < 0.5


def test_the_top_class_and_the_constant_share_are_counted() -> None:
    one = ModelInvariance("m", tally([[2, 2, 2], [2, 2, 1], [0, -1, 0], [2, 2, 2]]), np.arange(4))
    assert one.top_class == (2, 0.75)
    assert one.constant_share == 0.75
    assert not one.complete
    with pytest.raises(UnknownName, match=r"No measure is called 'nn'. Did you mean 'ni'"):
        one.by_example("nn")


def test_a_named_class_is_named_in_the_note() -> None:
    named = ModelInvariance("m", tally([[1, 1, 1]] * 30), np.arange(30), class_names=("cat", "dog"))
    assert "100% of the examples are put in class dog" in named.warnings()[0]


def test_a_widened_tally_is_a_copy_with_room() -> None:
    small = tally([[1, 2], [0, 0]])
    wide = small.widen(3)
    assert wide.classes.tolist() == [[1, 2, -1, -1], [0, 0, -1, -1]]
    wide.effective_invariance[0] = 5.0
    assert small.effective_invariance[0] == 0.0
    assert small.widen(0).classes.tolist() == small.classes.tolist()


def test_tallies_of_a_run_stand_where_their_examples_do() -> None:
    one = ModelInvariance("m", tally([[1, 2, 2], [0, 0, 1]]), np.array([3, 0]))
    run = InvarianceResult("d", "f", 5, "t", "T", 1.0, 2, True, 0, SamplingCost(2, 6, 6), 0, (one,))
    (whole,) = run.full_counts(3)
    assert whole.classes[3].tolist() == [1, 2, 2, -1]
    assert whole.classes[0].tolist() == [0, 0, 1, -1]
    assert (whole.classes[[1, 2, 4]] == -1).all()
    assert run.measure_label("ni") == "NI-T"
    assert len(run) == 1


def test_of_one_example_nothing_is_known_of_the_spread() -> None:
    assert MeanWithInterval.from_values(np.array([0.7])).standard_error == 1.0


def test_means_over_draws_are_of_the_draws_that_there_are() -> None:
    classes, zeros = np.array([[0, 0, -1], [0, 0, 0]]), np.zeros(2)
    part = DecisionCounts(classes, zeros, zeros, np.array([0.8, 1.2]), np.array([0.3, 0.6]))
    one = ModelInvariance("m", part, np.arange(2))
    assert one.by_example("ei") == pytest.approx([0.8, 0.6])
    assert one.entropy_difference == pytest.approx(0.3)


def test_probabilities_of_a_part_only_are_none() -> None:
    some = tally([[0, 0, 1], [1, 0, 0]])
    some.entropy_gap[1] = some.effective_invariance[1] = np.nan
    one = ModelInvariance("m", some, np.arange(2))
    assert one.entropy_difference is None
    assert [name for name, _ in one.all_measures()] == ["ni", "ne", "pa"]


def test_negative_entropy_has_as_many_members_as_vote() -> None:
    classes = [[0, 1, 2], [0, 1, 1], [2, 0, 1]]
    without = ModelInvariance("m", tally(classes), np.arange(3), identity=False)
    values = without.by_example("ne")
    assert without.mean_with_interval("ne") == MeanWithInterval.from_values(
        values, -float(np.log(2)), 0.0
    )
    assert ModelInvariance("m", tally(classes), np.arange(3)).mean_with_interval(
        "ne"
    ).low >= -np.log(3)


def test_one_class_for_all_is_not_degenerate_if_draws_move_it() -> None:
    moved = ModelInvariance("m", tally([[2, 2, 1], [2, 0, 2], [2, 2, 2]]), np.arange(3))
    assert moved.top_class == (2, 1.0)
    assert not moved.degenerate


def test_a_fall_of_entropy_is_no_fault() -> None:
    surer = tally([[0, 0, 1], [1, 0, 0]])
    surer.entropy_gap[:] = -1.0
    assert ModelInvariance("m", surer, np.arange(2)).warnings() == ()
