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

import numpy as np

from oodometer.core.errors import NotApplicable, OodometerError
from oodometer.core.protocols import Measure, ProgressCallback
from oodometer.measures.h_divergence import HDivergence
from oodometer.measures.hdh_divergence import HDeltaHDivergence
from oodometer.measures.subject import MeasureOutcomes, Subject, measure_all, random_subset
from oodometer.models.inference import (
    DEFAULT_BATCH_ROWS,
    BatchForwardPass,
    DatasetForwardPass,
    check_consistent_outputs,
    concat_passes,
    predict_batch,
)
from oodometer.models.introspection.network import LAST_LINEAR_INPUT, Network
from oodometer.models.model_view import ModelView, ViewSource
from oodometer.parallel.runners import (
    Runner,
    group_batches,
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


# Passes -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FailedBlock:
    """Why a block can't be looked at. As an error it would be raised, and end the work on all."""

    error: OodometerError


@dataclass(frozen=True, eq=False)
class FeaturePassWorker:
    """Shows batches of rows to the model: of what, and at which layer; at none, it is just asked."""

    sides: tuple[tuple[ViewSource, str | None], ...]

    @cached_property
    def networks(self) -> list[Network | None]:
        """The open network of every side, where it is looked into."""
        return [None if layer is None else ModelView(given).network for given, layer in self.sides]

    def __call__(self, task: tuple[int, Sequence[slice]]) -> list[BatchForwardPass] | FailedBlock:
        """Outputs and features of some batches of a side, or why there are none."""
        side, batches = task
        try:
            with limit_to_one_thread():
                return [self._pass_batch(side, batch) for batch in batches]
        except OodometerError as error:
            return FailedBlock(error)

    def _pass_batch(self, side: int, batch: slice) -> BatchForwardPass:
        (given, layer), network = self.sides[side], self.networks[side]
        assert given.dataset is not None
        assert given.model is not None
        inputs = given.dataset.take(batch)
        if network is not None and layer is not None:
            return network.forward_with_features(inputs, layer)
        return predict_batch(given.model, inputs, given.model.name), np.empty((len(inputs), 0))

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "networks"}

    def payload(self) -> dict[str, Any]:
        """The model and the data."""
        models = {given.model.name: given.model for given, _ in self.sides if given.model}
        data = {given.name: given.dataset for given, _ in self.sides}
        return {**label_payload("model", models), **label_payload("data", data)}


def precompute_outputs(
    runner: Runner, subject: Subject, progress: ProgressCallback | None
) -> Subject:
    """The same, whose outputs and features are known already; where there are none, as it was."""
    views = [subject.source, subject.target, subject.training]
    known = {
        place: _PassSide(replace(view.view_source, progress=None), view.features_missing_reason())
        for place, view in enumerate(views)
        if view is not None
        and view.view_source.dataset is not None
        and view.view_source.outputs is None
    }
    for _ in range(2):  # what could not be looked into is asked, in a second round
        _run_passes(runner, [one for one in known.values() if one.is_pending], progress)
    for place, one in known.items():
        # A side on which the model fails is left to the measures, some of which may not need it.
        if isinstance(one.result, tuple):
            views[place] = ModelView(replace(one.given, precomputed=one.result))
    return Subject(views[0], views[1], views[2], subject.seed)  # type: ignore[arg-type]


@dataclass
class _PassSide:
    """A side, why it is not looked into, and what came of it."""

    given: ViewSource
    reason: str | None
    result: DatasetForwardPass | OodometerError | None = None

    @property
    def is_pending(self) -> bool:
        return self.result is None

    @property
    def layer(self) -> str | None:
        return self.given.layer if self.reason is None else None

    @property
    def batches(self) -> list[slice]:
        n = ModelView(self.given).n
        return [
            slice(start, min(start + DEFAULT_BATCH_ROWS, n))
            for start in range(0, n, DEFAULT_BATCH_ROWS)
        ]

    def add_results(self, parts: Sequence[list[BatchForwardPass] | FailedBlock]) -> None:
        """What came of its blocks."""
        failed = next((part.error for part in parts if isinstance(part, FailedBlock)), None)
        if isinstance(failed, NotApplicable) and self.layer is not None:
            self.reason = str(failed)  # there may be outputs nevertheless
            return
        self.result = failed
        if failed is None:
            self._concat_parts([one for part in parts if isinstance(part, list) for one in part])

    def _concat_parts(self, parts: list[BatchForwardPass]) -> None:
        dataset = self.given.dataset
        labels = dataset.labels if dataset is not None and self.given.labelled else None
        try:
            for outputs, _ in parts:
                check_consistent_outputs(
                    parts[0][0], outputs, self.given.model.name if self.given.model else ""
                )
            outputs, features = concat_passes(parts, self.layer or LAST_LINEAR_INPUT, labels)
            self.result = outputs, features if self.reason is None else self.reason
        except NotApplicable as refusal:
            self.reason = str(refusal)
        except OodometerError as error:
            self.result = error


def _run_passes(
    runner: Runner, sides: Sequence[_PassSide], progress: ProgressCallback | None
) -> None:
    """Have all blocks of some sides looked at."""
    work = FeaturePassWorker(tuple((one.given, one.layer) for one in sides))
    tasks = [
        (at, part)
        for at, one in enumerate(sides)
        for part in group_batches(one.batches, DEFAULT_BATCH_ROWS)
    ]
    found: list[list[list[BatchForwardPass] | FailedBlock]] = [[] for _ in sides]
    with closing(ordered_map(runner, work, tasks)) as results:
        for done, ((at, _), part) in enumerate(zip(tasks, results, strict=True), start=1):
            found[at].append(part)
            if progress:
                progress(done, len(tasks), f"looking at {sides[at].given.name}")
    for one, parts in zip(sides, found, strict=True):
        one.add_results(parts)
