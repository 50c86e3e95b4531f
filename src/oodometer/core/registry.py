"""Members of a family: those that other packages add, and those that a user asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from oodometer.core.errors import InputError

Member = TypeVar("Member")


def load_entry_points(
    group: str, member_type: type[Member], *, requirements: str
) -> tuple[Member, ...]:
    """What installed packages add to a group; one that is no such member is refused by name."""
    from importlib.metadata import entry_points  # slow to import, and not always needed

    found = []
    for entry in entry_points(group=group):
        made = entry.load()()
        if not isinstance(made, member_type):
            raise InputError(
                f"The entry point {entry.name!r} gives a {type(made).__name__}, which is no "
                f"{requirements}."
            )
        found.append(made)
    return tuple(found)


def resolve_members(
    members: Any, member_type: type[Member], *, family: str, get: Callable[[str], Member]
) -> list[Member]:
    """One or several members, by name or as they are, each once."""
    alone = isinstance(members, str | type | member_type) or not isinstance(members, Iterable)
    found: list[Any] = [
        get(one) if isinstance(one, str) else one for one in ([members] if alone else members)
    ]
    if not found:
        raise InputError(f"No {family} was named. Name one or more, or give None for all.")
    for one in found:
        if isinstance(one, type) or not isinstance(one, member_type):
            given = f"the class {one.__name__}" if isinstance(one, type) else repr(one)
            lacking = ", ".join(_missing_attributes(one, member_type))
            cure = f" It lacks: {lacking}." if lacking and not isinstance(one, type) else ""
            raise InputError(
                f"A {family} is given by its name or as an instance; got {given}.{cure}"
            )
    once: dict[str, Any] = {}
    for one in found:
        if once.setdefault(one.name, one) != one:
            raise InputError(f"Two of them are called {one.name!r}, and differ. Leave one out.")
    return list(once.values())


def _missing_attributes(candidate: Any, member_type: type) -> list[str]:
    """What a member of a family has and a thing has not."""
    declared = [vars(base) for base in member_type.__mro__ if getattr(base, "_is_protocol", False)]
    names = {name for one in declared for name in (*one, *one.get("__annotations__", ()))}
    return sorted(
        name for name in names if not name.startswith("_") and not hasattr(candidate, name)
    )
