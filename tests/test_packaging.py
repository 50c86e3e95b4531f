"""The wheel, its metadata, the citation file, and the workflows that check and publish."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

import oodometer
from tests.support.command_line import run_json
from tests.support.markdown_pages import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ["3.11", "3.12", "3.13"]


def ci_script(name: str) -> dict[str, Any]:
    """Return the functions of a script in .ci."""
    return runpy.run_path(str(ROOT / ".ci" / name))


def workflow(name: str) -> dict[Any, Any]:
    values: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return values


# The wheel --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed; the dependency group `dev` installs it")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


def test_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    assert ci_script("wheel_check.py")["missing_files"](wheel) == []


@pytest.mark.parametrize(
    "name",
    [
        "oodometer/assessment/reference_errors.csv",
        "oodometer/py.typed",
        "oodometer/report/templates/page.css",
        "oodometer/report/templates/page.html",
        "oodometer/studies/domains/groups.toml",
        "oodometer/studies/report/templates/study_page.html",
        "oodometer/studies/training/grids/dg-pacs.toml",
    ],
)
def test_wheel_has_data_files(wheel: Path, name: str) -> None:
    assert name in zipfile.ZipFile(wheel).namelist()


def test_wheel_has_nothing_but_the_package(wheel: Path) -> None:
    folders = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert folders == {"oodometer", f"oodometer-{oodometer.__version__}.dist-info"}


def test_wheel_names_the_supported_versions_of_python(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    text = archive.read(metadata).decode()
    assert "Requires-Python: >=3.11\n" in text
    for version in PYTHONS:
        assert f"Classifier: Programming Language :: Python :: {version}\n" in text
    assert "License-Expression: MIT\n" in text


# The check of the wheel -------------------------------------------------------------------------


def test_wheel_check_names_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "oodometer.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("oodometer/__init__.py", "")
    missing = ci_script("wheel_check.py")["missing_files"](path)
    assert "oodometer/assessment/reference_errors.csv" in missing
    assert "oodometer/__init__.py" not in missing
    assert not [name for name in missing if "__pycache__" in name]


def test_files_of_the_wheel_check_can_be_estimated(tmp_path: Path) -> None:
    write = ci_script("wheel_check.py")["write_outputs"]
    write(tmp_path / "source.csv", n_rows=500, labelled=True)
    write(tmp_path / "target.csv", n_rows=400, labelled=False)
    result = run_json(tmp_path, "estimate", "source.csv", "target.csv")
    assert result["n_target"] == 400
    # The probabilities are calibrated, so the mean confidence is the expected accuracy.
    assert result["headline"]["value"] == pytest.approx(0.78, abs=0.05)


def test_wheel_check_stops_with_the_message_of_a_failed_command() -> None:
    code = "import sys; sys.exit('no such wheel')"
    with pytest.raises(SystemExit, match="no such wheel"):
        ci_script("wheel_check.py")["run"](sys.executable, "-c", code)


def test_ci_runs_the_check_of_the_wheel_and_builds_the_site() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^make .*\bwheel-check\b", script, flags=re.MULTILINE)
    assert re.search(r"^make .*\bdocs\b", script, flags=re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert "$(PYTHON) .ci/wheel_check.py" in makefile
    assert "mkdocs build --strict" in makefile
    assert "--group docs" in makefile


# Metadata ---------------------------------------------------------------------------------------


def test_versions_of_python_are_those_of_the_ci_matrix() -> None:
    prefix = "Programming Language :: Python :: "
    named = [c.removeprefix(prefix) for c in PROJECT["project"]["classifiers"] if prefix in c]
    assert [version for version in named if "." in version] == PYTHONS
    (job,) = workflow("ci.yml")["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == PYTHONS


def test_development_environment_includes_the_packages_of_the_site() -> None:
    groups = PROJECT["dependency-groups"]
    assert {"include-group": "docs"} in groups["dev"]
    names = {re.split(r"[\[<>=]", package)[0] for package in groups["docs"]}
    assert names == {"mkdocs", "mkdocs-material", "mkdocstrings", "ruff"}


def test_citation_is_valid() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    required = {"cff-version", "message", "title", "authors"}
    assert required <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert citation["license"] == PROJECT["project"]["license"]
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in PROJECT["project"]["authors"]
    ]
    assert all(isinstance(value, str) for value in (citation["version"], citation["abstract"]))


def test_all_files_name_one_version() -> None:
    versions = ci_script("release_check.py")["versions"](ROOT)
    assert set(versions.values()) == {oodometer.__version__}
    assert len(versions) == 3


# Releases ---------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the files that a release reads, ready for v0.1.0."""
    (tmp_path / "src" / "oodometer").mkdir(parents=True)
    for name in ("CITATION.cff", "src/oodometer/__init__.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    names = ("Homepage", "Documentation", "Repository", "Changelog", "Issues")
    urls = "\n".join(f'{name} = "https://example.org"' for name in names)
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nversion = "{oodometer.__version__}"\n[project.urls]\n{urls}\n'
    )
    (tmp_path / "CHANGELOG.md").write_text(f"## {oodometer.__version__} - 2026-12-01\n")
    return tmp_path


def problems(root: Path, tag: str) -> list[str]:
    return list(ci_script("release_check.py")["problems"](root, tag))


def test_release_is_possible_if_all_files_agree(checkout: Path) -> None:
    assert problems(checkout, f"v{oodometer.__version__}") == []


def test_release_with_another_tag_is_refused(checkout: Path) -> None:
    found = problems(checkout, "v9.9.9")
    assert len(found) == 4
    assert any("CITATION.cff names the version" in problem for problem in found)


def test_release_needs_urls_and_a_dated_heading(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("## Unreleased\n")
    table = (checkout / "pyproject.toml").read_text()
    (checkout / "pyproject.toml").write_text(re.sub(r"^Issues.*\n", "", table, flags=re.MULTILINE))
    changelog, urls = problems(checkout, f"v{oodometer.__version__}")
    assert changelog.startswith("CHANGELOG.md has no heading")
    assert urls == "pyproject.toml lacks Issues in [project.urls]; add the URLs."


def test_release_workflow_publishes_checked_files_without_a_password() -> None:
    values = workflow("release.yml")
    # YAML 1.1 reads the key `on` as true.
    assert values[True] == {"push": {"tags": ["v*"]}}
    jobs = values["jobs"]
    assert list(jobs) == ["build", "check", "publish"]
    assert (jobs["check"]["needs"], jobs["publish"]["needs"]) == ("build", "check")
    assert jobs["check"]["strategy"]["matrix"]["python"] == PYTHONS
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    commands = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    for command in (".ci/release_check.py", ".ci/wheel_check.py", "build", "twine check --strict"):
        assert command in commands
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "secrets." not in text
    assert "password:" not in text
