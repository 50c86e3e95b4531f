"""The `oodometer domains` command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oodometer.parallel.pickling import DATA_FOLDER_VARIABLE
from oodometer.studies.domains.group import available_names
from tests.support.command_line import assert_one_line_error, run, run_json


@pytest.fixture(autouse=True)
def _wide_terminal_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """Return a data folder with the file of one of six digit domains."""
    (tmp_path / "digits").mkdir()
    images, labels = np.zeros((2, 8, 8), dtype=np.uint8), np.array([1, 2])
    np.savez(tmp_path / "digits" / "street_digits.npz", x=images, y=labels)
    return tmp_path


def test_all_groups_are_listed(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(digits, "domains", "--data-dir", str(digits)).stdout
    assert all(name in shown for name in available_names())
    assert "1 of 6" in shown
    assert str(digits) in shown.replace("\n", "")
    assert "set OODOMETER_DATA or give --data-dir" in run(digits, "domains").stdout
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(digits))
    assert "1 of 6" in run(digits, "domains").stdout


def test_missing_files_of_a_group_are_shown(digits: Path) -> None:
    result = run(digits, "domains", "--group", "numbers", "--data-dir", str(digits))
    shown = " ".join(result.stdout.split())
    assert "street available" in shown
    assert "usps there is no 'digits/usps.npz' in" in shown


def test_group_can_be_a_toml_file(digits: Path) -> None:
    (digits / "own.toml").write_text(
        'groups.own.classes = ["a", "b"]\n[groups.own.domains.d]\nreader = "npz"\n'
        'path = "digits/street_digits.npz"\n'
    )
    (group,) = run_json(digits, "domains", "--group", "own.toml")
    assert group["domains"] == {"d": {"missing": None}}
    assert (group["name"], group["kind"], group["classes"]) == ("own", "images", ["a", "b"])


def test_json_has_every_group(tmp_path: Path) -> None:
    groups = run_json(tmp_path, "domains")
    assert [group["name"] for group in groups] == [*available_names(), "hypersphere"]
    assert groups[0]["root"] is None


def test_unknown_group_is_a_one_line_error(tmp_path: Path) -> None:
    result = run(tmp_path, "domains", "--group", "number")
    assert_one_line_error(result, "Did you mean 'numbers'?")
