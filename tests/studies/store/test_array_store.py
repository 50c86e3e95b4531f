"""Content-addressed arrays on disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.studies.store import array_store as module
from oodometer.studies.store.array_store import ArrayStore

ONE, OTHER = np.arange(6.0).reshape(2, 3), np.array([1, 2], dtype=np.int64)


@pytest.fixture
def store(tmp_path: Path) -> ArrayStore:
    return ArrayStore(tmp_path / "arrays")


def test_arrays_round_trip_and_equal_arrays_share_a_file(store: ArrayStore) -> None:
    names = store.put([ONE, OTHER, ONE.copy()])
    assert names[0] == names[2] != names[1]
    assert store.names() == set(names)
    assert np.array_equal(store.get(names[0]), ONE)
    assert store.get(names[1]).dtype == np.int64


def name_of(array: Array) -> str:
    return module._content_hash(module._to_npy_bytes(array))


@given(arrays.arrays(np.int32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=4)))
def test_names_depend_only_on_dtype_shape_and_values(array: Array) -> None:
    name = name_of(array)
    assert name_of(np.asfortranarray(array)) == name
    others = (array.astype(np.int64), array[None], array ^ 1)
    assert name not in [name_of(other) for other in others]


def test_existing_arrays_are_not_written_again(store: ArrayStore) -> None:
    store.put([ONE])
    with mock.patch.object(ArrayStore, "_write_all") as write:
        store.put([ONE, OTHER])
    ((written,), _) = write.call_args
    assert list(written) == [name_of(OTHER)]


def test_cleanup_keeps_referenced_arrays(store: ArrayStore) -> None:
    first, second = store.put([ONE, OTHER])
    (store.folder / "left.partial").write_bytes(b"half")
    store.remove_unreferenced([first])
    assert store.names() == {first}
    assert [path.name for path in store.folder.iterdir()] == [f"{first}.npy"]
    assert second != first


def test_full_disk_raises_and_leaves_no_partial_file(store: ArrayStore) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        mock.patch("oodometer.studies.store.array_store.os.fsync", side_effect=full),
        pytest.raises(InputError, match=r"2 arrays .* No space left on device\. Free") as error,
    ):
        store.put([ONE, OTHER])
    assert "stored results are kept" in str(error.value)
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"not at all"])
def test_corrupt_array_raises_with_its_path(store: ArrayStore, content: bytes) -> None:
    (name,) = store.put([ONE])
    (store.folder / f"{name}.npy").write_bytes(content)
    with pytest.raises(InputError, match=rf"Cannot read .*{name}\.npy': .* Remove the file"):
        store.get(name)


def test_pickled_arrays_are_rejected(store: ArrayStore) -> None:
    with pytest.raises(ValueError, match="pickle"):
        store.put([np.array([{}], dtype=object)])
    store.folder.mkdir(exist_ok=True)
    np.save(store.folder / "bad.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="Cannot read"):
        store.get("bad")
