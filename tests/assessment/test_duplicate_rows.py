"""Notes on copies of rows within and across source and target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import oodometer
from oodometer.assessment.duplicate_rows import MAX_ROWS, duplicate_notes
from oodometer.core.predictions import Predictions
from tests.support.research_data import require_data


def probs(n: int, seed: int, k: int = 3) -> Any:
    return np.random.default_rng(seed).dirichlet(np.ones(k), n)


def notes(source: Any, target: Any) -> str:
    return " ".join(duplicate_notes(Predictions.from_probs(source), Predictions.from_probs(target)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_within_and_across_are_counted(dtype: Any) -> None:
    a, b = probs(400, 0).astype(dtype), probs(300, 1).astype(dtype)
    assert notes(a, b) == ""
    assert "50 % of the source rows seem to be copies" in notes(np.concatenate([a, a]), b)
    assert "25 % of the target rows seem to be copies of another target row" in notes(
        a, np.concatenate([b, b[:100]])
    )
    assert "25 % of the target rows have exactly the scores of a source row" in notes(
        a, np.concatenate([b, a[:100]])
    )


@pytest.mark.parametrize("times", [2, 3, 5])
def test_files_that_are_repeated_several_times_are_recognized(times: int) -> None:
    share = round(100 * (times - 1) / times)
    assert f"{share} % of the source rows seem" in notes(
        np.tile(probs(200, 0), (times, 1)), probs(90, 1)
    )


def test_a_tenth_of_copies_among_a_thousand_rows_is_recognized() -> None:
    rows = probs(1000, 0)
    assert "11 % of the source rows" in notes(np.concatenate([rows, rows[:120]]), probs(90, 1))


@pytest.mark.parametrize(("n", "m"), [(3, 1), (1, 3), (4, 4)])
def test_samples_of_many_rows_keep_copies_together(n: int, m: int) -> None:
    a, b = probs(n * MAX_ROWS, 0), probs(m * MAX_ROWS, 1)
    half = min(len(a), len(b)) // 2
    assert "50 % of the target rows" in notes(a, np.concatenate([b[:half], a[:half]]))
    assert notes(a, b) == ""


# Outputs of models on tables with few different inputs ------------------------------------------


def few_outputs(n: int, n_outputs: int, seed: int, *, exponent: float) -> Any:
    """Draw n rows of different outputs whose frequencies are a power law."""
    frequencies = np.arange(1.0, n_outputs + 1) ** -exponent
    rng = np.random.default_rng(seed)
    return probs(n_outputs, 99)[rng.choice(n_outputs, n, p=frequencies / frequencies.sum())]


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n_outputs", [30, 1000, 5000, 20000])
def test_outputs_that_are_equal_by_chance_are_no_copies(n_outputs: int, exponent: float) -> None:
    for seed in range(5):
        source, target = (
            few_outputs(2000, n_outputs, 2 * seed + j, exponent=exponent) for j in (0, 1)
        )
        assert notes(source, target) == ""


def test_copies_among_few_outputs_are_recognized() -> None:
    rows = few_outputs(2000, 5000, 0, exponent=0.5)
    other = few_outputs(2000, 5000, 1, exponent=0.5)
    assert "of the source rows seem to be copies" in notes(np.concatenate([rows, rows]), other)


def test_rows_with_different_labels_or_ids_are_no_copies() -> None:
    rows = np.tile(probs(300, 0), (2, 1))
    other = Predictions.from_probs(probs(90, 1))
    numbers = np.arange(600)
    for columns, is_copied in (
        ({"labels": numbers % 300 % 2}, True),
        ({"labels": numbers // 300}, False),
        ({"ids": numbers % 300}, True),
        ({"ids": numbers}, False),
        ({"ids": [f"row {number}" for number in numbers]}, False),
    ):
        source = Predictions.from_probs(rows, **columns)
        assert any("copies" in note for note in duplicate_notes(source, other)) == is_copied


@pytest.mark.realdata
def test_published_outputs_on_a_census_table_have_no_copies() -> None:
    path = require_data("tables/acs_employment_MA_2015_2018.parquet")
    table = pq.read_table(path, columns=["year", "predicted_probability"]).to_pandas()
    years = [
        np.stack([1 - part.predicted_probability, part.predicted_probability], axis=1)
        for _, part in table.groupby("year")
    ]
    for year in years[1:]:
        assert len(np.unique(year[:, 1])) < 0.5 * len(year)
        assert notes(years[0], year) == ""
        assert "copies of another target row" in notes(years[0], np.concatenate([year, year]))


def test_rounded_saturated_and_few_scores_are_not_compared() -> None:
    assert notes(probs(400, 0, 2).round(2), probs(400, 1, 2).round(2)) == ""
    assert notes(np.repeat(probs(9, 0), 50, axis=0), np.repeat(probs(9, 0), 50, axis=0)) == ""
    sure = np.repeat([[1.0, 0.0, 0.0]], 300, axis=0)
    mixed = [np.concatenate([sure, probs(100, seed)]) for seed in (0, 1)]
    assert notes(*mixed) == ""
    assert notes(probs(20, 0), probs(20, 0)) == ""


def test_assessment_has_the_notes() -> None:
    rng = np.random.default_rng(0)
    source = Predictions.from_probs(probs(200, 0), labels=rng.integers(0, 3, 200))
    target = Predictions.from_probs(np.concatenate([probs(100, 1), probs(200, 0)[:100]]))
    result = oodometer.estimate(source, target, methods="ac", replicates=20)
    assert any("scores of a source row" in note for note in result.notes)
    same = oodometer.estimate(source, source, methods="ac", replicates=20)
    assert "same rows" in same.summary
    assert not any("scores of a source row" in note for note in same.notes)
