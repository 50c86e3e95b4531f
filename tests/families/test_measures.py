"""The rules on every measure, including those not written yet."""

from __future__ import annotations

from typing import Any

import pytest

from oodometer.core.protocols import Measure
from oodometer.measures import available
from oodometer.testing import MEASURE_RULES
from oodometer.testing.measures import MeasureTestSubjects


@pytest.fixture(scope="module")
def bench() -> MeasureTestSubjects:
    """One for all: what measures share is computed once."""
    return MeasureTestSubjects()


@pytest.mark.parametrize("rule", MEASURE_RULES, ids=lambda rule: rule.__name__.strip("_"))
@pytest.mark.parametrize("member", available(), ids=lambda member: member.name)
def test_rule(member: Measure, rule: Any, bench: MeasureTestSubjects) -> None:
    rule(member, bench)


def test_names_and_labels_are_one_measures_alone() -> None:
    members = available()
    assert len({member.name for member in members}) == len(members)
    assert len({member.label for member in members}) == len(members)
