"""as_dataset: supported data, invalid data and messages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oodometer.core import inputs as batches
from oodometer.core.errors import InputError
from oodometer.data import as_dataset


class Mine:
    """Dataset of a third party."""

    name, kind, labels, fingerprint = "mine", "text", None, "1"
    keys = np.array([1], dtype=np.uint64)

    def __len__(self) -> int:
        return 1

    def take(self, index: Any) -> list[str]:
        return ["a"]

    def batches(self, size: int) -> Iterator[list[str]]:
        yield ["a"]

    def rows(self, index: Any) -> Mine:
        return self


def test_datasets_are_returned_unchanged() -> None:
    for data in (Mine(), as_dataset(["a"])):
        found: Any = as_dataset(data)
        assert found is data


@pytest.mark.parametrize("thing", [3, None, {"a": 1}, object(), b"text", iter([1])])
def test_unsupported_data_raises_with_a_list_of_supported_data(thing: Any) -> None:
    with pytest.raises(InputError, match=r"is not a dataset\. Supported data: a folder of images;"):
        as_dataset(thing)


def test_invalid_paths_raise(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file or folder .*nothing\.csv"):
        as_dataset(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="There is no file or folder 'a text and no path"):
        as_dataset("a text and no path" * 1000)
    (tmp_path / "table.xlsx").write_bytes(b"")
    with pytest.raises(InputError, match=r"table\.xlsx has an unknown extension\. Supported"):
        as_dataset(str(tmp_path / "table.xlsx"))
    (tmp_path / "cat.PNG").write_bytes(b"")
    with pytest.raises(
        InputError, match=r"cat\.PNG is a single image; pass its folder\. Supported"
    ):
        as_dataset(tmp_path / "cat.PNG")


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_delimiters_raise(mark: str, tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text(f"a{mark}b\n1{mark}2\n")
    with pytest.raises(InputError, match=r"table\.csv.* columns?[,;] .* Save it (again )?with c"):
        as_dataset(file)
    file.write_text(f'"text"\n"a{mark}b"\n')
    assert as_dataset(file).take(slice(None)) == [f"a{mark}b"]


def test_text_option_does_not_apply_to_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((2, 2)))
    with pytest.raises(InputError, match=r"text='x' does not apply to a \.npz file"):
        as_dataset(tmp_path / "a.npz", text="x")


def test_files_in_other_encodings_raise(tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_bytes("text\ncafé\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"The column 'text' is not UTF-8 text\. Save it as UTF-8"):
        as_dataset(file)
    file.write_bytes("text\ncafé\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"is UTF-16 text\. Save it as UTF-8\."):
        as_dataset(file)


def test_csv_with_only_a_header_raises(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n")
    with pytest.raises(InputError, match="table has no rows; expected at least one"):
        as_dataset(tmp_path / "table.csv")


@pytest.mark.parametrize("option", [{"text": "a"}, {"inputs": "x"}, {"size": 8}])
def test_inapplicable_options_raise(option: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not apply to a list"):
        as_dataset(["a"], **option)
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    if "size" in option:
        with pytest.raises(InputError, match=r"size=8 does not apply to a \.npy file"):
            as_dataset(tmp_path / "a.npy", **option)
    else:
        with pytest.raises(InputError, match="does not apply to a folder"):
            as_dataset(tmp_path, **option)


def test_default_name_is_the_kind() -> None:
    assert [as_dataset(thing).name for thing in (["a"], [("a", "b")], [[1.0]])] == [
        "text",
        "pairs",
        "vectors",
    ]


def test_all_messages_are_one_line() -> None:
    for thing in (3, [], [" "], [[1], [2, 3]], np.full((2, 2), np.nan), "nowhere"):
        with pytest.raises(InputError) as caught:
            as_dataset(thing)
        assert "\n" not in str(caught.value)


def test_keys_are_hashes_of_rows() -> None:
    texts = ["a", "b", "a"]
    assert np.array_equal(as_dataset(texts).keys, batches.hash_rows(texts))


def test_import_is_lightweight() -> None:
    code = (
        "import sys, oodometer.data, oodometer.studies.toys, oodometer.transforms.tabular, "
        "oodometer.transforms.sphere\n"
        "heavy = {'pyarrow', 'cv2', 'PIL', 'torch', 'pandas', 'sklearn', 'scipy', 'altair'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
