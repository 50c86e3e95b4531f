"""The package layout: places, imports and names of modules."""

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
# Modules whose functions `oodometer estimate a.parquet b.parquet` calls, besides the estimators.
MAX_ENTERED_MODULES = 38
# Packages that the command must not import.
NOT_LOADED = ("studies", "measures", "metrics", "transforms")


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """Yield the modules of this package that a file imports, inside functions too."""
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


def test_root_has_no_modules_of_its_own() -> None:
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


def test_import_contract_names_every_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers, inside = settings["contracts"]
    packages = {f"oodometer.{path.parent.name}" for path in PACKAGE.glob("*/__init__.py")}
    in_contract = {name.strip() for layer in layers["layers"] for name in layer.split("|")}
    assert in_contract == {*packages, "oodometer.__main__"}
    assert layers["layers"][1:] == [
        "oodometer.cli",
        "oodometer.testing",
        "oodometer.monitor | oodometer.studies",
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
    modules = {path.stem for path in (PACKAGE / "studies").glob("*.py")} - {"__init__"}
    modules |= {path.parent.name for path in (PACKAGE / "studies").glob("*/__init__.py")}
    assert modules == parts


def test_imports_follow_the_contract() -> None:
    """The layers once more without import-linter, which `make check` runs."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    order = list(reversed(settings["contracts"][0]["layers"]))
    level = {
        name.strip(): number for number, layer in enumerate(order) for name in layer.split("|")
    }
    wrong = []
    for name, tree in TREES.items():
        package = ".".join(name.split(".")[:2])
        for other in imported_modules(tree):
            imported = ".".join(other.split(".")[:2])
            if (
                {package, imported} <= set(level)
                and package != imported
                and level[package] <= level[imported]
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
    modules = defaultdict(list)
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(name)
    assert {name: places for name, places in modules.items() if len(places) > 1} == {}


def test_no_module_is_named_like_an_export_of_its_parent_or_a_standard_module() -> None:
    for name in MODULES:
        parent, _, own = name.rpartition(".")
        if not parent or own == "__main__":
            continue
        assert own not in exports(parent), f"{name}: {parent} exports {own}"
        assert own not in sys.stdlib_module_names, f"{name}: a standard module"


def test_no_module_below_studies_names_studies_in_a_string() -> None:
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


def test_exports_exist_and_are_listed_by_dir() -> None:
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
        # skip calls made while a module is imported
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
def estimate_modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the modules that `oodometer estimate a.parquet b.parquet` imports and enters."""
    import pyarrow as pa
    from pyarrow import parquet

    folder, rng = tmp_path_factory.mktemp("estimate"), np.random.default_rng(0)
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
    output = json.loads(done.stdout.splitlines()[-1])
    assert output.pop("code") == 0, done.stderr
    return dict(output)


@pytest.mark.parametrize("package", NOT_LOADED)
def test_estimate_does_not_import_other_packages(
    estimate_modules: dict[str, list[str]], package: str
) -> None:
    assert [
        name for name in estimate_modules["loaded"] if name.startswith(f"oodometer.{package}")
    ] == []


def test_estimate_enters_few_modules(estimate_modules: dict[str, list[str]]) -> None:
    entered = [
        name for name in estimate_modules["entered"] if not name.startswith("oodometer.estimators")
    ]
    assert "oodometer.assessment._estimate" in entered
    assert len(entered) <= MAX_ENTERED_MODULES, "\n".join(entered)
