"""Conformance rules on every measure."""

from __future__ import annotations

import pytest

from oodometer.core.protocols import Measure
from oodometer.measures import available
from oodometer.measures.distributed import group_by_shared_work
from oodometer.testing import MEASURE_RULES
from oodometer.testing.measures import MeasureTestSubjects
from tests.support.cases import assert_conformance

SUBJECTS = MeasureTestSubjects()


@pytest.mark.parametrize(
    "group", group_by_shared_work(available()), ids=lambda group: group[0].name
)
def test_every_measure_keeps_the_rules(group: list[Measure]) -> None:
    """Measures that share work are in one test, and all groups use the same subjects."""
    assert_conformance(MEASURE_RULES, group, [SUBJECTS])


def test_names_and_labels_are_unique() -> None:
    members = available()
    assert len({member.name for member in members}) == len(members)
    assert len({member.label for member in members}) == len(members)
