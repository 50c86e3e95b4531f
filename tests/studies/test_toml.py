"""Strict validation of TOML tables: one-line errors with key, allowed values and suggestion."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies._toml import (
    TABLE_ITEMS,
    Field,
    NonEmpty,
    StrictModel,
    build,
    prefix_errors,
    read_toml,
    validate,
    validate_field,
    validate_fields,
)


@dataclass(frozen=True)
class Member:
    path: str
    rows: tuple[int, int] | None = None
    where: Annotated[tuple[tuple[str, Any], ...], TABLE_ITEMS] = ()
    share: float = 0.5


class Keys(StrictModel):
    text: str = ""
    count: Annotated[int, Field(ge=1)] = 1
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    flag: bool = False
    pair: tuple[int, int] = (0, 0)
    names: NonEmpty[str] = ("a",)
    either: str | tuple[str, ...] | None = None
    choice: Literal["mean", "cls"] = "mean"
    items: Annotated[tuple[tuple[str, str], ...], TABLE_ITEMS] = ()
    described: int = Field(default=0, description="an even number")


def test_lists_and_tables_become_tuples() -> None:
    table = {"path": "a", "rows": [1, 2], "where": {"x": ["b", 3]}, "share": 1}
    member = build(Member, table, "here")
    assert member == Member("a", (1, 2), (("x", ("b", 3)),), 1)
    assert isinstance(member.share, float)
    assert hash(member) is not None


def test_unknown_key_suggests_the_most_similar() -> None:
    with pytest.raises(UnknownName, match=r"No key of here is called 'pth'. Did you mean 'path'\?"):
        build(Member, {"pth": "a"}, "here")
    with pytest.raises(UnknownName, match=r"'redaer'. Did you mean 'reader'\?"):
        build(Member, {"redaer": "a"}, "here", other_keys=["reader"])


def test_missing_key_is_named() -> None:
    with pytest.raises(InputError, match=r"here has no key 'path'\. Add path = …"):
        build(Member, {}, "here")


INVALID: list[tuple[str, Any, str]] = [
    ("text", 3, "a text; got 3."),
    ("count", True, "a whole number; got True."),
    ("count", 1.5, "a whole number; got 1.5."),
    ("count", 0, "at least 1; got 0."),
    ("share", "1", "a number; got '1'."),
    ("share", True, "a number; got True."),
    ("share", 0, "above 0; got 0."),
    ("share", 2, "at most 1; got 2."),
    ("flag", 1, "true or false; got 1."),
    ("pair", [1], "a longer list; got [1]."),
    ("names", ["a", 1], "a list, each item a text; got ['a', 1]."),
    ("names", [], "a list of at least 1; got []."),
    ("either", 1, "a text or a list; got 1."),
    ("choice", "man", "'mean' or 'cls'; got 'man'. Did you mean 'mean'?"),
    ("items", "x", "a table; got 'x'."),
    ("items", {"a": 1}, "a table, each value a text; got {'a': 1}."),
    ("described", "x", "an even number; got 'x'."),
]


def test_invalid_value_is_reported_with_what_is_allowed() -> None:
    wrong = {}
    for key, value, expected in INVALID:
        with pytest.raises(InputError) as caught:
            validate(Keys, {key: value}, "here")
        if str(caught.value) != f"{key} of here must be {expected}":
            wrong[f"{key} = {value!r}"] = str(caught.value)
    assert not wrong


def test_value_that_is_not_a_table_is_an_error() -> None:
    with pytest.raises(InputError, match=r"^The group must be a table; got 3"):
        validate(Keys, 3, "the group")


def test_fields_are_validated_in_place() -> None:
    member = Member("a", share=1)
    validate_fields(member, "here")
    assert isinstance(member.share, float)
    with pytest.raises(InputError, match="path of here must be a text; got 3"):
        validate_fields(Member(3), "here")  # type: ignore[arg-type]
    assert validate_field(Member, "share", 1, "here") == 1.0
    with pytest.raises(InputError, match="rows of here must be a list; got 1"):
        validate_field(Member, "rows", 1, "here")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file .*gone\.toml'; expected a TOML file"):
        read_toml(tmp_path / "gone.toml")
    path = tmp_path / "bad.toml"
    for content in (b"name = ", b'name = "\xe9"'):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"bad\.toml' is not valid TOML: .* Correct the file"):
            read_toml(path)


def test_prefix_precedes_the_message() -> None:
    with (
        pytest.raises(InputError, match=re.escape("a.toml: rows is wrong")),
        prefix_errors("a.toml"),
    ):
        raise InputError("rows is wrong")


def test_command_line_does_not_import_pydantic() -> None:
    code = "import sys, oodometer.cli; assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_pydantic_names_the_extra() -> None:
    code = "import sys; sys.modules['pydantic'] = None; import oodometer.studies.training.spec"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra: Reading domains, pools and studies needs the package" in done.stderr
    assert "oodometer[studies]" in done.stderr
