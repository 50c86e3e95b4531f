"""All suites, in the order in which they are built."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.suites import (
    acs,
    adult,
    cifar,
    demo,
    digits,
    fmow,
    inference,
    pacs,
    reviews,
    tiny_imagenet,
)
from benchmarks.suites.suite import Suite

SUITES: tuple[Suite, ...] = (
    *demo.SUITES, *adult.SUITES, *acs.SUITES, *digits.SUITES, *reviews.SUITES, *pacs.SUITES,
    *cifar.SUITES, *inference.SUITES, *tiny_imagenet.SUITES, *fmow.SUITES,
)  # fmt: skip


def select(names: Sequence[str]) -> list[Suite]:
    """Return the suites with given names or families, in this order; all suites without names."""
    known = {name for suite in SUITES for name in (suite.name, suite.family)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"There is no suite or family {unknown[0]!r}; known: {sorted(known)}.")
    chosen = [suite for name in names for suite in SUITES if name in (suite.name, suite.family)]
    return list({suite.name: suite for suite in chosen or SUITES}.values())
