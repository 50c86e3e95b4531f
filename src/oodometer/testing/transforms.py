"""The rules that every transform keeps, and toy inputs of every kind."""

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
from oodometer.testing._transform_magnitude import MAGNITUDE_METERS, MagnitudeMeter

TOY_WORDS = ("the", "a", "this", "old", "new", "red", "small", "cup", "book", "chair", "story", "plot",
         "film", "was", "is", "seems", "felt", "very", "quite", "good", "bad", "fine", "poor",
         "broken", "bright", "heavy", "light", "quick", "and", "but", "so", "yet", "it", "we",
         "they", "you")  # fmt: skip


def toy_inputs(kind: InputKind, n: int = 12, seed: int = 0) -> Inputs:
    """A batch of a kind.

    >>> toy_inputs("images", n=2).shape
    (2, 24, 24, 3)
    """
    rng = rng_for(seed, "toy inputs", kind)
    return _TOY_INPUTS[kind](n, rng)


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
    numbers = {f"x{j}": rng.normal(size=n) for j in range(8)}
    whole = {"age": rng.integers(18, 90, n)}
    return pa.table(
        {**numbers, **whole, "town": rng.choice(list("abcdefgh"), n), "colour": colours}
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
    """Raise AssertionError, with a sentence, on the first rule that a transform breaks.

    `meter` says how far inputs were moved, in the magnitude's unit, for the bound to be checked.
    """
    for rule in TRANSFORM_RULES:
        rule(member, seed)
    if meter is not None:
        check_magnitude_bound(member, seed, meter)


def toy_streams(n: int, seed: int, draw_index: int = 1) -> RowStreams:
    """One draw for every one of n examples."""
    keys = rng_for(seed, "keys").integers(0, 2**64, n, dtype=np.uint64)
    return RowStreams(seed, keys, np.full(n, draw_index))


def with_magnitude(member: Transform, magnitude: float) -> Any:
    """The same transform with another magnitude."""
    return replace(member, magnitude=magnitude)  # type: ignore[type-var]


def _is_described(member: Transform, seed: int) -> None:
    assert isinstance(member, Transform), (
        f"{member!r} must derive from oodometer.core.protocols.Transform"
    )
    assert member.name == member.name.lower(), f"the name {member.name!r} must be lower case"
    assert member.label, f"{member.name} needs a label, for the measure's name"
    assert member.assumes, f"{member.name} must say of what inputs it keeps the class"
    assert member.kinds, f"{member.name} must say which kinds of inputs it changes"
    assert set(member.kinds) <= set(INPUT_KINDS), f"{member.name} names kinds that there are not"
    same = hash(member) == hash(with_magnitude(member, member.magnitude))
    assert same, f"{member.name} must be a frozen dataclass with a magnitude"


def _keeps_type_and_shape(member: Transform, seed: int) -> None:
    for kind in member.kinds:
        before = toy_inputs(kind, seed=seed)
        after = member.learn(before).apply(before, toy_streams(len(before), seed))
        assert batches.infer_kind(after) == kind, f"{member.name} changes the type of {kind}"
        assert len(after) == len(before), f"{member.name} changes the number of rows"
        if isinstance(before, np.ndarray):
            kept = (after.shape, after.dtype) == (before.shape, before.dtype)
            assert kept, f"{member.name} changes the shape or dtype of {kind}"
        if kind == "table":
            assert after.schema.equals(before.schema), f"{member.name} changes the columns' types"


def _is_pure(member: Transform, seed: int) -> None:
    for kind in member.kinds:
        before, kept = (toy_inputs(kind, seed=seed) for _ in range(2))
        learned, draws = member.learn(before), toy_streams(len(before), seed)
        first, second = (learned.apply(before, draws) for _ in range(2))
        assert batches.batches_equal(first, second), f"{member.name} differs when asked twice"
        assert batches.batches_equal(before, kept), f"{member.name} changes its input"


def _depends_on_own_row_only(member: Transform, seed: int) -> None:
    """A row's draw is the same alone, in a batch and in any order."""
    for kind in member.kinds:
        before = toy_inputs(kind, seed=seed)
        learned, draws = member.learn(before), toy_streams(len(before), seed)
        whole = learned.apply(before, draws)
        orders: list[Ints] = [np.array([5]), rng_for(seed, "order").permutation(len(before))]
        for index in orders:
            part = learned.apply(batches.take(before, index), draws.rows(index))
            alike = batches.batches_equal(part, batches.take(whole, index))
            assert alike, f"{member.name}: what a row becomes depends on the other rows"


def _is_identity_at_zero(member: Transform, seed: int) -> None:
    still = with_magnitude(member, 0.0)
    for kind in member.kinds:
        before = toy_inputs(kind, seed=seed)
        after = still.learn(before).apply(before, toy_streams(len(before), seed))
        assert batches.batches_equal(before, after), f"{member.name} changes {kind} at magnitude 0"


def _differs_between_draws_and_examples(member: Transform, seed: int) -> None:
    for kind in member.kinds:
        some = toy_inputs(kind, seed=seed)
        learned = member.learn(some)
        one = batches.take(some, np.zeros(40, dtype=np.int64))
        key = np.zeros(40, dtype=np.uint64)
        by_draw = learned.apply(one, RowStreams(seed, key, np.arange(1, 41)))
        by_example = learned.apply(one, toy_streams(40, seed))
        for made, what in ((by_draw, "draws"), (by_example, "examples")):
            distinct = len(set(batches.iter_row_bytes(made)))
            assert distinct >= 2, f"{member.name}: 40 {what} of one input give {distinct} results"


def check_magnitude_bound(
    member: Transform, seed: int, meter: MagnitudeMeter | None = None
) -> None:
    """No draw goes beyond the magnitude, and some come near to it."""
    meter = meter if meter is not None else MAGNITUDE_METERS.get(member.name)
    if meter is None:
        return
    for share in (1.0, 0.5):
        bounded = with_magnitude(member, member.magnitude * share)
        before = meter.make_inputs(200, rng_for(seed, "bound"))
        after = bounded.learn(before).apply(before, toy_streams(200, seed))
        extents = meter.extent(before, after)
        limit = bounded.magnitude + meter.tolerance
        far = float(extents.max())
        assert far <= limit, f"{member.name} moved an input by {far:.4g}, beyond {limit:.4g}"
        assert far >= bounded.magnitude / 2, f"{member.name} never goes half as far as it may"


TRANSFORM_RULES: tuple[Callable[[Transform, int], None], ...] = (
    _is_described,
    _keeps_type_and_shape,
    _is_pure,
    _depends_on_own_row_only,
    _is_identity_at_zero,
    _differs_between_draws_and_examples,
    check_magnitude_bound,
)
