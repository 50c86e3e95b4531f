"""Arrays of images and vectors, in memory and in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.data import InMemoryDataset, as_dataset

IMAGES = np.arange(3 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4)


def opened(thing: Any, **options: Any) -> InMemoryDataset:
    data = as_dataset(thing, **options)
    assert isinstance(data, InMemoryDataset)
    return data


@pytest.mark.parametrize(
    ("array", "kind", "dtype"),
    [
        (IMAGES, "images", np.uint8),
        (IMAGES[..., None].repeat(3, axis=3), "images", np.uint8),
        (np.ones((2, 3), dtype=np.float32), "vectors", np.float32),
        (np.ones((2, 3), dtype=np.int32), "vectors", np.float64),
        (np.ones((2, 3), dtype=np.bool_), "vectors", np.float64),
        (np.ones((2, 3), dtype=np.uint8), "vectors", np.float64),
        ([[1, 2], [3, 4]], "vectors", np.float64),
        (([1.5, 2], [3, 4]), "vectors", np.float64),
        ([np.zeros((4, 4), dtype=np.uint8)] * 2, "images", np.uint8),
    ],
)
def test_arrays_become_images_or_vectors(array: Any, kind: str, dtype: Any) -> None:
    data = opened(array)
    assert (data.kind, data.inputs.dtype) == (kind, dtype)
    assert np.array_equal(data.inputs, np.asarray(array))


class Tensor:
    """Object with the array interface."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.ones((2, 3), dtype=np.float32)


def test_objects_with_the_array_interface_are_arrays() -> None:
    assert opened(Tensor()).inputs.shape == (2, 3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_vectors_raise_or_are_skipped(value: float) -> None:
    array = np.zeros((4, 3))
    array[2, 1] = array[3, 0] = value
    with pytest.raises(InputError, match=rf"row 2, column 1 is {value}.*2 of 4 rows are invalid"):
        as_dataset(array)
    data = opened(array, labels=[5, 6, 7, 8], skip_bad=True)
    assert data.labels is not None
    assert (data.labels.tolist(), data.skipped) == ([5, 6], ("row 2", "row 3"))


def test_rows_of_all_blocks_are_checked() -> None:
    array = np.zeros((200_000, 2), dtype=np.float32)
    array[199_999, 1] = np.nan
    with pytest.raises(InputError, match="row 199999, column 1 is nan"):
        as_dataset(array)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((0, 3)), "has no rows; expected at least one"),
        ([], "has no rows"),
        (np.zeros((3, 0)), r"Rows are empty: the array has shape \(3, 0\)"),
        (np.zeros(3), "is not a batch of inputs"),
        (np.zeros((2, 3, 4, 4), dtype=np.uint8), "If channels come first"),
        (
            np.zeros((2, 8, 8, 4), dtype=np.uint8),
            r"Remove the transparency channel: images\[\.\.\., :3\]",
        ),
        (np.ones((2, 8, 8, 3)), r"float64 of shape .* Pass pixel_range=\(0, 1\)"),
        (np.ones((2, 8, 8), dtype=np.bool_), r"Convert pixels to 0 and 255: images\.astype"),
        (np.full((2, 8, 8), 999, dtype=np.uint16), r"16 bits to 8: \(images // 257\)"),
        (np.full((2, 8, 8), 99, dtype=np.uint16), r"0…255: images\.astype\(np\.uint8\)"),
        (np.ones((2, 8, 8, 3), dtype=np.int32), r"int32 .* 0…255: images\.astype\(np\.uint8\)"),
        ([b"a"], "must be text or numbers, not bytes; row 0 is b'a'. Decode them first"),
        (np.array([b"a"]), "not bytes; row 0 is b'a'"),
        ((np.ones((3, 2)), np.ones(4)), r"one value per row; got shape \(4,\) for 3 rows"),
        ([[1, 2], [3]], r"row 0 has \(2,\), row 1 has \(1,\)"),
        ([1, "a"], r"row 0 has \(\), row 1 has None"),
        ([{"a": 1}], "A list of dict is not a dataset: row 0 is {'a': 1}"),
        (np.array([1j, 2j]), "complex128"),
    ],
)
def test_invalid_arrays_raise(array: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_dataset(array)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 2], r"labels must have one value per row; got shape \(2,\) for 3 rows"),
        ("y", "labels='y' is the name of a column, but this data has no columns"),
        ([1, None, 2], "labels has no value in row 1"),
        ([1.0, 2.0, np.nan], "labels has no value in row 2"),
    ],
)
def test_invalid_labels_raise(labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_dataset(IMAGES, labels=labels)


def test_npy_is_memory_mapped_with_the_same_fingerprint(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(50, 4))
    np.save(tmp_path / "rows.npy", array)
    data = opened(tmp_path / "rows.npy", labels=np.arange(50))
    assert isinstance(data.inputs, np.memmap)
    assert data.name == "rows"
    assert data.fingerprint == opened(array).fingerprint
    assert np.array_equal(data.take(np.array([7])), array[7:8])


def saved(folder: Path, **arrays: Array) -> Path:
    np.savez(folder / "data.npz", **arrays)  # type: ignore[arg-type]
    return folder / "data.npz"


@pytest.mark.parametrize("inputs", ["x", "images", "inputs", "anything"])
@pytest.mark.parametrize("labels", ["y", "labels", "label"])
def test_npz_arrays_are_found_by_default_names(tmp_path: Path, inputs: str, labels: str) -> None:
    path = saved(
        tmp_path, **{inputs: IMAGES, labels: np.array([0, 1, 2]), "names": np.array(["a"])}
    )
    data = opened(path)
    assert np.array_equal(data.inputs, IMAGES)
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 2]


