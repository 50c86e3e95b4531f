"""Callables as models, given or named."""

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
def test_lists_come_as_they_are(kind: Any) -> None:
    check_model(as_model(two_classes), toy_inputs(kind, n=5))


def test_images_come_as_they_are_and_tables_as_data_frames() -> None:
    seen: list[Any] = []

    def look(batch: Any) -> list[int]:
        seen.append(batch)
        return [0] * len(batch)

    images = toy_inputs("images", n=3)
    as_model(look).classify(images)
    assert seen[0] is images
    as_model(look).classify(pa.table({"age": [1.0, 2.0], "colour": ["red", "blue"]}))
    assert list(seen[1].columns) == ["age", "colour"]
    assert seen[1]["age"].tolist() == [1.0, 2.0]


def test_prepare_stands_in_for_the_usual_way() -> None:
    model = as_model(lambda rows: rows[:, 0], name="first", prepare=lambda t: np.array([[len(t)]]))
    assert model.classify(["a"]).classes.tolist() == [1]


def test_raw_scores_are_logits_only_if_said() -> None:
    rows = np.array([[3.0, -1.0], [0.0, 0.5]])
    said = as_model(lambda x: x, name="identity", outputs="logits").classify(rows)
    assert said.score_type == "logits"
    with pytest.raises(InputError, match="'identity' gave what can't be used: probs must"):
        as_model(lambda x: x, name="identity").classify(rows)


def test_a_torch_tensor_with_a_gradient_will_do() -> None:
    import torch

    def tensor(rows: np.ndarray) -> Any:
        return torch.tensor([[0.25, 0.75]] * len(rows), requires_grad=True)

    assert as_model(tensor).classify(np.zeros((2, 1))).probs.tolist() == [[0.25, 0.75]] * 2


def test_a_factory_and_a_class_are_not_called() -> None:
    def make() -> Any:
        raise AssertionError("called")

    with pytest.raises(InputError, match=r"'make' takes no inputs.*give what it makes: make\(\)"):
        as_model(make)
    with pytest.raises(InputError, match="Path is a class, not a model"):
        as_model(Path)
    with pytest.raises(InputError, match="can't be called on a batch"):
        FunctionModel(Path)


def test_a_builtin_that_hides_its_signature_is_taken() -> None:
    assert (
        as_model(np.ravel, outputs="classes").classify(np.ones((3, 1))).classes.tolist() == [1] * 3
    )


def test_a_function_by_name_from_the_current_folder(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "scores.py").write_text(
        "class A:\n    @staticmethod\n    def long(t):\n        return [len(x) > 3 for x in t]\n"
    )
    path = list(sys.path)
    model = as_model("mine.scores:A.long", class_names=["short", "long"])
    assert sys.path == path
    assert model.name == "A.long"
    assert model.classify(["abcd", "a"]).classes.tolist() == [1, 0]


def test_a_name_may_point_to_an_estimator_or_a_model(folder: Path) -> None:
    (folder / "fitted.py").write_text(
        "from sklearn.dummy import DummyClassifier\n"
        "tree = DummyClassifier().fit([[0.0], [1.0]], ['a', 'b'])\n"
    )
    assert as_model("fitted:tree").classify(np.zeros((1, 1))).class_names == ("a", "b")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nowhere.at_all:f", "There is no module 'nowhere'"),
        ("given:missing", "'given' has no 'missing'. It has: number"),
        ("given:number", "A int is no model"),
        ("given.deeper:f", "There is no module 'given.deeper'"),
        ("broken:f", "Importing 'broken' failed: ZeroDivisionError: division by zero"),
        ("leaves:f", "Importing 'leaves' failed: SystemExit: 3"),
        ("lacks:f", "Importing 'lacks' failed: ModuleNotFoundError: No module named 'not_there'"),
        ("spelled:f", "Importing 'spelled' failed: SyntaxError"),
    ],
)
def test_a_name_that_cannot_be_followed_is_told_on_one_line(
    folder: Path, place: str, words: str
) -> None:
    sources = {"given": "number = 3", "broken": "1 / 0", "leaves": "raise SystemExit(3)",
               "lacks": "import not_there", "spelled": "def f(:"}  # fmt: skip
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    path = list(sys.path)
    with pytest.raises(InputError) as refusal:
        as_model(place)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert sys.path == path


def test_what_reads_like_a_name() -> None:
    assert is_import_path("a:b")
    assert is_import_path("größe.mod:Class.method")
    assert not any(
        map(is_import_path, ("a", "a:", ":b", "a.:b", "a b:c", "1a:b", "http://a:b", "x/y:z"))
    )
    assert import_object("os.path:join")("a", "b") == "a/b"
