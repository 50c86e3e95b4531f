"""Settings of a table: unknown, missing and mistyped ones are named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies._toml import build_member, check_keys, check_type, require_table


@dataclass(frozen=True)
class Member:
    path: str
    rows: tuple[int, int] | None = None
    where: tuple[tuple[str, Any], ...] = ()
    share: float = 0.5


def test_lists_and_tables_become_tuples() -> None:
    member = build_member(Member, {"path": "a", "rows": [1, 2], "where": {"x": ["b", 3]}, "share": 1}, "here", ())  # fmt: skip
    assert member == Member("a", (1, 2), (("x", ("b", 3)),), 1)
    assert hash(member) is not None


def test_an_unknown_key_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"No key of here is called 'pth'. Did you mean 'path'\?"):
        build_member(Member, {"pth": "a"}, "here", ())
    check_keys({"reader": 1}, ["reader"], "key")


def test_a_missing_key_is_named() -> None:
    with pytest.raises(InputError, match=r"here does not say path\. Give it: path = …"):
        build_member(Member, {}, "here", ())


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (str, 3, "a text"),
        (int, True, "a whole number"),
        (int, 1.5, "a whole number"),
        (float, "1", "a number"),
        (bool, 1, "true or false"),
        (tuple[int, int], [1], "a list of 2 whole numbers"),
        (tuple[str, ...], ["a", 1], "a list of texts"),
        (str | tuple[str, ...] | None, 1, "a text or a list of texts"),
        (tuple[tuple[str, Any], ...], "x", "a table"),
    ],
)
def test_a_value_of_another_type_is_named(hint: Any, value: Any, words: str) -> None:
    with pytest.raises(InputError, match=f"here: key must be {words}; got "):
        check_type(value, hint, "key", "here")


def test_a_table_is_a_table() -> None:
    assert require_table({"a": 1}, "here") == {"a": 1}
    with pytest.raises(InputError, match="here must be a table of keys and values; got 3"):
        require_table(3, "here")
