"""Training batches: rows, order, prefetching and tensors."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from oodometer.core.errors import InputError
from oodometer.studies.training.data_loader import (
    TimedIterator,
    as_tensor,
    training_batches,
)
from oodometer.studies.training.sampling import batches, row_streams
from oodometer.studies.training.training_data import draw_sample, load_training_set
from oodometer.transforms import RandAugment
from tests.support.training_problems import TINY_TEXT, group, images, recipe, texts, vectors


def test_batches_follow_the_order_of_the_configuration() -> None:
    one = recipe(epochs=2, batch=32, label_noise=0.3, few_shot=40, seed=5)
    material = load_training_set(one, group(*vectors()))
    sample = draw_sample(material, one)
    found = list(training_batches(material, sample, one))
    orders = [
        index
        for epoch in (1, 2)
        for index in batches(len(sample.rows), batch_size=32, seed=5, epoch=epoch)
    ]
    assert len(found) == len(orders) == 6
    for (inputs, labels), index in zip(found, orders, strict=True):
        assert np.array_equal(inputs, material.inputs[sample.rows[index]])
        assert np.array_equal(labels, sample.labels[index])


def test_augmented_rows_change_with_the_epoch() -> None:
    one = recipe("small-cnn", epochs=2, batch=40, augment="randaugment", seed=3)
    inputs, labels = images()
    material = load_training_set(one, group(inputs, labels))
    first, second = training_batches(material, draw_sample(material, one), one)
    for epoch, found in enumerate((first, second), start=1):
        (index,) = batches(40, batch_size=40, seed=3, epoch=epoch)
        draws = row_streams(3, material.keys[index], "augment", epoch)
        assert np.array_equal(found[0], RandAugment(n_ops=2).apply(inputs[index], draws))
        assert np.array_equal(found[1], labels[index])
    assert not np.array_equal(np.sort(first[0], axis=0), np.sort(second[0], axis=0))


def test_only_images_are_augmented() -> None:
    one = recipe("text-cnn", settings=TINY_TEXT, augment="augmix")
    material = load_training_set(one, group(*texts()))
    with pytest.raises(
        InputError, match=r"augmix applies to images, and 'toy' holds text\. Set augment"
    ):
        list(training_batches(material, draw_sample(material, one), one))


def test_waiting_time_is_measured() -> None:
    def made() -> Iterator[int]:
        for number in range(3):
            time.sleep(0.01)
            yield number

    timed = TimedIterator(made())
    assert list(timed) == [0, 1, 2]
    assert timed.seconds_waiting >= 0.03


def test_inputs_become_tensors() -> None:
    colour = np.random.default_rng(0).integers(0, 256, (3, 5, 4, 3), dtype=np.uint8)
    found = as_tensor(colour, "images", "cpu")
    assert found.dtype == torch.float32
    assert np.allclose(found.numpy(), np.moveaxis(colour, 3, 1) / 255)
    grey = as_tensor(colour[..., 0], "images", "cpu")
    assert np.allclose(grey.numpy(), colour[:, None, :, :, 0] / 255)
    assert as_tensor(np.zeros((2, 3)), "vectors", "cpu").dtype == torch.float32
    assert as_tensor(np.zeros((2, 3), dtype=np.int32), "text", "cpu").dtype == torch.int64
