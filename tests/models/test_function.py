"""Callables as models, passed directly or by import path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oodometer.core.errors import InputError
from oodometer.models import FunctionModel, as_model
from oodometer.models.function import import_object, is_import_path
from oodometer.testing import check_model, toy_inputs
from tests.support.stub_models import forget_modules


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    forget_modules(tmp_path)


def two_classes(inputs: Any) -> np.ndarray:
    sizes = np.array([len(str(row)) % 7 for row in inputs]) / 7
    return np.column_stack([1 - sizes, sizes])


@pytest.mark.parametrize("kind", ["text", "pairs"])
def test_lists_are_passed_unchanged(kind: Any) -> None:
    check_model(as_model(two_classes), toy_inputs(kind, n=5))


def test_images_are_passed_unchanged_and_tables_as_data_frames() -> None:
    batches: list[Any] = []

    def look(batch: Any) -> list[int]:
        batches.append(batch)
        return [0] * len(batch)

    images = toy_inputs("images", n=3)
    as_model(look).classify(images)
    assert batches[0] is images
    as_model(look).classify(pa.table({"age": [1.0, 2.0], "colour": ["red", "blue"]}))
    assert list(batches[1].columns) == ["age", "colour"]
    assert batches[1]["age"].tolist() == [1.0, 2.0]


def test_prepare_replaces_the_default_conversion() -> None:
    model = as_model(lambda rows: rows[:, 0], name="first", prepare=lambda t: np.array([[len(t)]]))
    assert model.classify(["a"]).classes.tolist() == [1]


def test_scores_are_logits_only_if_declared() -> None:
    rows = np.array([[3.0, -1.0], [0.0, 0.5]])
    predictions = as_model(lambda x: x, name="identity", outputs="logits").classify(rows)
    assert predictions.score_type == "logits"
    with pytest.raises(InputError, match="'identity' returned invalid outputs: probs must"):
        as_model(lambda x: x, name="identity").classify(rows)


def test_torch_tensors_with_gradients_are_accepted() -> None:
    import torch

    def tensor(rows: np.ndarray) -> Any:
        return torch.tensor([[0.25, 0.75]] * len(rows), requires_grad=True)

    assert as_model(tensor).classify(np.zeros((2, 1))).probs.tolist() == [[0.25, 0.75]] * 2


def test_factories_and_classes_are_not_called() -> None:
    def make() -> Any:
        raise AssertionError("called")

    with pytest.raises(InputError, match=r"'make' takes no arguments.*pass its result: make\(\)"):
        as_model(make)
    with pytest.raises(InputError, match="Path is a class, not a model"):
        as_model(Path)
    with pytest.raises(InputError, match="cannot be called with a batch"):
        FunctionModel(Path)


def test_builtins_without_a_signature_are_accepted() -> None:
    assert (
        as_model(np.ravel, outputs="classes").classify(np.ones((3, 1))).classes.tolist() == [1] * 3
    )


def test_import_path_is_searched_in_the_current_folder(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "scores.py").write_text(
        "class A:\n    @staticmethod\n    def long(t):\n        return [len(x) > 3 for x in t]\n"
    )
    path = list(sys.path)
    model = as_model("mine.scores:A.long", class_names=["short", "long"])
    assert sys.path == path
    assert model.name == "A.long"
    assert model.classify(["abcd", "a"]).classes.tolist() == [1, 0]


def test_import_path_may_lead_to_an_estimator(folder: Path) -> None:
    (folder / "fitted.py").write_text(
        "from sklearn.dummy import DummyClassifier\n"
        "tree = DummyClassifier().fit([[0.0], [1.0]], ['a', 'b'])\n"
    )
    assert as_model("fitted:tree").classify(np.zeros((1, 1))).class_names == ("a", "b")


@pytest.mark.parametrize(
    ("import_path", "words"),
    [
        ("nowhere.at_all:f", "There is no module 'nowhere'"),
        ("given:missing", "'given' has no 'missing'. It has: number"),
        ("given:number", "A int is not a model"),
        ("given.deeper:f", "There is no module 'given.deeper'"),
        ("broken:f", "Importing 'broken' failed: ZeroDivisionError: division by zero"),
        ("leaves:f", "Importing 'leaves' failed: SystemExit: 3"),
        ("lacks:f", "Importing 'lacks' failed: ModuleNotFoundError: No module named 'not_there'"),
        ("spelled:f", "Importing 'spelled' failed: SyntaxError"),
    ],
)
def test_failing_import_paths_raise_one_line(folder: Path, import_path: str, words: str) -> None:
    sources = {"given": "number = 3", "broken": "1 / 0", "leaves": "raise SystemExit(3)",
               "lacks": "import not_there", "spelled": "def f(:"}  # fmt: skip
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    path = list(sys.path)
    with pytest.raises(InputError) as refusal:
        as_model(import_path)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert sys.path == path


def test_is_import_path() -> None:
    assert is_import_path("a:b")
    assert is_import_path("größe.mod:Class.method")
    assert not any(
        map(is_import_path, ("a", "a:", ":b", "a.:b", "a b:c", "1a:b", "http://a:b", "x/y:z"))
    )
    assert import_object("os.path:join")("a", "b") == "a/b"
