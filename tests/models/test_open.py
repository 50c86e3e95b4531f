"""as_model: what it recognises, what it refuses, and what it does not import."""

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
    """A model of the user's own."""

    name = "mine"

    def classify(self, inputs: Any) -> Predictions:
        return Predictions.from_classes([0] * len(inputs), k=2)


def test_a_model_is_given_back_as_it_is() -> None:
    model = Mine()
    assert as_model(model) is model
    with pytest.raises(InputError, match="'mine' is a model already, so batch_size= can't be set"):
        as_model(model, batch_size=3)


def test_things_are_recognised() -> None:
    import torch

    fitted = GaussianNB().fit([[0.0], [1.0]], [0, 1])
    assert isinstance(as_model(fitted), SklearnModel)
    assert isinstance(as_model(torch.nn.Linear(2, 2)), TorchModel)
    assert isinstance(as_model(lambda rows: rows), FunctionModel)
    assert isinstance(as_model("https://example.org/m"), HttpModel)
    assert as_model(fitted, name="bayes").name == "bayes"


@pytest.mark.parametrize("thing", [3, None, [1, 2], {"a": 1}, np.zeros(3)])
def test_what_is_no_model_is_refused(thing: Any) -> None:
    with pytest.raises(InputError, match=f"A {type(thing).__name__} is no model. Give a callable"):
        as_model(thing)


def test_what_cannot_be_opened_is_told_with_what_can(tmp_path: Path) -> None:
    for place in ("net.onnx", "net.skops", "net.pt", "dir/net.joblib"):
        with pytest.raises(InputError, match=f"There is no file '{place}'"):
            as_model(place)
    with pytest.raises(
        InputError, match=r"'resnet' is no file or folder .* an \.onnx file, a Huggin"
    ):
        as_model("resnet")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(InputError, match=r"notes\.txt' can't be opened as a model"):
        as_model(tmp_path / "notes.txt")
    (tmp_path / "net.py").write_text("")
    with pytest.raises(InputError, match=r"Name its function: net:classify, say\. What can be"):
        as_model(tmp_path / "net.py")


def test_data_in_the_place_of_a_model_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("text\na\n")
    with pytest.raises(InputError, match="It looks like data: the model comes first, and the data"):
        as_model(tmp_path / "data.csv")
    with pytest.raises(InputError, match="if these are data, the model comes first and the data"):
        as_model(tmp_path)


def test_nothing_heavy_is_imported_to_look(tmp_path: Path) -> None:
    code = (
        "import sys, numpy; from oodometer.models import as_model\n"
        "as_model(lambda rows: [0] * len(rows)).classify(numpy.zeros((2, 3)))\n"
        "heavy = ('torch', 'sklearn', 'onnxruntime', 'transformers', 'pandas', 'pyarrow', 'skops')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_folder_of_a_registered_format_is_opened_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of an entry point is that of the file that marks such a folder."""
    opened: list[Path] = []

    def load(folder: Path) -> FunctionModel:
        opened.append(folder)
        return FunctionModel(lambda texts: [0 for _ in texts], name="mine")

    group = "oodometer.model_formats"
    mine = EntryPoint("mine.json", "mine:load", group)
    monkeypatch.setattr(EntryPoint, "load", lambda self: load)
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda **given: {group: [mine]}[given["group"]]
    )
    (tmp_path / "mine.json").write_text("{}")
    assert as_model(tmp_path).name == "mine"
    assert as_model(tmp_path, name="other").name == "other"
    assert opened == [tmp_path, tmp_path]
    (tmp_path / "mine.json").unlink()
    with pytest.raises(InputError, match=r"Hugging Face|config"):
        as_model(tmp_path)
