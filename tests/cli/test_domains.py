"""The `oodometer domains` command."""

from __future__ import annotations

import re
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


def test_every_expected_file_has_a_line(tmp_path: Path) -> None:
    (tmp_path / "fmow_v1.1/images").mkdir(parents=True)
    result = run(tmp_path, "domains", "--group", "fmow", "--data-dir", str(tmp_path))
    lines = [" ".join(line.split()[:2]) for line in result.stdout.splitlines()]
    assert "fmow_v1.1/rgb_metadata.csv missing" in lines
    assert "fmow_v1.1/country_code_mapping.csv missing" in lines
    assert "fmow_v1.1/images found" in lines
    assert f"Files expected in {tmp_path}" in result.stdout


def test_domains_of_equal_status_share_a_row_in_large_groups(tmp_path: Path) -> None:
    (tmp_path / "imagenet-c/fog/3").mkdir(parents=True)
    result = run(tmp_path, "domains", "--group", "imagenet-c", "--data-dir", str(tmp_path))
    shown = " ".join(result.stdout.split())
    assert "fog-3 available" in shown
    assert "imagenet-c/fog/3 found fog-3 imagenet-c/fog/4 missing fog-4" in shown
    listed = " ".join(run(tmp_path, "domains").stdout.split())
    assert re.search(r"… and .*\d+ more", listed)


def test_json_lists_expected_files(digits: Path) -> None:
    (group,) = run_json(digits, "domains", "--group", "numbers", "--data-dir", str(digits))
    found = {file["path"]: file for file in group["files"]}
    assert found["digits/street_digits.npz"]["found"]
    assert found["digits/usps.npz"] == {
        "path": "digits/usps.npz", "found": False, "domains": ["usps"],
    }  # fmt: skip


def test_help_says_where_the_files_of_new_groups_are_expected(tmp_path: Path) -> None:
    shown = run(tmp_path, "domains", "--help").stdout
    for path in ("objectnet-1.0/mappings/", "camelyon17_v1.0/metadata.csv", "imagenet-c/fog/3/"):
        assert path in shown
