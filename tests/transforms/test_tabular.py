"""Gaussian noise and marginal swaps in vectors and tables."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs, hash_rows, splitmix64, take
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.testing import check_transform
from oodometer.transforms import tabular
from oodometer.transforms.tabular import Gaussian, MarginalSwap
from tests.support.cases import check_cases

MEMBERS: list[Any] = [Gaussian, MarginalSwap]


def draws_of(inputs: Inputs, number: int = 1, seed: int = 0) -> RowStreams:
    examples = np.arange(len(inputs), dtype=np.uint64)
    return RowStreams(seed, examples, np.full(len(inputs), number))


def vectors(n: int = 40, d: int = 7, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)


def people(n: int = 60, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "pay": rng.normal(size=n).astype(np.float32),
            "age": pa.array(rng.integers(18, 90, n), pa.int8()),
            "height": rng.normal(180, 10, n),
            "town": rng.choice(["u", "v", "w"], n),
            "team": pa.array(rng.choice(["x", "y"], n)).dictionary_encode(),
            "member": rng.random(n) < 0.5,
            "lead": pa.array(rng.choice(np.array(["p", "q", None]), n), pa.string()),
        }
    )


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("magnitude", [None, 0.5, 1.0])
def test_transform_passes_the_transform_check(member: Any, magnitude: float | None) -> None:
    check_transform(member() if magnitude is None else member(magnitude))


@pytest.mark.parametrize("member", MEMBERS)
def test_learning_does_not_change_equality_or_repr(member: Any) -> None:
    learned = member(0.3).learn(vectors())
    assert learned == member(0.3)
    assert hash(learned) == hash(member(0.3))
    assert repr(learned) == f"{member.__name__}(magnitude=0.3)"


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("inputs", [vectors(), people()], ids=["vectors", "table"])
def test_order_of_learned_rows_does_not_matter(member: Any, inputs: Inputs) -> None:
    order = np.random.default_rng(1).permutation(len(inputs))
    draws = draws_of(inputs)
    first, second = (
        member(0.9).learn(x).apply(inputs, draws) for x in (inputs, take(inputs, order))
    )
    assert first.equals(second) if isinstance(inputs, pa.Table) else np.array_equal(first, second)


# Gaussian ---------------------------------------------------------------------------------------


def test_noise_on_vectors_matches_a_loop() -> None:
    x = vectors().astype(np.float32)
    draws = draws_of(x)
    expected = np.empty_like(x)
    for i in range(len(x)):
        uniforms = draws.rows(slice(i, i + 1)).uniforms(x.shape[1])[0]
        for j in range(x.shape[1]):
            column = x[:, j].astype(np.float64)
            spread = math.sqrt(np.mean((column - column.mean()) ** 2))
            expected[i, j] = x[i, j] + 0.2 * spread * ndtri(uniforms[j])
    result = Gaussian(0.2).learn(x).apply(x, draws)
    assert result.dtype == np.float32
    assert result == pytest.approx(expected, rel=1e-6)


def test_noise_on_tables_matches_a_loop() -> None:
    table = people()
    draws = draws_of(table)
    result = Gaussian(0.5).learn(table).apply(table, draws)
    noise = ndtri(draws.uniforms(3))
    for at, name in enumerate(["pay", "age", "height"]):
        values = np.array(table.column(name).to_pylist())
        expected = values + 0.5 * values.std() * noise[:, at]
        if name == "age":
            expected = np.rint(values + np.rint(0.5 * values.std() * noise[:, at]))
        assert result.column(name).to_pylist() == pytest.approx(expected.tolist(), rel=1e-5)
    for name in ("town", "team", "member", "lead"):
        assert result.column(name).equals(table.column(name))
    assert result.schema.equals(table.schema)


def test_noise_has_the_requested_standard_deviation() -> None:
    x = vectors(n=20_000, d=4)
    noise = Gaussian(0.1).learn(x).apply(x, draws_of(x)) - x
    assert noise.std(axis=0) / x.std(axis=0) == pytest.approx(np.full(4, 0.1), rel=0.03)
    assert abs(noise.mean(axis=0) / x.std(axis=0)).max() < 5 * 0.1 / math.sqrt(20_000)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
)
def test_integers_stay_within_their_type(kind: Any) -> None:
    bounds = np.iinfo(kind.to_pandas_dtype())
    table = pa.table({"x": pa.array([bounds.min, bounds.max] * 50, kind)})
    result = Gaussian(1.0).learn(table).apply(table, draws_of(table)).column("x")
    assert result.type == kind
    low = [bounds.min <= value < bounds.max for value in result.to_pylist()[::2]]
    high = [bounds.min < value <= bounds.max for value in result.to_pylist()[1::2]]
    assert all(low)
    assert all(high)
    # Half of the noise points outwards, and stops at the bound.
    assert sum(value == bounds.min for value in result.to_pylist()[::2]) > 10


def test_constant_large_integers_stay_exact() -> None:
    table = pa.table({"x": [2**53 + 1] * 3})
    assert Gaussian(1.0).learn(table).apply(table, draws_of(table)).equals(table)


def test_shapes_of_vectors_are_kept() -> None:
    x = vectors(d=12).reshape(40, 3, 4)
    result = Gaussian(0.1).learn(x).apply(x, draws_of(x))
    flat = Gaussian(0.1).learn(x.reshape(40, 12)).apply(x.reshape(40, 12), draws_of(x))
    assert np.array_equal(result.reshape(40, 12), flat)


# MarginalSwap -----------------------------------------------------------------------------------


def twin(inputs: Inputs, learned: Inputs, magnitude: float, draws: RowStreams) -> list[list[Any]]:
    """Swap values row by row and cell by cell."""
    rows, lenders = cells(inputs), cells(learned)
    order = sorted(range(len(lenders)), key=lambda i: int(splitmix64(hash_rows(learned))[i]))
    lenders = [lenders[i] for i in order]
    d = len(rows[0])
    most = max(1, int(magnitude * d + 1e-9))
    for i, row in enumerate(rows):
        numbers = draws.rows(slice(i, i + 1)).uniforms(1 + 2 * d)[0].tolist()
        count = 1 + int(numbers[0] * most)
        for j in sorted(range(d), key=lambda j: numbers[1 + j])[:count]:
            row[j] = lenders[int(numbers[1 + d + j] * len(lenders))][j]
    return rows


def cells(inputs: Inputs) -> list[list[Any]]:
    if isinstance(inputs, pa.Table):
        return [list(row) for row in zip(*(c.to_pylist() for c in inputs.columns), strict=True)]
    return [list(row) for row in inputs.reshape(len(inputs), -1).tolist()]


@pytest.mark.parametrize("magnitude", [0.05, 0.15, 0.5, 1.0])
@pytest.mark.parametrize("make", [vectors, people])
def test_swaps_match_a_loop(make: Any, magnitude: float) -> None:
    inputs, learned = make(), make(n=30, seed=1)
    draws = draws_of(inputs)
    result = MarginalSwap(magnitude).learn(learned).apply(inputs, draws)
    assert cells(result) == twin(inputs, learned, magnitude, draws)
    assert result.schema.equals(inputs.schema) if make is people else result.dtype == inputs.dtype


@given(st.integers(1, 12), st.floats(0.01, 1.0), st.integers(0, 99))
def test_swapped_values_come_from_the_column_and_are_limited(
    d: int, magnitude: float, seed: int
) -> None:
    x = np.zeros((50, d))
    learned = np.arange(1.0, d + 1) + np.linspace(0, 0.5, 9)[:, None]
    result = MarginalSwap(magnitude).learn(learned).apply(x, draws_of(x, seed=seed))
    counts = (result != 0).sum(axis=1)
    assert counts.min() >= 1
    assert counts.max() <= max(1, math.floor(magnitude * d + 1e-9))
    for j in range(d):
        assert set(result[:, j]) <= {0.0, *learned[:, j]}


def test_columns_and_donors_are_drawn_uniformly() -> None:
    x = np.full((30_000, 4), -1.0)
    result = MarginalSwap(0.5).learn(np.arange(20.0).reshape(5, 4)).apply(x, draws_of(x))
    borrowed = result[result >= 0]
    # One or two columns of four, so 1.5 of them per row.
    assert len(borrowed) / 30_000 == pytest.approx(1.5, abs=5 * 0.5 / math.sqrt(30_000))
    counts = np.bincount(borrowed.astype(int), minlength=20)
    assert counts == pytest.approx(np.full(20, len(borrowed) / 20), rel=0.12)


def test_different_dictionaries_are_unified() -> None:
    given = pa.table({"t": pa.array(["a", "b"] * 10).dictionary_encode()})
    learned = pa.table({"t": pa.array(["c", None, "b"]).dictionary_encode()})
    result = MarginalSwap().learn(learned).apply(given, draws_of(given))
    assert result.schema.equals(given.schema)
    assert set(result.column("t").to_pylist()) == {"b", "c", None}


def test_swapped_categories_keep_the_dictionary() -> None:
    table = people()
    result = MarginalSwap().learn(table).apply(table, draws_of(table)).column("team").chunk(0)
    assert result.dictionary.equals(table.column("team").chunk(0).dictionary)


def test_donors_are_cast_to_the_type_of_the_column() -> None:
    given, learned = pa.table({"x": [0.5, 1.5]}), pa.table({"x": [7, 8]})
    result = MarginalSwap().learn(learned).apply(given, draws_of(given))
    assert result.schema.equals(given.schema)
    assert set(result.column("x").to_pylist()) <= {7.0, 8.0}
    with pytest.raises(InputError, match="'x' has type int64, to which the learned double cannot"):
        MarginalSwap().learn(given).apply(learned, draws_of(learned))


def test_full_dictionary_raises_and_names_the_column() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    given, learned = (
        pa.table({"t": pa.array([f"{side}{i}" for i in range(100)]).dictionary_encode().cast(kind)})
        for side in "ab"
    )
    with pytest.raises(InputError, match=r"'t' has type dictionary.*the learned dictionary.*int8"):
        MarginalSwap().learn(learned).apply(given, draws_of(given))


def test_number_of_donor_rows_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular, "MAX_DONOR_ROWS", 10)
    x = vectors(n=200, d=1)
    donors, again = MarginalSwap().learn(x).donors, MarginalSwap().learn(x[::-1]).donors
    assert donors.shape == (10, 1)
    assert np.array_equal(donors, again)


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("inputs", [vectors(), people()], ids=["vectors", "table"])
def test_apply_before_learn_raises(member: Any, inputs: Inputs) -> None:
    with pytest.raises(
        InputError, match=r"needs statistics of the source.*Call learn\(inputs\) first"
    ):
        member().apply(inputs, draws_of(inputs))
    assert member(0.0).apply(inputs, draws_of(inputs)) is inputs


@pytest.mark.parametrize("member", MEMBERS)
def test_other_columns_than_the_learned_ones_raise(member: Any) -> None:
    x, table = vectors(), people()
    pairs = [(x, x[:, :3]), (x, table), (table, x), (table.select(["pay"]), table)]
    for learned, inputs in pairs:
        with pytest.raises(InputError, match="learned from data with other columns than these"):
            member().learn(learned).apply(inputs, draws_of(inputs))


@pytest.mark.parametrize("member", MEMBERS)
def test_other_kinds_of_inputs_raise(member: Any) -> None:
    with pytest.raises(InputError, match="applies to vectors and tables; got text"):
        member().learn(["a"])
    with pytest.raises(InputError, match="applies to vectors and tables; got text"):
        member().apply(["a"], draws_of(["a"]))


def test_invalid_magnitude_raises() -> None:
    def check(member: Any, magnitude: float) -> None:
        with pytest.raises(
            InputError, match=r"magnitude of .* must be a number .*; got (-0\.1|nan|inf)"
        ):
            member(magnitude)

    check_cases(check, itertools.product(MEMBERS, [-0.1, float("nan"), float("inf")]))


def test_magnitude_above_1_raises() -> None:
    with pytest.raises(InputError, match=r"0 to 1; got 1\.5"):
        MarginalSwap(1.5)


def test_learning_from_no_rows_raises() -> None:
    with pytest.raises(InputError, match="cannot learn from 0 rows"):
        MarginalSwap().learn(vectors()[:0])
    with pytest.raises(InputError, match="cannot learn from 0 rows"):
        Gaussian().learn(vectors()[:0])


def test_missing_numbers_raise_and_name_the_column() -> None:
    table = pa.table({"x": [1.0, None]})
    with pytest.raises(InputError, match="'x' has no value in row 1"):
        Gaussian().learn(table)


def test_both_are_transforms() -> None:
    assert all(isinstance(member(), Transform) for member in MEMBERS)
