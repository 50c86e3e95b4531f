"""The door: what is let in as it is, what is refused, and in which words."""

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
    """A dataset of someone else's."""

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


def test_datasets_are_returned_as_they_are() -> None:
    for data in (Mine(), as_dataset(["a"])):
        found: Any = as_dataset(data)
        assert found is data


@pytest.mark.parametrize("thing", [3, None, {"a": 1}, object(), b"text", iter([1])])
def test_other_things_are_refused_with_a_list_of_what_is_not(thing: Any) -> None:
    with pytest.raises(InputError, match=r"is not a dataset\. Supported data: a folder of images;"):
        as_dataset(thing)


def test_paths_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
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
def test_columns_between_other_marks_than_commas_are_not_taken_for_text(
    mark: str, tmp_path: Path
) -> None:
    file = tmp_path / "table.csv"
    file.write_text(f"a{mark}b\n1{mark}2\n")
    with pytest.raises(InputError, match=r"table\.csv.* columns?[,;] .* Save it (again )?with c"):
        as_dataset(file)
    file.write_text(f'"text"\n"a{mark}b"\n')
    assert as_dataset(file).take(slice(None)) == [f"a{mark}b"]


def test_text_names_no_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((2, 2)))
    with pytest.raises(InputError, match=r"text='x' does not apply to a \.npz file"):
        as_dataset(tmp_path / "a.npz", text="x")


def test_files_that_are_not_utf_8_are_told_so(tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_bytes("text\ncafé\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"The column 'text' is not UTF-8 text\. Save it as UTF-8"):
        as_dataset(file)
    file.write_bytes("text\ncafé\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"is UTF-16 text\. Save it as UTF-8\."):
        as_dataset(file)


def test_a_header_without_rows_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n")
    with pytest.raises(InputError, match="table has no rows; expected at least one"):
        as_dataset(tmp_path / "table.csv")


@pytest.mark.parametrize("option", [{"text": "a"}, {"inputs": "x"}, {"size": 8}])
def test_options_that_mean_nothing_are_refused(option: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not apply to a list"):
        as_dataset(["a"], **option)
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    if "size" in option:
        with pytest.raises(InputError, match=r"size=8 does not apply to a \.npy file"):
            as_dataset(tmp_path / "a.npy", **option)
    else:
        with pytest.raises(InputError, match="does not apply to a folder"):
            as_dataset(tmp_path, **option)


def test_a_dataset_without_a_name_has_that_of_its_kind() -> None:
    assert [as_dataset(thing).name for thing in (["a"], [("a", "b")], [[1.0]])] == [
        "text",
        "pairs",
        "vectors",
    ]


def test_every_message_is_one_line() -> None:
    for thing in (3, [], [" "], [[1], [2, 3]], np.full((2, 2), np.nan), "nowhere"):
        with pytest.raises(InputError) as caught:
            as_dataset(thing)
        assert "\n" not in str(caught.value)


def test_keys_are_those_of_the_rows() -> None:
    texts = ["a", "b", "a"]
    assert np.array_equal(as_dataset(texts).keys, batches.hash_rows(texts))


def test_importing_loads_nothing_heavy() -> None:
    code = (
        "import sys, oodometer.data, oodometer.studies.toys, oodometer.transforms.tabular, "
        "oodometer.transforms.sphere\n"
        "heavy = {'pyarrow', 'cv2', 'PIL', 'torch', 'pandas', 'sklearn', 'scipy', 'altair'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
