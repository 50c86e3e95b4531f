"""Finding files and selecting rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.studies.domains._reader import (
    check_row_counts,
    find_file,
    matching_rows,
    require_file,
)


def test_compressed_file_is_found(tmp_path: Path) -> None:
    assert find_file(tmp_path, "a") is None
    (tmp_path / "a.gz").touch()
    assert find_file(tmp_path, "a") == tmp_path / "a.gz"
    (tmp_path / "a").touch()
    assert find_file(tmp_path, "a") == require_file(tmp_path, "a") == tmp_path / "a"


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file or folder 'deep/a\.npz' in .*Copy it"):
        require_file(tmp_path, "deep/a.npz")


def test_values_are_compared_as_text() -> None:
    years = np.array([2015, 2016, 2015])
    assert matching_rows(years, "2015", "year").tolist() == [True, False, True]
    assert matching_rows(years, (2015, 2016), "year").all()
    assert matching_rows(np.array(["a", None], dtype=object), "a", "x").tolist() == [True, False]


def test_long_lists_of_values_are_truncated() -> None:
    with pytest.raises(InputError, match=r"No row has x = '99' or '100'\. Values: 0, 1, 10.*…"):
        matching_rows(np.arange(50), (99, 100), "x")


def test_inputs_and_labels_must_have_equal_lengths() -> None:
    check_row_counts(np.zeros(2), np.zeros(2), "a")
    with pytest.raises(InputError, match="a: there are 2 inputs and 1 labels"):
        check_row_counts(np.zeros(2), np.zeros(1), "a")
