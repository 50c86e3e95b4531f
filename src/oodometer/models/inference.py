"""Run models on a dataset batch by batch, in this process or in the workers of a runner."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from oodometer.core.array_types import Array, Floats
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, ProgressCallback
from oodometer.models.heads import HeadModel
from oodometer.models.introspection.network import HasNetwork, Network, check_feature_widths

if TYPE_CHECKING:
    from oodometer.parallel.runners import Runner

# Number of rows per batch if the user does not choose one.
DEFAULT_BATCH_ROWS = 512

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


# Predictions ------------------------------------------------------------------------------------


def predict_dataset(
    model: Model,
    dataset: Dataset,
    *,
    labelled: bool = True,
    batch_size: int | None = None,
    runner: Runner | None = None,
    progress: ProgressCallback | None = None,
    message: str = "",
) -> Predictions:
    """Return one model's predictions on every row.

    See `predict_models` for the parameters.
    """
    predictions = predict_models(
        {model.name: model},
        dataset,
        labelled=labelled,
        batch_size=batch_size,
        runner=runner,
        progress=progress,
        message=message,
    )
    return predictions[model.name]


def predict_models(
    models: Mapping[str, Model],
    dataset: Dataset,
    *,
    labelled: bool = True,
    batch_size: int | None = None,
    runner: Runner | None = None,
    progress: ProgressCallback | None = None,
    message: str = "",
) -> dict[str, Predictions]:
    """Return every model's predictions on every row; the rows are read only once.

    Parameters
    ----------
    models : mapping from str to Model
        Models by name.
    dataset : Dataset
        Rows to classify.
    labelled : bool
        Whether to attach the dataset's labels. If False, the labels are not read.
    batch_size : int, optional
        Number of rows per batch. Default: 512.
    runner : Runner, optional
        Runs the batches in worker processes. By default, they run in this process.
    progress : callable, optional
        Called after each batch with the number of rows classified so far, the total number of
        rows, and `message`.
    message : str
        Progress message. Default: "classifying" followed by the name of the dataset.
    """
    parts: dict[str, list[Predictions]] = {name: [] for name in models}
    # Workers look up the features of heads themselves.
    groups = [(dataset, models)] if runner is not None else group_by_rows(models, dataset)
    for rows, group in groups:
        batches = map_batches(
            _ClassifyBatch(group),
            rows,
            batch_size=batch_size,
            runner=runner,
            progress=progress,
            message=message,
        )
        with closing(batches):
            for batch in batches:
                for name, predictions in batch.items():
                    parts[name].append(predictions)
                    check_consistent_outputs(parts[name][0], predictions, models[name].name)
    labels = dataset.labels if labelled else None
    return {name: concat_predictions(batches, labels) for name, batches in parts.items()}


def group_by_rows(
    models: Mapping[str, Model], dataset: Dataset
) -> list[tuple[Dataset, dict[str, Model]]]:
    """Return groups of models with the rows that they classify.

    Heads on the same body classify the features of the rows, which are read from the cache once for
    all of them. Other models classify the rows themselves.
    """
    groups: dict[Any, tuple[Dataset, dict[str, Model]]] = {}
    for name, model in models.items():
        key = (model.body.key, model.cache) if isinstance(model, HeadModel) else None
        groups.setdefault(key, (rows_for(model, dataset), {}))[1][name] = model
    return list(groups.values())


def rows_for(model: Any, dataset: Dataset) -> Dataset:
    """Return the rows that a model classifies: the features of the rows if it is a head."""
    return model.feature_rows(dataset) if isinstance(model, HeadModel) else dataset


def predict_batch(model: Model, inputs: Inputs, name: str) -> Predictions:
    """Classify one batch; raise if the model does not return one row per input."""
    predictions = model.classify(inputs)
    if predictions.n != len(inputs):
        raise InputError(
            f"The model {name!r} returned {predictions.n} rows for {len(inputs)} inputs. "
            "It must return one row per input."
        )
    return predictions


class OutputSignature(Protocol):
    """Form of a model's outputs: whether they are probabilities, and the number of classes k."""

    @property
    def has_probs(self) -> bool: ...

    @property
    def k(self) -> int: ...


def check_consistent_outputs(first: OutputSignature, later: OutputSignature, name: str) -> None:
    """Raise if a model's outputs on a later batch differ in form from those on the first batch."""
    if first.has_probs != later.has_probs or (first.has_probs and first.k != later.k):
        first_form, later_form = (
            f"probabilities of {outputs.k} classes" if outputs.has_probs else "classes only"
            for outputs in (first, later)
        )
        raise InputError(
            f"The model {name!r} returned {first_form} for one batch and {later_form} for another. "
            "It must return the same form for all batches."
        )


