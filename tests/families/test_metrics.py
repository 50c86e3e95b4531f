"""Conformance rules on every metric."""

from __future__ import annotations

from oodometer.metrics import available
from oodometer.testing import METRIC_RULES
from tests.support.cases import assert_conformance


def test_every_metric_keeps_the_rules() -> None:
    assert_conformance(METRIC_RULES, available(), [0])
