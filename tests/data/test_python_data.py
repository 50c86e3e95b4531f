"""Pairs of inputs and labels, data of torch, and images of floats as datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import oodometer
from oodometer.core.errors import InputError
from oodometer.data import as_dataset
from tests.support.command_line import assert_one_line_error, run, run_json

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(6, 2))
LABELS = np.array([0, 1, 1, 0, 1, 0])
PIXELS = RNG.integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)


def labels_of(data: Any, **options: Any) -> list[Any]:
    labels = as_dataset(data, **options).labels
    assert labels is not None
    return list(labels.tolist())


# Pairs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inputs",
    [VECTORS, VECTORS.tolist(), PIXELS, ["a", "b", "c", "d", "e", "f"], pd.DataFrame(VECTORS)],
    ids=["array", "list", "images", "texts", "frame"],
)
def test_pair_of_inputs_and_labels(inputs: Any) -> None:
    if isinstance(inputs, pd.DataFrame):
        inputs.columns = ["x", "y"]
    assert labels_of((inputs, LABELS)) == LABELS.tolist()
    assert labels_of((inputs, LABELS.tolist())) == LABELS.tolist()
    assert as_dataset((inputs, None)).labels is None


def test_tuples_of_rows_are_not_pairs() -> None:
    assert as_dataset(([1.5, 2], [3, 4])).labels is None
    assert as_dataset((("a", "b"), ("c", "d"))).kind == "pairs"
    assert as_dataset(("a text", "another")).kind == "text"
    assert as_dataset((np.ones((2, 2)), np.ones((2, 2))), pixel_range="prepared").labels is None


def test_pairs_that_do_not_fit_raise() -> None:
    with pytest.raises(InputError, match=r"got shape \(5,\) for 6 rows"):
        as_dataset((VECTORS, LABELS[:5]))
    with pytest.raises(InputError, match="Labels are given twice"):
        as_dataset((VECTORS, LABELS), labels=LABELS)
    with pytest.raises(InputError, match="two texts with labels, or two pairs"):
        as_dataset((["a", "b"], ["c", "d"]))


# Torch ------------------------------------------------------------------------------------------

TENSORS = TensorDataset(torch.tensor(VECTORS), torch.tensor(LABELS))


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(VECTORS[index]), int(LABELS[index])


@pytest.mark.parametrize(
    "data",
    [TENSORS, DataLoader(TENSORS, batch_size=4), Rows(), DataLoader(Rows(), batch_size=2)],
    ids=["TensorDataset", "DataLoader", "Dataset", "DataLoader of a Dataset"],
)
def test_data_of_torch(data: Any) -> None:
    dataset = as_dataset(data)
    assert np.array_equal(dataset.take(slice(None)), VECTORS)
    assert labels_of(data) == LABELS.tolist()


def test_data_of_torch_without_labels() -> None:
    assert as_dataset(TensorDataset(torch.tensor(VECTORS))).labels is None
    assert as_dataset(DataLoader(TensorDataset(torch.tensor(VECTORS)))).labels is None


def test_loaders_in_random_order_and_of_other_batches_raise() -> None:
    with pytest.raises(InputError, match="order of a RandomSampler"):
        as_dataset(DataLoader(TENSORS, shuffle=True))
    three = TensorDataset(*[torch.zeros(2, 2)] * 3)
    with pytest.raises(InputError, match="got 3 parts"):
        as_dataset(three)

    def as_dict(rows: Any) -> Any:
        return {"x": torch.stack([row for row, _ in rows])}

    with pytest.raises(InputError, match="got a dict with x"):
        as_dataset(DataLoader(TENSORS, collate_fn=as_dict))


def test_loader_of_images_is_classified() -> None:
    images = torch.tensor(PIXELS).permute(0, 3, 1, 2) / 255
    loader = DataLoader(TensorDataset(images, torch.tensor(LABELS)), batch_size=4)
    dataset = as_dataset(loader, pixel_range=(0, 1))
    assert np.array_equal(dataset.take(slice(None)), PIXELS)

    def dark(pixels: Any) -> Any:
        return (pixels.mean(axis=(1, 2, 3)) < 127).astype(int)

    result = oodometer.invariance({"dark": dark}, dataset, transform="translate", draws=2)
    assert result.models == ("dark",)


# Images of floats -------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 255), (-1, 1)])
def test_stated_range_restores_the_pixels(low: float, high: float, first: bool) -> None:
    images = (low + PIXELS / 255 * (high - low)).astype(np.float32)
    images = np.moveaxis(images, 3, 1) if first else images
    dataset = as_dataset(images, pixel_range=(low, high))
    assert dataset.kind == "images"
    assert np.array_equal(dataset.take(slice(None)), PIXELS)


def test_gray_images_and_prepared_values() -> None:
    gray = PIXELS[..., :1] / 255
    for images in (gray, np.moveaxis(gray, 3, 1), gray[..., 0]):
        assert np.array_equal(
            as_dataset(images, pixel_range=(0, 1)).take(slice(None)), PIXELS[..., 0]
        )
    prepared = as_dataset(np.moveaxis(PIXELS / 100, 3, 1), pixel_range="prepared")
    assert prepared.kind == "vectors"
    assert as_dataset(np.ones((2, 16, 4, 4))).kind == "vectors"


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (2, 8, 8, 3), (2, 1, 8, 8)])
def test_images_of_floats_without_a_range_raise(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"need the range of their pixels.*pixel_range=\(0, 1\)"):
        as_dataset(np.ones(shape))


@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        (PIXELS / 127, {"pixel_range": (0, 1)}, r"outside of pixel_range=\(0, 1\)"),
        (np.full((2, 8, 8, 3), np.nan), {"pixel_range": (0, 1)}, "image 0 is nan"),
        (np.ones((2, 3, 8, 3)), {"pixel_range": (0, 1)}, "channels='first' or channels='last'"),
        (np.ones((2, 8, 8, 3)), {"pixel_range": (0, 1), "channels": "first"}, "1 or 3 channels"),
        (np.ones((2, 8, 8, 3)), {"pixel_range": (1, 0)}, "must be two numbers"),
        (np.ones((2, 8, 8, 3)), {"pixel_range": "0-1"}, "must be two numbers"),
        (np.ones((2, 8, 8, 3)), {"channels": "last"}, "channels needs pixel_range"),
        (PIXELS, {"pixel_range": (0, 1)}, "is for images of floats"),
        (VECTORS, {"pixel_range": (0, 1)}, "is for images of floats"),
    ],
)
def test_wrong_ranges_and_layouts_raise(images: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_dataset(images, **options)


def test_range_of_images_in_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", (PIXELS / 255).astype(np.float32))
    (tmp_path / "dark_model.py").write_text(
        "def dark(pixels):\n    return (pixels.mean(axis=(1, 2, 3)) < 127).astype(int)\n"
    )
    words = ("predict", "dark_model:dark", "images.npy", "-o", "out.csv")
    assert_one_line_error(run(tmp_path, *words), "--pixel-range 0,1")
    assert run_json(tmp_path, *words, "--pixel-range", "0,1")["rows"] == 6
