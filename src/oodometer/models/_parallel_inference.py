"""What several models say of whole datasets: here, or block for block by many workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, Progress
from oodometer.models.inference import ROWS, check_alike, classify_all, joined, said

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner


@dataclass(frozen=True, eq=False)
class Asking:
    """Models, how many rows they are shown at a time, and who works: nobody else without a runner."""

    models: Mapping[str, Model]
    batch: int | None = None
    runner: Runner | None = None
    progress: Progress | None = None

    def of(self, dataset: Dataset, *, labelled: bool) -> dict[str, Predictions]:
        """Every model's predictions; without `labelled`, labels are not even looked at."""
        if self.runner is not None:
            return self._apart(self.runner, dataset, labelled=labelled)
        return {
            name: classify_all(
                model, dataset, labelled=labelled, batch=self.batch, progress=self.progress
            )
            for name, model in self.models.items()
        }

    def _apart(self, runner: Runner, dataset: Dataset, *, labelled: bool) -> dict[str, Predictions]:
        from oodometer.parallel._ordered_map import blocks, ordered

        size, n, done = self.batch or ROWS, len(dataset), 0
        batches = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        parts: dict[str, list[Predictions]] = {name: [] for name in self.models}
        work = Classifying(self.models, dataset)
        with closing(ordered(runner, work, blocks(batches, size))) as results:
            for answers in (one for some in results for one in some):
                for name, answer in answers.items():
                    parts[name].append(answer)
                    check_alike(parts[name][0], answer, self.models[name].name)
                done += next(iter(answers.values())).n
                if self.progress:
                    self.progress(done, n, f"classifying {dataset.name}")
        labels = dataset.labels if labelled else None
        return {name: joined(some, labels) for name, some in parts.items()}


@dataclass(frozen=True, eq=False)
class Classifying:
    """Shows batches of a dataset to models."""

    models: Mapping[str, Model]
    dataset: Dataset

    def __call__(self, batches: Sequence[slice]) -> list[dict[str, Predictions]]:
        """What all models say of some batches."""
        from oodometer.parallel._thread_limits import one_thread

        with one_thread():
            return [self._said(batch) for batch in batches]

    def _said(self, batch: slice) -> dict[str, Predictions]:
        inputs = self.dataset.take(batch)
        return {name: said(model, inputs, model.name) for name, model in self.models.items()}

    def sent(self) -> dict[str, Any]:
        """Models and data."""
        from oodometer.parallel._ordered_map import named

        return {**named("model", self.models), **named("data", {self.dataset.name: self.dataset})}
