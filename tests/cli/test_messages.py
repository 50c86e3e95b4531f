"""Errors on the command line name options, not Python arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import oodometer
from oodometer.cli._messages import with_option_names
from tests.support.command_line import assert_one_line_error, run

PACKAGE = Path(oodometer.__file__).parent
# Packages and modules whose messages reach users of the command line.
FOLDERS = (
    "core",
    "data",
    "models",
    "assessment",
    "neighborhood",
    "measures",
    "metrics",
    "estimators",
)
# Messages about Python objects that a command cannot create.
PYTHON_ONLY = (
    "must be Predictions; got",
    "must be Predictions, the path of a file",
    "The DataLoader",
    "Batches must be",
    "Use engine=",
)
PYTHON_CODE = re.compile(
    r"\b[a-z_]+=(?:…|True|'|\"|\[|\()|\bPredictions\b|\bas_dataset\b|\bHistory\b"
)


def messages() -> Iterator[tuple[str, str]]:
    """Yield the place and text of each error message; X stands for values."""
    for folder in FOLDERS:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS:
                    for argument in node.args:
                        yield f"{path.name}:{node.lineno}", text_of(argument)


ERRORS = ("InputError", "NotApplicable")


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "X"
            for part in node.values
        )
    return ""


def test_no_message_names_python_code_after_translation() -> None:
    found = [text for text in messages() if PYTHON_CODE.search(text[1])]
    assert len(found) > 20
    for place, text in found:
        if not any(part in text for part in PYTHON_ONLY):
            translated = with_option_names(text)
            assert not PYTHON_CODE.search(translated), f"{place}: {translated}"


@pytest.mark.parametrize(
    ("python", "command_line"),
    [
        (
            "If you trust the origin of the file, pass trust_pickle=True (--trust-pickle).",
            "If you trust the origin of the file, pass --trust-pickle.",
        ),
        ("Pass weights=… (--weights), or write", "Pass --weights, or write"),
        ("Leave out corruptions=… (--corruption).", "Leave out --corruption."),
        (
            "Pass pixel_range=(0, 1), (0, 255) or (-1, 1) (--pixel-range 0,1); or, if prepared, "
            "pixel_range='prepared' (--pixel-range prepared).",
            "Pass --pixel-range 0,1; or, if prepared, --pixel-range prepared.",
        ),
        (
            "Pass inputs of that kind, or prepare=….",
            "Pass inputs of that kind, or name package.module:function as the model, a function "
            "that prepares the inputs and calls it.",
        ),
        ("Pass the names of the classes, as class_names=[…] or --class-names.",
         "Pass the names of the classes, with --class-names."),
        ("For raw scores use logits: columns logit_… or --logit-columns; in Python, "
         "Predictions.from_logits.", "For raw scores use logits: columns logit_… or "
         "--logit-columns."),
        ("Name it with logit_columns='Net (a)' (in Python, for estimate: columns={'logit_columns': "
         "'Net (a)'}).", "Name it with --logit-columns 'Net (a)'."),
        ("pass --trust-code (in Python, trust_code=True).", "pass --trust-code."),
        ('use probs (Predictions.from_probs; for a model, outputs="probs").',
         "use columns prob_… or --prob-columns; for a model, --outputs probs."),
        ("A message without arguments: x = 3.", "A message without arguments: x = 3."),
    ],
)  # fmt: skip
def test_translations(python: str, command_line: str) -> None:
    assert with_option_names(python) == command_line


def test_errors_of_a_command_are_translated(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1, 1], 50)
    labels = rng.integers(0, 2, 50)
    np.savez(tmp_path / "source.npz", probs=probs, labels=labels)
    np.savez(tmp_path / "target.npz", probs=probs)
    result = run(tmp_path, "estimate", "source.npz", "target.npz", "--replicates", "5")
    assert "--replicates must be at least 20; got 5." in result.stderr
    np.savez(tmp_path / "two.npz", a=probs, b=probs)
    result = run(tmp_path, "predict", "math:sqrt", "two.npz")
    assert_one_line_error(result, "Arrays: a, b. Name it with --inputs.")
