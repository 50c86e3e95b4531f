"""Run one check on many cases and report every case that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


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
