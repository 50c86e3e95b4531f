"""Results of neighborhood invariance: intervals, counts, warnings."""

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


def counts_of(classes: list[list[int]]) -> DecisionCounts:
    array = np.array(classes)
    return DecisionCounts(array, *(np.zeros(len(array)) for _ in range(4)))


def test_interval_of_binary_values_is_nearly_wilsons() -> None:
    values = np.array([1.0] * 170 + [0.0] * 30)
    mean = MeanWithInterval.from_values(values)
    low, high = wilson_interval(170, 200)
    assert (mean.low, mean.high) == pytest.approx((low, high), abs=1e-3)
    assert mean.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(200))


def test_small_variance_gives_a_narrower_interval_than_binary_values() -> None:
    rng = np.random.default_rng(0)
    close, far = 0.8 + 0.05 * rng.normal(size=500), (rng.random(500) < 0.8).astype(float)
    assert (
        MeanWithInterval.from_values(close).half_width
        < 0.4 * MeanWithInterval.from_values(far).half_width
    )


def test_interval_matches_the_central_limit_theorem() -> None:
    values = np.random.default_rng(1).uniform(0.3, 0.9, 4000)
    mean = MeanWithInterval.from_values(values)
    assert mean.half_width == pytest.approx(1.96 * mean.standard_error, rel=0.02)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_interval_contains_the_value_and_stays_in_range(values: list[float]) -> None:
    mean = MeanWithInterval.from_values(np.array(values))
    assert 0.0 <= mean.low <= mean.value + 1e-12
    assert mean.value - 1e-12 <= mean.high <= 1.0
    assert mean.low < mean.high


def test_interval_of_negative_entropy_uses_its_range() -> None:
    floor = -float(np.log(11))
    shares = np.random.default_rng(0).uniform(0, 1, 100)
    plain, scaled = (
        MeanWithInterval.from_values(shares),
        MeanWithInterval.from_values(floor * (1 - shares), floor, 0.0),
    )
    assert scaled.low == pytest.approx(floor * (1 - plain.low))
    assert scaled.high == pytest.approx(floor * (1 - plain.high))


def test_half_width_is_that_of_the_wider_side() -> None:
    assert MeanWithInterval(0.9, 0.01, 0.7, 0.95).half_width == pytest.approx(0.2)
    assert MeanWithInterval(0.1, 0.01, 0.05, 0.3).half_width == pytest.approx(0.2)


def test_one_example_gives_a_wide_interval() -> None:
    assert MeanWithInterval.from_values(np.array([1.0])).low < 0.5


def test_the_top_class_and_the_constant_share_are_counted() -> None:
    one = ModelInvariance(
        "m", counts_of([[2, 2, 2], [2, 2, 1], [0, -1, 0], [2, 2, 2]]), np.arange(4)
    )
    assert one.top_class == (2, 0.75)
    assert one.constant_share == 0.75
    assert not one.complete
    with pytest.raises(UnknownName, match=r"No measure is called 'nn'. Did you mean 'ni'"):
        one.by_example("nn")


def test_warning_names_the_class() -> None:
    named = ModelInvariance(
        "m", counts_of([[1, 1, 1]] * 30), np.arange(30), class_names=("cat", "dog")
    )
    assert "100% of the examples are assigned to class dog" in named.warnings()[0]


def test_expanded_counts_are_a_copy_with_room() -> None:
    small = counts_of([[1, 2], [0, 0]])
    wide = small.expand(2, 3, np.arange(2))
    assert wide.classes.tolist() == [[1, 2, -1, -1], [0, 0, -1, -1]]
    wide.effective_invariance[0] = 5.0
    assert small.effective_invariance[0] == 0.0
    assert small.expand(2, 0, np.arange(2)).classes.tolist() == small.classes.tolist()


def test_full_counts_are_at_the_positions_of_their_examples() -> None:
    one = ModelInvariance("m", counts_of([[1, 2, 2], [0, 0, 1]]), np.array([3, 0]))
    run = InvarianceResult("d", "f", 5, "t", "T", 1.0, 2, True, 0, SamplingCost(2, 6, 6), 0, (one,))
    (whole,) = run.full_counts(3)
    assert whole.classes[3].tolist() == [1, 2, 2, -1]
    assert whole.classes[0].tolist() == [0, 0, 1, -1]
    assert (whole.classes[[1, 2, 4]] == -1).all()
    assert run.measure_label("ni") == "NI-T"
    assert len(run) == 1


def test_standard_error_of_one_example_is_the_range() -> None:
    assert MeanWithInterval.from_values(np.array([0.7])).standard_error == 1.0


def test_means_over_draws_use_classified_draws_only() -> None:
    classes, zeros = np.array([[0, 0, -1], [0, 0, 0]]), np.zeros(2)
    part = DecisionCounts(classes, zeros, zeros, np.array([0.8, 1.2]), np.array([0.3, 0.6]))
    one = ModelInvariance("m", part, np.arange(2))
    assert one.by_example("ei") == pytest.approx([0.8, 0.6])
    assert one.entropy_difference == pytest.approx(0.3)


def test_partly_missing_probabilities_count_as_missing() -> None:
    some = counts_of([[0, 0, 1], [1, 0, 0]])
    some.entropy_gap[1] = some.effective_invariance[1] = np.nan
    one = ModelInvariance("m", some, np.arange(2))
    assert one.entropy_difference is None
    assert [name for name, _ in one.all_measures()] == ["ni", "ne", "pa"]


def test_range_of_negative_entropy_excludes_the_identity() -> None:
    classes = [[0, 1, 2], [0, 1, 1], [2, 0, 1]]
    without = ModelInvariance("m", counts_of(classes), np.arange(3), identity=False)
    values = without.by_example("ne")
    assert without.mean_with_interval("ne") == MeanWithInterval.from_values(
        values, -float(np.log(2)), 0.0
    )
    assert ModelInvariance("m", counts_of(classes), np.arange(3)).mean_with_interval(
        "ne"
    ).low >= -np.log(3)


def test_one_class_is_not_degenerate_if_draws_change_it() -> None:
    moved = ModelInvariance("m", counts_of([[2, 2, 1], [2, 0, 2], [2, 2, 2]]), np.arange(3))
    assert moved.top_class == (2, 1.0)
    assert not moved.degenerate


def test_entropy_decrease_gives_no_warning() -> None:
    surer = counts_of([[0, 0, 1], [1, 0, 0]])
    surer.entropy_gap[:] = -1.0
    assert ModelInvariance("m", surer, np.arange(2)).warnings() == ()
