"""Docstrings: exported names document their parameters; functions start with a verb."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "oodometer"
FILES = sorted(PACKAGE.rglob("*.py"))
FACES = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))
# First words of a docstring that are no imperative verb.
NOT_A_VERB = re.compile(
    r"(A|All|An|Another|Any|As|At|Both|By|Each|Either|Every|Everything|Few|First|For|From|How|If|In|"
    r"It|Its|Last|Like|Many|More|Most|No|None|Not|Of|On|One|Only|Other|Our|Per|Plain|Several|So|Some|"
    r"Such|That|The|Their|These|They|This|Those|To|Two|What|Whatever|When|Where|Whether|Which|Who|"
    r"Whose|Why|With|Within|Without)\b"
)
# Docstrings that say nothing.
FILLER = re.compile(
    r"(All of them|The file|The same|Plain values(, for JSON)?|The whole of it)\.?$"
)


def package_name(folder: Path) -> str:
    return ".".join(folder.relative_to(PACKAGE.parent).parts)


def documented_parameters(text: str) -> set[str]:
    """Return the names in the sections `Parameters` and `Attributes` of a numpydoc docstring."""
    names: set[str] = set()
    for section in re.finditer(
        r"^(?:Parameters|Attributes|Other Parameters)\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}\n|\Z)",
        text,
        re.M | re.S,
    ):
        for line in re.findall(r"^(\*{0,2}\w[\w*, ]*?)(?: :.*)?$", section[1], re.M):
            names |= {name.strip().lstrip("*") for name in line.split(",")}
    return names


def parameters_of(value: Any) -> list[str]:
    """Return the parameters that a caller of a function or class passes."""
    if inspect.isclass(value) and (
        issubclass(value, Exception) or getattr(value, "_is_protocol", False)
    ):
        return []
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    return [name for name in signature.parameters if not name.startswith("_") and name != "self"]


def undocumented(package: str) -> Iterator[str]:
    """Yield what the docstrings of a package's exported functions and classes leave out."""
    face = import_module(package)
    for name in getattr(face, "__all__", []):
        value = getattr(face, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        text = inspect.getdoc(value) or ""
        missing = [p for p in parameters_of(value) if p not in documented_parameters(text)]
        if not text or missing:
            yield f"{package}.{name}: {', '.join(missing) or 'no docstring'}"


@pytest.mark.parametrize("folder", FACES, ids=package_name)
def test_exported_names_document_their_parameters(folder: Path) -> None:
    missing = list(undocumented(package_name(folder)))
    assert not missing, "\n".join(missing)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and docstring of every function and method in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.lineno, text


@pytest.mark.parametrize("folder", FACES, ids=package_name)
def test_function_docstrings_start_with_a_verb(folder: Path) -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}: {text.splitlines()[0]}"
        for path in sorted(folder.glob("*.py"))
        for line, text in docstrings(path)
        if NOT_A_VERB.match(text) or FILLER.match(text)
    ]
    assert not wrong, "\n".join(wrong)


def test_documented_parameters_are_found() -> None:
    text = "Return.\n\nParameters\n----------\nn : int\n    Rows.\nlow, high : float\n    Bounds.\n"
    text += "\nReturns\n-------\nx : float\n"
    assert documented_parameters(text) == {"n", "low", "high"}
    assert NOT_A_VERB.match("The threshold.")
    assert not NOT_A_VERB.match("Return the threshold.")
