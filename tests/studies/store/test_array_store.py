"""Arrays on disk: whole or not at all, one of each content."""

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
from oodometer.studies.store import array_store as shelves
from oodometer.studies.store.array_store import ArrayStore

ONE, OTHER = np.arange(6.0).reshape(2, 3), np.array([1, 2], dtype=np.int64)


@pytest.fixture
def shelf(tmp_path: Path) -> ArrayStore:
    return ArrayStore(tmp_path / "arrays")


def test_what_is_put_is_got_and_equal_content_is_one_file(shelf: ArrayStore) -> None:
    names = shelf.put([ONE, OTHER, ONE.copy()])
    assert names[0] == names[2] != names[1]
    assert shelf.names() == set(names)
    assert np.array_equal(shelf.get(names[0]), ONE)
    assert shelf.get(names[1]).dtype == np.int64


def name_of(array: Array) -> str:
    return shelves._content_hash(shelves._to_npy_bytes(array))


@given(arrays.arrays(np.int32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=4)))
def test_names_hang_on_type_shape_and_values_alone(array: Array) -> None:
    name = name_of(array)
    assert name_of(np.asfortranarray(array)) == name
    others = (array.astype(np.int64), array[None], array ^ 1)
    assert name not in [name_of(other) for other in others]


def test_what_is_there_is_not_written_again(shelf: ArrayStore) -> None:
    shelf.put([ONE])
    with mock.patch.object(ArrayStore, "_write") as write:
        shelf.put([ONE, OTHER])
    assert write.call_count == 1


def test_sweeping_leaves_what_is_named(shelf: ArrayStore) -> None:
    first, second = shelf.put([ONE, OTHER])
    (shelf.folder / "left.partial").write_bytes(b"half")
    shelf.remove_unreferenced([first])
    assert shelf.names() == {first}
    assert [path.name for path in shelf.folder.iterdir()] == [f"{first}.npy"]
    assert second != first


def test_a_full_disk_is_one_line_and_leaves_nothing_half(shelf: ArrayStore) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        mock.patch("oodometer.studies.store.array_store.os.fsync", side_effect=full),
        pytest.raises(InputError, match=r"1 arrays .* No space left on device\. Make room") as told,
    ):
        shelf.put([ONE])
    assert "what was stored stays" in str(told.value)
    assert list(shelf.folder.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"not at all"])
def test_a_broken_array_is_named(shelf: ArrayStore, content: bytes) -> None:
    (name,) = shelf.put([ONE])
    (shelf.folder / f"{name}.npy").write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}\.npy' can't be read: .* Remove the file"):
        shelf.get(name)


def test_nothing_is_unpickled(shelf: ArrayStore) -> None:
    with pytest.raises(ValueError, match="pickle"):
        shelf.put([np.array([{}], dtype=object)])
    shelf.folder.mkdir(exist_ok=True)
    np.save(shelf.folder / "bad.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="can't be read"):
        shelf.get("bad")
