"""Tallies: those of some rows and of others add up, labels and segments too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oodometer.assessment.partial_sums import FittedEstimator, PartialResult, ScannedBatch, ScanPlan
from oodometer.assessment.ppi import BinnedAccuracy
from oodometer.core.predictions import Predictions
from oodometer.data.batch_reader import FilePartition, infer_schema, make_partitions
from oodometer.data.prediction_files import PredictionColumns
from oodometer.estimators import BBSE, AverageConfidence
from oodometer.testing import toy_predictions
from tests.support.partitioned_files import table_of, write

ROWS = toy_predictions(n=100)
MEMBERS = (
    FittedEstimator(AverageConfidence(), None),
    FittedEstimator(BBSE(), BBSE().learn(ROWS)),
)


def plan(path: Path, **more: Any) -> tuple[ScanPlan, tuple[FilePartition, ...]]:
    taken = infer_schema([path], PredictionColumns(), labelled=False, segment_by="site")
    given = {"batch_size": 64, "temperature": 1.0, "estimators": MEMBERS, "seed": 0, "sample_size": 30,
             "priority_bound": 2**32, "max_labels": 10, "binned_accuracy": BinnedAccuracy.fit(ROWS), "segment_estimator": MEMBERS[1]}  # fmt: skip
    return ScanPlan(taken, **{**given, **more}), make_partitions([path])[0]


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
    found = one(part, report_rows=heard.append)
    whole = Predictions.from_probs(ROWS.probs)
    assert (found.n, found.n_unlabelled, sum(heard)) == (100, 80, 100)
    for member in MEMBERS:
        expected = member.estimator.summarize(member.learned_state, whole)
        np.testing.assert_allclose(found.totals[member.estimator.name], expected, rtol=1e-12)
    halves = {value: whole.rows(slice(start, None, 2)) for value, start in (("b", 0), ("a", 1))}
    assert {value: one.n for value, one in found.segments.items()} == {"a": 50, "b": 50}
    for value, rows in halves.items():
        expected = BBSE().summarize(MEMBERS[1].learned_state, rows)
        np.testing.assert_array_equal(found.segments[value].total, expected)
    assert found.sample is not None
    assert (len(found.sample), sorted(found.sample.columns)) == (30, ["by", "scores"])
    assert found.labelled_sample is not None
    assert (len(found.labelled_sample), set(found.labelled_sample.positions % 5)) == (10, {0})


def test_tallies_add_up(path: Path) -> None:
    one, (part,) = plan(path)
    whole, both = one(part), PartialResult()
    for groups, start in (((0, 1), 0), ((2, 3, 4), 40)):
        both.merge(one(FilePartition(0, path, groups, start, start, None)))
    assert (both.n, both.n_unlabelled) == (whole.n, whole.n_unlabelled)
    np.testing.assert_allclose(both.totals["ac"], whole.totals["ac"], rtol=1e-12)
    np.testing.assert_array_equal(both.totals["bbse"], whole.totals["bbse"])
    for value, segment in whole.segments.items():
        np.testing.assert_array_equal(both.segments[value].total, segment.total)
        assert both.segments[value].n == segment.n
    np.testing.assert_array_equal(both.bin_counts, whole.bin_counts)


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
    batch = ScannedBatch(pa.table({"label": labels}), 0, ROWS, 0)
    assert batch.labelled_rows("label").tolist() == known
