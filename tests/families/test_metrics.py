"""The rules on every metric, including those not written yet."""

from __future__ import annotations

import pytest

from oodometer.core.protocols import Metric
from oodometer.metrics import available
from oodometer.testing import METRIC_RULES


@pytest.mark.parametrize("rule", METRIC_RULES, ids=lambda rule: rule.__name__.strip("_"))
@pytest.mark.parametrize("member", available(), ids=lambda member: member.name)
def test_rule(member: Metric, rule: object) -> None:
    assert callable(rule)
    rule(member, 0)
