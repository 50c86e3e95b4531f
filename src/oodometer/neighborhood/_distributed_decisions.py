"""Neighborhoods by many workers: blocks of examples, each shown to all models by whoever is free.

A draw hangs on the seed and the example's content, so it does not matter who makes it. A worker
draws a batch once for all models, as one process does; and the batches are the same as there, so
that even a model whose last bits hang on the batch says the same. What is to be looked at is known
beforehand, round for round: workers go on while it is found out whether it is enough already.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from oodometer.core.protocols import Model
from oodometer.neighborhood._decisions import BatchResult, classify_batch
from oodometer.neighborhood._neighborhood_sampler import NeighborhoodSampler
from oodometer.neighborhood.sampling import SamplingRound, SamplingStep
from oodometer.parallel._ordered_map import group_batches, label_payload, ordered_map
from oodometer.parallel._thread_limits import limit_to_one_thread
from oodometer.parallel.runners import Runner

RoundBlock = Sequence[SamplingRound]


@dataclass(frozen=True, eq=False)
class _SampleAndClassify:
    """Shows blocks of examples to models."""

    models: Mapping[str, Model]
    sampler: NeighborhoodSampler

    def __call__(self, block: RoundBlock) -> list[BatchResult]:
        """What all models say of a block."""
        with limit_to_one_thread():
            return [classify_batch(self.models, self.sampler.sample(portion)) for portion in block]

    def payload(self) -> dict[str, Any]:
        """Models, data and transform."""
        dataset, transform = self.sampler.dataset, self.sampler.transform
        return {
            **label_payload("model", self.models),
            **label_payload("data", {dataset.name: dataset}),
            **label_payload("transform", {transform.name: transform}),
        }


@contextmanager
def distributed_batches(
    runner: Runner, task: _SampleAndClassify, steps: Sequence[SamplingStep]
) -> Iterator[Callable[[SamplingStep], Generator[BatchResult, None, None]]]:
    """A function that gives what models say in one step after another."""
    cut = [_step_blocks(step) for step in steps]
    counts = iter([len(some) for some in cut])
    with closing(ordered_map(runner, task, list(chain.from_iterable(cut)))) as results:

        def answers(step: SamplingStep) -> Generator[BatchResult, None, None]:
            for _ in range(next(counts)):
                yield from next(results)

        yield answers


def _step_blocks(step: SamplingStep) -> list[RoundBlock]:
    return group_batches(step.batches, max((portion.size for portion in step.batches), default=1))
