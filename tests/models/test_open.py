"""as_model: what it accepts, what it rejects, and what it does not import."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.models import FunctionModel, HttpModel, SklearnModel, TorchModel, as_model


class Mine:
    """User-defined model."""

    name = "mine"

    def classify(self, inputs: Any) -> Predictions:
        return Predictions.from_classes([0] * len(inputs), k=2)


def test_models_are_returned_unchanged() -> None:
    model = Mine()
    assert as_model(model) is model
    with pytest.raises(InputError, match="'mine' is already a model, so batch_size= cannot be set"):
        as_model(model, batch_size=3)


def test_objects_are_recognized() -> None:
    import torch

    fitted = GaussianNB().fit([[0.0], [1.0]], [0, 1])
    assert isinstance(as_model(fitted), SklearnModel)
    assert isinstance(as_model(torch.nn.Linear(2, 2)), TorchModel)
    assert isinstance(as_model(lambda rows: rows), FunctionModel)
    assert isinstance(as_model("https://example.org/m"), HttpModel)
    assert as_model(fitted, name="bayes").name == "bayes"


@pytest.mark.parametrize("thing", [3, None, [1, 2], {"a": 1}, np.zeros(3)])
def test_objects_that_are_not_models_raise(thing: Any) -> None:
    with pytest.raises(
        InputError, match=f"A {type(thing).__name__} is not a model. Pass a callable"
    ):
        as_model(thing)


def test_unusable_paths_raise_and_list_what_is_supported(tmp_path: Path) -> None:
    for path in ("net.onnx", "net.skops", "net.pt", "dir/net.joblib"):
        with pytest.raises(InputError, match=f"There is no file '{path}'; expected a model file"):
            as_model(path)
    with pytest.raises(
        InputError, match=r"'resnet' does not exist\. Models can be an \.onnx file, a Huggin"
    ):
        as_model("resnet")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(InputError, match=r"notes\.txt' cannot be opened as a model"):
        as_model(tmp_path / "notes.txt")
    (tmp_path / "net.py").write_text("")
    with pytest.raises(
        InputError, match=r"Name its function, for example net:classify\. Models can be"
    ):
        as_model(tmp_path / "net.py")


def test_data_instead_of_a_model_gets_a_hint(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("text\na\n")
    with pytest.raises(
        InputError, match="It looks like data: pass the model first and the data after it"
    ):
        as_model(tmp_path / "data.csv")
    with pytest.raises(
        InputError, match="contains data, pass the model first and the data after it"
    ):
        as_model(tmp_path)


def test_heavy_packages_are_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys, numpy; from oodometer.models import as_model\n"
        "as_model(lambda rows: [0] * len(rows)).classify(numpy.zeros((2, 3)))\n"
        "heavy = ('torch', 'sklearn', 'onnxruntime', 'transformers', 'pandas', 'pyarrow', 'skops')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_registered_folder_formats_are_opened_by_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry point is named after the file that identifies the format."""
    opened: list[Path] = []

    def load(folder: Path) -> FunctionModel:
        opened.append(folder)
        return FunctionModel(lambda texts: [0 for _ in texts], name="mine")

    group = "oodometer.model_formats"
    mine = EntryPoint("mine.json", "mine:load", group)
    monkeypatch.setattr(EntryPoint, "load", lambda self: load)
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda **arguments: {group: [mine]}[arguments["group"]]
    )
    (tmp_path / "mine.json").write_text("{}")
    assert as_model(tmp_path).name == "mine"
    assert as_model(tmp_path, name="other").name == "other"
    assert opened == [tmp_path, tmp_path]
    (tmp_path / "mine.json").unlink()
    with pytest.raises(InputError, match=r"Hugging Face|config"):
        as_model(tmp_path)