def concat_predictions(batches: Sequence[Predictions], labels: Array | None = None) -> Predictions:
    """Concatenate the predictions of several batches and attach `labels`."""
    first = batches[0]
    names = first.class_names
    if first.scores is None:
        classes = np.concatenate([batch.classes for batch in batches])
        k = max(batch.k for batch in batches)
        if names is None and labels is not None and np.asarray(labels).dtype.kind in "iu":
            # Without class names or scores, k is the highest predicted class or label plus one.
            k = max(k, int(np.max(labels)) + 1)
        return Predictions.from_classes(classes, k=k, labels=labels, class_names=names)
    scores = np.concatenate([np.asarray(batch.scores) for batch in batches])
    if first.score_type == "probs":
        predictions = Predictions.from_probs(scores, labels=labels, class_names=names)
    else:
        predictions = Predictions.from_logits(scores, labels=labels, class_names=names)
    return predictions.at_temperature(first.temperature)


# Features ---------------------------------------------------------------------------------------


def forward_dataset(
    model: HasNetwork,
    dataset: Dataset,
    layer: str,
    *,
    labelled: bool = True,
    runner: Runner | None = None,
    progress: ProgressCallback | None = None,
    message: str = "",
) -> tuple[Predictions, Floats]:
    """Return predictions on every row and the features at `layer`, computed in one pass."""
    outputs: list[Predictions] = []
    features: list[Floats] = []
    rows = dataset if runner is not None else rows_for(model, dataset)
    batches = map_batches(
        _ForwardBatch(model, layer), rows, runner=runner, progress=progress, message=message
    )
    with closing(batches):
        for batch_outputs, batch_features in batches:
            outputs.append(batch_outputs)
            features.append(batch_features)
            check_consistent_outputs(outputs[0], batch_outputs, str(getattr(model, "name", "")))
    check_feature_widths(features, layer)
    labels = dataset.labels if labelled else None
    return concat_predictions(outputs, labels), np.concatenate(features)


# Batches ----------------------------------------------------------------------------------------


class BatchFunction(Protocol[Result_co]):
    """Function that takes one batch of inputs and can be sent to worker processes."""

    def __call__(self, inputs: Inputs, /) -> Result_co: ...

    def models(self) -> Mapping[str, Any]:
        """Return the models that the workers need, by name."""


def map_batches(
    function: BatchFunction[Result],
    dataset: Dataset,
    *,
    batch_size: int | None = None,
    runner: Runner | None = None,
    progress: ProgressCallback | None = None,
    message: str = "",
) -> Generator[Result, None, None]:
    """Yield the function's result for each batch, in the order of the dataset.

    Close the generator if you do not exhaust it, because closing the generator ends the workers.
    """
    size = batch_size or DEFAULT_BATCH_ROWS
    n_rows = len(dataset)
    if runner is None:
        results = (function(inputs) for inputs in dataset.batches(size))
    else:
        results = _map_in_workers(function, dataset, size, runner)
    with closing(results):
        for number, result in enumerate(results, start=1):
            if progress:
                n_done = min(number * size, n_rows)
                progress(n_done, n_rows, message or f"classifying {dataset.name}")
            yield result


def _map_in_workers(
    function: BatchFunction[Result], dataset: Dataset, batch_size: int, runner: Runner
) -> Generator[Result, None, None]:
    from oodometer.parallel.runners import group_batches, ordered_map

    n_rows = len(dataset)
    starts = range(0, n_rows, batch_size)
    batches = [slice(start, min(start + batch_size, n_rows)) for start in starts]
    task = _BatchTask(function, dataset)
    with closing(ordered_map(runner, task, group_batches(batches, batch_size))) as blocks:
        for block in blocks:
            yield from block


@dataclass(frozen=True, eq=False)
class _BatchTask:
    """Worker task that applies a function to several consecutive batches of a dataset."""

    function: BatchFunction[Any]
    dataset: Dataset

    def __call__(self, batches: Sequence[slice]) -> list[Any]:
        from oodometer.parallel.runners import limit_to_one_thread

        with limit_to_one_thread():
            return [self.function(self.dataset.take(batch)) for batch in batches]

    def payload(self) -> dict[str, Any]:
        from oodometer.parallel.runners import label_payload

        return {
            **label_payload("model", self.function.models()),
            **label_payload("data", {self.dataset.name: self.dataset}),
        }


@dataclass(frozen=True, eq=False)
class _ClassifyBatch:
    """Batch function that returns the predictions of every model."""

    models_by_name: Mapping[str, Model]

    def __call__(self, inputs: Inputs) -> dict[str, Predictions]:
        return {
            name: predict_batch(model, inputs, model.name)
            for name, model in self.models_by_name.items()
        }

    def models(self) -> Mapping[str, Model]:
        return self.models_by_name


@dataclass(frozen=True, eq=False)
class _ForwardBatch:
    """Batch function that returns a network's predictions and the features at one layer."""

    model: HasNetwork
    layer: str

    @cached_property
    def network(self) -> Network:
        return self.model.torch_network()

    def __call__(self, inputs: Inputs) -> tuple[Predictions, Floats]:
        return self.network.forward_with_features(inputs, self.layer)

    def __getstate__(self) -> dict[str, Any]:
        # An open network cannot be pickled, so each worker opens the network again.
        return {"model": self.model, "layer": self.layer}

    def models(self) -> Mapping[str, Any]:
        return {str(getattr(self.model, "name", "")): self.model}
