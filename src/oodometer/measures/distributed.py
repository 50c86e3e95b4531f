"""Measures by many workers: first what the model makes of all rows, then the measures of it.

The rows are cut into blocks, whose outputs and features are put together here. Then measures that
have much in common go to one worker, and so do all measures of one subset of the rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from oodometer.core.errors import OodometerError
from oodometer.core.protocols import Measure, ProgressCallback
from oodometer.measures.h_divergence import HDivergence
from oodometer.measures.hdh_divergence import HDeltaHDivergence
from oodometer.measures.subject import MeasureOutcomes, Subject, measure_all, random_subset
from oodometer.models.model_view import ModelView, ViewSource
from oodometer.parallel.runners import (
    Runner,
    label_payload,
    limit_to_one_thread,
    ordered_map,
)


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


# Measures ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasureRequest:
    """Measures of all rows, or of the subset of a number."""

    names: tuple[str, ...]
    replicate: int | None = None


@dataclass(frozen=True, eq=False)
class MeasureWorker:
    """Takes measures of a subject, told by what there is to look at."""

    members: Mapping[str, Measure]
    source: ViewSource
    target: ViewSource
    training: ViewSource | None
    seed: int

    @classmethod
    def from_subject(cls, members: Sequence[Measure], subject: Subject) -> MeasureWorker:
        """Of a subject whose progress nobody hears of."""
        by_name = {member.name: member for member in members}
        views = (subject.source, subject.target, subject.training)
        sides = [None if one is None else replace(one.view_source, progress=None) for one in views]
        return cls(by_name, sides[0], sides[1], sides[2], subject.seed)  # type: ignore[arg-type]

    @cached_property
    def subject(self) -> Subject:
        """The subject, which keeps what measures share from one task to the next."""
        training = None if self.training is None else ModelView(self.training)
        return Subject(ModelView(self.source), ModelView(self.target), training, self.seed)

    def __call__(self, request: MeasureRequest) -> MeasureOutcomes:
        """Scores, or why there are none."""
        with limit_to_one_thread():
            whole = self.subject
            some = whole if request.replicate is None else random_subset(whole, request.replicate)
            return measure_all([self.members[name] for name in request.names], some)

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "subject"}

    def payload(self) -> dict[str, Any]:
        """Measures, the model and the data."""
        sides = [side for side in (self.source, self.target, self.training) if side is not None]
        model = self.target.model
        return {
            **label_payload("measure", self.members),
            **label_payload("model", {} if model is None else {model.name: model}),
            **label_payload("data", {side.name: replace(side, model=None) for side in sides}),
        }


def run_requests(
    runner: Runner,
    members: Sequence[Measure],
    subject: Subject,
    requests: Sequence[MeasureRequest],
    progress: ProgressCallback | None,
) -> list[MeasureOutcomes]:
    """What came of every wish, in order."""
    total, done, found = sum(len(one.names) for one in requests), 0, []
    with closing(
        ordered_map(runner, MeasureWorker.from_subject(members, subject), requests)
    ) as results:
        for wish, some in zip(requests, results, strict=True):
            done += len(some)
            found.append(some)
            if progress:
                what = "" if wish.replicate is None else f", subset {wish.replicate + 1}"
                progress(done, total, f"measured {wish.names[-1]}{what}")
    return found


# Forward passes ---------------------------------------------------------------------------------


def precompute_outputs(
    runner: Runner, subject: Subject, progress: ProgressCallback | None
) -> Subject:
    """Return the subject with outputs and features computed by the runner, where possible."""
    views = [subject.source, subject.target, subject.training]
    for position, view in enumerate(views):
        if view is None or view.view_source.dataset is None or view.view_source.outputs is not None:
            continue
        try:
            views[position] = view.with_forward_pass(runner, progress)
        except OodometerError:
            continue  # the measures that need these outputs report the error
    return Subject(views[0], views[1], views[2], subject.seed)  # type: ignore[arg-type]
