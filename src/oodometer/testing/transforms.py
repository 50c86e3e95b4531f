"""Conformance check of transforms, and toy inputs of every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from oodometer.core import inputs as batches
from oodometer.core.array_types import Ints
from oodometer.core.inputs import INPUT_KINDS, InputKind, Inputs
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.core.stats import rng_for
from oodometer.testing._transform_magnitude import MagnitudeMeter, find_meter

TOY_WORDS = ("the", "a", "this", "old", "new", "red", "small", "cup", "book", "chair", "story", "plot",
         "film", "was", "is", "seems", "felt", "very", "quite", "good", "bad", "fine", "poor",
         "broken", "bright", "heavy", "light", "quick", "and", "but", "so", "yet", "it", "we",
         "they", "you")  # fmt: skip


def toy_inputs(kind: InputKind, n: int = 12, seed: int = 0) -> Inputs:
    """Return a random batch of inputs of one kind.

    Parameters
    ----------
    kind : {"images", "text", "pairs", "vectors", "table"}
        Kind of inputs.
    n : int
        Number of rows.
    seed : int
        Random seed.

    Returns
    -------
    Inputs
        Array, list of texts, list of pairs of texts or Arrow table.

    Examples
    --------
    >>> toy_inputs("images", n=2).shape
    (2, 24, 24, 3)
    """
    return _TOY_INPUTS[kind](n, rng_for(seed, "toy inputs", kind))


def _images(n: int, rng: np.random.Generator) -> Inputs:
    coarse = rng.integers(0, 256, (n, 6, 6, 3), dtype=np.uint8)
    return coarse.repeat(4, axis=1).repeat(4, axis=2)


def _text(n: int, rng: np.random.Generator) -> list[str]:
    def sentence() -> str:
        return " ".join(rng.choice(TOY_WORDS, size=rng.integers(6, 12))).capitalize() + "."

    return [" ".join(sentence() for _ in range(4)) for _ in range(n)]


def _pairs(n: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    return list(zip(_text(n, rng), _text(n, rng), strict=True))


def _vectors(n: int, rng: np.random.Generator) -> Inputs:
    return rng.normal(size=(n, 20))


def _table(n: int, rng: np.random.Generator) -> Inputs:
    import pyarrow as pa

    colours = pa.array(rng.choice(["red", "green", "blue"], n)).dictionary_encode()
    floats = {f"x{j}": rng.normal(size=n) for j in range(8)}
    integers = {"age": rng.integers(18, 90, n)}
    return pa.table(
        {**floats, **integers, "town": rng.choice(list("abcdefgh"), n), "colour": colours}
    )


_TOY_INPUTS: dict[InputKind, Callable[[int, np.random.Generator], Inputs]] = {
    "images": _images,
    "text": _text,
    "pairs": _pairs,
    "vectors": _vectors,
    "table": _table,
}


def check_transform(
    member: Transform, *, meter: MagnitudeMeter | None = None, seed: int = 0
) -> None:
    """Raise if a transform violates a rule that all transforms must satisfy.

    Parameters
    ----------
    member : Transform
        Transform to check.
    meter : MagnitudeMeter, optional
        Meter that measures the strength of each change in the unit of the magnitude, to check that
        no change exceeds the magnitude. By default, the built-in meter for the name of the
        transform is used; if there is none, this rule is not checked.
    seed : int
        Random seed of the toy inputs.

    Raises
    ------
    AssertionError
        If a rule is violated; the message names the first such rule.

    Examples
    --------
    >>> from oodometer.transforms import Translate
    >>> check_transform(Translate())
    """
    for rule in TRANSFORM_RULES:
        rule(member, seed)
    if meter is not None:
        check_magnitude_bound(member, seed, meter)


def toy_streams(n: int, seed: int, draw_index: int = 1) -> RowStreams:
    """Return the random streams of n rows."""
    keys = rng_for(seed, "keys").integers(0, 2**64, n, dtype=np.uint64)
    return RowStreams(seed, keys, np.full(n, draw_index))


def with_magnitude(member: Transform, magnitude: float) -> Any:
    """Return the transform with another magnitude."""
    return replace(member, magnitude=magnitude)  # type: ignore[type-var]


def _is_described(member: Transform, seed: int) -> None:
    assert isinstance(member, Transform), (
        f"{member!r} must derive from oodometer.core.protocols.Transform"
    )
    assert member.name == member.name.lower(), f"the name {member.name!r} must be lower case"
    assert member.label, f"{member.name} must have a label, which is part of measure names"
    assert member.assumes, f"{member.name} must state for which inputs it preserves the label"
    assert member.kinds, f"{member.name} must list the kinds of inputs that it changes"
    unknown = set(member.kinds) - set(INPUT_KINDS)
    assert not unknown, (
        f"{member.name} has unknown kinds {unknown}; known: {', '.join(INPUT_KINDS)}"
    )
    is_frozen = hash(member) == hash(with_magnitude(member, member.magnitude))
    assert is_frozen, f"{member.name} must be a frozen dataclass with a magnitude"


def _keeps_type_and_shape(member: Transform, seed: int) -> None:
    for kind in member.kinds:
        before = toy_inputs(kind, seed=seed)
        after = member.learn(before).apply(before, toy_streams(len(before), seed))
        assert batches.infer_kind(after) == kind, f"{member.name} changes the type of {kind}"
        assert len(after) == len(before), f"{member.name} changes the number of rows"
        if isinstance(before, np.ndarray):
            is_same = (after.shape, after.dtype) == (before.shape, before.dtype)
            assert is_same, f"{member.name} changes the shape or dtype of {kind}"
        if kind == "table":
            assert after.schema.equals(before.schema), f"{member.name} changes the column types"


def _is_pure(member: Transform, seed: int) -> None:
    for kind in member.kinds:
        before, copy = (toy_inputs(kind, seed=seed) for _ in range(2))
        learned = member.learn(before)
        draws = toy_streams(len(before), seed)
        first, second = (learned.apply(before, draws) for _ in range(2))
        assert batches.batches_equal(first, second), f"{member.name} differs between two calls"
        assert batches.batches_equal(before, copy), f"{member.name} changes its input"


def _depends_on_own_row_only(member: Transform, seed: int) -> None:
    """Check that a row is changed in the same way alone, in a batch and in any order."""
    for kind in member.kinds:
        before = toy_inputs(kind, seed=seed)
        learned = member.learn(before)
        draws = toy_streams(len(before), seed)
        expected = learned.apply(before, draws)
        orders: list[Ints] = [np.array([5]), rng_for(seed, "order").permutation(len(before))]
        for index in orders:
            rows = learned.apply(batches.take(before, index), draws.rows(index))
            is_same = batches.batches_equal(rows, batches.take(expected, index))
            assert is_same, f"{member.name}: the result of a row depends on the other rows"


def _is_identity_at_zero(member: Transform, seed: int) -> None:
    identity = with_magnitude(member, 0.0)
    for kind in member.kinds:
        before = toy_inputs(kind, seed=seed)
        after = identity.learn(before).apply(before, toy_streams(len(before), seed))
        assert batches.batches_equal(before, after), f"{member.name} changes {kind} at magnitude 0"


def _differs_between_draws_and_examples(member: Transform, seed: int) -> None:
    for kind in member.kinds:
        inputs = toy_inputs(kind, seed=seed)
        learned = member.learn(inputs)
        copies = batches.take(inputs, np.zeros(40, dtype=np.int64))
        same_key = np.zeros(40, dtype=np.uint64)
        by_draw = learned.apply(copies, RowStreams(seed, same_key, np.arange(1, 41)))
        by_example = learned.apply(copies, toy_streams(40, seed))
        for results, varied in ((by_draw, "draws"), (by_example, "examples")):
            distinct = len(set(batches.iter_row_bytes(results)))
            assert distinct >= 2, f"{member.name}: 40 {varied} of one input give {distinct} results"


def check_magnitude_bound(
    member: Transform, seed: int, meter: MagnitudeMeter | None = None
) -> None:
    """Raise if a draw exceeds the magnitude, or if no draw reaches half of the magnitude."""
    meter = meter if meter is not None else find_meter(member)
    if meter is None:
        return
    for share in (1.0, 0.5):
        bounded = with_magnitude(member, member.magnitude * share)
        before = meter.make_inputs(200, rng_for(seed, "bound"))
        after = bounded.learn(before).apply(before, toy_streams(200, seed))
        extents = meter.extent(before, after)
        limit = bounded.magnitude + meter.tolerance
        largest = float(extents.max())
        assert largest <= limit, (
            f"{member.name} changed an input by {largest:.4g}, more than {limit:.4g}"
        )
        assert largest >= bounded.magnitude / 2, (
            f"{member.name} never reaches half of its magnitude"
        )


TRANSFORM_RULES: tuple[Callable[[Transform, int], None], ...] = (
    _is_described,
    _keeps_type_and_shape,
    _is_pure,
    _depends_on_own_row_only,
    _is_identity_at_zero,
    _differs_between_draws_and_examples,
    check_magnitude_bound,
)
