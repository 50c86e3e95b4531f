"""Estimators that have summed up already say what they would have said."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from oodometer import estimators
from oodometer.assessment.partial_sums import FittedEstimator, PartialResult
from oodometer.assessment.streaming import SummarizedEstimator, scan
from oodometer.core.errors import InputError
from oodometer.core.protocols import StreamingEstimator
from oodometer.data.batch_reader import FilePartition
from oodometer.parallel.runners import serial
from oodometer.testing import toy_pair, toy_predictions
from tests.support.partitioned_files import table_of, write

SOURCE, TARGET = toy_pair()
MEMBERS = [
    one for one in estimators.MEMBERS if isinstance(one, StreamingEstimator) and one.is_mergeable
]


@pytest.mark.parametrize("member", MEMBERS, ids=lambda one: str(one.name))
def test_it_looks_at_no_row_any_more(member: StreamingEstimator[object, object]) -> None:
    learned = member.learn(SOURCE)
    done = SummarizedEstimator(FittedEstimator(member, learned), member.summarize(learned, TARGET))
    few = TARGET.rows(slice(0, 1))
    assert done.estimate(SOURCE.rows(slice(0, 5)), few) == member.estimate(SOURCE, TARGET)
    assert (done.name, done.assumes) == (member.name, member.assumes)
    assert (done.needs, done.paper) == (member.needs, member.paper)
    one, other = (
        which.resample(learned, done.total, np.random.default_rng(0), 20)
        for which in (done, member)
    )
    np.testing.assert_array_equal(one, other)


def test_a_pass_that_fails_stops_the_other_parts(tmp_path: Path) -> None:
    """What is read after that would be read for nothing, and for hours."""
    path = write(table_of(toy_predictions(n=400)), tmp_path / "a.parquet", 10)
    plan = Counting()
    parts = [FilePartition(number, path, None, 0, 0, None) for number in range(40)]
    with pytest.raises(InputError, match="the third part"):
        scan(plan, parts, serial, lambda rows: None)  # type: ignore[arg-type]
    time.sleep(0.2)
    assert plan.begun < 40


class Counting:
    """A plan whose third part fails."""

    sample_size, max_labels, begun = 10, 10, 0

    def __call__(self, part: FilePartition, report_rows: Callable[[int], None]) -> PartialResult:
        self.begun += 1
        if part.number == 2:
            raise InputError("the third part")
        for _ in range(50):
            time.sleep(0.002)
            report_rows(1)
        return PartialResult(n=50)
