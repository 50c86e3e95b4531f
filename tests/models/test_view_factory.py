"""Views from user data: with a model or arrays, one dataset or several domains."""

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
OUTPUTS = Predictions.from_logits(ROWS, labels=np.arange(10) % 4, features=ROWS[:, :2])


def model() -> TorchModel:
    torch.manual_seed(0)
    return TorchModel(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)), name="net")


def test_arrays_without_a_model_are_features() -> None:
    view = ViewFactory(None).view(np.arange(6).reshape(3, 2), "source")
    assert view.features.dtype.kind == "f"
    assert view.features.tolist() == [[0, 1], [2, 3], [4, 5]]
    for dtype, expected in (("f4", "f4"), ("f8", "f8"), ("u1", "f4"), ("i8", "f8")):
        assert ViewFactory(None).view(ROWS.astype(dtype), "source").features.dtype == expected


def test_predictions_bring_outputs_labels_and_features() -> None:
    view = ViewFactory(None).view(OUTPUTS, "source")
    assert np.array_equal(view.features, ROWS[:, :2])
    assert np.array_equal(view.labels, np.arange(10) % 4)
    assert ViewFactory(None).view(OUTPUTS, "target", labelled=False).outputs.labels is None


def test_unlabelled_views_hide_labels() -> None:
    data = as_dataset(ROWS, labels=np.arange(10) % 2)
    assert ViewFactory(model()).view(data, "source").missing("labels") is None
    for inputs in (data, {"a": data, "b": data}):
        view = ViewFactory(model()).view(inputs, "target", labelled=False)
        assert view.outputs.labels is None
        assert str(view.missing("labels")).endswith("has no labels")


def test_views_have_the_seed_of_the_factory() -> None:
    for classifier in (None, model()):
        for data in (ROWS, {"a": ROWS, "b": ROWS}):
            assert ViewFactory(classifier, seed=3).view(data, "source").view_source.seed == 3


def test_several_datasets_are_domains_by_name() -> None:
    view = ViewFactory(model()).view({"a": ROWS[:4], "b": as_dataset(ROWS[4:])}, "source")
    assert view.domain_names == ("a", "b")
    assert view.name == "a + b"
    assert view.select_domain("b").n == 6
    assert np.array_equal(view.inputs(), ROWS)
    single = ViewFactory(model()).view({"a": ROWS}, "source")
    assert single.domain_names == ("a",)


def test_domains_of_arrays_and_of_predictions_are_concatenated() -> None:
    arrays = ViewFactory(None).view({"a": ROWS[:4], "b": ROWS[4:]}, "source")
    assert np.array_equal(arrays.features, ROWS)
    domains = {"a": OUTPUTS.rows(slice(0, 4)), "b": OUTPUTS.rows(slice(4, 10))}
    view = ViewFactory(None).view(domains, "source")
    assert np.array_equal(view.labels, OUTPUTS.labels if OUTPUTS.labels is not None else 0)
    assert np.allclose(view.outputs.probs, OUTPUTS.probs)
    assert np.array_equal(view.select_domain("a").features, ROWS[:4, :2])
    assert view.name == "a + b"
    unlabelled = Predictions.from_logits(ROWS)
    mixed = ViewFactory(None).view({"a": OUTPUTS, "b": unlabelled}, "source")
    assert mixed.n == 20
    assert mixed.outputs.labels is None
    assert mixed.missing("features") == "'a + b' has no features and no model"


def test_classes_of_domains_are_reordered_by_name() -> None:
    first = Predictions.from_probs([[0.9, 0.1]], class_names=["x", "y"], labels=["x"])
    second = Predictions.from_probs([[0.9, 0.1]], class_names=["y", "x"], labels=["x"])
    view = ViewFactory(None).view({"a": first, "b": second}, "source")
    assert view.outputs.classes.tolist() == [0, 1]
    assert view.labels.tolist() == [0, 0]


def test_features_can_be_passed_with_any_model() -> None:
    closed = FunctionModel(lambda rows: np.full((len(rows), 2), 0.5), name="f")
    view = ViewFactory(closed).view(ROWS, "source", features=ROWS[:, :3])
    assert view.features.shape == (10, 3)
    assert view.outputs.k == 2


