"""Spurious-feature toy."""

from __future__ import annotations

import pytest

from oodometer.core.errors import InputError
from oodometer.core.stats import rng_for
from oodometer.studies.toys import SpuriousToy, spurious_rows
from oodometer.studies.toys.spurious import DEFAULT_ROWS


def test_accuracy_matches_the_geometry() -> None:
    """Minority rows with x_inv < w_sp/w_inv are wrong: (0.5 − 0.1)/(1 − 0.1) of them."""
    toy = SpuriousToy(p_sp=0.8, w_inv=4.0, w_sp=2.0)
    rows = toy.draw(200_000, 0.3, rng_for(0, "toy"))
    assert rows.correct.mean() == pytest.approx(1 - 0.7 * 0.4 / 0.9, abs=0.005)


def test_bound_matches_the_theorem() -> None:
    assert SpuriousToy(p_sp=0.9).atc_error_bound(1000, delta=0.05) == pytest.approx(
        0.22528, abs=1e-5
    )
    assert SpuriousToy(p_sp=0.9, w_sp=-1.0).atc_error_bound(1000) == pytest.approx(
        0.07509, abs=1e-5
    )


def test_sample_size_of_the_theorem() -> None:
    """2 · log(80) / 0.005² = 350,562.13, and 2 · log(80) / 0.1² = 876.4."""
    assert SpuriousToy().min_rows() == 350_563
    assert SpuriousToy(p_sp=0.9).min_rows() == 877
    assert SpuriousToy(p_sp=0.9).min_rows(delta=0.5) == 416


def test_default_number_of_rows_satisfies_the_theorem() -> None:
    assert SpuriousToy().min_rows() <= DEFAULT_ROWS


def test_falsely_identified_shares_explain_the_error_of_atc() -> None:
    for row in spurious_rows(SpuriousToy(p_sp=0.9), n=2000, c=0.6):
        error = row.estimates["atc-mc"] - row.truth
        assert row.falsely_identified.bias == pytest.approx(error, abs=1e-12)


@pytest.mark.parametrize(
    "settings", [{"p_sp": 0.5}, {"p_sp": 1.0}, {"w_inv": 0.0}, {"w_sp": 0.0}, {"gamma": 2.0}]
)
def test_settings_outside_the_theorem_raise(settings: dict[str, float]) -> None:
    with pytest.raises(InputError):
        SpuriousToy(**settings)


def test_rows_depend_only_on_the_seed() -> None:
    toy = SpuriousToy(p_sp=0.9)
    assert list(spurious_rows(toy, n=500, seed=4)) == list(spurious_rows(toy, n=500, seed=4))
