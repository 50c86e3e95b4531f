"""What several models say of whole datasets: here, or block for block by many workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, ProgressCallback
from oodometer.models.inference import (
    DEFAULT_BATCH_ROWS,
    check_consistent_outputs,
    concat_predictions,
    predict_batch,
    predict_dataset,
)

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner


@dataclass(frozen=True, eq=False)
class BatchPredictor:
    """Models, how many rows they are shown at a time, and who works: nobody else without a runner."""

    models: Mapping[str, Model]
    batch_size: int | None = None
    runner: Runner | None = None
    progress: ProgressCallback | None = None

    def predict(self, dataset: Dataset, *, labelled: bool) -> dict[str, Predictions]:
        """Every model's predictions; without `labelled`, labels are not even looked at."""
        if self.runner is not None:
            return self._predict_distributed(self.runner, dataset, labelled=labelled)
        return {
            name: predict_dataset(
                model,
                dataset,
                labelled=labelled,
                batch_size=self.batch_size,
                progress=self.progress,
            )
            for name, model in self.models.items()
        }

    def _predict_distributed(
        self, runner: Runner, dataset: Dataset, *, labelled: bool
    ) -> dict[str, Predictions]:
        from oodometer.parallel._ordered_map import group_batches, ordered_map

        size, n, done = self.batch_size or DEFAULT_BATCH_ROWS, len(dataset), 0
        batches = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        parts: dict[str, list[Predictions]] = {name: [] for name in self.models}
        work = _PredictTask(self.models, dataset)
        with closing(ordered_map(runner, work, group_batches(batches, size))) as results:
            for answers in (one for some in results for one in some):
                for name, answer in answers.items():
                    parts[name].append(answer)
                    check_consistent_outputs(parts[name][0], answer, self.models[name].name)
                done += next(iter(answers.values())).n
                if self.progress:
                    self.progress(done, n, f"classifying {dataset.name}")
        labels = dataset.labels if labelled else None
        return {name: concat_predictions(some, labels) for name, some in parts.items()}


@dataclass(frozen=True, eq=False)
class _PredictTask:
    """Shows batches of a dataset to models."""

    models: Mapping[str, Model]
    dataset: Dataset

    def __call__(self, batches: Sequence[slice]) -> list[dict[str, Predictions]]:
        """What all models say of some batches."""
        from oodometer.parallel._thread_limits import limit_to_one_thread

        with limit_to_one_thread():
            return [self._predict_all(batch) for batch in batches]

    def _predict_all(self, batch: slice) -> dict[str, Predictions]:
        inputs = self.dataset.take(batch)
        return {
            name: predict_batch(model, inputs, model.name) for name, model in self.models.items()
        }

    def payload(self) -> dict[str, Any]:
        """Models and data."""
        from oodometer.parallel._ordered_map import label_payload

        return {
            **label_payload("model", self.models),
            **label_payload("data", {self.dataset.name: self.dataset}),
        }
