"""The Gaussian discrepancy, against loops in float64, closed forms and laws."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from oodometer.core.array_types import Array, Floats
from oodometer.measures import _mmd_kernels
from oodometer.measures._mmd_kernels import GAMMAS, gaussian_mmd
from tests.support.naive_mmd import PAIRS, literal_mmd, wide_mmd


def nearly(value: float) -> Any:
    """What float32 exponentials leave of few pairs."""
    return pytest.approx(value, rel=1e-6, abs=2e-6)


# Gaussian kernels -----------------------------------------------------------------------------


@given(pair=PAIRS, block=st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_gaussian_mmd_is_the_literal_one(pair: tuple[Array, Array], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_mmd_kernels, "BLOCK_ROWS", block)
        found = gaussian_mmd(*pair)
    assert found == nearly(literal_mmd(*pair))


@given(pair=PAIRS, block=st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_float32_distances_of_few_pairs_are_nearly_right(
    pair: tuple[Array, Array], block: int
) -> None:
    # One far row draws the centre away, and the others lose digits that nothing evens out.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_mmd_kernels, "BLOCK_ROWS", block)
        patch.setattr(_mmd_kernels, "MIN_FLOAT32_PAIRS", 0)
        found = gaussian_mmd(*pair)
    assert found == pytest.approx(literal_mmd(*pair), rel=1e-3, abs=1e-4)


@given(pair=PAIRS)
@settings(max_examples=20, deadline=None)
def test_the_wide_twin_is_the_literal_one(pair: tuple[Array, Array]) -> None:
    assert wide_mmd(*pair) == pytest.approx(literal_mmd(*pair), abs=1e-12)


def gaussian(rng: np.random.Generator, n: int, d: int) -> Floats:
    return rng.normal(size=(n, d))


def off_centre(rng: np.random.Generator, n: int, d: int) -> Floats:
    return rng.normal(size=(n, d)) + 100


def rectified(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Like the last layer of a network: few directions matter, many coordinates are 0."""
    ways = np.random.default_rng(9).normal(size=(16, d)) / 4
    return np.maximum(rng.normal(size=(n, 16)) @ ways, 0)


