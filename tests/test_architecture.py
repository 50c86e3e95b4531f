"""The package layout: where files are, what they import, what they are called."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "oodometer"
FILES = sorted(PACKAGE.rglob("*.py"))
# Modules that are entered by `oodometer estimate a.parquet b.parquet`, besides the estimators.
MAX_ENTERED_MODULES = 28
# Packages that the command does not need.
NOT_LOADED = ("studies", "measures", "metrics", "transforms")


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """Yield our own modules that a file imports, at its top or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def exports(name: str) -> set[str]:
    """Return the names in `__all__` of a module."""
    for node in TREES[name].body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def test_no_module_is_loose_in_the_root() -> None:
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


def test_every_package_is_in_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers, inside = settings["contracts"]
    packages = {f"oodometer.{path.parent.name}" for path in PACKAGE.glob("*/__init__.py")}
    named = {name.strip() for layer in layers["layers"] for name in layer.split("|")}
    assert named == {*packages, "oodometer.__main__"}
    assert layers["layers"][1:] == [
        "oodometer.cli",
        "oodometer.testing",
        "oodometer.studies",
        "oodometer.report",
        "oodometer.assessment | oodometer.neighborhood",
        "oodometer.measures",
        "oodometer.metrics",
        "oodometer.transforms | oodometer.estimators",
        "oodometer.models",
        "oodometer.data",
        "oodometer.parallel",
        "oodometer.core",
    ]
    parts = {
        name.strip() for layer in inside["layers"] for name in layer.replace(":", "|").split("|")
    }
    here = {path.stem for path in (PACKAGE / "studies").glob("*.py")} - {"__init__"}
    here |= {path.parent.name for path in (PACKAGE / "studies").glob("*/__init__.py")}
    assert here == parts


def test_imports_keep_to_the_contract() -> None:
    """The layers again, by a few lines of our own; `make check` runs import-linter on them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    order = list(reversed(settings["contracts"][0]["layers"]))
    level = {name.strip(): place for place, layer in enumerate(order) for name in layer.split("|")}
    wrong = []
    for name, tree in TREES.items():
        package = ".".join(name.split(".")[:2])
        for other in imported_modules(tree):
            theirs = ".".join(other.split(".")[:2])
            if (
                {package, theirs} <= set(level)
                and package != theirs
                and level[package] <= level[theirs]
            ):
                wrong.append(f"{name} -> {other}")
    assert wrong == []


def test_no_cycles_between_files_lazy_imports_included() -> None:
    graph = {
        name: {other for other in imported_modules(tree) if other in MODULES and other != name}
        for name, tree in TREES.items()
    }
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
    assert len(order) == len(MODULES)


def test_no_file_imports_the_face_of_its_own_package() -> None:
    wrong = [
        name
        for name, tree in TREES.items()
        if MODULES[name].name != "__init__.py"
        and (package := name.rpartition(".")[0]) != "oodometer"
        and package in set(imported_modules(tree))
    ]
    assert wrong == []


def test_no_two_public_classes_share_a_name() -> None:
    homes = defaultdict(list)
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_no_module_is_named_like_an_export_of_its_parent_or_a_standard_module() -> None:
    for name in MODULES:
        parent, _, own = name.rpartition(".")
        if not parent or own == "__main__":
            continue
        assert own not in exports(parent), f"{name}: {parent} exports {own}"
        assert own not in sys.stdlib_module_names, f"{name}: a standard module"


def test_nothing_below_studies_names_it_in_a_string() -> None:
    above = ("oodometer.studies", "oodometer.testing", "oodometer.cli")
    for name, tree in TREES.items():
        if name == "oodometer" or name.startswith(above):
            continue
        texts = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert not [text for text in texts if "oodometer.studies" in text], name


def test_exports_of_faces_are_there_and_listed_by_dir() -> None:
    faces = [name for name in MODULES if MODULES[name].name == "__init__.py" and exports(name)]
    assert len(faces) >= 12
    for name in faces:
        module = sys.modules.get(name) or __import__(name, fromlist=["_"])
        for export in exports(name):
            assert getattr(module, export) is not None
        assert dir(module) == sorted(exports(name))


ENTERED = """
import json, sys
entered = set()
def enter(frame, event, argument):
    if event == "call" and frame.f_code.co_name != "<module>":
        name = frame.f_globals.get("__name__", "")
        # classes are made, and constants computed, when a module is imported
        importing, back = False, frame
        while back is not None and not importing:
            importing = back.f_code.co_name == "<module>" and back.f_globals.get("__name__") != "__main__"
            back = back.f_back
        if name.startswith("oodometer.") and not importing:
            entered.add(name)
import oodometer.cli
sys.argv = ["oodometer", "estimate", *sys.argv[1:], "--quiet"]
sys.setprofile(enter)
try:
    oodometer.cli.main()
except SystemExit as stop:
    code = stop.code
sys.setprofile(None)
loaded = [name for name in sys.modules if name.startswith("oodometer.")]
print("\\n" + json.dumps({"code": code, "entered": sorted(entered), "loaded": loaded}))
"""


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What `oodometer estimate a.parquet b.parquet` loads and enters."""
    import pyarrow as pa
    from pyarrow import parquet

    folder, rng = tmp_path_factory.mktemp("road"), np.random.default_rng(0)
    for name in ("a", "b"):
        logits = rng.normal(size=(400, 3))
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        columns = {f"prob_{j}": probs[:, j] for j in range(3)}
        if name == "a":
            columns["label"] = probs.argmax(axis=1) * (rng.random(400) < 0.8)
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
    files = [str(folder / f"{name}.parquet") for name in ("a", "b")]
    done = subprocess.run(
        [sys.executable, "-c", ENTERED, *files], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("code") == 0, done.stderr
    return dict(found)


@pytest.mark.parametrize("package", NOT_LOADED)
def test_an_estimate_loads_nothing_of_other_packages(
    road: dict[str, list[str]], package: str
) -> None:
    assert [name for name in road["loaded"] if name.startswith(f"oodometer.{package}")] == []


def test_an_estimate_enters_few_modules(road: dict[str, list[str]]) -> None:
    entered = [name for name in road["entered"] if not name.startswith("oodometer.estimators")]
    assert "oodometer.assessment._estimate" in entered
    assert len(entered) <= MAX_ENTERED_MODULES, entered
