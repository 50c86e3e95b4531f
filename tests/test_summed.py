"""Estimators that have summed up already say what they would have said."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer import estimators
from oodometer.core import Staged
from oodometer.summed import Summed
from oodometer.tally import Summing
from oodometer.testing import toy_pair

SOURCE, TARGET = toy_pair()
MEMBERS = [one for one in estimators.MEMBERS if isinstance(one, Staged) and one.streams]


@pytest.mark.parametrize("member", MEMBERS, ids=lambda one: str(one.name))
def test_it_looks_at_no_row_any_more(member: Staged[object, object]) -> None:
    learned = member.learn(SOURCE)
    done = Summed(Summing(member, learned), member.summarize(learned, TARGET))
    few = TARGET.rows(slice(0, 1))
    assert done.estimate(SOURCE.rows(slice(0, 5)), few) == member.estimate(SOURCE, TARGET)
    assert (done.name, done.assumes) == (member.name, member.assumes)
    assert (done.needs, done.paper) == (member.needs, member.paper)
    one, other = (
        which.resample(learned, done.total, np.random.default_rng(0), 20)
        for which in (done, member)
    )
    np.testing.assert_array_equal(one, other)
