"""Gaussian MMD against float64 loops, closed forms and invariances."""

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
from tests.support.naive_mmd import PAIRS, float64_mmd, naive_mmd


def approx_float32(value: float) -> Any:
    """Return the tolerance of float32 exponentials on few pairs."""
    return pytest.approx(value, rel=1e-6, abs=2e-6)


# Gaussian kernels -----------------------------------------------------------------------------


@given(pair=PAIRS, block=st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_value_matches_naive_loop(pair: tuple[Array, Array], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_mmd_kernels, "BLOCK_ROWS", block)
        mmd = gaussian_mmd(*pair)
    assert mmd == approx_float32(naive_mmd(*pair))


@given(pair=PAIRS, block=st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_float32_distances_of_few_pairs_are_close(pair: tuple[Array, Array], block: int) -> None:
    # One far row shifts the centre; the others lose digits, and too few errors cancel.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_mmd_kernels, "BLOCK_ROWS", block)
        patch.setattr(_mmd_kernels, "MIN_FLOAT32_PAIRS", 0)
        mmd = gaussian_mmd(*pair)
    assert mmd == pytest.approx(naive_mmd(*pair), rel=1e-3, abs=1e-4)


@given(pair=PAIRS)
@settings(max_examples=20, deadline=None)
def test_vectorised_reference_matches_naive_loop(pair: tuple[Array, Array]) -> None:
    assert float64_mmd(*pair) == pytest.approx(naive_mmd(*pair), abs=1e-12)


def gaussian(rng: np.random.Generator, n: int, d: int) -> Floats:
    return rng.normal(size=(n, d))


def off_centre(rng: np.random.Generator, n: int, d: int) -> Floats:
    return rng.normal(size=(n, d)) + 100


def rectified(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Return features like those of a network: low rank, with many zeros."""
    ways = np.random.default_rng(9).normal(size=(16, d)) / 4
    return np.maximum(rng.normal(size=(n, 16)) @ ways, 0)


def clustered(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Return clusters whose inner distances are 0.1 % of those between clusters."""
    centres = np.random.default_rng(9).normal(size=(5, d))
    return np.asarray(centres[rng.integers(5, size=n)] + 0.03 * rng.normal(size=(n, d)))


@pytest.mark.parametrize("make", [gaussian, off_centre, rectified, clustered])
@pytest.mark.parametrize("d", [1, 3, 512])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_is_accurate_at_every_scale(
    make: Callable[[np.random.Generator, int, int], Floats],
    d: int,
    dtype: npt.DTypeLike,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_mmd_kernels, "BLOCK_ROWS", 128)
    monkeypatch.setattr(_mmd_kernels, "MIN_FLOAT32_PAIRS", 0)
    rng = np.random.default_rng(d)
    first, second = make(rng, 300, d).astype(dtype), (1.1 * make(rng, 230, d)).astype(dtype)
    for scale in (2.0**-10, 2.0**-6, 0.25, 1.0, 8.0, 1024.0):  # powers of 2 add no rounding
        mmd = gaussian_mmd(*((scale * rows).astype(dtype) for rows in (first, second)))
        expected = float64_mmd(first, second, scale)
        assert mmd == pytest.approx(expected, rel=3e-5, abs=5e-9), scale


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0, 1e6])
def test_shared_rows_have_distance_0(scale: float) -> None:
    # Float32 products alone have an error of 1 % at scale 1 and 10 % at scale 10.
    rng = np.random.default_rng(0)
    first, second = scale * rng.normal(size=(2, 600, 64))
    second[:300] = first[300:]
    second[300:400] = second[0]
    assert gaussian_mmd(first, second) == pytest.approx(float64_mmd(first, second), rel=1e-5)


@pytest.mark.parametrize("distance", [1e-4, 1e-3, 1e-2, 0.1])
def test_close_rows_have_exact_distances(distance: float) -> None:
    rng = np.random.default_rng(0)
    first = 3 * rng.normal(size=(300, 64))
    second = first + distance * rng.normal(size=(300, 64))
    expected = float64_mmd(first, second)
    assert gaussian_mmd(first, second) == pytest.approx(expected, rel=1e-5, abs=2e-9)


def test_value_is_never_negative() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = rng.normal(size=(300, 2))
        assert gaussian_mmd(rows, rows[::-1]) >= 0


def test_single_rows_and_unequal_sizes_match_closed_form() -> None:
    single, two_rows = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 0.0]])
    distance = sum(math.exp(-γ * 25) for γ in GAMMAS)
    assert gaussian_mmd(single, single) == 0
    assert gaussian_mmd(single, two_rows[:1]) == pytest.approx(14 - 2 * distance, rel=1e-6)
    expected = 7 + (14 + 2 * distance) / 4 - 2 * (distance + 7) / 2
    assert gaussian_mmd(single, two_rows) == pytest.approx(expected, rel=1e-6)


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
def test_shortcuts_do_not_change_the_value(
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
    calls = {"exp": 0, "flat": 0, "exact": 0}
    flat, exact, exp = _mmd_kernels._series_sum, _mmd_kernels._exact_distances, np.exp

    def count_calls(name: str, work: Any) -> Any:
        def counting(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return work(*args, **kwargs)

        return counting

    monkeypatch.setattr(_mmd_kernels, "_series_sum", count_calls("flat", flat))
    monkeypatch.setattr(_mmd_kernels, "_exact_distances", count_calls("exact", exact))
    monkeypatch.setattr(np, "exp", count_calls("exp", exp))
    rows = np.random.default_rng(0).normal(size=(2, 300, 512))
    gaussian_mmd(*rows)
    # Distances are about 1000: only γ = 0.001 and 0.01 matter; within a sample, all seven.
    assert calls == {"exp": 7 + 7 + 2, "flat": 0, "exact": 0}
    gaussian_mmd(*(rows + 100))
    assert calls["exact"] == 0  # an offset does not bring rows closer
    calls["exp"] = 0
    gaussian_mmd(*(1e-4 * rows))
    # Distances are about 1e-5: the series for γ up to 100.
    assert (calls["flat"], calls["exp"]) == (3, 3)
    gaussian_mmd(rows[0], rows[0])
    assert calls["exact"] == 1


def test_memory_is_bounded() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 3000, 64))
    gaussian_mmd(first[:10], second[:10])
    tracemalloc.start()
    gaussian_mmd(first, second)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    copies = first.nbytes // 2 + second.nbytes // 2
    assert peak < copies + 5 * 2**20  # a whole kernel matrix would have 72 MB