def test_unknown_layers_raise_at_construction() -> None:
    assert ViewFactory(model(), layer="1").view(ROWS, "source").features.shape == (10, 2)
    with pytest.raises(UnknownName, match=r"No layer of 'net' is called 'x'.*There are: 0, 1"):
        ViewFactory(model(), layer="x")
    closed = FunctionModel(lambda rows: rows, name="f")
    for wrong, words in ((closed, "'f' has no torch network"), (None, "no model was given")):
        with pytest.raises(InputError, match=words):
            ViewFactory(wrong, layer="0")


def test_datasets_keep_their_names_and_arrays_get_one() -> None:
    factory = ViewFactory(model())
    assert factory.view(as_dataset(ROWS, name="site"), "target").name == "site"
    assert factory.view(ROWS, "target").name == "target"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "has no data"),
        (["a", "b"], "must be features"),
        ([["a", "b"]], "must be features"),
        (np.ones((2, 3, 4)), r"^Without a model, .* of shape \(2, 3, 4\)"),
        ({"a": ROWS, "b": ["x"]}, "Without a model, the b must be features"),
        (np.ones(3), r"got ndarray of shape \(3,\)"),
        (np.array([[np.nan, 1.0]]), "The source: .*finite"),
        ({"a": np.ones((2, 3)), "b": np.ones((2, 4))}, r"the a \+ b have 3 and 4 features"),
        ({"a": OUTPUTS, "b": Predictions.from_logits(ROWS[:, :3])}, "4 classes.*3"),
    ],
)
def test_invalid_data_without_a_model_raise(data: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ViewFactory(None).view(data, "source")


def test_empty_datasets_and_mixed_kinds_raise() -> None:
    with pytest.raises(InputError, match="The source has no rows"):
        ViewFactory(model()).view(as_dataset(ROWS).rows(np.arange(0)), "source")
    with pytest.raises(InputError, match=r"a \+ b must have inputs of one kind"):
        ViewFactory(model()).view({"a": ROWS, "b": ["x"]}, "source")


def test_features_with_another_number_of_rows_raise() -> None:
    with pytest.raises(
        InputError, match=r"The source: features must be numbers of shape \(10, d\)"
    ):
        ViewFactory(model()).view(ROWS, "source", features=ROWS[:3])


def test_progress_is_reported() -> None:
    reports: list[tuple[int, int, str]] = []
    report: ProgressCallback = lambda done, total, what: reports.append((done, total, what))  # noqa: E731
    _ = ViewFactory(model(), progress=report).view(ROWS, "target").features
    assert reports == [(10, 10, "extracting features of target")]


def test_empty_arrays_raise() -> None:
    for empty in (np.ones((0, 3)), {"a": ROWS, "b": ROWS[:0]}):
        with pytest.raises(InputError, match=r"has no rows\. Pass at least one"):
            ViewFactory(None).view(empty, "source")


def test_rows_of_different_lengths_are_not_features() -> None:
    with pytest.raises(InputError, match=r"the source must be features.*got list"):
        ViewFactory(None).view([[1.0, 2.0], [3.0]], "source")


def test_domains_are_all_outputs_or_all_features_and_may_be_numbered() -> None:
    outputs = Predictions.from_logits(ROWS[:, :3])
    with pytest.raises(InputError, match=r"Some domains of the a \+ b are outputs and some are f"):
        ViewFactory(None).view({"a": outputs, "b": ROWS}, "source")
    assert ViewFactory(None).view({1: ROWS, 2: ROWS}, "source").domain_names == ("1", "2")


def test_align_classes_reorders_outputs_and_rejects_other_classes() -> None:
    def view(names: str) -> ModelView:
        logits = ROWS[:, : len(names)]
        return ViewFactory(None).view(
            Predictions.from_logits(logits, class_names=tuple(names)), "x"
        )

    first = view("abc")
    reordered = align_classes(view("cab"), first, "target")
    assert reordered.outputs.class_names == ("a", "b", "c")
    assert np.allclose(reordered.outputs.probs, view("cab").outputs.probs[:, [1, 2, 0]])
    with pytest.raises(InputError, match="the source has 3 classes, the target has 4"):
        align_classes(view("abcd"), first, "target")
    with pytest.raises(InputError, match="Only one side has the class 'c'"):
        align_classes(view("abd"), first, "target")
    bare = ViewFactory(None).view(ROWS, "target")
    assert align_classes(bare, first, "target") is bare
