"""Estimators that have read the target already, and the pass in which they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from oodometer.arrays import Floats
from oodometer.bottom import Bottom, Keeper
from oodometer.core import Estimate, Staged
from oodometer.predictions import Predictions
from oodometer.runners import Runner, serial
from oodometer.shards import Part
from oodometer.tally import Plan, Summing, Tally


@dataclass(frozen=True, eq=False)
class Summed(Staged[Any, Any]):
    """An estimator whose sums over the target are known: it looks at no row any more."""

    of: Summing
    total: Any

    @property
    def name(self) -> str:
        """How users call it."""
        return self.of.member.name

    @property
    def assumes(self) -> str:
        """What must hold for it to be right."""
        return self.of.member.assumes

    @property
    def needs(self) -> tuple[str, ...]:
        """What it must be given."""
        return self.of.member.needs

    @property
    def paper(self) -> str:
        """Where it comes from."""
        return self.of.member.paper

    def learn(self, source: Predictions) -> Any:
        """What was learned before the pass."""
        return self.of.learned

    def summarize(self, learned: Any, batch: Predictions) -> Any:
        """What was summed in the pass."""
        return self.total

    def finish(self, learned: Any, total: Any) -> Estimate:
        """The estimate."""
        return self.of.member.finish(learned, total)

    def resample(self, learned: Any, total: Any, rng: np.random.Generator, count: int) -> Floats:
        """Replicates of the estimate."""
        return self.of.member.resample(learned, total, rng, count)


def passed(plan: Plan, parts: Sequence[Part], runner: Runner, tell: Callable[[int], None]) -> Tally:
    """The tally of all parts, by whoever works; `tell` hears how many rows are done.

    Sums are added in the order of the parts, whoever is first, for the last bits of a sum hang on
    the order. Samples hang on none.
    """
    here = runner is serial
    work = partial(replace(plan, threads=True), tell=tell) if here else plan
    sample, labelled = Keeper(plan.size), Keeper(plan.labels)
    whole, waiting, following = Tally(), {}, 0
    for part, found in runner(work, parts):
        if isinstance(found, Exception):
            raise found
        if not here:
            tell(found.n)
        _kept(sample, found.sample)
        _kept(labelled, found.labelled)
        waiting[part.number] = replace(found, sample=None, labelled=None)
        while following in waiting:
            whole.add(waiting.pop(following))
            following += 1
    return replace(whole, sample=sample.sample(), labelled=labelled.sample())


def _kept(keeper: Keeper, found: Bottom | None) -> None:
    if found is not None:
        keeper.add(found)
