"""Checks of many cases in one test, whose failure names every failing case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

Rule = Callable[[Any, Any], None]


def check_cases(check: Callable[..., None], cases: Iterable[tuple[Any, ...]]) -> None:
    """Call `check` with each case; fail with a list of all failing cases."""
    failures = []
    for case in cases:
        try:
            check(*case)
        except Exception as error:
            message = (str(error).strip() or type(error).__name__).splitlines()[0]
            failures.append(f"{case}: {message}")
    assert not failures, "\n".join(failures)


def assert_conformance(
    rules: Sequence[Rule], members: Sequence[Any], arguments: Sequence[Any]
) -> None:
    """Run each rule on each member with each argument; fail with a list of all violations."""
    cases = {
        f"{number}: {member.name}, {rule.__name__.strip('_')}, {argument}": (rule, member, argument)
        for number, (member, rule, argument) in enumerate(product(members, rules, arguments))
    }

    def check(case: str) -> None:
        rule, member, argument = cases[case]
        rule(member, argument)

    check_cases(check, ((case,) for case in cases))
