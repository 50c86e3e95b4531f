"""What can be given in place of a model and data, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from oodometer.core import Progress
from oodometer.datasets import as_dataset
from oodometer.errors import InputError, UnknownName
from oodometer.models import FunctionModel, TorchModel
from oodometer.predictions import Predictions
from oodometer.views import Looking

ROWS = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
SAID = Predictions.from_logits(ROWS, labels=np.arange(10) % 4, features=ROWS[:, :2])


def model() -> TorchModel:
    torch.manual_seed(0)
    return TorchModel(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)), name="net")


def test_arrays_without_a_model_are_features() -> None:
    view = Looking(None).view(np.arange(6).reshape(3, 2), "source")
    assert view.features.dtype.kind == "f"
    assert view.features.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_predictions_bring_outputs_labels_and_features() -> None:
    view = Looking(None).view(SAID, "source")
    assert np.array_equal(view.features, ROWS[:, :2])
    assert np.array_equal(view.labels, np.arange(10) % 4)
    assert Looking(None).view(SAID, "target", labelled=False).outputs.labels is None


def test_several_datasets_are_domains_by_name() -> None:
    view = Looking(model()).view({"a": ROWS[:4], "b": as_dataset(ROWS[4:])}, "source")
    assert view.domain_names == ("a", "b")
    assert view.of_domain("b").n == 6
    assert np.array_equal(view.inputs(), ROWS)
    one = Looking(model()).view({"a": ROWS}, "source")
    assert one.domain_names == ("a",)


def test_domains_of_arrays_and_of_predictions_are_joined() -> None:
    arrays = Looking(None).view({"a": ROWS[:4], "b": ROWS[4:]}, "source")
    assert np.array_equal(arrays.features, ROWS)
    said = {"a": SAID.rows(slice(0, 4)), "b": SAID.rows(slice(4, 10))}
    view = Looking(None).view(said, "source")
    assert np.array_equal(view.labels, SAID.labels if SAID.labels is not None else 0)
    assert np.allclose(view.outputs.probs, SAID.probs)
    assert np.array_equal(view.of_domain("a").features, ROWS[:4, :2])


def test_domains_whose_classes_stand_in_another_order_are_put_in_one() -> None:
    one = Predictions.from_probs([[0.9, 0.1]], class_names=["x", "y"], labels=["x"])
    other = Predictions.from_probs([[0.9, 0.1]], class_names=["y", "x"], labels=["x"])
    view = Looking(None).view({"a": one, "b": other}, "source")
    assert view.outputs.classes.tolist() == [0, 1]
    assert view.labels.tolist() == [0, 0]


def test_features_may_be_given_beside_any_model() -> None:
    closed = FunctionModel(lambda rows: np.full((len(rows), 2), 0.5), name="f")
    view = Looking(closed).view(ROWS, "source", features=ROWS[:, :3])
    assert view.features.shape == (10, 3)
    assert view.outputs.k == 2


def test_a_layer_is_looked_for_at_once() -> None:
    assert Looking(model(), layer="0").view(ROWS, "source").features.shape == (10, 3)
    with pytest.raises(UnknownName, match=r"No layer of 'net' is called 'x'.*There are: 0, 1"):
        Looking(model(), layer="x")
    closed = FunctionModel(lambda rows: rows, name="f")
    for wrong, said in ((closed, "'f' is none"), (None, "no model was given")):
        with pytest.raises(InputError, match=said):
            Looking(wrong, layer="0")


def test_a_dataset_keeps_its_name_and_an_array_gets_one() -> None:
    looking = Looking(model())
    assert looking.view(as_dataset(ROWS, name="site"), "target").name == "site"
    assert looking.view(ROWS, "target").name == "target"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "has no data"),
        (["a", "b"], "must be features"),
        (np.ones(3), r"got ndarray of shape \(3,\)"),
        (np.array([[np.nan, 1.0]]), "The source: .*finite"),
        ({"a": np.ones((2, 3)), "b": np.ones((2, 4))}, "features 3 and 4 wide"),
        ({"a": SAID, "b": Predictions.from_logits(ROWS[:, :3])}, "4 classes.*3"),
    ],
)
def test_what_can_not_be_looked_at_is_refused(data: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Looking(None).view(data, "source")


def test_features_of_another_number_of_rows_are_refused() -> None:
    with pytest.raises(InputError, match="The source: features must be numbers, 10 rows"):
        Looking(model()).view(ROWS, "source", features=ROWS[:3])


def test_progress_is_told() -> None:
    told: list[tuple[int, int, str]] = []
    report: Progress = lambda done, total, what: told.append((done, total, what))  # noqa: E731
    _ = Looking(model(), progress=report).view(ROWS, "target").features
    assert told == [(10, 10, "looking at target")]
