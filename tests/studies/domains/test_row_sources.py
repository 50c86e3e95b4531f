"""Splits by content, subsets without copies, and class labels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.inputs import hash_rows
from oodometer.core.protocols import Dataset
from oodometer.data import InMemoryDataset
from oodometer.studies.domains.array_files import NpzReader
from oodometer.studies.domains.row_sources import (
    DomainFiles,
    SubsetDataset,
    encode_class_labels,
    held_out_mask,
    part_mask,
)


@given(st.lists(st.text(max_size=3), min_size=1, max_size=40), st.floats(0.01, 1), st.randoms())
def test_held_out_rows_depend_on_content_only(texts: list[str], share: float, random: Any) -> None:
    by_text = dict(zip(texts, held_out_mask(hash_rows(texts), share).tolist(), strict=True))
    random.shuffle(texts)
    assert held_out_mask(hash_rows(texts), share).tolist() == [by_text[text] for text in texts]


@given(st.floats(0.01, 0.99))
def test_larger_share_extends_the_held_out_rows(share: float) -> None:
    some = hash_rows([str(row) for row in range(300)])
    assert held_out_mask(some, 1.0).all()
    assert not (held_out_mask(some, share / 2) & ~held_out_mask(some, share)).any()


def test_parts_are_a_partition_independent_of_the_split() -> None:
    some = hash_rows([str(row) for row in range(6000)])
    parts = np.array([part_mask(some, (i, 3)) for i in range(3)])
    assert (parts.sum(axis=0) == 1).all()
    assert parts.mean(axis=1) == pytest.approx([1 / 3] * 3, abs=0.03)
    held = held_out_mask(some, 0.2)
    assert [held[part].mean() for part in parts] == pytest.approx([0.2] * 3, abs=0.03)


def test_subset_has_the_rows_of_the_dataset() -> None:
    whole = InMemoryDataset("all", ["a", "b", "c", "d"], np.array([0, 1, 2, 3]))
    some = SubsetDataset("some", whole, np.array([3, 1, 0]), np.array([1, 0, 1]))
    assert isinstance(some, Dataset)
    assert (some.name, len(some), some.take(slice(1, 3))) == ("some", 3, ["b", "a"])
    assert np.array_equal(some.keys, whole.rows(np.array([3, 1, 0])).keys)
    fewer = some.rows(np.array([True, False, True]))
    assert (fewer.take(slice(None)), fewer.labels.tolist()) == (["d", "a"], [1, 1])
    assert list(some.batches(2)) == [["d", "b"], ["a"]]
    assert len({whole.fingerprint, some.fingerprint, fewer.fingerprint}) == 3


def saved(folder: Path, images: Array) -> None:
    np.savez(folder / "a.npz", x=images, y=np.zeros(len(images), dtype=np.int64))


def test_files_are_cached_until_they_change(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    saved(tmp_path, random.integers(0, 256, (40, 2, 2), dtype=np.uint8))
    source = DomainFiles(NpzReader("a.npz"))
    (first, train), (second, test) = (source.read(tmp_path, split, None) for split in ("train", "test"))  # fmt: skip
    assert first is second
    assert sorted([*train, *test]) == list(range(40))
    assert 0 < len(test) < 20
    saved(tmp_path, random.integers(0, 256, (30, 2, 2), dtype=np.uint8))
    os.utime(tmp_path / "a.npz", ns=(1, 1))
    again, _ = source.read(tmp_path, "train", None)
    assert len(again) == 30


def test_missing_files_are_listed_once(tmp_path: Path) -> None:
    source = DomainFiles(NpzReader("a.npz"), test=NpzReader("a.npz", inputs="x_test"))
    assert source.missing_files(tmp_path) == source.missing_files(None) == ("a.npz",)
    saved(tmp_path, np.zeros((1, 2, 2), dtype=np.uint8))
    assert source.missing_files(tmp_path) == ()


@pytest.mark.parametrize(
    ("labels", "rename", "numbers"),
    [
        (["dog", "cat"], (), [1, 0]),
        ([1, 0], (), [1, 0]),
        ([1.0, 0.0], (), [1, 0]),
        ([True, False], (), [1, 0]),
        (["1", "0"], (), [1, 0]),
        (["hound", "cat"], (("hound", "dog"),), [1, 0]),
        ([2, 1], (("1", "cat"), ("2", "dog")), [1, 0]),
    ],
)
def test_labels_are_class_names_or_numbers(
    labels: list[Any], rename: tuple[tuple[str, str], ...], numbers: list[int]
) -> None:
    found = encode_class_labels(np.array(labels), ["cat", "dog"], rename)
    assert found.tolist() == numbers
    assert found.dtype == np.int64


def test_class_name_that_is_a_number_takes_precedence() -> None:
    assert encode_class_labels(np.array(["1", "0"]), ["1", "0"]).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "shown"), [(["cat", "cow"], "'cow'"), ([0, 2], "2"), ([0, -1], "-1"), ([0, 0.5], "0.5")]
)  # fmt: skip
def test_label_outside_the_classes_is_named_with_its_row(labels: list[Any], shown: str) -> None:
    with pytest.raises(InputError, match=rf"({shown} in row 1|row 1 is {shown}).*use rename"):
        encode_class_labels(np.array(labels), ["cat", "dog"])


def test_missing_labels_are_rejected() -> None:
    with pytest.raises(InputError, match="There are no labels"):
        encode_class_labels(None, ["cat", "dog"])
