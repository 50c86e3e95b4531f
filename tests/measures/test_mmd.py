"""MMD measures: rows and features used, notes and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.protocols import Measure
from oodometer.core.stats import rng_for
from oodometer.measures._mmd_kernels import gaussian_mmd, mean_covariance_distance
from oodometer.measures.mmd import MmdGaussian, MmdMeanCov, MmdRandomFeatures
from oodometer.measures.subject import Subject, measure_one
from oodometer.models.model_view import ModelView, ViewSource
from oodometer.testing import toy_subject

RNG = np.random.default_rng(0)
NEAR, FAR = RNG.normal(size=(300, 4)), RNG.normal(size=(250, 4)) + 0.4
MEMBERS: tuple[Measure, ...] = (MmdGaussian(), MmdRandomFeatures(), MmdMeanCov())


def subject(source_rows: Any = NEAR, target_rows: Any = FAR, seed: int = 0) -> Subject:
    source, target = (
        ModelView(ViewSource(name, features=np.asarray(rows), seed=seed))
        for name, rows in (("source", source_rows), ("target", target_rows))
    )
    return Subject(source, target, seed=seed)


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_value_increases_with_the_shift(member: Measure) -> None:
    values = [
        measure_one(member, subject(target_rows=FAR - 0.4 + shift)).value
        for shift in (0.0, 0.5, 1.0)
    ]
    assert values == sorted(values)
    assert values[0] < 0.5 * values[2]


def test_all_rows_are_used_below_the_limit() -> None:
    score = measure_one(MmdGaussian(), subject())
    assert score.value == gaussian_mmd(NEAR, FAR)
    assert score.facts == {"source_rows": 300, "target_rows": 250}
    assert score.notes == ()


def test_rows_are_subsampled_by_content_with_a_note() -> None:
    score = measure_one(MmdGaussian(rows=260), subject())
    assert score.notes == ("only 260 of 300 rows of 'source' were used, drawn at random",)
    assert score.facts == {"source_rows": 260, "target_rows": 250}
    limited = measure_one(MmdGaussian(rows=200), subject())
    assert limited.facts == {"source_rows": 200, "target_rows": 200}
    assert len(limited.notes) == 2
    sample = subject().reference.subsample(260, "mmd rows").features
    assert score.value == gaussian_mmd(sample, FAR)
    assert score.value != gaussian_mmd(NEAR[:260], FAR)
    order = rng_for(0, "order").permutation(300)
    assert measure_one(MmdGaussian(rows=260), subject(NEAR[order])).value == pytest.approx(
        score.value
    )
    assert measure_one(MmdGaussian(rows=260), subject(seed=1)).value != score.value


def test_identical_data_have_identical_subsamples() -> None:
    assert measure_one(MmdGaussian(rows=50), subject(NEAR, NEAR)).value == pytest.approx(
        0, abs=1e-9
    )


def test_training_data_replace_the_source() -> None:
    whole = toy_subject()
    assert whole.training is not None
    expected = mean_covariance_distance(whole.training.features, whole.target.features)
    assert measure_one(MmdMeanCov(), whole).value == expected
    exact = gaussian_mmd(whole.training.features, whole.target.features)
    assert measure_one(MmdGaussian(), whole).value == exact
    alone = Subject(whole.source, whole.target)
    assert measure_one(MmdMeanCov(), alone).value != expected


def test_random_features_report_their_error() -> None:
    exact = gaussian_mmd(NEAR, FAR)
    score = measure_one(MmdRandomFeatures(count=2000), subject())
    error = score.facts["standard_error"]
    assert abs(score.value - exact) < 4 * error
    assert error < 0.1 * exact
    assert score.low == pytest.approx(score.value - 1.96 * error, rel=1e-4)
    assert score.high == pytest.approx(score.value + 1.96 * error, rel=1e-4)
    assert score.facts["directions"] == 2000
    assert measure_one(MmdRandomFeatures(count=2000), subject()).value == score.value
    assert measure_one(MmdRandomFeatures(count=2000), subject(seed=1)).value != score.value


def test_interval_is_not_negative() -> None:
    score = measure_one(MmdRandomFeatures(count=2), subject(NEAR, NEAR + 1e-6))
    assert score.low is not None
    assert score.low >= 0


@pytest.mark.parametrize("side", [0, 1])
def test_covariance_needs_two_rows(side: int) -> None:
    rows = [NEAR, FAR]
    rows[side] = rows[side][:1]
    with pytest.raises(NotApplicable, match=r"has a single row; a covariance needs two"):
        measure_one(MmdMeanCov(), subject(rows[0], rows[1]))
    training = ModelView(ViewSource("training", features=NEAR[:1]))
    with pytest.raises(NotApplicable, match="'training' has a single row"):
        measure_one(MmdMeanCov(), Subject(subject().source, subject().target, training))
    assert measure_one(MmdGaussian(), subject(rows[0], rows[1])).value > 0


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_huge_features_are_not_applicable(member: Measure) -> None:
    huge: Floats = FAR.copy()
    huge[3, 1] = -3e15
    with pytest.raises(
        NotApplicable, match=r"features reach 3.0e\+15; their squares are too large"
    ):
        measure_one(member, subject(target_rows=huge))
    huge[3, 1] = 2e12
    with pytest.raises(
        NotApplicable, match=r"features reach 2.0e\+12; their squares are too large above 1e\+12"
    ):
        measure_one(member, subject(target_rows=huge))
    huge[3, 1] = 9e11
    assert np.isfinite(measure_one(member, subject(target_rows=huge)).value)


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_unequal_widths_raise(member: Measure) -> None:
    with pytest.raises(InputError, match="'source' has 4 features per row and 'target' has 3"):
        measure_one(member, subject(target_rows=FAR[:, :3]))


def test_defaults_and_invalid_settings() -> None:
    assert (MmdGaussian().rows, MmdRandomFeatures().count) == (5000, 1024)
    with pytest.raises(InputError, match=r"rows must be at least 1; got 0\."):
        MmdGaussian(rows=0)
    with pytest.raises(InputError, match=r"count must be at least 2; got 1\."):
        MmdRandomFeatures(count=1)
