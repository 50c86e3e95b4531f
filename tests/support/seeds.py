"""Run a check for many random seeds and name those that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def failing_seeds(check: Callable[[int], None], seeds: Iterable[int]) -> dict[int, str]:
    """Return the message of each seed for which `check` fails."""
    failures = {}
    for seed in seeds:
        try:
            check(seed)
        except AssertionError as error:
            failures[seed] = str(error)
    return failures
