"""Batches of the source: which rows they contain, their estimates, and their use in the range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oodometer
from oodometer.assessment import source_batches
from oodometer.assessment._estimate import learn_source
from oodometer.assessment.bootstrap import LearnedSource
from oodometer.assessment.conformal_interval import MIN_DOMAINS
from oodometer.assessment.diagnostics import confidence_distance
from oodometer.assessment.source_batches import (
    MAX_BATCHES,
    MAX_ROWS,
    MIN_BATCH_ROWS,
    MIN_ROWS_PER_CLASS,
    N_RANDOM_BATCHES,
    SourceBatches,
    batch_history,
)
from oodometer.assessment.typical_range import Covariates, ReferenceErrors
from oodometer.core.predictions import Predictions
from oodometer.estimators.regime_weighting import RegimeWeighting
from oodometer.testing import toy_predictions


def learned_from(source: Predictions) -> LearnedSource:
    learned, _ = learn_source(source, "fit", "auto", seed=0)
    return learned


def batches_of(source: Predictions, segment_by: Any = None, seed: int = 0) -> SourceBatches:
    return SourceBatches(learned_from(source), segment_by, seed)


def members(batches: SourceBatches) -> np.ndarray:
    """Return whether each used row is in each batch, (batches, rows)."""
    n = batches.source.predictions.n
    return np.array(batches._batches(np.arange(0, n, -(-n // MAX_ROWS))))


def test_random_batches_partition_the_rows_into_equal_parts() -> None:
    chosen = members(batches_of(toy_predictions(1500)))
    assert chosen.shape == (N_RANDOM_BATCHES, 1500)
    assert (chosen.sum(axis=0) == 1).all()
    sizes = chosen.sum(axis=1)
    assert sizes.max() - sizes.min() <= 1


def test_seed_determines_the_random_batches() -> None:
    source = toy_predictions(1000)
    first, same, other = (members(batches_of(source, seed=seed)) for seed in (1, 1, 2))
    assert (first == same).all()
    assert (first != other).any()


@pytest.mark.parametrize(
    ("n", "k", "n_batches"),
    [
        (MIN_DOMAINS * MIN_BATCH_ROWS - 1, 4, 0),
        (MIN_DOMAINS * MIN_BATCH_ROWS, 4, MIN_DOMAINS),
        (150, 4, 0),
        (600, 4, 6),
        (1000, 50, 0),
    ],
)
def test_small_sources_have_fewer_or_no_batches(n: int, k: int, n_batches: int) -> None:
    batches = batches_of(toy_predictions(n, k))
    assert len(batches._batches(np.arange(n))) == n_batches
    assert n // max(MIN_BATCH_ROWS, MIN_ROWS_PER_CLASS * k) >= n_batches
    if not n_batches:
        assert batches.cases == []
        assert batches.history is None


def test_segments_are_the_batches_if_there_are_enough() -> None:
    days = np.repeat(np.arange(6), [300, 250, 200, 150, 120, 40])
    batches = batches_of(toy_predictions(len(days)), days)
    chosen = members(batches)
    # The last day has too few rows.
    assert [set(days[row]) for row in chosen] == [{0}, {1}, {2}, {3}, {4}]
    assert chosen.sum(axis=1).tolist() == [300, 250, 200, 150, 120]


def test_few_segments_are_replaced_by_random_batches() -> None:
    sites = np.arange(1000) % 4
    chosen = members(batches_of(toy_predictions(1000), sites))
    assert len(chosen) == N_RANDOM_BATCHES
    assert all(len(set(sites[row])) == 4 for row in chosen)


def test_at_most_the_largest_segments_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_batches, "MIN_BATCH_ROWS", 20)
    sizes = np.arange(20, 20 + MAX_BATCHES + 5)
    days = np.repeat(np.arange(len(sizes)), sizes)
    chosen = members(batches_of(toy_predictions(len(days)), days))
    assert chosen.sum(axis=1).tolist() == sizes[::-1][:MAX_BATCHES].tolist()


def test_large_sources_are_thinned_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_batches, "MAX_ROWS", 600)
    days = np.repeat(np.arange(6), 300)
    batches = batches_of(toy_predictions(1800), days)
    cases = batches.cases
    assert len(cases) == 6
    first = batches.source.calibration.source.rows(np.arange(0, 300, 3))
    assert cases[0].accuracy == first.correct.mean()


def test_case_is_the_estimate_on_the_batch_from_the_rest() -> None:
    days = np.repeat(np.arange(5), 200)
    source = toy_predictions(1000, sharpness=1.5)
    batches = batches_of(source, days)
    rows = batches.source.calibration.source
    for day, case in enumerate(batches.cases):
        rest, batch = rows.rows(days != day), rows.rows(days == day)
        expected = RegimeWeighting().estimate(rest, batch.without_labels())
        assert case.estimate == pytest.approx(expected.value, abs=1e-9)
        assert case.accuracy == batch.correct.mean()
        noise = np.sqrt(1 / rest.n + 1 / batch.n)
        distance = confidence_distance(rest, batch)
        assert case.covariates.confidence_distance == pytest.approx(
            max(distance - 1.63 * noise, 0.0)
        )
        assert case.covariates.standard_error > 0


def test_labels_of_a_batch_change_its_accuracy_only() -> None:
    days = np.repeat(np.arange(5), 200)
    source = toy_predictions(1000, sharpness=1.5)
    assert source.labels is not None
    labels = source.labels.copy()
    # A permutation keeps the class frequencies of the rest.
    labels[:200] = np.random.default_rng(0).permutation(labels[:200])
    other = Predictions.from_logits(source.scores, labels=labels)
    learned = [
        LearnedSource(rows, None, learned_from(source).calibration) for rows in (source, other)
    ]
    plain, changed = (
        SourceBatches(each, days, 0)._estimate(rows, days == 0)
        for each, rows in zip(learned, (source, other), strict=True)
    )
    assert plain is not None
    assert changed is not None
    assert changed.estimate == plain.estimate
    assert changed.covariates == plain.covariates
    assert changed.accuracy < plain.accuracy


def test_sources_without_probabilities_have_no_batches() -> None:
    rows = toy_predictions(1000)
    hard = Predictions.from_classes(rows.classes, k=4, labels=rows.labels)
    assert batches_of(hard).cases == []


def test_history_has_the_predicted_sizes_of_the_errors() -> None:
    cases = batches_of(toy_predictions(800)).cases
    reference = ReferenceErrors.load()
    history = batch_history(cases, reference)
    assert history is not None
    assert history.estimates.tolist() == [case.estimate for case in cases]
    assert history.truths.tolist() == [case.accuracy for case in cases]
    assert history.expected_errors is not None
    sizes = [reference.size(case.covariates) for case in cases]
    assert history.expected_errors == pytest.approx(sizes)
    assert batch_history([], reference) is None


def test_predicted_sizes_are_at_most_one() -> None:
    case = source_batches.BatchCase(0.5, 0.5, Covariates(0.4, 0.5, 0.5, 0.9))

    class Large(ReferenceErrors):
        def size(self, covariates: Covariates) -> float:
            return 1.7

    history = batch_history([case] * 5, Large([], [], {}))
    assert history is not None
    assert history.expected_errors is not None
    assert history.expected_errors.tolist() == [1.0] * 5


def test_batches_count_only_if_the_target_looks_like_the_source() -> None:
    source = toy_predictions(2000, sharpness=1.5)
    alike = oodometer.estimate(source, toy_predictions(1000, sharpness=1.5, seed=1)).shift
    shifted = oodometer.estimate(source, toy_predictions(1000, sharpness=0.3, seed=1)).shift
    assert alike is not None
    assert shifted is not None
    assert (alike.n_source_batches, shifted.n_source_batches) == (N_RANDOM_BATCHES, 0)
    assert alike.n_domains == shifted.n_domains == 0


def test_segments_of_the_source_are_used_by_estimate() -> None:
    source, target = (
        toy_predictions(1200, sharpness=1.5),
        toy_predictions(600, sharpness=1.5, seed=1),
    )
    reference = oodometer.Reference(source, segment_by=np.repeat(np.arange(6), 200))
    shift = reference.estimate(target, segment_by=np.zeros(600, dtype=int)).shift
    assert shift is not None
    assert shift.n_source_batches == 6
