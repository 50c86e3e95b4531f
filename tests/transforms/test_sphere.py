"""Steps on the hypersphere: constant norm, bounded distance, uniform direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import kstest

from oodometer.core.array_types import Array, Floats
from oodometer.core.errors import InputError
from oodometer.core.inputs import hash_rows
from oodometer.core.random_streams import RowStreams
from oodometer.testing import check_transform
from oodometer.transforms.sphere import Sphere


def draws_of(inputs: Array, number: int = 1, seed: int = 0) -> RowStreams:
    examples = np.arange(len(inputs), dtype=np.uint64)
    return RowStreams(seed, examples, np.full(len(inputs), number))


def vectors(n: int, d: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(n, d))


def twin(x: Floats, r: float, draws: RowStreams) -> Floats:
    """Move one vector, step by step."""
    d, norm = len(x), float(np.sqrt(np.dot(x, x)))
    if norm == 0:
        return x
    free = ndtri(draws.substream("direction").uniforms(d)[0])
    tangent = free - np.dot(free, x) / norm**2 * x
    tangent = tangent / np.sqrt(np.dot(tangent, tangent))
    chord = min(r, 2 * norm) * draws.uniforms(1)[0, 0] ** (1 / (d - 1))
    angle = 2 * np.arcsin(chord / (2 * norm))
    moved: Floats = np.cos(angle) * x + np.sin(angle) * norm * tangent
    return moved


def test_transform_passes_the_transform_check() -> None:
    check_transform(Sphere())
    check_transform(Sphere(0.8))


@pytest.mark.parametrize("r", [0.01, 0.7, 3.0, 50.0])
@pytest.mark.parametrize("d", [2, 3, 16])
def test_batch_matches_a_loop_over_vectors(r: float, d: int) -> None:
    x = vectors(20, d)
    x[3] = 0.0
    draws = draws_of(x)
    rows = [twin(x[i], r, draws.rows(slice(i, i + 1))) for i in range(20)]
    assert Sphere(r).apply(x, draws) == pytest.approx(np.array(rows), abs=1e-9)


@given(st.floats(1e-6, 1e3), st.integers(2, 20), st.floats(-150, 150))
def test_norms_are_kept_and_distances_bounded(r: float, d: int, power: float) -> None:
    x = vectors(30, d)
    x *= 10.0**power / np.linalg.norm(x, axis=1, keepdims=True)
    moved = Sphere(r).apply(x, draws_of(x))
    scale = 10.0**power
    assert np.linalg.norm(moved / scale, axis=1) == pytest.approx(np.ones(30), rel=1e-12)
    assert np.linalg.norm((moved - x) / scale, axis=1).max() <= r / scale + 1e-12


def test_large_steps_reach_at_most_the_opposite_point() -> None:
    x = vectors(4000, 2)
    moved = Sphere(100.0).apply(x, draws_of(x))
    norms = np.linalg.norm(x, axis=1)
    ratio = np.linalg.norm(moved - x, axis=1) / norms
    assert 1.99 < ratio.max() <= 2.0 + 1e-12


def test_points_are_uniform_in_the_tangent_ball() -> None:
    """In the tangent plane of R³, the radius is r √U and the direction uniform."""
    x = np.tile([0.0, 0.0, 1.0], (20_000, 1))
    moved = Sphere(0.01).apply(x, draws_of(x))
    flat = moved[:, :2] / 0.01
    assert kstest((flat**2).sum(axis=1), "uniform").pvalue > 1e-4
    angles = np.arctan2(flat[:, 1], flat[:, 0]) / (2 * np.pi) + 0.5
    assert kstest(angles, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("x", [np.zeros((3, 5)), np.array([[2.0], [-1.0]]), np.zeros((0, 4))])
def test_zero_and_one_dimensional_vectors_are_not_changed(x: Floats) -> None:
    assert np.array_equal(Sphere(0.5).apply(x, draws_of(x)), x)


def test_nothing_moves_at_0() -> None:
    x = np.array([[-0.0, 1.0]])
    assert Sphere(0.0).apply(x, draws_of(x)).tobytes() == x.tobytes()


def test_type_and_shape_are_kept() -> None:
    x = vectors(6, 12).reshape(6, 3, 4).astype(np.float32)
    moved = Sphere(0.1).apply(x, draws_of(x))
    assert (moved.dtype, moved.shape) == (np.float32, (6, 3, 4))
    flat = Sphere(0.1).apply(x.reshape(6, 12), draws_of(x))
    assert np.array_equal(moved.reshape(6, 12), flat)


@pytest.mark.parametrize("r", [-0.1, float("nan"), float("inf")])
def test_invalid_distance_raises(r: float) -> None:
    with pytest.raises(InputError, match="magnitude of sphere must be a number of at least 0"):
        Sphere(r)


@pytest.mark.parametrize("inputs", [["a"], np.zeros((1, 8, 8), dtype=np.uint8)])
def test_other_kinds_of_inputs_raise(inputs: Any) -> None:
    with pytest.raises(InputError, match=r"sphere applies to vectors; got (text|images)"):
        Sphere().apply(inputs, RowStreams(0, hash_rows(inputs), np.array([1])))
