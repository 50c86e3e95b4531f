"""Partial sums of partitions, and the one-pass softmax kernel against `Predictions`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oodometer.assessment.bootstrap import LearnedSource
from oodometer.assessment.partial_sums import (
    FittedEstimator,
    PartialResult,
    ScanPlan,
    find_labelled_rows,
    one_pass_predictions,
)
from oodometer.assessment.ppi import BinnedAccuracy
from oodometer.assessment.segments import RowCorrectness, segment_sums
from oodometer.core import softmax_kernels
from oodometer.core.calibration import Calibration
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.data.batch_reader import FilePartition, infer_schema, make_partitions
from oodometer.data.prediction_files import PredictionColumns
from oodometer.estimators import BBSE, AverageConfidence
from oodometer.testing import toy_predictions
from tests.support.partitioned_files import table_of, write

ROWS = toy_predictions(n=100)
CORRECTNESS = RowCorrectness.fit(LearnedSource(ROWS, None, Calibration("temperature", None, ROWS)))
ESTIMATORS = (
    FittedEstimator(AverageConfidence(), None),
    FittedEstimator(BBSE(), BBSE().learn(ROWS)),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two sites and a label in every fifth row."""
    sites = pa.array(np.array(["b", "a"])[np.arange(100) % 2]).dictionary_encode()
    labels = pa.array(
        [None if row % 5 else int(np.asarray(ROWS.labels)[row]) for row in range(100)]
    )
    return write(table_of(ROWS, site=sites, label=labels), tmp_path / "a.parquet", 20)


@pytest.fixture
def plan(path: Path) -> ScanPlan:
    return ScanPlan(
        schema=infer_schema([path], PredictionColumns(), labelled=False, segment_by=("site",)),
        batch_size=64,
        temperature=1.0,
        estimators=ESTIMATORS,
        seed=0,
        sample_size=30,
        priority_bound=2**32,
        max_labels=10,
        binned_accuracy=BinnedAccuracy.fit(ROWS),
        row_correctness=CORRECTNESS,
    )


def test_totals_of_a_partition_equal_those_of_its_rows(path: Path, plan: ScanPlan) -> None:
    ((partition,), _) = make_partitions([path])
    reported: list[int] = []
    result = plan(partition, report_rows=reported.append)
    whole = Predictions.from_probs(ROWS.probs)
    assert (result.n, result.n_unlabelled, sum(reported)) == (100, 80, 100)
    for fitted in ESTIMATORS:
        expected = fitted.summarize(whole)
        np.testing.assert_allclose(result.totals[fitted.estimator.name], expected, rtol=1e-12)
    halves = {value: whole.rows(slice(start, None, 2)) for value, start in (("b", 0), ("a", 1))}
    assert {value: sums[0] for value, sums in result.segments.items()} == {"a": 50, "b": 50}
    for value, rows in halves.items():
        expected = segment_sums(CORRECTNESS(rows))
        np.testing.assert_allclose(result.segments[value], expected, rtol=1e-12)
    assert result.sample is not None
    assert (len(result.sample), sorted(result.sample.columns)) == (30, ["by", "scores"])
    assert result.labelled_sample is not None
    assert (len(result.labelled_sample), set(result.labelled_sample.positions % 5)) == (10, {0})


def test_merged_results_equal_the_result_of_all_rows(path: Path, plan: ScanPlan) -> None:
    ((partition,), _) = make_partitions([path])
    whole = plan(partition)
    merged = PartialResult()
    for groups, start in (((0, 1), 0), ((2, 3, 4), 40)):
        merged.merge(plan(FilePartition(0, path, groups, start, start, None)))
    assert (merged.n, merged.n_unlabelled) == (whole.n, whole.n_unlabelled)
    np.testing.assert_allclose(merged.totals["ac"], whole.totals["ac"], rtol=1e-12)
    np.testing.assert_array_equal(merged.totals["bbse"], whole.totals["bbse"])
    for value, segment in whole.segments.items():
        np.testing.assert_allclose(merged.segments[value], segment, rtol=1e-12)
    np.testing.assert_array_equal(merged.bin_counts, whole.bin_counts)


@pytest.mark.parametrize(
    ("labels", "labelled"),
    [
        (pa.array([1, None, 0]), [0, 2]),
        (pa.array([1.0, float("nan"), None]), [0]),
        (pa.array(["cat", " ", ""]), [0]),
        (pa.array(["cat", None, "dog"]).dictionary_encode(), [0, 2]),
        (pa.nulls(3), []),
        (pa.array([True, None, False]), [0, 2]),
    ],
)
def test_null_nan_and_blank_labels_are_missing(labels: Any, labelled: list[int]) -> None:
    assert find_labelled_rows(pa.chunked_array([labels])).tolist() == labelled


