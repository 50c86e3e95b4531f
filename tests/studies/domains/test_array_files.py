"""Domains in npz, npy and MATLAB files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.data.dataset import InMemoryDataset
from oodometer.studies.domains.array_files import MatReader, NpyReader, NpzReader


def pictures(n: int) -> Array:
    return np.random.default_rng(0).integers(0, 256, (n, 4, 4, 3), dtype=np.uint8)


def archive(folder: Path) -> None:
    np.savez(
        folder / "a.npz",
        x=pictures(4),
        y=np.array([0, 1, 1, 0]),
        short=np.array([0, 1]),
        domain=np.array([0, 1, 0, 1], dtype=np.uint8),
        domains=np.array(["art", "photo"]),
        year=np.array([2015, 2016, 2017, 2017]),
    )


def test_rows_are_selected_by_category_names(tmp_path: Path) -> None:
    archive(tmp_path)
    data = NpzReader("a.npz", where=(("domain", "photo"),)).read(tmp_path, None)
    assert np.array_equal(data.take(slice(None)), pictures(4)[[1, 3]])
    assert data.labels is not None
    assert data.labels.tolist() == [1, 0]


def test_rows_are_selected_by_several_values_and_arrays(tmp_path: Path) -> None:
    archive(tmp_path)
    where = (("year", (2016, 2017)), ("domain", "photo"))
    assert len(NpzReader("a.npz", where=where).read(tmp_path, None)) == 2
    assert len(NpzReader("a.npz").read(tmp_path, None)) == 4


@pytest.mark.parametrize(
    ("reader", "why"),
    [
        (NpzReader("a.npz", where=(("domain", "foto"),)), "No row has domain = 'foto'. Values: art, photo"),
        (NpzReader("a.npz", where=(("dmain", "photo"),)), "there is no array 'dmain'"),
        (NpzReader("a.npz", inputs="z"), "there is no array 'z'. Arrays: x, y"),
        (NpzReader("a.npz", labels="short"), "there are 4 inputs and 2 labels"),
        (NpzReader("a.npz", where=(("short", 1),)), "a.npz, short: there are 4 inputs and 2"),
        (NpzReader("a.npz", where=(("year", 2015), ("domain", "photo"))), "has no rows"),
    ],
)  # fmt: skip
def test_missing_arrays_and_values_are_named(tmp_path: Path, reader: NpzReader, why: str) -> None:
    archive(tmp_path)
    with pytest.raises(InputError, match=why):
        reader.read(tmp_path, None)


def test_category_number_without_name_is_rejected(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=pictures(1), y=[0], domain=[2], domains=["art", "photo"])
    with pytest.raises(InputError, match="domain has values from 2 to 2, and domains has 2 names"):
        NpzReader("a.npz", where=(("domain", "art"),)).read(tmp_path, None)


def test_npy_files_are_memory_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", pictures(4))
    np.save(tmp_path / "y.npy", np.array([3, 2, 1, 0]))
    data = NpyReader("x.npy", "y.npy", rows=(1, 3)).read(tmp_path, None)
    assert isinstance(data, InMemoryDataset)
    assert isinstance(data.inputs, np.memmap)
    assert np.array_equal(data.take(slice(None)), pictures(4)[1:3])
    assert data.labels is not None
    assert data.labels.tolist() == [2, 1]


def test_npy_files_of_different_lengths_are_rejected(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", pictures(4))
    np.save(tmp_path / "y.npy", np.array([3, 2]))
    (tmp_path / "z.npy").write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="there are 4 inputs and 2 labels"):
        NpyReader("x.npy", "y.npy").read(tmp_path, None)
    with pytest.raises(InputError, match=r"Cannot read z\.npy as npy"):
        NpyReader("x.npy", "z.npy").read(tmp_path, None)


def test_rows_are_the_last_axis_of_a_matlab_file(tmp_path: Path) -> None:
    images = np.moveaxis(pictures(3), 0, -1)
    savemat(tmp_path / "a.mat", {"X": images, "y": np.array([[10], [1], [2]], dtype=np.uint8)})
    data = MatReader("a.mat").read(tmp_path, None)
    assert np.array_equal(data.take(slice(None)), pictures(3))
    assert data.labels is not None
    assert data.labels.tolist() == [10, 1, 2]


def test_broken_matlab_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.mat").write_bytes(b"cut")
    with pytest.raises(InputError, match=r"Cannot read a\.mat as a MATLAB file"):
        MatReader("a.mat").read(tmp_path, None)
    savemat(tmp_path / "b.mat", {"X": np.zeros((4, 4, 3, 2), dtype=np.uint8)})
    with pytest.raises(InputError, match="there is no array 'y'"):
        MatReader("b.mat").read(tmp_path, None)
