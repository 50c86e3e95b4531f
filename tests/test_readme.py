"""Every block of the README runs."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from oodometer import measures, transforms

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), flags=re.DOTALL)


def ran(line: str, folder: Path) -> str:
    command = [sys.executable, "-m", *shlex.split(line)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


def commands(block: str) -> list[str]:
    return [line for line in block.splitlines() if line.startswith("oodometer")]


def test_outputs_in_python_give_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks("python")[0], "README.md", "exec"), {})
    assert "The model is right on about" in capsys.readouterr().out


def test_commands_on_files_of_outputs_run_one_after_the_other(tmp_path: Path) -> None:
    lines = commands(blocks("sh")[1])
    assert len(lines) == 4
    assert all(ran(line, tmp_path) for line in lines)


def test_models_are_ranked_in_python_and_then_by_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.chdir(tmp_path):
        exec(compile(blocks("python")[1], "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("1. good: NI-Rotate")
    lines = commands(blocks("sh")[2])
    assert len(lines) == 4
    first, *others = (ran(line, tmp_path) for line in lines)
    assert first.index("good") < first.index("poor")
    assert all(others)
    assert (tmp_path / "look" / "index.html").is_file()


def test_features_are_measured_in_python_and_then_by_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.chdir(tmp_path):
        exec(compile(blocks("python")[2], "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith("h-divergence  ")
    assert "jacobian      no answer: it needs gradients: no model was given" in said
    ran("oodometer demo --save example", tmp_path)
    lines = commands(blocks("sh")[3])
    assert len(lines) == 3
    measured, metrics, methods = (ran(line, tmp_path) for line in lines)
    assert "signal/noise" in measured
    assert "By class" in metrics
    assert "fisher-align" in methods


def test_a_pool_of_ones_own_is_trained_ranked_and_studied(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        exec(compile(blocks("python")[3], "README.md", "exec"), {})
    for block in blocks("toml"):
        (tmp_path / re.findall(r"^# (\S+\.toml):", block)[0]).write_text(block)
    lines = commands(blocks("sh")[4])
    assert len(lines) == 4
    groups, pools, trained, status = (ran(line, tmp_path) for line in lines)
    assert "rotated-mnist" in groups
    assert "toy-mlp" in pools
    assert "8 models trained" in trained
    assert re.search(r"upright\s+small-cnn\s+4", status)
    (line,) = re.findall(r"`(oodometer rank pools/digits/\* .*?)`", README.read_text())
    # As a shell does it: all but names with a dot before them.
    folders = sorted(map(str, tmp_path.glob("pools/digits/[!.]*")))
    assert len(folders) == 8
    ranked = ran(line.replace("pools/digits/*", " ".join(folders)), tmp_path)
    assert all(Path(folder).name in ranked for folder in folders)
    lines = commands(blocks("sh")[5])
    assert len(lines) == 5
    ran_all, status, table, rows, judged = (ran(line, tmp_path) for line in lines)
    assert "16 evaluations" in ran_all
    assert re.search(r"all\s+8\s+16", status)
    assert "ni-translate" in table
    assert "rows.parquet" in rows
    assert judged.startswith("| measure")


def test_as_many_measures_are_promised_as_there_are() -> None:
    assert 55 <= len(measures.MEMBERS) <= 65
    assert "Some sixty *measures*" in README.read_text()


def test_as_many_transforms_are_promised_as_there_are() -> None:
    assert len(transforms.MEMBERS) == 16
    assert "sixteen transforms" in README.read_text()


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (README.parent / "Makefile").read_text()
    words = [line.split("#")[0].split() for line in blocks("sh")[0].splitlines()]
    assert words == [["make", "demo"], ["make", "test"]]
    for _, target in words:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
