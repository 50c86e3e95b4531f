"""Transformed datasets."""

from __future__ import annotations

import numpy as np

from oodometer.core.protocols import Dataset
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.data.dataset import TransformedDataset
from oodometer.transforms.corruptions import Corruption

IMAGES = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 3), dtype=np.uint8)
DATA = as_dataset(IMAGES, labels=np.arange(9), name="tiles")


def test_each_row_has_its_own_draw_in_any_order() -> None:
    noisy = TransformedDataset(DATA, Corruption("gaussian_noise", 3), seed=4)
    expected = noisy.transform.apply(IMAGES, RowStreams(4, DATA.keys, np.ones(9, dtype=np.int64)))
    assert isinstance(noisy, Dataset)
    assert not np.array_equal(expected, IMAGES)
    assert np.array_equal(noisy.take(slice(None)), expected)
    assert np.array_equal(noisy.take(np.array([7, 2])), expected[[7, 2]])
    assert np.array_equal(np.concatenate(list(noisy.batches(4))), expected)
    assert np.array_equal(noisy.rows(np.array([7, 2])).take(slice(None)), expected[[7, 2]])
    assert np.array_equal(DATA.take(slice(None)), IMAGES)


def test_only_the_fingerprint_differs_from_the_dataset() -> None:
    fog = TransformedDataset(DATA, Corruption("fog", 1))
    assert (fog.name, fog.kind, len(fog)) == ("tiles", "images", 9)
    assert fog.labels is DATA.labels
    assert np.array_equal(fog.keys, DATA.keys)
    prints = {
        DATA.fingerprint,
        fog.fingerprint,
        TransformedDataset(DATA, Corruption("fog", 2)).fingerprint,
        TransformedDataset(DATA, Corruption("fog", 1), seed=1).fingerprint,
    }
    assert len(prints) == 4
    turned = as_dataset(np.zeros((9, 8, 4, 3), dtype=np.uint8))
    plain = as_dataset(np.zeros((9, 4, 8, 3), dtype=np.uint8))
    one, other = (TransformedDataset(data, Corruption("fog", 1)) for data in (plain, turned))
    assert np.array_equal(one.keys, other.keys)
    assert one.fingerprint != other.fingerprint
    assert repr(fog).startswith(
        "TransformedDataset(InMemoryDataset('tiles', 9 rows of images, labelled), Corruption("
    )
