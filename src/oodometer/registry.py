"""Members that other packages add to a family, through an entry point of the family's name."""

from __future__ import annotations

from typing import TypeVar

from oodometer.errors import InputError

Member = TypeVar("Member")


def added(group: str, member: type[Member], *, else_say: str) -> tuple[Member, ...]:
    """What installed packages add to a group; one that is no such member is refused by name."""
    from importlib.metadata import entry_points  # slow to import, and not always needed

    found = []
    for entry in entry_points(group=group):
        made = entry.load()()
        if not isinstance(made, member):
            raise InputError(
                f"The entry point {entry.name!r} gives a {type(made).__name__}, which is no "
                f"{else_say}."
            )
        found.append(made)
    return tuple(found)
