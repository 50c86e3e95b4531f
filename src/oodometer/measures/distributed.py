"""Compute measures in worker processes or on a cluster instead of in this process.

First, workers compute the outputs and features of all rows in blocks, and the parent process
concatenates the blocks. Then workers compute the measures. A task is a group of measures that use
the same intermediate results, or all measures on one random subset of the rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from oodometer.core.errors import OodometerError
from oodometer.core.protocols import Measure, ProgressCallback
from oodometer.measures.subject import MeasureOutcomes, Subject, measure_all, random_subset
from oodometer.models.model_view import ModelView, ViewSource
from oodometer.parallel.runners import (
    Runner,
    label_payload,
    limit_to_one_thread,
    ordered_map,
)


def precompute_outputs(
    runner: Runner, subject: Subject, progress: ProgressCallback | None
) -> Subject:
    """Return the subject with the outputs and features of all rows computed by the workers.

    If the model fails on the source, target or training data, their outputs are not computed here;
    the measures that need these outputs then report the error.
    """
    computed: dict[str, Any] = {}
    for side in ("source", "target", "training"):
        view: ModelView | None = getattr(subject, side)
        if view is None or view.view_source.dataset is None or view.view_source.outputs is not None:
            continue
        try:
            computed[side] = view.with_forward_pass(runner, progress)
        except OodometerError:
            continue
    return replace(subject, **computed)


@dataclass(frozen=True)
class MeasureRequest:
    """Names of measures to compute on the random subset number `replicate`; None means all rows."""

    names: tuple[str, ...]
    replicate: int | None = None


def group_by_shared_work(members: Sequence[Measure]) -> list[list[Measure]]:
    """Group measures that use the same classifier, gradients or forward passes; keep their order.

    >>> from oodometer.measures import available
    >>> [[member.name for member in group][:2] for group in group_by_shared_work(available())][:2]
    [['entropy-source', 'entropy-target'], ['h-divergence', 'h-divergence+source-error']]
    """
    groups: dict[Hashable, list[Measure]] = {}
    for member in members:
        groups.setdefault(getattr(member, "shared_work_group", member.name), []).append(member)
    return list(groups.values())


def run_requests(
    runner: Runner,
    members: Sequence[Measure],
    subject: Subject,
    requests: Sequence[MeasureRequest],
    progress: ProgressCallback | None,
) -> list[MeasureOutcomes]:
    """Return the outcomes of each request, in the order of the requests."""
    total = sum(len(request.names) for request in requests)
    done = 0
    outcomes = []
    task = MeasureTask.from_subject(members, subject)
    with closing(ordered_map(runner, task, requests)) as results:
        for request, result in zip(requests, results, strict=True):
            done += len(result)
            outcomes.append(result)
            if progress:
                subset = "" if request.replicate is None else f", subset {request.replicate + 1}"
                progress(done, total, f"measured {request.names[-1]}{subset}")
    return outcomes


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasureTask:
    """Callable that computes requested measures of a subject; it is sent to each worker once.

    Each worker builds the subject and keeps it between requests. The opened network and the
    intermediate results of earlier measures are then available to later requests.
    """

    members: Mapping[str, Measure]
    source: ViewSource
    target: ViewSource
    training: ViewSource | None
    seed: int

    @classmethod
    def from_subject(cls, members: Sequence[Measure], subject: Subject) -> MeasureTask:
        """Return the task without progress callbacks, which stay in the parent process."""
        training = subject.training
        return cls(
            members={member.name: member for member in members},
            source=replace(subject.source.view_source, progress=None),
            target=replace(subject.target.view_source, progress=None),
            training=None if training is None else replace(training.view_source, progress=None),
            seed=subject.seed,
        )

    @cached_property
    def subject(self) -> Subject:
        training = None if self.training is None else ModelView(self.training)
        return Subject(ModelView(self.source), ModelView(self.target), training, self.seed)

    def __call__(self, request: MeasureRequest) -> MeasureOutcomes:
        with limit_to_one_thread():
            subject = self.subject
            if request.replicate is not None:
                subject = random_subset(subject, request.replicate)
            return measure_all([self.members[name] for name in request.names], subject)

    def payload(self) -> dict[str, Any]:
        """Return the parts that are sent to workers, by the names used in error messages."""
        model = self.target.model
        sources = [
            source for source in (self.source, self.target, self.training) if source is not None
        ]
        return {
            **label_payload("measure", self.members),
            **label_payload("model", {} if model is None else {model.name: model}),
            **label_payload(
                "data", {source.name: replace(source, model=None) for source in sources}
            ),
        }
