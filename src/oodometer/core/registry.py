"""Look up members of a family (estimators, measures, …) by name, entry point, instance or function.

The four are called families, and each estimator, measure, metric or transform is a member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from oodometer.core.errors import InputError
from oodometer.core.function_members import wrap_function

Member = TypeVar("Member")


def load_entry_points(
    group: str, member_type: type[Member], *, requirements: str
) -> tuple[Member, ...]:
    """Return the members that installed packages add to a family.

    `requirements` is a noun phrase for a valid member, used in error messages.
    """
    from importlib.metadata import entry_points  # slow to import, and not always needed

    members = []
    for entry in entry_points(group=group):
        member = entry.load()()
        if not isinstance(member, member_type):
            raise InputError(
                f"The entry point {entry.name!r} returns a {type(member).__name__}, which is not a valid "
                f"{requirements}."
            )
        members.append(member)
    return tuple(members)


def resolve_members(
    members: Any,
    member_type: type[Member],
    *,
    available: Callable[[], Iterable[Member]],
    get: Callable[[str], Member],
) -> list[Member]:
    """Return the selected members without duplicates; None selects all available members.

    Each selected member is a name, an instance or a plain function.
    """
    if members is None:
        return list(available())
    family = member_type.__name__.lower()
    is_single = isinstance(members, str | type | member_type) or not isinstance(members, Iterable)
    resolved: list[Any] = [
        get(member) if isinstance(member, str) else wrap_function(member, member_type)
        for member in ([members] if is_single else members)
    ]
    if not resolved:
        raise InputError(f"No {family} was named. Name one or more, or pass None for all.")
    for member in resolved:
        if isinstance(member, type) or not isinstance(member, member_type):
            raise _not_a_member(member, member_type, family)
    by_name: dict[str, Any] = {}
    for member in resolved:
        if by_name.setdefault(member.name, member) != member:
            raise InputError(f"Two different {family}s are called {member.name!r}. Remove one.")
    return list(by_name.values())


def _not_a_member(candidate: Any, member_type: type, family: str) -> InputError:
    if isinstance(candidate, type):
        return InputError(
            f"Name the {family}, or pass an instance or a function; got the class {candidate.__name__}."
        )
    missing = ", ".join(_missing_attributes(candidate, member_type))
    advice = f" It lacks: {missing}." if missing else ""
    return InputError(
        f"Name the {family}, or pass an instance or a function; got {candidate!r}.{advice}"
    )


def _missing_attributes(candidate: Any, member_type: type) -> list[str]:
    """Return the names of the protocol's attributes that an object lacks."""
    protocols = [vars(base) for base in member_type.__mro__ if getattr(base, "_is_protocol", False)]
    names = {
        name for members in protocols for name in (*members, *members.get("__annotations__", ()))
    }
    return sorted(
        name for name in names if not name.startswith("_") and not hasattr(candidate, name)
    )
