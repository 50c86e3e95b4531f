"""Claims of Garg et al. 2022 about their toy model (§6, App. D)."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.stats import rng_for
from oodometer.estimators import Mandoline
from oodometer.studies.toys import SpuriousRow, SpuriousToy, spurious_rows

# Theorem 3 requires at least 350,563 source rows at the default settings.
N = 360_000
TOY = SpuriousToy()


def worst(rows: list[SpuriousRow], method: str) -> float:
    return max(abs(row.estimates[method] - row.truth) for row in rows)


@pytest.fixture(scope="module")
def rows() -> list[SpuriousRow]:
    return list(spurious_rows(TOY, n=N))


def test_atc_mc_is_within_the_bound_of_theorem_3(
    rows: list[SpuriousRow],
) -> None:
    assert [row.agreement for row in rows] == pytest.approx(np.linspace(0, 1, 11))
    for row in rows:
        assert abs(row.estimates["atc-mc"] - row.truth) <= TOY.atc_error_bound(N)


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("toy", [SpuriousToy(p_sp=0.9), SpuriousToy(p_sp=0.7, w_inv=2.0, w_sp=1.0),
                                 SpuriousToy(p_sp=0.8, w_sp=-1.5)])  # fmt: skip
def test_bound_holds_for_other_classifiers_and_samples(toy: SpuriousToy, seed: int) -> None:
    n = 20_000
    assert n >= toy.min_rows()
    assert worst(list(spurious_rows(toy, n=n, seed=seed)), "atc-mc") <= toy.atc_error_bound(n)


@pytest.mark.parametrize("method", ["ac", "doc", "gde"])
def test_other_methods_exceed_the_bound(rows: list[SpuriousRow], method: str) -> None:
    assert worst(rows, method) > TOY.atc_error_bound(N)


def test_target_with_smaller_support_is_overestimated() -> None:
    """Fig. 5: with x_inv up to c₁ < c, more rows are wrongly above the threshold than below.

    If the spurious feature always agrees, all rows are correct and nothing can be overestimated.
    """
    narrow = list(spurious_rows(TOY, n=N, c=0.6))
    for row in narrow[:9]:
        assert row.estimates["atc-mc"] > row.truth + 0.01
    assert narrow[0].estimates["atc-mc"] - narrow[0].truth > TOY.atc_error_bound(N)


def test_im_needs_equal_width_bins(
    rows: list[SpuriousRow],
) -> None:
    wide, mass = worst(rows, "im (10 equal-width)"), worst(rows, "im (100 equal-mass)")
    assert wide <= TOY.atc_error_bound(N) < mass
    assert mass > 4 * wide


@pytest.mark.parametrize("bins", [6, 8, 12, 20, 50])
def test_im_works_with_six_or_more_equal_width_bins(bins: int) -> None:
    source = TOY.draw(N, TOY.p_sp, rng_for(0, "source"))
    target = TOY.draw(N, 0.0, rng_for(0, "target"))
    found = Mandoline(bins).estimate(source, target.without_labels())
    assert abs(found.value - float(target.correct.mean())) <= TOY.atc_error_bound(N)


def test_equal_mass_bins_fail_only_if_the_minority_is_smaller_than_a_bin() -> None:
    """Not in the paper: with a minority of 10 % both kinds of bins are accurate."""
    common = SpuriousToy(p_sp=0.9)
    rows = list(spurious_rows(common, n=N))
    assert worst(rows, "im (100 equal-mass)") <= common.atc_error_bound(N)
