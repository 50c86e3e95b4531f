"""Every example runs, and shows what it promises."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command_line import run
from tests.support.markdown_pages import ROOT, blocks, run_page

EXAMPLES = ROOT / "examples"
OWN = EXAMPLES / "own_estimator"


def said(name: str, folder: Path) -> str:
    """What a script prints, run in a folder of its own."""
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return out.getvalue()


def percent(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"(-?\d+(?:\.\d+)?)%", text)]


def outputs(path: Path, *, sure: float) -> Path:
    """A file of outputs of three classes, the surer the righter."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    logits = rng.normal(size=(400, 3)) + sure * np.eye(3)[labels]
    np.savez(path, logits=logits, labels=labels)
    return path


def test_every_example_is_short_and_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    names = [path for path in EXAMPLES.iterdir() if not path.name.startswith((".", "_"))]
    for path in names:
        assert path.name == "README.md" or f"]({path.name})" in listed, path.name
        assert path.is_dir() or len(path.read_text().splitlines()) <= 80, path.name


def test_subgroups_of_a_table(tmp_path: Path) -> None:
    lines = said("tabular_subgroups.py", tmp_path).splitlines()
    parts = {line.split()[0]: percent(line) for line in lines if "estimated" in line}
    assert set(parts) == {"north", "east", "south", "west"}
    # What confidence can tell is told; what it can't is not.
    assert all(abs(parts[name][0] - parts[name][1]) < 10 for name in ("north", "east", "south"))
    assert parts["south"][0] < parts["north"][0] - 10
    assert parts["west"][0] > parts["west"][1] + 10
    (command,) = [line.partition(": ")[2] for line in lines if "By command" in line]
    done = run(tmp_path, *shlex.split(command)[1:])
    assert done.returncode == 0
    assert "south" in done.stdout


def test_images_that_get_noisier(tmp_path: Path) -> None:
    _, *rows = said("torch_images.py", tmp_path).splitlines()
    assert [row.split("  ")[0] for row in rows] == [
        "clean", "noise 1 of 5", "noise 3 of 5", "noise 5 of 5",
    ]  # fmt: skip
    truth, estimates = [percent(row)[-1] for row in rows], [percent(row)[0] for row in rows]
    assert truth[0] > 85
    assert truth[-1] < truth[0]
    assert estimates[-1] < estimates[0]


def test_a_hugging_face_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said("huggingface_text.py", tmp_path).splitlines()
    books, estimated, truth = (percent(line)[0] for line in lines[:3])
    assert books > 80
    assert abs(estimated - truth) < 15
    assert lines[3].startswith("tiny-bert: NI-RandRep 0.")
    assert (tmp_path / "tiny-bert" / "model.safetensors").is_file()


def test_models_behind_addresses(tmp_path: Path) -> None:
    lines = said("http_endpoint.py", tmp_path).splitlines()
    assert lines[0].startswith("1. good: NI-Rotate")
    assert lines[1].startswith("2. poor: NI-Rotate")
    good, poor = (percent(line)[0] for line in lines[2:])
    assert good > poor


@pytest.mark.parametrize(("least", "code"), [("0.2", 0), ("0.99", 1), ("85", 2)])
def test_the_gate_opens_or_not(least: str, code: int, tmp_path: Path) -> None:
    outputs(tmp_path / "source.npz", sure=2.0)
    outputs(tmp_path / "target.npz", sure=1.5)
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", str(EXAMPLES / "ci_gate.sh"), "source.npz", "target.npz", least],
        cwd=tmp_path, env={**os.environ, "PATH": paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    if code < 2:
        found = json.loads((tmp_path / "estimate.json").read_text())
        assert (found["headline"]["value"] < float(least)) == bool(code)


def test_the_step_of_the_workflow_runs(tmp_path: Path) -> None:
    outputs(tmp_path / "source.npz", sure=3.0)
    outputs(tmp_path / "target.npz", sure=3.0)
    (workflow,) = [one for one in blocks(EXAMPLES / "README.md") if one.language == "yaml"]
    (line,) = re.findall(r"run: (oodometer .*)", workflow.content)
    line = line.replace("validation.parquet", "source.npz").replace("new.parquet", "target.npz")
    assert run(tmp_path, *shlex.split(line)[1:]).returncode == 0
    assert (tmp_path / "report.html").is_file()


# A package of its own ----------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The package as pip would leave it: its module on the path, and its entry points beside it."""
    project: dict[str, Any] = tomllib.loads((OWN / "pyproject.toml").read_text())["project"]
    folder = (
        tmp_path / "site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    )
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in entries.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.syspath_prepend(OWN)
    monkeypatch.delitem(sys.modules, "oodometer_margin", raising=False)
    return project


def test_an_estimator_of_another_package_is_listed_and_used(
    installed: dict[str, Any], tmp_path: Path
) -> None:
    source = outputs(tmp_path / "source.npz", sure=2.0)
    target = outputs(tmp_path / "target.npz", sure=2.0)
    rows = json.loads(run(tmp_path, "methods", "--family", "estimator", "--json").stdout)
    (row,) = [one for one in rows if one["name"] == "atc-margin"]
    assert row["paper"] == "after Garg et al., ICLR 2022"
    words = ("estimate", str(source), str(target), "--method", "atc-margin", "--json")
    found = json.loads(run(tmp_path, *words).stdout)
    assert found["headline"]["method"] == "atc-margin"
    assert found["headline"]["value"] == pytest.approx(found["source_accuracy"])


def test_it_is_not_there_before_it_is_installed(tmp_path: Path) -> None:
    assert "atc-margin" not in run(tmp_path, "methods", "--json").stdout


def test_it_keeps_the_rules(installed: dict[str, Any]) -> None:
    tests = runpy.run_path(str(OWN / "test_margin.py"))
    tests["test_it_keeps_the_rules"]()


def test_the_page_of_the_examples_runs(installed: dict[str, Any], tmp_path: Path) -> None:
    (listed,) = run_page(EXAMPLES / "README.md", tmp_path)
    assert "atc-margin" in listed
