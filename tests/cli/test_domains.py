"""`oodometer domains`: what there is, what is found, and which file is missing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from oodometer.cli.domains import domains
from oodometer.core.errors import UnknownName
from oodometer.parallel.pickling import DATA_FOLDER_VARIABLE
from oodometer.studies.domains.group import available_names


def run(*words: str, data: str | None = None) -> str:
    app = typer.Typer()
    app.command()(domains)
    done = CliRunner(env={DATA_FOLDER_VARIABLE: data, "COLUMNS": "200"}).invoke(app, words)
    if done.exception is not None:
        raise done.exception
    return done.output


def with_digits(root: Path) -> str:
    (root / "digits").mkdir()
    images, labels = np.zeros((2, 8, 8), dtype=np.uint8), np.array([1, 2])
    np.savez(root / "digits" / "street_digits.npz", x=images, y=labels)
    return str(root)


def test_all_groups_are_listed(tmp_path: Path) -> None:
    shown = run("--data-dir", with_digits(tmp_path))
    assert all(name in shown for name in available_names())
    assert "1 of 6" in shown
    assert str(tmp_path) in shown.replace("\n", "")
    assert "set OODOMETER_DATA or give --data-dir" in run()
    assert "1 of 6" in run(data=str(tmp_path))


def test_one_group_says_what_is_missing(tmp_path: Path) -> None:
    shown = " ".join(run("--group", "numbers", "--data-dir", with_digits(tmp_path)).split())
    assert "street available" in shown
    assert "usps there is no 'digits/usps.npz' in" in shown


def test_a_group_of_ones_own(tmp_path: Path) -> None:
    with_digits(tmp_path)
    (tmp_path / "own.toml").write_text(
        'groups.own.classes = ["a", "b"]\n[groups.own.domains.d]\nreader = "npz"\n'
        'path = "digits/street_digits.npz"\n'
    )
    found = json.loads(run("--group", str(tmp_path / "own.toml"), "--json"))
    assert found[0]["domains"] == {"d": {"missing": None}}
    assert (found[0]["name"], found[0]["kind"], found[0]["classes"]) == ("own", "images", ["a", "b"])  # fmt: skip


def test_json_and_unknown_names() -> None:
    found = json.loads(run("--json"))
    assert [one["name"] for one in found] == [*available_names(), "hypersphere"]
    assert found[0]["root"] is None
    with pytest.raises(UnknownName, match=r"Did you mean 'numbers'\?"):
        run("--group", "number")
