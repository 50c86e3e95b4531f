"""Which measures share what is dear to compute, and are better taken by one worker."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from oodometer.core.protocols import Measure
from oodometer.measures.h_divergence import HDivergence
from oodometer.measures.hdh_divergence import HDeltaHDivergence


def group_by_shared_work(members: Sequence[Measure]) -> list[list[Measure]]:
    """Measures that share a classifier, gradients or passes side by side, in order.

    >>> from oodometer.measures import available
    >>> [[one.name for one in some][:2] for some in group_by_shared_work(available())][:2]
    [['entropy-source', 'entropy-target'], ['h-divergence', 'h-divergence+source-error']]
    """
    found: dict[Hashable, list[Measure]] = {}
    for member in members:
        found.setdefault(_shared_work_key(member), []).append(member)
    return list(found.values())


def _shared_work_key(member: Any) -> Hashable:
    """The classifier that a divergence, and what is made of it, comes from; or its `shared_work_group`."""
    while hasattr(member, "base"):
        member = member.base
    if isinstance(member, HDivergence | HDeltaHDivergence):
        return replace(member, half="test")
    shared: str = getattr(member, "shared_work_group", member.name)
    return shared
