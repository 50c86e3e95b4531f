"""The recipes of CONTRIBUTING.md, applied to a copy of the package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.markdown_pages import ROOT, Block, blocks

PAGE = ROOT / "CONTRIBUTING.md"
RECIPES = {"estimators": "isotonic", "measures": "confidence-drop", "transforms": "stretch"}
# The checks of a contributor's `make test` on the new members.
CHECK = """
import doctest, importlib, json, sys
from oodometer import estimators, measures, testing, transforms
testing.check_estimator(estimators.get("isotonic"))
testing.check_measure(measures.get("confidence-drop"))
testing.check_transform(transforms.get("stretch"))
results = [doctest.testmod(importlib.import_module(name)) for name in sys.argv[1:]]
print(json.dumps({
    "file": estimators.__file__,
    "attempted": sum(result.attempted for result in results),
    "failed": sum(result.failed for result in results),
    "names": [member.name for family in (estimators, measures, transforms) for member in family.available()],
}))
"""


def recipes() -> list[Block]:
    return [block for block in blocks(PAGE) if block.language == "python"]


def apply_recipe(recipe: Block, root: Path) -> str:
    """Write the recipe's file, add its line to the registry, and return the module's name."""
    path = Path(recipe.file or "")
    (root / path).write_text(recipe.content)
    module = ".".join(path.with_suffix("").parts[1:])
    (member,) = re.findall(r"^class (\w+)", recipe.content, flags=re.MULTILINE)
    assert f"`{member}(),` in `MEMBERS` of `{path.parent}/registry.py`" in PAGE.read_text()
    registry = root / path.parent / "registry.py"
    before, line, after = registry.read_text().partition("\nMEMBERS: ")
    assert line, "the registry has no list"
    listed = re.sub(r"\n\)\n", f"\n    {member}(),\n)\n", after, count=1)
    registry.write_text(f"{before}\nfrom {module} import {member}\n{line}{listed}")
    return module


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Return the output of the checks, run on a copy of the package with all recipes applied."""
    root = tmp_path_factory.mktemp("contributed")
    shutil.copytree(ROOT / "src", root / "src")
    modules = [apply_recipe(recipe, root) for recipe in recipes()]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHECK, *modules],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True, text=True, check=False, cwd=root,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    output: dict[str, object] = json.loads(done.stdout)
    assert str(output["file"]).startswith(str(root)), "the checks imported another copy"
    return output


def test_there_are_three_recipes_with_one_file_each() -> None:
    folders = [Path(recipe.file or "").parent.name for recipe in recipes()]
    assert folders == list(RECIPES)
    for recipe in recipes():
        assert not (ROOT / (recipe.file or "")).exists(), "the file of the recipe exists already"


def test_new_members_pass_the_checks_and_are_listed(checks: dict[str, object]) -> None:
    names = checks["names"]
    assert isinstance(names, list)
    assert set(RECIPES.values()) <= set(names)


def test_doctests_of_recipes_pass(checks: dict[str, object]) -> None:
    assert (checks["failed"], checks["attempted"]) == (0, 3)


def test_named_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"`make (\w+)`", PAGE.read_text()))
    assert len(targets) >= 5
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_recipes_pass_ruff(tmp_path: Path) -> None:
    for recipe in recipes():
        (tmp_path / Path(recipe.file or "").name).write_text(recipe.content)
    ruff = [sys.executable, "-m", "ruff"]
    config = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", str(tmp_path)]
    for words in (["format", "--check"], ["check"]):
        command = [*ruff, *words, *config]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_github_workflow_runs_the_ci_script_on_three_versions_of_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert [step["run"] for step in job["steps"] if "run" in step][-1] == "bash .ci/run"
    assert "make check standins test" in (ROOT / ".ci" / "run").read_text()


def test_pre_commit_runs_the_commands_of_make_check() -> None:
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook["entry"] for repo in settings["repos"] for hook in repo["hooks"]]
    makefile = (ROOT / "Makefile").read_text()
    check = re.search(r"^check:.*\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)
    assert check is not None
    expected = [line.split("/")[1].split()[:2] for line in check[1].splitlines()]
    actual = [entry.removeprefix(".venv/bin/").split()[:2] for entry in hooks]
    assert [words[0] for words in actual] == [words[0] for words in expected]


def test_page_links_to_architecture_and_glossary() -> None:
    page = PAGE.read_text()
    assert "(docs/architecture.md)" in page
    assert "(docs/glossary.md)" in page
