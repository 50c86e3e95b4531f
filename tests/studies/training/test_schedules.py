"""Learning rate schedules, step by step."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oodometer.studies.training._train import schedule_factor
from oodometer.studies.training.config import Schedule


def rates(schedule: Schedule, per_epoch: int, epochs: int, **keys: Any) -> list[float]:
    return [
        schedule_factor(step, schedule=schedule, steps_per_epoch=per_epoch, epochs=epochs, **keys)
        for step in range(1, per_epoch * epochs + 1)
    ]


def torch_rates(make_scheduler: Any, n_steps: int) -> list[float]:
    """Return the learning rate of torch's scheduler at each step; the initial rate is 1."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make_scheduler(optimizer)
    found = []
    for _ in range(n_steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def per_epoch_rates(make_scheduler: Any, per_epoch: int, epochs: int) -> list[float]:
    return [rate for rate in torch_rates(make_scheduler, epochs) for _ in range(per_epoch)]


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


def test_step_matches_torch() -> None:
    scheduler = torch.optim.lr_scheduler
    ours = rates("step", 3, 10, decay=0.1, decay_epochs=4)
    theirs = per_epoch_rates(lambda one: scheduler.StepLR(one, step_size=4, gamma=0.1), 3, 10)
    assert ours == pytest.approx(theirs)
    assert ours[::12] == pytest.approx([1, 0.1, 0.01])
    listed = rates("step", 3, 10, decay=0.2, decay_epochs=(2, 7, 8))
    drops = per_epoch_rates(lambda one: scheduler.MultiStepLR(one, [2, 7, 8], gamma=0.2), 3, 10)
    assert listed == pytest.approx(drops)


def test_exponential_matches_torch() -> None:
    ours = rates("exponential", 3, 10, decay=0.96)
    scheduler = torch.optim.lr_scheduler.ExponentialLR
    assert ours == pytest.approx(per_epoch_rates(lambda one: scheduler(one, 0.96), 3, 10))
    assert ours[3] == 0.96


def test_cosine_with_warm_up_matches_torch() -> None:
    per_epoch, epochs, warmup = 4, 9, 2
    n_steps, n_warmup = per_epoch * epochs, per_epoch * warmup
    scheduler = torch.optim.lr_scheduler

    def make(optimizer: Any) -> Any:
        rise = scheduler.LinearLR(optimizer, start_factor=1 / n_warmup, total_iters=n_warmup - 1)
        fall = scheduler.CosineAnnealingLR(optimizer, T_max=n_steps - n_warmup)
        return scheduler.SequentialLR(optimizer, [rise, fall], milestones=[n_warmup])

    ours = rates("cosine", per_epoch, epochs, warmup_epochs=warmup)
    assert ours == pytest.approx(torch_rates(make, n_steps))
    assert ours[:n_warmup] == pytest.approx([step / n_warmup for step in range(1, n_warmup + 1)])


def test_warm_up_multiplies_other_schedules() -> None:
    assert rates("constant", 2, 3, warmup_epochs=2) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    found = rates("exponential", 2, 3, decay=0.5, warmup_epochs=2)
    assert found == [0.25, 0.5, 0.75 * 0.5, 0.5, 0.25, 0.25]


@given(st.sampled_from(["cosine", "inverse-square-root"]), st.integers(1, 20), st.integers(1, 20))
def test_factors_are_in_the_unit_interval_and_fall_after_warm_up(
    schedule: Schedule, per_epoch: int, epochs: int
) -> None:
    found = rates(schedule, per_epoch, epochs)
    assert all(0 < rate <= 1 for rate in found)
    after = found[per_epoch - 1 :]
    assert after == sorted(after, reverse=True)
