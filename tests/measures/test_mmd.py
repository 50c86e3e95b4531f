"""Discrepancies as measures: what they read, what they leave out, what they refuse."""

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


def subject(known: Any = NEAR, new: Any = FAR, seed: int = 0) -> Subject:
    source, target = (
        ModelView(ViewSource(name, features=np.asarray(rows), seed=seed))
        for name, rows in (("source", known), ("target", new))
    )
    return Subject(source, target, seed=seed)


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_it_rises_with_the_shift(member: Measure) -> None:
    values = [
        measure_one(member, subject(new=FAR - 0.4 + shift)).value for shift in (0.0, 0.5, 1.0)
    ]
    assert values == sorted(values)
    assert values[0] < 0.5 * values[2]


def test_all_rows_are_used_where_they_are_few() -> None:
    found = measure_one(MmdGaussian(), subject())
    assert found.value == gaussian_mmd(NEAR, FAR)
    assert found.facts == {"source_rows": 300, "target_rows": 250}
    assert found.notes == ()


def test_of_many_rows_some_are_drawn_by_their_content_and_it_is_said() -> None:
    found = measure_one(MmdGaussian(rows=260), subject())
    assert found.notes == ("only 260 of 300 rows of 'source' were used, drawn at random",)
    assert found.facts == {"source_rows": 260, "target_rows": 250}
    both = measure_one(MmdGaussian(rows=200), subject())
    assert both.facts == {"source_rows": 200, "target_rows": 200}
    assert len(both.notes) == 2
    some = subject().reference.subsample(260, "mmd rows").features
    assert found.value == gaussian_mmd(some, FAR)
    assert found.value != gaussian_mmd(NEAR[:260], FAR)
    order = rng_for(0, "order").permutation(300)
    assert measure_one(MmdGaussian(rows=260), subject(NEAR[order])).value == pytest.approx(
        found.value
    )
    assert measure_one(MmdGaussian(rows=260), subject(seed=1)).value != found.value


def test_rows_drawn_of_equal_data_are_the_same() -> None:
    assert measure_one(MmdGaussian(rows=50), subject(NEAR, NEAR)).value == pytest.approx(
        0, abs=1e-9
    )


def test_the_papers_s_is_the_training_data_where_there_are_any() -> None:
    whole = toy_subject()
    assert whole.training is not None
    expected = mean_covariance_distance(whole.training.features, whole.target.features)
    assert measure_one(MmdMeanCov(), whole).value == expected
    exact = gaussian_mmd(whole.training.features, whole.target.features)
    assert measure_one(MmdGaussian(), whole).value == exact
    alone = Subject(whole.source, whole.target)
    assert measure_one(MmdMeanCov(), alone).value != expected


def test_random_features_come_with_their_error() -> None:
    exact = gaussian_mmd(NEAR, FAR)
    found = measure_one(MmdRandomFeatures(count=2000), subject())
    error = found.facts["standard_error"]
    assert abs(found.value - exact) < 4 * error
    assert error < 0.1 * exact
    assert found.low == pytest.approx(found.value - 1.96 * error, rel=1e-4)
    assert found.high == pytest.approx(found.value + 1.96 * error, rel=1e-4)
    assert found.facts["directions"] == 2000
    assert measure_one(MmdRandomFeatures(count=2000), subject()).value == found.value
    assert measure_one(MmdRandomFeatures(count=2000), subject(seed=1)).value != found.value


def test_an_interval_does_not_reach_below_0() -> None:
    found = measure_one(MmdRandomFeatures(count=2), subject(NEAR, NEAR + 1e-6))
    assert found.low is not None
    assert found.low >= 0


@pytest.mark.parametrize("side", [0, 1])
def test_a_single_row_has_no_covariance(side: int) -> None:
    rows = [NEAR, FAR]
    rows[side] = rows[side][:1]
    with pytest.raises(NotApplicable, match=r"has a single row, which has no covariance"):
        measure_one(MmdMeanCov(), subject(rows[0], rows[1]))
    training = ModelView(ViewSource("training", features=NEAR[:1]))
    with pytest.raises(NotApplicable, match="'training' has a single row"):
        measure_one(MmdMeanCov(), Subject(subject().source, subject().target, training))
    assert measure_one(MmdGaussian(), subject(rows[0], rows[1])).value > 0


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_features_that_can_not_be_squared_are_refused(member: Measure) -> None:
    huge: Floats = FAR.copy()
    huge[3, 1] = -3e15
    with pytest.raises(NotApplicable, match=r"features reach 3.0e\+15, and can't be squared"):
        measure_one(member, subject(new=huge))
    huge[3, 1] = 2e12
    with pytest.raises(
        NotApplicable, match=r"features reach 2.0e\+12, and can't be squared beyond 1e\+12"
    ):
        measure_one(member, subject(new=huge))
    huge[3, 1] = 9e11
    assert np.isfinite(measure_one(member, subject(new=huge)).value)


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_sides_must_be_as_wide(member: Measure) -> None:
    with pytest.raises(InputError, match="'source' are 4 wide, those of 'target' 3"):
        measure_one(member, subject(new=FAR[:, :3]))


def test_settings_are_those_of_the_paper_and_are_checked() -> None:
    assert (MmdGaussian().rows, MmdRandomFeatures().count) == (5000, 1024)
    with pytest.raises(InputError, match=r"rows must be 1 or more; got 0\. 5000 is usual\."):
        MmdGaussian(rows=0)
    with pytest.raises(InputError, match=r"count must be 2 or more; got 1\. 1024 is usual\."):
        MmdRandomFeatures(count=1)
