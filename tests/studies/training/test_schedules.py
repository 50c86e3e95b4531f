"""Learning rate schedules, step by step."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.studies.training._train import schedule_factor
from oodometer.studies.training.config import Schedule


def rates(schedule: Schedule, per_epoch: int, epochs: int) -> list[float]:
    return [
        schedule_factor(step, schedule=schedule, steps_per_epoch=per_epoch, epochs=epochs)
        for step in range(1, per_epoch * epochs + 1)
    ]


def test_constant_is_one() -> None:
    assert rates("constant", 3, 2) == [1.0] * 6


def test_inverse_square_root_warms_up_for_one_epoch() -> None:
    found = rates("inverse-square-root", 5, 4)
    assert found[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert found[9] == pytest.approx(1 / math.sqrt(2))
    assert found[19] == pytest.approx(0.5)


def test_cosine_falls_from_one_to_nearly_zero() -> None:
    found = rates("cosine", 10, 10)
    assert found[0] == 1.0
    assert found[50] == pytest.approx(0.5)
    assert 0 < found[-1] < 0.001


@given(st.sampled_from(["cosine", "inverse-square-root"]), st.integers(1, 20), st.integers(1, 20))
def test_factors_are_in_the_unit_interval_and_fall_after_warm_up(
    schedule: Schedule, per_epoch: int, epochs: int
) -> None:
    found = rates(schedule, per_epoch, epochs)
    assert all(0 < rate <= 1 for rate in found)
    after = found[per_epoch - 1 :]
    assert after == sorted(after, reverse=True)