def clustered(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Classes so tight that distances within them are 0.1 % of those between."""
    centres = np.random.default_rng(9).normal(size=(5, d))
    return np.asarray(centres[rng.integers(5, size=n)] + 0.03 * rng.normal(size=(n, d)))


@pytest.mark.parametrize("make", [gaussian, off_centre, rectified, clustered])
@pytest.mark.parametrize("d", [1, 3, 512])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_accurate_at_every_scale(
    make: Callable[[np.random.Generator, int, int], Floats],
    d: int,
    dtype: npt.DTypeLike,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_mmd_kernels, "BLOCK_ROWS", 128)
    monkeypatch.setattr(_mmd_kernels, "MIN_FLOAT32_PAIRS", 0)
    rng = np.random.default_rng(d)
    first, second = make(rng, 300, d).astype(dtype), (1.1 * make(rng, 230, d)).astype(dtype)
    for scale in (2.0**-10, 2.0**-6, 0.25, 1.0, 8.0, 1024.0):  # powers of 2 round nothing
        found = gaussian_mmd(*((scale * rows).astype(dtype) for rows in (first, second)))
        expected = wide_mmd(first, second, scale)
        assert found == pytest.approx(expected, rel=3e-5, abs=5e-9), scale


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0, 1e6])
def test_rows_that_are_on_both_sides_are_at_distance_0(scale: float) -> None:
    # Products in float32 alone miss this by 1 % at scale 1 and by 10 % at scale 10.
    rng = np.random.default_rng(0)
    first, second = scale * rng.normal(size=(2, 600, 64))
    second[:300] = first[300:]
    second[300:400] = second[0]
    assert gaussian_mmd(first, second) == pytest.approx(wide_mmd(first, second), rel=1e-5)


@pytest.mark.parametrize("apart", [1e-4, 1e-3, 1e-2, 0.1])
def test_rows_that_are_near_are_at_their_distance(apart: float) -> None:
    rng = np.random.default_rng(0)
    first = 3 * rng.normal(size=(300, 64))
    second = first + apart * rng.normal(size=(300, 64))
    expected = wide_mmd(first, second)
    assert gaussian_mmd(first, second) == pytest.approx(expected, rel=1e-5, abs=2e-9)


def test_rounding_makes_none_below_0() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = rng.normal(size=(300, 2))
        assert gaussian_mmd(rows, rows[::-1]) >= 0


def test_single_rows_and_sides_of_different_size() -> None:
    one, two = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 0.0]])
    apart = sum(math.exp(-γ * 25) for γ in GAMMAS)
    assert gaussian_mmd(one, one) == 0
    assert gaussian_mmd(one, two[:1]) == pytest.approx(14 - 2 * apart, rel=1e-6)
    expected = 7 + (14 + 2 * apart) / 4 - 2 * (apart + 7) / 2
    assert gaussian_mmd(one, two) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "shortcut",
    [
        {"MAX_SERIES_EXPONENT": -1.0},
        {"MAX_KERNEL_EXPONENT": math.inf},
        {"CLOSE_DISTANCE_SHARE": math.inf},
        {"MIN_EXP_ARGUMENT": -1e9},
        {"MIN_FLOAT32_PAIRS": 0},
    ],
)
def test_no_shortcut_changes_the_value(
    shortcut: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    for scale in (0.01, 0.1, 1.0, 5.0):
        first, second = scale * rng.normal(size=(2, 600, 8))
        second += 0.1 * scale
        expected = gaussian_mmd(first, second)
        with monkeypatch.context() as patch:
            for name, value in shortcut.items():
                patch.setattr(_mmd_kernels, name, value)
            assert gaussian_mmd(first, second) == pytest.approx(expected, rel=1e-5)


def test_shortcuts_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = {"exp": 0, "flat": 0, "exact": 0}
    flat, exact, exp = _mmd_kernels._series_sum, _mmd_kernels._exact_distances, np.exp

    def spy(name: str, work: Any) -> Any:
        def spying(*given: Any, **more: Any) -> Any:
            counted[name] += 1
            return work(*given, **more)

        return spying

    monkeypatch.setattr(_mmd_kernels, "_series_sum", spy("flat", flat))
    monkeypatch.setattr(_mmd_kernels, "_exact_distances", spy("exact", exact))
    monkeypatch.setattr(np, "exp", spy("exp", exp))
    rows = np.random.default_rng(0).normal(size=(2, 300, 512))
    gaussian_mmd(*rows)
    # Distances are about 1000: a kernel of 0.001 and one of 0.01; a row itself keeps all seven.
    assert counted == {"exp": 7 + 7 + 2, "flat": 0, "exact": 0}
    gaussian_mmd(*(rows + 100))
    assert counted["exact"] == 0  # far from 0, and not nearer to one another
    counted["exp"] = 0
    gaussian_mmd(*(1e-4 * rows))
    # Distances are about 1e-5: nothing but series for γ up to 100.
    assert (counted["flat"], counted["exp"]) == (3, 3)
    gaussian_mmd(rows[0], rows[0])
    assert counted["exact"] == 1


def test_memory_is_bounded_by_blocks_and_one_copy() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 3000, 64))
    gaussian_mmd(first[:10], second[:10])
    tracemalloc.start()
    gaussian_mmd(first, second)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    copies = first.nbytes // 2 + second.nbytes // 2
    assert peak < copies + 5 * 2**20  # one matrix of kernels would have 72 MB


def test_other_products_use_as_many_threads_as_before() -> None:
    def threads() -> list[int]:
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    before = threads()
    gaussian_mmd(np.ones((3, 2)), np.zeros((3, 2)))
    assert threads() == before


# Laws -----------------------------------------------------------------------------------------


@given(pair=PAIRS, seed=st.integers(0, 9), move=st.floats(-50, 50))
@settings(max_examples=80, deadline=None)
def test_laws_of_gaussian_mmd(pair: tuple[Array, Array], seed: int, move: float) -> None:
    first, second = pair
    found = gaussian_mmd(first, second)
    close = nearly(found)
    assert found >= 0
    assert gaussian_mmd(second, first) == close
    order = np.random.default_rng(seed).permutation(len(first))
    assert gaussian_mmd(first[order], second) == close
    assert gaussian_mmd(first, first[order]) == nearly(0)
    assert gaussian_mmd(first + move, second + move) == close
    assert gaussian_mmd(np.repeat(first, 3, axis=0), second) == close
    assert gaussian_mmd(-first, -second) == close


# Closed forms ---------------------------------------------------------------------------------


def expected_kernel(d: int, variance: float, gap: float) -> float:
    """E k(a, b) of a ~ N(0, σ²I), b ~ N(m, σ²I): a − b is N(−m, 2σ²I).

    A coordinate gives E exp(−γz²) = (1 + 4γσ²)^(−1/2) exp(−γm²/(1 + 4γσ²)).
    """
    return math.fsum(
        (1 + 4 * γ * variance) ** (-d / 2) * math.exp(-γ * gap**2 / (1 + 4 * γ * variance))
        for γ in GAMMAS
    )


@pytest.mark.parametrize(("d", "sigma", "gap"), [(1, 1.0, 0.5), (3, 0.2, 0.0), (64, 1.0, 4.0)])
def test_the_mean_over_gaussian_samples_is_the_closed_form(
    d: int, sigma: float, gap: float
) -> None:
    rng, n, m = np.random.default_rng(0), 120, 80
    shift = np.full(d, gap / math.sqrt(d))
    values = [
        gaussian_mmd(sigma * rng.normal(size=(n, d)), sigma * rng.normal(size=(m, d)) + shift)
        for _ in range(60)
    ]
    own, cross = expected_kernel(d, sigma**2, 0.0), expected_kernel(d, sigma**2, gap)
    # A row with itself has k = 7, which the biased estimate keeps: one pair in n.
    expected = 2 * (own - cross) + (7 - own) * (1 / n + 1 / m)
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert abs(np.mean(values) - expected) < 4 * error
    assert error < 0.1 * expected
