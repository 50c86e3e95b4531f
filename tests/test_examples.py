"""Every example runs and shows what its docstring says."""

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

from tests.support.command_line import run, run_json
from tests.support.markdown_pages import ROOT, blocks, run_page

EXAMPLES = ROOT / "examples"
OWN = EXAMPLES / "own_estimator"


def run_script(name: str, folder: Path) -> str:
    """Return the output of a script, run in `folder`."""
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return out.getvalue()


def percentages(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"(-?\d+(?:\.\d+)?)%", text)]


def write_outputs(path: Path, *, signal: float) -> Path:
    """Write labelled logits of three classes; accuracy grows with `signal`."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    logits = rng.normal(size=(400, 3)) + signal * np.eye(3)[labels]
    np.savez(path, logits=logits, labels=labels)
    return path


def test_every_example_is_short_and_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    paths = [path for path in EXAMPLES.iterdir() if not path.name.startswith((".", "_"))]
    for path in paths:
        assert path.name == "README.md" or f"]({path.name})" in listed, path.name
        assert path.is_dir() or count_lines(path) <= 80, path.name


def count_lines(path: Path) -> int:
    """Return the number of lines of a script, or of the code of a notebook."""
    if path.suffix != ".ipynb":
        return len(path.read_text().splitlines())
    cells = json.loads(path.read_text())["cells"]
    return sum(len(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_tabular_example_finds_the_subgroup_with_low_confidence(tmp_path: Path) -> None:
    lines = run_script("tabular_subgroups.py", tmp_path).splitlines()
    parts = {line.split()[0]: percentages(line) for line in lines if ", true" in line}
    assert set(parts) == {"north", "east", "south", "west"}
    # Confidence shows the shift of the south, but not the concept shift of the west.
    assert all(abs(parts[name][0] - parts[name][1]) < 10 for name in ("north", "east", "south"))
    assert parts["south"][0] < parts["north"][0] - 10
    assert parts["west"][0] > parts["west"][1] + 10
    (command,) = [line.partition(": ")[2] for line in lines if line.startswith("Command")]
    done = run(tmp_path, *shlex.split(command)[1:])
    assert done.returncode == 0
    assert "south" in done.stdout


def test_image_example_follows_the_noise(tmp_path: Path) -> None:
    _, *rows = run_script("torch_images.py", tmp_path).splitlines()
    assert [row.split("  ")[0] for row in rows] == [
        "clean", "noise 1 of 5", "noise 3 of 5", "noise 5 of 5",
    ]  # fmt: skip
    truth, estimates = [percentages(row)[-1] for row in rows], [percentages(row)[0] for row in rows]
    assert truth[0] > 85
    assert truth[-1] < truth[0]
    assert estimates[-1] < estimates[0]


def test_text_example_estimates_the_accuracy_on_songs(tmp_path: Path) -> None:
    lines = run_script("huggingface_text.py", tmp_path).splitlines()
    books, estimated, truth = (percentages(line)[0] for line in lines[:3])
    assert books > 80
    assert abs(estimated - truth) < 15
    assert lines[3].startswith("tiny-bert: NI-RandRep 0.")
    assert (tmp_path / "tiny-bert" / "model.safetensors").is_file()


def test_http_example_ranks_the_models_as_the_truth_does(tmp_path: Path) -> None:
    lines = run_script("http_endpoint.py", tmp_path).splitlines()
    assert lines[0].startswith("1. good: NI-Rotate")
    assert lines[1].startswith("2. poor: NI-Rotate")
    good, poor = (percentages(line)[0] for line in lines[2:])
    assert good > poor


@pytest.mark.parametrize(("limit", "code"), [("0.2", 0), ("0.99", 1), ("85", 2)])
def test_exit_code_of_the_ci_gate(limit: str, code: int, tmp_path: Path) -> None:
    write_outputs(tmp_path / "source.npz", signal=2.0)
    write_outputs(tmp_path / "target.npz", signal=1.5)
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", str(EXAMPLES / "ci_gate.sh"), "source.npz", "target.npz", limit],
        cwd=tmp_path, env={**os.environ, "PATH": paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    if code < 2:
        result = json.loads((tmp_path / "estimate.json").read_text())
        assert (result["headline"]["value"] < float(limit)) == bool(code)


def test_step_of_the_github_workflow_runs(tmp_path: Path) -> None:
    write_outputs(tmp_path / "source.npz", signal=3.0)
    write_outputs(tmp_path / "target.npz", signal=3.0)
    (workflow,) = [block for block in blocks(EXAMPLES / "README.md") if block.language == "yaml"]
    (line,) = re.findall(r"run: (oodometer .*)", workflow.content)
    line = line.replace("validation.parquet", "source.npz").replace("new.parquet", "target.npz")
    assert run(tmp_path, *shlex.split(line)[1:]).returncode == 0
    assert (tmp_path / "report.html").is_file()


# A package with an estimator ----------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Install the package as pip would: its module and its entry points on the path."""
    project: dict[str, Any] = tomllib.loads((OWN / "pyproject.toml").read_text())["project"]
    folder = (
        tmp_path / "site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    )
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.syspath_prepend(OWN)
    monkeypatch.delitem(sys.modules, "oodometer_margin", raising=False)
    return project


def test_estimator_of_another_package_is_listed_and_used(
    installed: dict[str, Any], tmp_path: Path
) -> None:
    source = write_outputs(tmp_path / "source.npz", signal=2.0)
    target = write_outputs(tmp_path / "target.npz", signal=2.0)
    rows = run_json(tmp_path, "methods", "--family", "estimator")
    (row,) = [row for row in rows if row["name"] == "atc-margin"]
    assert row["paper"] == "after Garg et al., ICLR 2022"
    result = run_json(tmp_path, "estimate", str(source), str(target), "--method", "atc-margin")
    assert [estimate["method"] for estimate in result["estimates"]] == ["atc-margin", "regime"]
    assert result["headline"]["method"] == "regime"
    assert result["estimates"][0]["value"] == pytest.approx(result["source_accuracy"])


def test_estimator_is_not_listed_before_installation(tmp_path: Path) -> None:
    assert "atc-margin" not in run(tmp_path, "methods", "--json").stdout


def test_estimator_passes_its_own_test(installed: dict[str, Any]) -> None:
    tests = runpy.run_path(str(OWN / "test_margin.py"))
    tests["test_estimator_passes_the_conformance_check"]()


def test_commands_of_the_readme_run(installed: dict[str, Any], tmp_path: Path) -> None:
    (listed,) = run_page(EXAMPLES / "README.md", tmp_path)
    assert "atc-margin" in listed
