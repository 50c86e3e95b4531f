"""Training sets and samples, and invalid domains."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.data.dataset import InMemoryDataset
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.tokenizer import Tokenizer
from oodometer.studies.training.training_data import draw_sample, load_training_set
from oodometer.testing import toy_inputs
from tests.support.training_problems import TINY_TEXT, group, images, recipe, texts, vectors


def test_shapes_of_every_kind() -> None:
    colour, labels = images(6)
    assert load_training_set(recipe("small-cnn"), group(colour, labels)).shape == InputShape(
        "images", 2, (3, 24, 24)
    )
    grey = load_training_set(recipe("small-cnn"), group(colour[..., 0], labels))
    assert grey.shape == InputShape("images", 2, (1, 24, 24))
    assert grey.inputs.dtype == np.uint8
    assert load_training_set(recipe(), group(*vectors(5))).shape == InputShape("vectors", 2, (10,))
    words = load_training_set(recipe("text-cnn", settings=TINY_TEXT), group(*texts()))
    assert (words.shape.kind, words.shape.size) == ("text", (24,))
    assert words.shape.vocabulary == 280
    pairs = toy_inputs("pairs", n=6)
    both = load_training_set(recipe("text-cnn", settings=TINY_TEXT), group(pairs, labels))
    assert both.inputs.shape == (6, 2, 24)
    assert both.shape.size == (24,)


def test_tokenizer_is_learned_and_saved_with_the_weights() -> None:
    inputs, labels = texts()
    found = load_training_set(recipe("text-cnn", settings=TINY_TEXT), group(inputs, labels))
    expected = Tokenizer.learn(inputs, 280, 24)
    assert np.array_equal(found.inputs, expected.encode(inputs))
    assert found.files == {"tokens.json": expected.to_bytes()}
    assert load_training_set(recipe(), group(*vectors())).files == {}


def test_short_texts_are_trimmed() -> None:
    inputs = ["a", "a cup of tea and more of it"]
    settings = {**TINY_TEXT, "length": 60}
    found = load_training_set(
        recipe("text-cnn", settings=settings), group(inputs, np.array([0, 1]))
    )
    assert found.inputs.shape == (2, 60)
    assert found.take(np.array([0])).shape == (1, 1)


def test_domains_are_concatenated_in_order() -> None:
    (first, labels), (second, others) = vectors(7, seed=1), vectors(5, seed=2)
    both = group(first, labels, two=InMemoryDataset("two", second, others))
    found = load_training_set(TrainingConfig("toy", ("two", "one"), "mlp"), both)
    assert np.array_equal(found.inputs, np.concatenate([second, first]))
    assert np.array_equal(found.labels, np.concatenate([others, labels]))


def test_few_shot_keeps_n_rows_per_class_and_counts_short_classes() -> None:
    inputs, _ = vectors(20)
    labels = np.array([0] * 15 + [1] * 5)
    one = recipe(few_shot=8)
    found = draw_sample(load_training_set(one, group(inputs, labels)), one)
    assert np.bincount(labels[found.rows]).tolist() == [8, 5]
    assert found.facts == {"short_classes": 1.0, "rows": 13.0, "labels_changed": 0.0}
    assert np.array_equal(found.labels, labels[found.rows])


def test_label_noise_is_in_the_sample_and_in_the_facts() -> None:
    one = recipe(label_noise=0.5)
    material = load_training_set(one, group(*vectors(400)))
    found = draw_sample(material, one)
    changed = (found.labels != material.labels).mean()
    assert found.facts["labels_changed"] == changed
    # Half of the labels are redrawn, and half of these get the other of two classes.
    assert 0.18 < changed < 0.32


def test_rows_of_two_shapes_are_rejected() -> None:
    inputs, labels = images(4)
    two = InMemoryDataset("two", inputs[:, :20], labels)
    with pytest.raises(InputError, match=r"'two' have shape \(20, 24, 3\), and those of 'one'"):
        load_training_set(
            TrainingConfig("toy", ("one", "two"), "small-cnn"), group(inputs, labels, two=two)
        )


def test_invalid_domains_are_rejected() -> None:
    inputs, labels = vectors(6)
    with pytest.raises(InputError, match="'one' of 'toy' has no rows to train on"):
        load_training_set(recipe(), group(inputs[:0], labels[:0]))
    with pytest.raises(InputError, match="'one' of 'toy' has no labels to train on"):
        load_training_set(recipe(), group(inputs, None))
    with pytest.raises(
        InputError, match="Row 3 of the domain 'one' has the label 2, and 'toy' has 2"
    ):
        load_training_set(recipe(), group(inputs, np.array([0, 1, 0, 2, 1, 0])))
    with pytest.raises(InputError, match="All 6 training rows of one of 'toy' are of the class"):
        load_training_set(recipe(), group(inputs, np.ones(6, dtype=np.int64)))
    with pytest.raises(InputError, match="'one' of 'toy' is a table"):
        load_training_set(recipe(), group(toy_inputs("table", n=6), labels))


def test_architecture_for_another_kind_is_rejected() -> None:
    with pytest.raises(
        InputError, match="'mlp' accepts vectors or images, and the group 'toy' holds text"
    ):
        load_training_set(recipe(), group(*texts()))
