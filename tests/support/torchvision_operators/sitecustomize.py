"""Let torchvision be imported where its compiled operators do not load, as beside a CPU torch.

`tests/conftest.py` imports this module. Python imports it in child processes whose PYTHONPATH
contains this folder, which is how workers and command-line tests import torchvision.
"""

import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

OPERATORS = ("nms", "qnms")
SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
# A library of operators must stay referenced, else torch removes its operators.
LIBRARIES: list[Any] = []


class OperatorFinder:
    """Finder that finds nothing, and defines the operators before torchvision is imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            define_missing_operators()
        return None


def define_missing_operators() -> None:
    """Define the operators that importing torchvision requires, if its own do not load."""
    torch: Any = importlib.import_module("torch")
    package = PathFinder.find_spec("torchvision")
    if package is None or package.origin is None:
        return
    for library in Path(package.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(library)
        except OSError:
            continue
    if not hasattr(torch.ops.torchvision, OPERATORS[0]):
        LIBRARIES.append(torch.library.Library("torchvision", "DEF"))
        for operator in OPERATORS:
            LIBRARIES[0].define(operator + SCHEMA)


sys.meta_path.insert(0, OperatorFinder())
