"""Settings as they stand in a table: each key known, each value of its type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from oodometer.core.errors import InputError, UnknownName

TomlTable = Mapping[str, Any]
TYPE_DESCRIPTIONS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def build_member(member: type, settings: TomlTable, where: str, other_keys: tuple[str, ...]) -> Any:
    """The member with its settings; unknown, missing and mistyped ones are named."""
    own = {one.name: one for one in fields(member)}
    check_keys(settings, (*own, *other_keys), f"key of {where}")
    for name, one in own.items():
        if one.default is MISSING and name not in settings:
            raise InputError(f"{where} does not say {name}. Give it: {name} = ….")
    hints = get_type_hints(member)
    build: Callable[..., Any] = member
    return build(
        **{key: check_type(value, hints[key], key, where) for key, value in settings.items()}
    )


def check_keys(table: TomlTable, keys: Iterable[str], description: str) -> None:
    """Refuse a key that is none of these, and say which is meant."""
    names = list(keys)
    for key in table:
        if key not in names:
            raise UnknownName(description, str(key), names)


def require_table(value: Any, where: str) -> TomlTable:
    """A table of keys and values, or an error."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be a table of keys and values; got {value!r:.60}.")
    return value


def check_type(value: Any, hint: Any, key: str, where: str) -> Any:
    """A value as the dataclasses have it, lists and tables as tuples; or an error that names it."""
    plain = _freeze(value)
    if not _has_type(plain, hint):
        raise InputError(
            f"{where}: {key} must be {_describe_type(hint)}; got {value!r:.60}. Correct it in the table."
        )
    return plain


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((str(key), _freeze(one)) for key, one in value.items())
    return tuple(_freeze(one) for one in value) if isinstance(value, list | tuple) else value


def _has_type(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    if isinstance(hint, UnionType):
        return any(_has_type(value, one) for one in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and _all_have_types(value, get_args(hint))
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, int | float if hint is float else hint)


def _all_have_types(values: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if hints[-1] is Ellipsis:
        return all(_has_type(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(_has_type, values, hints))


def _describe_type(hint: Any) -> str:
    """A type in words.

    >>> _describe_type(str | tuple[str, ...] | None)
    'a text or a list of texts'
    """
    if isinstance(hint, UnionType):
        return " or ".join(_describe_type(one) for one in get_args(hint) if one is not NoneType)
    if get_origin(hint) is not tuple:
        return TYPE_DESCRIPTIONS[hint]
    inner = get_args(hint)
    if get_origin(inner[0]) is tuple:
        return "a table"
    many = "" if inner[-1] is Ellipsis else f"{len(inner)} "
    return f"a list of {many}{TYPE_DESCRIPTIONS[inner[0]].split(' ', 1)[1]}s"