# One-pass softmax kernel ------------------------------------------------------------------------


def random_scores(seed: int, n: int, k: int, score_type: str) -> Any:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)) * rng.choice([0.1, 3.0, 30.0])
    logits[:: max(n // 3, 1), 0] = logits[:: max(n // 3, 1), -1]  # ties
    if score_type == "logits":
        return logits
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    probs[probs < 1e-9] = 0.0
    return probs


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 300),
    k=st.sampled_from([2, 3, 10, 32, 33, 50]),
    score_type=st.sampled_from(["probs", "logits"]),
    dtype=st.sampled_from([np.float64, np.float32, np.float16]),
    column_major=st.booleans(),
    temperature=st.sampled_from([1.0, 0.3, 2.5]),
)
@example(
    seed=0, n=257, k=10, score_type="probs", dtype=np.float64, column_major=False, temperature=1.0
)
def test_one_pass_statistics_equal_those_of_predictions_to_the_last_bit(
    seed: int,
    n: int,
    k: int,
    score_type: Literal["probs", "logits"],
    dtype: Any,
    column_major: bool,
    temperature: float,
) -> None:
    scores = random_scores(seed, n, k, score_type).astype(dtype)
    if column_major:  # the layout of columns that were read one by one
        scores = np.ascontiguousarray(scores.T).T
    before = scores.copy()
    make = Predictions.from_probs if score_type == "probs" else Predictions.from_logits
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        # Several blocks, the last of them shorter.
        patch.setattr(softmax_kernels, "BLOCK_CELLS", 64 * k)
        expected = make(scores).at_temperature(temperature)
        rows = one_pass_predictions(scores, score_type, temperature=temperature)
    np.testing.assert_array_equal(rows.confidence, expected.confidence)
    np.testing.assert_array_equal(rows.classes, expected.classes)
    np.testing.assert_array_equal(rows.negative_entropy, expected.negative_entropy)
    np.testing.assert_array_equal(scores, before)
    assert (rows.n, rows.k, rows.temperature) == (n, k, temperature)
    assert rows.confidence.dtype == expected.confidence.dtype
    assert rows.classes.dtype == expected.classes.dtype


def invalid_scores(score_type: str, k: int) -> list[Any]:
    scores = random_scores(0, 40, k, score_type)
    cases = []
    for value in (np.nan, np.inf, -np.inf):
        cases.append(scores.copy())
        cases[-1][17, 1] = value
    if score_type == "probs":
        for value in (1.2, -0.4, 0.5):
            cases.append(scores.copy())
            cases[-1][23, 0] += value
    return cases


@pytest.mark.parametrize("k", [2, 4, 40])
@pytest.mark.parametrize("score_type", ["probs", "logits"])
def test_invalid_scores_raise_the_error_of_predictions(
    score_type: Literal["probs", "logits"], k: int
) -> None:
    make = Predictions.from_probs if score_type == "probs" else Predictions.from_logits
    for scores in invalid_scores(score_type, k):
        with pytest.raises(InputError) as expected:
            make(scores)
        with pytest.raises(InputError) as error:
            one_pass_predictions(scores, score_type, temperature=2.0)
        assert str(error.value) == str(expected.value)


def test_scores_of_the_wrong_shape_are_rejected() -> None:
    with pytest.raises(InputError, match="no rows"):
        one_pass_predictions(np.empty((0, 3)), "probs")
    with pytest.raises(InputError, match="at least two"):
        one_pass_predictions(np.ones((3, 1)), "probs")
    with pytest.raises(InputError, match="3 classes but 2 class names"):
        one_pass_predictions(np.full((2, 3), 1 / 3), "probs", class_names=("a", "b"))


def test_masked_class_has_zero_weight_and_causes_no_warning() -> None:
    lowest = np.finfo(np.float32).min
    logits = np.array([[0.0, lowest, 0.0], [1.0, 0.0, lowest]], dtype=np.float32)
    rows = one_pass_predictions(logits, "logits", temperature=0.5)
    np.testing.assert_allclose(rows.confidence, [0.5, 1 / (1 + np.exp(-2.0))], rtol=1e-6)


def test_no_warning_per_batch_for_logits_that_look_like_probabilities() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one_pass_predictions(np.full((20, 4), 0.25), "logits")
