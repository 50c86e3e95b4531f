"""Simulation of alarm rules: equal to the product, and rules that behave as they should."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import _monitoring_rules as rules
from benchmarks._monitoring_rules import NEVER, Streams
from benchmarks.monitoring import median_delay


def streams(fall: float) -> Streams:
    rng = np.random.default_rng(0)
    center = np.full((40, 60), 0.85)
    center[:, 30:] -= fall
    return Streams(rng.binomial(1000, center) / 1000, 1000, 0.84, 0.85, 0.01)


@pytest.mark.parametrize("form", ["row", "batch"])
def test_simulated_evidence_is_that_of_the_monitor(form: str) -> None:
    assert rules.check_twin(streams(0.05), form, count=2) < 1e-9


def test_rules_find_a_large_fall() -> None:
    fallen = streams(0.2)
    for rule in (rules.e_detector("row"), rules.e_detector("batch"), rules.daily_bonferroni):
        assert median_delay(rule, fallen, change=30) == 1
    assert (rules.e_detector("batch")(streams(0.0)) == NEVER).all()


def test_delay_is_unknown_if_alarms_come_too_early() -> None:
    assert median_delay(rules.always, streams(0.1), change=30) is None
