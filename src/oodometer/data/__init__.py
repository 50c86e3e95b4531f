"""Open files, data frames and arrays as datasets or predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.data._open import as_dataset
    from oodometer.data.dataset import InMemoryDataset, TransformedDataset
    from oodometer.data.image_folder import ImageFolder
    from oodometer.data.prediction_files import read_predictions

__all__ = [
    "ImageFolder",
    "InMemoryDataset",
    "TransformedDataset",
    "as_dataset",
    "read_predictions",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "ImageFolder": "image_folder",
            "InMemoryDataset": "dataset",
            "TransformedDataset": "dataset",
            "as_dataset": "_open",
            "read_predictions": "prediction_files",
        },
    )
