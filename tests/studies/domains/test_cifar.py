"""Binary batches of CIFAR, and rejected pickles."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.data.dataset import InMemoryDataset
from oodometer.studies.domains.cifar import CifarReader


def pictures(seed: int, n: int = 2) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)


def batch(images: Array, labels: list[list[int]]) -> bytes:
    """Return the bytes of a batch: per row the label, then red, green and blue."""
    rows = b""
    for image, label in zip(images, labels, strict=True):
        rows += bytes(label) + b"".join(image[:, :, color].tobytes() for color in range(3))
    return rows


def test_batches_are_concatenated(tmp_path: Path) -> None:
    (tmp_path / "1.bin").write_bytes(batch(pictures(1), [[3], [9]]))
    (tmp_path / "2.bin").write_bytes(batch(pictures(2), [[0], [1]]))
    data = CifarReader(("1.bin", "2.bin")).read(tmp_path, None)
    assert np.array_equal(data.take(np.array([3, 0])), [pictures(2)[1], pictures(1)[0]])
    assert data.labels is not None
    assert data.labels.tolist() == [3, 9, 0, 1]


def test_file_is_memory_mapped(tmp_path: Path) -> None:
    (tmp_path / "1.bin").write_bytes(batch(pictures(1), [[3], [9]]))
    data = CifarReader("1.bin").read(tmp_path, None)
    assert isinstance(data, InMemoryDataset)
    assert isinstance(data.inputs, np.memmap)
    assert np.array_equal(data.keys, InMemoryDataset("plain", pictures(1)).keys)


def test_second_label_byte_is_the_class_of_cifar_100(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(batch(pictures(1), [[3, 99], [9, 42]]))
    labels = CifarReader("train.bin", label_bytes=2).read(tmp_path, None).labels
    assert labels is not None
    assert labels.tolist() == [99, 42]


@pytest.mark.parametrize("content", [b"", batch(pictures(1), [[3], [9]])[:-1]])
def test_truncated_batch_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "1.bin").write_bytes(content)
    with pytest.raises(
        InputError, match=rf"has {len(content)} bytes, not a multiple of the 3073 bytes"
    ):
        CifarReader("1.bin").read(tmp_path, None)


def test_pickles_are_rejected_unless_trusted(tmp_path: Path) -> None:
    images = pictures(1)
    rows = images.transpose(0, 3, 1, 2).reshape(2, -1)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"data": rows, "labels": [3, 9]}))
    with pytest.raises(InputError, match=r"is a pickle.*Use the binary version.*trust_pickle"):
        CifarReader("data_batch_1").read(tmp_path, None)
    data = CifarReader("data_batch_1", trust_pickle=True).read(tmp_path, None)
    assert np.array_equal(data.take(slice(None)), images)
    assert data.labels is not None
    assert data.labels.tolist() == [3, 9]
