"""Dataclasses and arrays as values for JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.jsonable import fields_to_jsonable, to_jsonable
from oodometer.core.results import Estimate, Score


@dataclass(frozen=True)
class Inner:
    name: str
    values: Any


@dataclass(frozen=True)
class Outer:
    inner: Inner
    others: tuple[Inner, ...] = ()
    facts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Renamed:
    value: float

    def to_dict(self) -> dict[str, Any]:
        return {**fields_to_jsonable(self), "unit": "rows"}


def test_nested_dataclasses_become_dictionaries() -> None:
    outer = Outer(Inner("a", (1, 2)), others=(Inner("b", None),), facts={"x": 0.5})
    assert to_jsonable(outer) == {
        "inner": {"name": "a", "values": [1, 2]},
        "others": [{"name": "b", "values": None}],
        "facts": {"x": 0.5},
    }


def test_fields_keep_their_order() -> None:
    assert list(to_jsonable(Outer(Inner("a", 1)))) == ["inner", "others", "facts"]


def test_to_dict_takes_precedence_at_any_depth() -> None:
    expected = {"value": 0.5, "unit": "rows"}
    assert to_jsonable(Renamed(0.5)) == expected
    assert to_jsonable({"a": [Renamed(0.5)]}) == {"a": [expected]}
    assert to_jsonable(Inner("a", Renamed(0.5)))["values"] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([[1, 2]]), [[1, 2]]),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array(["a"]), ["a"]),
        (Path("a") / "b", str(Path("a") / "b")),
        (frozenset({1}), [1]),
        ({1: "a"}, {"1": "a"}),
        (True, True),
        (None, None),
    ],
)
def test_values_become_plain(value: Any, expected: Any) -> None:
    plain = to_jsonable(value)
    assert plain == expected
    assert type(plain) is type(expected)
    json.dumps(plain)


@pytest.mark.parametrize("value", [object(), 1j, Inner, b"bytes", [object()]])
def test_other_values_raise(value: Any) -> None:
    with pytest.raises(TypeError, match="has no counterpart in JSON"):
        to_jsonable(value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values)
def test_json_values_are_unchanged(value: Any) -> None:
    assert to_jsonable(value) == value


def test_results_have_these_keys_in_this_order() -> None:
    estimate = Estimate(0.5, "ac", notes=("a note",), facts={"rows": 2}).to_dict()
    assert list(estimate) == [
        "method", "value", "low", "high", "assumes", "temperature", "notes", "facts",
        "calibration",
    ]  # fmt: skip
    assert (estimate["notes"], estimate["facts"]) == (["a note"], {"rows": 2.0})
    assert type(estimate["facts"]["rows"]) is float
    score = Score(0.5, by_class={"cat": np.float64(0.5)}).to_dict()
    assert list(score) == ["value", "low", "high", "notes", "facts", "by_class"]
    assert type(score["by_class"]["cat"]) is float
