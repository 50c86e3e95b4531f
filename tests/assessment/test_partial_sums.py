"""Tallies: those of some rows and of others add up, labels and segments too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oodometer.assessment.partial_sums import Batch, Plan, Summing, Tally
from oodometer.assessment.ppi import Chances
from oodometer.core.predictions import Predictions
from oodometer.data._partitions import Part, parted
from oodometer.data._score_schema import take_from
from oodometer.data.prediction_files import Columns
from oodometer.estimators import AverageConfidence, BlackBoxShift
from oodometer.testing import toy_predictions
from tests.support.partitioned_files import table_of, write

ROWS = toy_predictions(n=100)
MEMBERS = (
    Summing(AverageConfidence(), None),
    Summing(BlackBoxShift(), BlackBoxShift().learn(ROWS)),
)


def plan(path: Path, **more: Any) -> tuple[Plan, tuple[Part, ...]]:
    taken = take_from([path], Columns(), labelled=False, by="site")
    given = {"rows": 64, "temperature": 1.0, "members": MEMBERS, "seed": 0, "size": 30,
             "limit": 2**32, "labels": 10, "chances": Chances.of(ROWS), "segmented": MEMBERS[1]}  # fmt: skip
    return Plan(taken, **{**given, **more}), parted([path])[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    sites = pa.array(np.array(["b", "a"])[np.arange(100) % 2]).dictionary_encode()
    labels = pa.array(
        [None if row % 5 else int(np.asarray(ROWS.labels)[row]) for row in range(100)]
    )
    return write(table_of(ROWS, site=sites, label=labels), tmp_path / "a.parquet", 20)


def test_a_tally_is_what_the_estimators_sum_up(path: Path) -> None:
    one, (part,) = plan(path)
    heard: list[int] = []
    found = one(part, tell=heard.append)
    whole = Predictions.from_probs(ROWS.probs)
    assert (found.n, found.blanks, sum(heard)) == (100, 80, 100)
    for member in MEMBERS:
        expected = member.member.summarize(member.learned, whole)
        np.testing.assert_allclose(found.totals[member.member.name], expected, rtol=1e-12)
    halves = {value: whole.rows(slice(start, None, 2)) for value, start in (("b", 0), ("a", 1))}
    assert {value: one.n for value, one in found.segments.items()} == {"a": 50, "b": 50}
    for value, rows in halves.items():
        expected = BlackBoxShift().summarize(MEMBERS[1].learned, rows)
        np.testing.assert_array_equal(found.segments[value].total, expected)
    assert found.sample is not None
    assert (len(found.sample), sorted(found.sample.rows)) == (30, ["by", "scores"])
    assert found.labelled is not None
    assert (len(found.labelled), set(found.labelled.places % 5)) == (10, {0})


def test_tallies_add_up(path: Path) -> None:
    one, (part,) = plan(path)
    whole, both = one(part), Tally()
    for groups, start in (((0, 1), 0), ((2, 3, 4), 40)):
        both.add(one(Part(0, path, groups, start, start, None)))
    assert (both.n, both.blanks) == (whole.n, whole.blanks)
    np.testing.assert_allclose(both.totals["ac"], whole.totals["ac"], rtol=1e-12)
    np.testing.assert_array_equal(both.totals["bbse"], whole.totals["bbse"])
    for value, segment in whole.segments.items():
        np.testing.assert_array_equal(both.segments[value].total, segment.total)
        assert both.segments[value].n == segment.n
    np.testing.assert_array_equal(both.chances, whole.chances)


@pytest.mark.parametrize(
    ("labels", "known"),
    [
        (pa.array([1, None, 0]), [0, 2]),
        (pa.array([1.0, float("nan"), None]), [0]),
        (pa.array(["cat", " ", ""]), [0]),
        (pa.array(["cat", None, "dog"]).dictionary_encode(), [0, 2]),
        (pa.nulls(3), []),
        (pa.array([True, None, False]), [0, 2]),
    ],
)
def test_blanks_are_those_that_blanks_are_elsewhere(labels: Any, known: list[int]) -> None:
    batch = Batch(pa.table({"label": labels}), 0, ROWS, 0)
    assert batch.labelled_rows("label").tolist() == known
