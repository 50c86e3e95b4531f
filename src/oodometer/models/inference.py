"""What a model says of a whole dataset, a batch at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from oodometer.core.array_types import Array, Floats
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, ProgressCallback
from oodometer.models.introspection.network import Network, check_feature_widths

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

# Inputs shown at a time where nobody says how many.
DEFAULT_BATCH_ROWS = 512


def predict_dataset(
    model: Model,
    dataset: Dataset,
    *,
    labelled: bool = True,
    batch_size: int | None = None,
    progress: ProgressCallback | None = None,
) -> Predictions:
    """Predictions of every row; without `labelled`, the dataset's labels are not even looked at."""
    parts: list[Predictions] = []
    done = 0
    for inputs in dataset.batches(batch_size or DEFAULT_BATCH_ROWS):
        parts.append(predict_batch(model, inputs, model.name))
        check_consistent_outputs(parts[0], parts[-1], model.name)
        done += len(inputs)
        if progress:
            progress(done, len(dataset), f"classifying {dataset.name}")
    return concat_predictions(parts, dataset.labels if labelled else None)


def predict_batch(model: Model, inputs: Inputs, name: str) -> Predictions:
    """What a model says of a batch: one row an input, or it is named and refused."""
    found = model.classify(inputs)
    if found.n != len(inputs):
        raise InputError(
            f"The model {name!r} gave {found.n} rows for {len(inputs)} inputs. "
            "It must give one row an input."
        )
    return found


class OutputSignature(Protocol):
    """An answer, of which it is known whether it has probabilities, and of how many classes."""

    @property
    def has_probs(self) -> bool:
        """Whether it has."""

    @property
    def k(self) -> int:
        """The number of classes."""


def check_consistent_outputs(first: OutputSignature, later: OutputSignature, name: str) -> None:
    """Refuse a model that answers one batch otherwise than another."""
    if first.has_probs != later.has_probs or (first.has_probs and first.k != later.k):
        one, other = (
            f"probabilities of {each.k} classes" if each.has_probs else "classes only"
            for each in (first, later)
        )
        raise InputError(
            f"The model {name!r} gave {one} for one batch and {other} for another. "
            "It must give the same for all."
        )


def concat_predictions(parts: list[Predictions], labels: Array | None = None) -> Predictions:
    """The predictions of several batches as one, labelled anew."""
    names = parts[0].class_names
    if parts[0].scores is None:
        classes = np.concatenate([part.classes for part in parts])
        k = max(part.k for part in parts)
        if names is None and labels is not None and np.asarray(labels).dtype.kind in "iu":
            # Which classes there are is known from those seen alone, and labels are seen too.
            k = max(k, int(np.max(labels)) + 1)
        return Predictions.from_classes(classes, k=k, labels=labels, class_names=names)
    scores = np.concatenate([np.asarray(part.scores) for part in parts])
    door = Predictions.from_probs if parts[0].score_type == "probs" else Predictions.from_logits
    return door(scores, labels=labels, class_names=names).at_temperature(parts[0].temperature)


# Outputs and features of a batch; outputs of all rows, and features or why there are none.
BatchForwardPass = tuple[Predictions, Floats]
DatasetForwardPass = tuple[Predictions, Floats | str]


def forward_batches(
    network: Network, dataset: Dataset, layer: str, *, name: str, progress: ProgressCallback | None
) -> list[BatchForwardPass]:
    """What the network makes of one batch after another."""
    parts: list[BatchForwardPass] = []
    for place, inputs in enumerate(dataset.batches(DEFAULT_BATCH_ROWS)):
        parts.append(network.forward_with_features(inputs, layer))
        if progress:
            progress(place * DEFAULT_BATCH_ROWS + len(inputs), len(dataset), f"looking at {name}")
    return parts


def concat_passes(
    parts: Sequence[BatchForwardPass], layer: str, labels: Array | None
) -> DatasetForwardPass:
    """What was made of batches, as of all rows."""
    features = [seen for _, seen in parts]
    check_feature_widths(features, layer)
    return concat_predictions([outputs for outputs, _ in parts], labels), np.concatenate(features)


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
        from oodometer.parallel.runners import group_batches, ordered_map

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
        from oodometer.parallel.runners import limit_to_one_thread

        with limit_to_one_thread():
            return [self._predict_all(batch) for batch in batches]

    def _predict_all(self, batch: slice) -> dict[str, Predictions]:
        inputs = self.dataset.take(batch)
        return {
            name: predict_batch(model, inputs, model.name) for name, model in self.models.items()
        }

    def payload(self) -> dict[str, Any]:
        """Models and data."""
        from oodometer.parallel.runners import label_payload

        return {
            **label_payload("model", self.models),
            **label_payload("data", {self.dataset.name: self.dataset}),
        }