def test_npz_holds_texts(tmp_path: Path) -> None:
    data = opened(saved(tmp_path, texts=np.array(["good", "bad"]), y=np.array([1, 0])))
    assert data.inputs == ["good", "bad"]


def test_npz_arrays_can_be_selected(tmp_path: Path) -> None:
    path = saved(tmp_path, a=IMAGES, b=IMAGES[:1], who=np.array(["x", "y", "z"]))
    data = opened(path, inputs="a", labels="who")
    assert data.labels is not None
    assert (len(data), data.labels.tolist()) == (3, ["x", "y", "z"])
    with pytest.raises(
        InputError, match=r"^data\.npz: Expected one array.*got 2\. Arrays: a, b, who\."
    ):
        as_dataset(path)
    with pytest.raises(InputError, match=r"There is no array 'c'\. Arrays: a, b, who"):
        as_dataset(path, inputs="c")
    with pytest.raises(InputError, match=r"There is no array 'y'.*labels='…'"):
        as_dataset(path, inputs="a", labels="y")


def test_pickled_objects_are_not_loaded(tmp_path: Path) -> None:
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "bad.npz", x=objects)
    np.save(tmp_path / "bad.npy", objects, allow_pickle=True)
    with pytest.raises(InputError, match=r"^bad\.npz holds Python objects"):
        as_dataset(tmp_path / "bad.npz")
    with pytest.raises(InputError, match=r"^bad\.npy cannot be read as npy: .*can run code"):
        as_dataset(tmp_path / "bad.npy")


def test_broken_files_are_reported(tmp_path: Path) -> None:
    for name in ("cut.npy", "cut.npz"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(InputError, match=rf"^{name} cannot be read"):
            as_dataset(tmp_path / name)


@pytest.mark.parametrize("shape", [(2, 8, 8), (2, 16, 8, 8), (2, 8, 8, 2)])
def test_floats_without_the_shape_of_images_are_vectors(shape: tuple[int, ...]) -> None:
    assert opened(np.ones(shape)).kind == "vectors"


def test_archive_without_arrays_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"got 0\. Arrays: none\. Name it with inputs"):
        as_dataset(saved(tmp_path))