def test_thread_limit_is_restored() -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    gaussian_mmd(np.ones((3, 2)), np.zeros((3, 2)))
    assert threads() == before


# Invariances ----------------------------------------------------------------------------------


@given(pair=PAIRS, seed=st.integers(0, 9), offset=st.floats(-50, 50))
@settings(max_examples=80, deadline=None)
def test_invariances_of_gaussian_mmd(pair: tuple[Array, Array], seed: int, offset: float) -> None:
    first, second = pair
    mmd = gaussian_mmd(first, second)
    close = approx_float32(mmd)
    assert mmd >= 0
    assert gaussian_mmd(second, first) == close
    order = np.random.default_rng(seed).permutation(len(first))
    assert gaussian_mmd(first[order], second) == close
    assert gaussian_mmd(first, first[order]) == approx_float32(0)
    assert gaussian_mmd(first + offset, second + offset) == close
    assert gaussian_mmd(np.repeat(first, 3, axis=0), second) == close
    assert gaussian_mmd(-first, -second) == close


# Closed forms ---------------------------------------------------------------------------------


def expected_kernel(d: int, variance: float, gap: float) -> float:
    """Return E k(a, b) for a ~ N(0, σ²I) and b ~ N(m, σ²I), where a − b is N(−m, 2σ²I).

    Each coordinate contributes E exp(−γz²) = (1 + 4γσ²)^(−1/2) exp(−γm²/(1 + 4γσ²)).
    """
    return math.fsum(
        (1 + 4 * γ * variance) ** (-d / 2) * math.exp(-γ * gap**2 / (1 + 4 * γ * variance))
        for γ in GAMMAS
    )


@pytest.mark.parametrize(("d", "sigma", "gap"), [(1, 1.0, 0.5), (3, 0.2, 0.0), (64, 1.0, 4.0)])
def test_mean_over_gaussian_samples_matches_closed_form(d: int, sigma: float, gap: float) -> None:
    rng, n, m = np.random.default_rng(0), 120, 80
    shift = np.full(d, gap / math.sqrt(d))
    values = [
        gaussian_mmd(sigma * rng.normal(size=(n, d)), sigma * rng.normal(size=(m, d)) + shift)
        for _ in range(60)
    ]
    own, cross = expected_kernel(d, sigma**2, 0.0), expected_kernel(d, sigma**2, gap)
    # The biased estimate includes each row with itself, k = 7: one pair in n.
    expected = 2 * (own - cross) + (7 - own) * (1 / n + 1 / m)
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert abs(np.mean(values) - expected) < 4 * error
    assert error < 0.1 * expected
