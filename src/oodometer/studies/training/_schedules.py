"""How the learning rate goes on while a model is trained."""

from __future__ import annotations

import math

from oodometer.studies.training.config import Schedule


def schedule_factor(step: int, *, schedule: Schedule, steps_per_epoch: int, epochs: int) -> float:
    """The share of the learning rate that a step takes, counted from 1.

    constant              1
    inverse-square-root   a line up to 1 over the first epoch, then 1 / √epochs (Vaswani et al. 2017)
    cosine                (1 + cos π t) / 2, where t goes from 0 to 1 over all epochs (Loshchilov &
                          Hutter 2017)

    >>> [schedule_factor(s, schedule="inverse-square-root", steps_per_epoch=4, epochs=9) for s in (1, 4, 16, 36)]
    [0.25, 1.0, 0.5, 0.3333333333333333]
    """
    if schedule == "inverse-square-root":
        passed = step / steps_per_epoch
        return min(passed, 1 / math.sqrt(passed))
    if schedule == "cosine":
        return (1 + math.cos(math.pi * (step - 1) / (steps_per_epoch * epochs))) / 2
    return 1.0
