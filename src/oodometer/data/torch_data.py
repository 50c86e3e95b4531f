"""Read the rows of DataLoaders and datasets of torch, without importing torch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, format_error

# Number of rows that are read at once from a dataset without a DataLoader.
BATCH_ROWS = 256


def is_torch_data(data: Any) -> bool:
    """Return whether an object is a DataLoader or Dataset of torch."""
    module = sys.modules.get("torch.utils.data")
    return module is not None and isinstance(data, module.DataLoader | module.Dataset)


def read_torch_data(data: Any) -> tuple[Array, Array | None]:
    """Return all inputs, and the labels if the batches are pairs."""
    module: Any = sys.modules["torch.utils.data"]
    if isinstance(data, module.TensorDataset):
        return _split_batch([np.asarray(tensor.cpu()) for tensor in data.tensors])
    if not isinstance(data, module.DataLoader):
        data = module.DataLoader(data, batch_size=BATCH_ROWS)
    if not isinstance(getattr(data, "sampler", None), module.SequentialSampler):
        name = type(getattr(data, "sampler", None)).__name__
        raise InputError(
            f"The DataLoader reads its rows in the order of a {name}, so their order would not be "
            "reproducible. Create it with shuffle=False and without a sampler, or pass its dataset."
        )
    try:
        batches = [_split_batch(batch) for batch in data]
    except TypeError as error:
        raise InputError(
            f"The rows cannot be combined: {format_error(error, first_line=True)}. Pass a DataLoader "
            "whose batches are tensors of inputs, or pairs of inputs and labels."
        ) from error
    if not batches:
        raise InputError("The DataLoader has no batches; expected at least one.")
    labels = [part for _, part in batches if part is not None]
    inputs = np.concatenate([part for part, _ in batches])
    return inputs, np.concatenate(labels) if len(labels) == len(batches) else None


def _split_batch(batch: Any) -> tuple[Array, Array | None]:
    """Return the inputs and labels of a batch."""
    parts = list(batch) if isinstance(batch, tuple | list) else [batch]
    if isinstance(batch, dict) or not 1 <= len(parts) <= 2:
        found = f"a dict with {', '.join(map(str, batch))}" if isinstance(batch, dict) else (
            f"{len(parts)} parts"
        )  # fmt: skip
        raise InputError(
            f"Batches must be inputs, or pairs of inputs and labels; got {found}. Pass the arrays: "
            "as_dataset(inputs, labels=labels)."
        )
    arrays = [np.asarray(part.cpu() if hasattr(part, "cpu") else part) for part in parts]
    return arrays[0], arrays[1] if len(arrays) == 2 else None
