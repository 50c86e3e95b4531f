"""Run the rules of a family on many members and collect every violation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

Rule = Callable[[Any, Any], None]


def violations(
    rules: Iterable[Rule], members: Sequence[Any], arguments: Iterable[Any]
) -> list[str]:
    """Return one line for each rule that fails on a member with one of the arguments."""
    failures = []
    for member, rule, argument in product(members, rules, arguments):
        try:
            rule(member, argument)
        except Exception as error:
            case = f"{member.name}, {rule.__name__.strip('_')}, {argument}"
            failures.append(f"{case}: {type(error).__name__}: {error}")
    return failures


def assert_conformance(
    rules: Iterable[Rule], members: Sequence[Any], arguments: Iterable[Any]
) -> None:
    """Fail with the list of all violations, if there are any."""
    failures = violations(rules, members, arguments)
    assert not failures, "\n".join(failures)
