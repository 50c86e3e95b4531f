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
from oodometer.neighborhood._decisions import Answered, asked
from oodometer.neighborhood._neighborhood_sampler import Show
from oodometer.neighborhood.sampling import Round, Step
from oodometer.parallel._ordered_map import blocks, named, ordered
from oodometer.parallel._thread_limits import one_thread
from oodometer.parallel.runners import Runner

Block = Sequence[Round]


@dataclass(frozen=True, eq=False)
class Showing:
    """Shows blocks of examples to models."""

    models: Mapping[str, Model]
    show: Show

    def __call__(self, block: Block) -> list[Answered]:
        """What all models say of a block."""
        with one_thread():
            return [asked(self.models, self.show.make(portion)) for portion in block]

    def sent(self) -> dict[str, Any]:
        """Models, data and transform."""
        dataset, transform = self.show.dataset, self.show.transform
        return {
            **named("model", self.models),
            **named("data", {dataset.name: dataset}),
            **named("transform", {transform.name: transform}),
        }


@contextmanager
def asking(
    runner: Runner, work: Showing, steps: Sequence[Step]
) -> Iterator[Callable[[Step], Generator[Answered, None, None]]]:
    """A function that gives what models say in one step after another."""
    cut = [_blocks(step) for step in steps]
    counts = iter([len(some) for some in cut])
    with closing(ordered(runner, work, list(chain.from_iterable(cut)))) as results:

        def answers(step: Step) -> Generator[Answered, None, None]:
            for _ in range(next(counts)):
                yield from next(results)

        yield answers


def _blocks(step: Step) -> list[Block]:
    return blocks(step.portions, max((portion.size for portion in step.portions), default=1))
