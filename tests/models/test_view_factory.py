"""What can be given in place of a model and data, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import ProgressCallback
from oodometer.data import as_dataset
from oodometer.models import FunctionModel, TorchModel
from oodometer.models.model_view import ModelView, ViewFactory, align_classes

ROWS = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
SAID = Predictions.from_logits(ROWS, labels=np.arange(10) % 4, features=ROWS[:, :2])


def model() -> TorchModel:
    torch.manual_seed(0)
    return TorchModel(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)), name="net")


def test_arrays_without_a_model_are_features() -> None:
    view = ViewFactory(None).view(np.arange(6).reshape(3, 2), "source")
    assert view.features.dtype.kind == "f"
    assert view.features.tolist() == [[0, 1], [2, 3], [4, 5]]
    for given, kept in (("f4", "f4"), ("f8", "f8"), ("u1", "f4"), ("i8", "f8")):
        assert ViewFactory(None).view(ROWS.astype(given), "source").features.dtype == kept


def test_predictions_bring_outputs_labels_and_features() -> None:
    view = ViewFactory(None).view(SAID, "source")
    assert np.array_equal(view.features, ROWS[:, :2])
    assert np.array_equal(view.labels, np.arange(10) % 4)
    assert ViewFactory(None).view(SAID, "target", labelled=False).outputs.labels is None


def test_labels_that_may_not_be_looked_at_are_not() -> None:
    data = as_dataset(ROWS, labels=np.arange(10) % 2)
    assert ViewFactory(model()).view(data, "source").missing("labels") is None
    for given in (data, {"a": data, "b": data}):
        view = ViewFactory(model()).view(given, "target", labelled=False)
        assert view.outputs.labels is None
        assert str(view.missing("labels")).endswith("has no labels")


def test_a_view_has_the_seed() -> None:
    for one in (None, model()):
        for data in (ROWS, {"a": ROWS, "b": ROWS}):
            assert ViewFactory(one, seed=3).view(data, "source").view_source.seed == 3


def test_several_datasets_are_domains_by_name() -> None:
    view = ViewFactory(model()).view({"a": ROWS[:4], "b": as_dataset(ROWS[4:])}, "source")
    assert view.domain_names == ("a", "b")
    assert view.name == "a + b"
    assert view.select_domain("b").n == 6
    assert np.array_equal(view.inputs(), ROWS)
    one = ViewFactory(model()).view({"a": ROWS}, "source")
    assert one.domain_names == ("a",)


def test_domains_of_arrays_and_of_predictions_are_joined() -> None:
    arrays = ViewFactory(None).view({"a": ROWS[:4], "b": ROWS[4:]}, "source")
    assert np.array_equal(arrays.features, ROWS)
    said = {"a": SAID.rows(slice(0, 4)), "b": SAID.rows(slice(4, 10))}
    view = ViewFactory(None).view(said, "source")
    assert np.array_equal(view.labels, SAID.labels if SAID.labels is not None else 0)
    assert np.allclose(view.outputs.probs, SAID.probs)
    assert np.array_equal(view.select_domain("a").features, ROWS[:4, :2])
    assert view.name == "a + b"
    bare = Predictions.from_logits(ROWS)
    some = ViewFactory(None).view({"a": SAID, "b": bare}, "source")
    assert some.n == 20
    assert some.outputs.labels is None
    assert some.missing("features") == "no features of 'a + b' were given"


def test_domains_whose_classes_stand_in_another_order_are_put_in_one() -> None:
    one = Predictions.from_probs([[0.9, 0.1]], class_names=["x", "y"], labels=["x"])
    other = Predictions.from_probs([[0.9, 0.1]], class_names=["y", "x"], labels=["x"])
    view = ViewFactory(None).view({"a": one, "b": other}, "source")
    assert view.outputs.classes.tolist() == [0, 1]
    assert view.labels.tolist() == [0, 0]


def test_features_may_be_given_beside_any_model() -> None:
    closed = FunctionModel(lambda rows: np.full((len(rows), 2), 0.5), name="f")
    view = ViewFactory(closed).view(ROWS, "source", features=ROWS[:, :3])
    assert view.features.shape == (10, 3)
    assert view.outputs.k == 2


def test_a_layer_is_looked_for_at_once() -> None:
    assert ViewFactory(model(), layer="1").view(ROWS, "source").features.shape == (10, 2)
    with pytest.raises(UnknownName, match=r"No layer of 'net' is called 'x'.*There are: 0, 1"):
        ViewFactory(model(), layer="x")
    closed = FunctionModel(lambda rows: rows, name="f")
    for wrong, said in ((closed, "'f' is none"), (None, "no model was given")):
        with pytest.raises(InputError, match=said):
            ViewFactory(wrong, layer="0")


def test_a_dataset_keeps_its_name_and_an_array_gets_one() -> None:
    looking = ViewFactory(model())
    assert looking.view(as_dataset(ROWS, name="site"), "target").name == "site"
    assert looking.view(ROWS, "target").name == "target"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "has no data"),
        (["a", "b"], "must be features"),
        ([["a", "b"]], "must be features"),
        (np.ones((2, 3, 4)), r"^Without a model .* of shape \(2, 3, 4\)"),
        ({"a": ROWS, "b": ["x"]}, "Without a model the b must be features"),
        (np.ones(3), r"got ndarray of shape \(3,\)"),
        (np.array([[np.nan, 1.0]]), "The source: .*finite"),
        ({"a": np.ones((2, 3)), "b": np.ones((2, 4))}, r"the a \+ b have features 3 and 4 wide"),
        ({"a": SAID, "b": Predictions.from_logits(ROWS[:, :3])}, "4 classes.*3"),
    ],
)
def test_what_can_not_be_looked_at_is_refused(data: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ViewFactory(None).view(data, "source")


def test_no_rows_and_several_kinds_are_refused() -> None:
    with pytest.raises(InputError, match="The source has no rows"):
        ViewFactory(model()).view(as_dataset(ROWS).rows(np.arange(0)), "source")
    with pytest.raises(InputError, match=r"a \+ b can't be of several kinds"):
        ViewFactory(model()).view({"a": ROWS, "b": ["x"]}, "source")


def test_features_of_another_number_of_rows_are_refused() -> None:
    with pytest.raises(InputError, match="The source: features must be numbers, 10 rows"):
        ViewFactory(model()).view(ROWS, "source", features=ROWS[:3])


def test_progress_is_told() -> None:
    told: list[tuple[int, int, str]] = []
    report: ProgressCallback = lambda done, total, what: told.append((done, total, what))  # noqa: E731
    _ = ViewFactory(model(), progress=report).view(ROWS, "target").features
    assert told == [(10, 10, "looking at target")]


def test_what_has_no_rows_is_refused_before_the_work() -> None:
    for empty in (np.ones((0, 3)), {"a": ROWS, "b": ROWS[:0]}):
        with pytest.raises(InputError, match=r"has no rows\. Give at least one"):
            ViewFactory(None).view(empty, "source")


def test_rows_of_different_lengths_are_no_features() -> None:
    with pytest.raises(InputError, match=r"the source must be features.*got list"):
        ViewFactory(None).view([[1.0, 2.0], [3.0]], "source")


def test_domains_are_all_outputs_or_all_features_and_may_be_numbered() -> None:
    bare = Predictions.from_logits(ROWS[:, :3])
    with pytest.raises(InputError, match=r"Some domains of the a \+ b are outputs and some feat"):
        ViewFactory(None).view({"a": bare, "b": ROWS}, "source")
    assert ViewFactory(None).view({1: ROWS, 2: ROWS}, "source").domain_names == ("1", "2")


def test_given_outputs_have_one_set_of_classes_in_one_order() -> None:
    def view(names: str) -> ModelView:
        logits = ROWS[:, : len(names)]
        return ViewFactory(None).view(
            Predictions.from_logits(logits, class_names=tuple(names)), "x"
        )

    first = view("abc")
    turned = align_classes(view("cab"), first, "target")
    assert turned.outputs.class_names == ("a", "b", "c")
    assert np.allclose(turned.outputs.probs, view("cab").outputs.probs[:, [1, 2, 0]])
    with pytest.raises(InputError, match="the source has 3 classes, the target has 4"):
        align_classes(view("abcd"), first, "target")
    with pytest.raises(InputError, match="The class 'c' is on one side only"):
        align_classes(view("abd"), first, "target")
    bare = ViewFactory(None).view(ROWS, "target")
    assert align_classes(bare, first, "target") is bare
