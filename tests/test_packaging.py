"""The wheel, its metadata, the citation file, and the workflows that check and publish."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
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
HOOK = runpy.run_path(str(ROOT / "hatch_build.py"))
URL = "https://example.org/oodometer"


def ci_script(name: str) -> dict[str, Any]:
    """Return the functions of a script in .ci."""
    return runpy.run_path(str(ROOT / ".ci" / name))


def workflow(name: str) -> dict[Any, Any]:
    values: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return values


# The wheel --------------------------------------------------------------------------------------


def build_package(root: Path, folder: Path, kind: str, **settings: str) -> Path:
    """Build a wheel or a source distribution; `settings` are environment variables."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed; the dependency group `dev` installs it")
    variables = ("OODOMETER_REPOSITORY_URL", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY")
    env = {name: value for name, value in os.environ.items() if name not in variables}
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True, env=env | settings)
    (path,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel without the address of the repository."""
    return build_package(ROOT, tmp_path_factory.mktemp("dist"), "wheel")


@pytest.fixture(scope="module")
def linked_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the variables that a workflow of GitHub sets."""
    settings = {"GITHUB_SERVER_URL": "https://example.org", "GITHUB_REPOSITORY": "oodometer"}
    return build_package(ROOT, tmp_path_factory.mktemp("linked"), "wheel", **settings)


def metadata_of(wheel: Path) -> Message:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    return message_from_bytes(archive.read(name))


def description_of(wheel: Path) -> str:
    content = metadata_of(wheel).get_payload(decode=True)
    assert isinstance(content, bytes)
    return content.decode()


def test_without_an_address_the_readme_is_unchanged(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    assert metadata["Project-URL"] is None
    assert metadata["Dynamic"] is None
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert description_of(wheel) == (ROOT / "README.md").read_text(encoding="utf-8")


def test_with_an_address_links_and_images_are_absolute(linked_wheel: Path) -> None:
    urls = dict(
        line.split(", ", 1) for line in metadata_of(linked_wheel).get_all("Project-URL", [])
    )
    blob = f"{URL}/blob/v{oodometer.__version__}"
    assert urls == {
        "Source": URL,
        "Documentation": f"{blob}/docs/index.md",
        "Changelog": f"{blob}/CHANGELOG.md",
        "Issues": f"{URL}/issues",
    }
    text = description_of(linked_wheel)
    relative = HOOK["relative_targets"]((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(relative) > 10
    assert HOOK["relative_targets"](text) == []
    for target in relative:
        assert (ROOT / target.partition("#")[0]).exists(), target
        kind = "raw" if target.endswith(".png") else "blob"
        assert f"({URL}/{kind}/v{oodometer.__version__}/{target})" in text
    assert ci_script("wheel_check.py")["metadata_problems"](linked_wheel, URL) == []


def test_wheel_check_names_missing_urls_and_relative_links(wheel: Path) -> None:
    problems = ci_script("wheel_check.py")["metadata_problems"](wheel, URL)
    assert {"no URL Source", "no URL Issues", "relative link docs/start.md"} <= set(problems)
    assert "relative link docs/images/demo.png" in problems


def test_source_distribution_keeps_its_urls_and_links(tmp_path: Path, linked_wheel: Path) -> None:
    archive = build_package(ROOT, tmp_path, "sdist", OODOMETER_REPOSITORY_URL=f"{URL}.git")
    with tarfile.open(archive) as file:
        names = {name.split("/", 1)[1] for name in file.getnames()}
        file.extractall(tmp_path, filter="data")
    assert {name.split("/")[0] for name in names} == {
        "CHANGELOG.md", "CITATION.cff", "LICENSE", "PKG-INFO", "README.md", "hatch_build.py",
        "pyproject.toml", "src", ".gitignore",
    }  # fmt: skip
    root = next(path for path in tmp_path.iterdir() if path.is_dir())
    rebuilt = build_package(root, tmp_path / "rebuilt", "wheel")
    assert metadata_of(rebuilt).items() == metadata_of(linked_wheel).items()
    assert description_of(rebuilt) == description_of(linked_wheel)


def test_links_in_code_and_absolute_links_are_unchanged() -> None:
    text = (
        "```python\nrows[0](docs/a.md)\n```\n`[a](b.md)` [c](https://c.org/d.md) [e](#e)\n"
        '<img src="docs/x.svg"> <a href="mailto:a@example.org">a</a> [![i](i.PNG)](j.md)'
    )
    changed = HOOK["absolute_links"](text, "https://example.org/x", "v1")
    expected = text.replace("docs/x.svg", "https://example.org/x/raw/v1/docs/x.svg")
    expected = expected.replace("(i.PNG)", "(https://example.org/x/raw/v1/i.PNG)")
    assert changed == expected.replace("(j.md)", "(https://example.org/x/blob/v1/j.md)")


def test_address_without_a_scheme_is_an_error() -> None:
    with pytest.raises(ValueError, match="must begin with https://"):
        HOOK["repository_url"]({"OODOMETER_REPOSITORY_URL": "example.org/oodometer"})
    assert HOOK["repository_url"]({"GITHUB_REPOSITORY": "a/b"}) is None


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
    (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{oodometer.__version__}"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"## {oodometer.__version__} - 2026-12-01\n")
    return tmp_path


def problems(root: Path, tag: str, url: str = URL) -> list[str]:
    environment = {"OODOMETER_REPOSITORY_URL": url}
    return list(ci_script("release_check.py")["problems"](root, tag, environment))


def test_release_is_possible_if_all_files_agree(checkout: Path) -> None:
    assert problems(checkout, f"v{oodometer.__version__}") == []


def test_release_with_another_tag_is_refused(checkout: Path) -> None:
    found = problems(checkout, "v9.9.9")
    assert len(found) == 4
    assert any("CITATION.cff names the version" in problem for problem in found)


def test_release_needs_an_address_and_a_dated_heading(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("## Unreleased\n")
    changelog, address = problems(checkout, f"v{oodometer.__version__}", url="")
    assert changelog.startswith("CHANGELOG.md has no heading")
    assert address.startswith("The environment names no repository")
    assert address.endswith("set OODOMETER_REPOSITORY_URL to its address.")


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
