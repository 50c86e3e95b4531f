"""Views: values are computed once, random choices depend on content, missing needs are named."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.core.predictions import Predictions
from oodometer.data import as_dataset
from oodometer.models import FunctionModel, TorchModel, inference
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import NEEDS, ModelView, ViewSource
from tests.support.stub_models import ByContent

ROWS = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 3, 40)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))


def torch_view(rows: Any = ROWS, **settings: Any) -> ModelView:
    return ModelView(
        ViewSource(
            "data", as_dataset(rows, labels=LABELS[: len(rows)]), TorchModel(network()), **settings
        )
    )


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.rows = network(), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows += len(x)
        return self.inner(x)  # type: ignore[no-any-return]


def test_outputs_and_features_share_one_forward_pass() -> None:
    for first in ("outputs", "features"):
        model = TorchModel(Counting())
        view = ModelView(ViewSource("data", as_dataset(ROWS, labels=LABELS), model))
        getattr(view, first)
        assert view.features.shape == (40, 4)
        assert view.outputs.n == 40
        assert view.rows(np.arange(7)).outputs.n == 7
        assert model.module.rows == 40


def test_nested_row_selections_match_the_whole_view() -> None:
    view = torch_view()
    index = np.array([5, 3, 30])
    part = view.rows(index)
    deeper = part.rows(np.array([True, False, True]))
    assert np.array_equal(part.features, view.features[index])
    assert np.array_equal(part.outputs.probs, view.outputs.probs[index])
    assert np.array_equal(part.labels, LABELS[index])
    assert np.array_equal(deeper.keys, view.keys[[5, 30]])
    assert np.array_equal(deeper.features, view.features[[5, 30]])
    assert np.array_equal(deeper.outputs.probs, view.outputs.probs[[5, 30]])
    assert np.array_equal(deeper.inputs(), ROWS[[5, 30]])
    assert np.array_equal(deeper.inputs(slice(1, 2)), ROWS[[30]])
    assert len(deeper) == 2
    assert repr(deeper) == "ModelView('data', 2 rows)"


def test_network_is_opened_once_for_all_views() -> None:
    @dataclass(frozen=True, eq=False, repr=False)
    class Opening(TorchModel):
        calls: list[int] = field(default_factory=list)

        def torch_network(self) -> Network:
            self.calls.append(1)
            return super().torch_network()

    model = Opening(network())
    view = ModelView(ViewSource("data", as_dataset(ROWS), model))
    assert view.rows(np.arange(3)).missing("gradients") is None
    assert view.rows(np.arange(3)).network is view.network
    assert model.calls == [1]


def test_random_choices_depend_on_content_and_seed_only() -> None:
    order = np.random.default_rng(3).permutation(40)
    view, mixed = torch_view(), torch_view(ROWS[order])
    assert np.array_equal(order[mixed.random_order("x")], view.random_order("x"))
    assert np.array_equal(
        mixed.row_streams("x").uniforms(2), view.row_streams("x").uniforms(2)[order]
    )
    assert not np.array_equal(view.random_order("x"), view.random_order("y"))
    assert not np.array_equal(view.random_order("x"), torch_view(seed=1).random_order("x"))


def test_duplicate_rows_have_different_streams_in_every_view() -> None:
    view = ModelView(ViewSource("z", features=np.ones((3, 2))))
    drawn = view.row_streams("x").uniforms(1)
    assert len(np.unique(drawn)) == 3
    assert np.array_equal(view.rows(np.array([2])).row_streams("x").uniforms(1), drawn[2:])


def test_subsample_does_not_depend_on_the_order_of_rows() -> None:
    order = np.random.default_rng(3).permutation(40)
    few, mixed = torch_view().subsample(12, "x"), torch_view(ROWS[order]).subsample(12, "x")
    assert few.n == mixed.n == 12
    assert sorted(few.keys.tolist()) == sorted(mixed.keys.tolist())
    view = torch_view()
    expected = [key for key in view.keys.tolist() if key in few.keys]
    assert few.keys.tolist() == expected
    assert view.subsample(40, "x") is view
    assert view.subsample(41, "x") is view


def test_per_row_values_are_computed_once_for_all_views() -> None:
    view = torch_view()
    n_computed = []

    def compute(part: ModelView) -> np.ndarray:
        n_computed.append(part.n)
        return np.asarray(part.features.sum(1))

    first = view.rows(np.arange(10)).per_row_cached("sum", compute)
    second = view.rows(np.arange(5, 20)).per_row_cached("sum", compute)
    whole = view.per_row_cached("sum", compute)
    assert np.allclose(whole, view.features.sum(1))
    assert np.array_equal(first, whole[:10])
    assert np.array_equal(second, whole[5:20])
    assert n_computed == [10, 10, 20]
    view.per_row_cached("other", compute)
    assert n_computed[-1] == 40


def test_domains_select_rows() -> None:
    view = torch_view(domains=np.repeat(["b", "a"], [10, 30]))
    assert view.domain_names == ("a", "b")
    assert view.select_domain("b").n == 10
    assert np.array_equal(view.select_domain("a").labels, LABELS[10:])
    assert view.rows(np.arange(10)).domain_names == ("b",)
    with pytest.raises(InputError, match="has no domain 'c'"):
        view.select_domain("c")
    assert np.array_equal(view.rows(np.arange(8, 12)).select_domain("a").inputs(), ROWS[10:12])
    assert torch_view(domains=np.repeat([1, 2], [10, 30])).select_domain("1").n == 10


def test_unlabelled_view_hides_the_labels_of_its_dataset() -> None:
    view = torch_view(labelled=False)
    assert view.outputs.labels is None
    assert view.missing("labels") == "'data' has no labels"
    with pytest.raises(NotApplicable, match="it needs labels: 'data' has no labels"):
        _ = view.labels
    closed = ModelView(
        ViewSource("data", as_dataset(ROWS, labels=LABELS), ByContent(), labelled=False)
    )
    assert closed.outputs.labels is None


def test_missing_needs_by_kind_of_view() -> None:
    closed = FunctionModel(lambda rows: np.full((len(rows), 2), 0.5), name="f")
    texts = ModelView(ViewSource("texts", as_dataset(["a", "b"]), ByContent()))
    features = ModelView(ViewSource("z", features=ROWS))
    outputs = ModelView(ViewSource("p", outputs=Predictions.from_probs([[0.5, 0.5]], labels=[1])))
    function = ModelView(ViewSource("rows", as_dataset(ROWS), closed))
    have = {
        name: {need for need in NEEDS if view.missing(need) is None} - {"training data"}
        for name, view in {
            "torch": torch_view(), "function": function, "texts": texts, "features": features,
            "outputs": outputs,
        }.items()
    }  # fmt: skip
    assert have["torch"] == {
        "outputs", "labels", "features", "gradients", "weights", "mixable inputs",
    }  # fmt: skip
    assert have["function"] == {"outputs", "mixable inputs"}
    assert have["texts"] == {"outputs"}
    assert have["features"] == {"features"}
    assert have["outputs"] == {"outputs", "labels"}
    assert "'f' is a FunctionModel" in str(function.missing("gradients"))
    assert function.missing("features") == function.missing("gradients")
    assert outputs.missing("features") == "'p' has no features and no model"
    with pytest.raises(NotApplicable, match="it needs features: 'p' has no features and no model"):
        _ = outputs.features
    with pytest.raises(NotApplicable, match="it needs gradients: 'f' is a FunctionModel"):
        _ = function.network
    assert "contains text, which cannot be interp" in str(texts.missing("mixable inputs"))
    pairs = ModelView(ViewSource("pairs", as_dataset([("a", "b")]), ByContent()))
    assert "contains pairs, which cannot be interp" in str(pairs.missing("mixable inputs"))


def test_labelled_inputs_without_a_model_have_no_outputs() -> None:
    view = ModelView(ViewSource("rows", as_dataset(ROWS, labels=LABELS)))
    for need in ("outputs", "labels"):
        assert view.missing(need) == "'rows' has neither outputs nor a model"
    assert view.missing("mixable inputs") == "no model was given with its inputs"


def test_network_without_gradients_or_features_has_outputs() -> None:
    hard = TorchModel(network(), name="net", outputs="classes")
    assert (
        ModelView(ViewSource("d", as_dataset(ROWS), hard)).missing("weights")
        == "'net' returns classes only"
    )
    flat = TorchModel(nn.Sequential(nn.ReLU(), nn.Tanh()), name="flat")
    view = ModelView(ViewSource("d", as_dataset(ROWS), flat))
    assert str(view.missing("features")).startswith("'flat' has no linear layer")
    assert view.outputs.k == 5
    named = ModelView(ViewSource("d", as_dataset(ROWS), flat, layer="0"))
    assert named.missing("features") is None
    assert np.array_equal(named.features, ROWS.clip(0))


def test_outputs_of_another_form_on_other_inputs_raise() -> None:
    model = FunctionModel(lambda rows: np.full((len(rows), len(rows)), 1 / len(rows)), name="f")
    view = ModelView(ViewSource("rows", as_dataset(ROWS[:3]), model))
    assert view.classify_inputs(ROWS[3:6]).k == 3
    with pytest.raises(InputError, match=r"'f' returned probabilities of 3 .* of 4 classes"):
        view.classify_inputs(ROWS[3:7])


def test_progress_counts_rows_of_the_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "DEFAULT_BATCH_ROWS", 16)
    for model, what in ((TorchModel(network()), "extracting features of data"),
                        (ByContent(), "classifying vectors")):  # fmt: skip
        reports: list[Any] = []
        source = ViewSource("data", as_dataset(ROWS), model, progress=lambda *t: reports.append(t))  # noqa: B023
        _ = ModelView(source).outputs
        assert reports == [(16, 40, what), (32, 40, what), (40, 40, what)]


def test_features_must_have_the_same_width_in_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "DEFAULT_BATCH_ROWS", 16)

    class Widening(nn.Module):
        """Layer with as many outputs as the batch has rows."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :1].repeat(1, len(x))

    class Ragged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.head = Widening(), nn.Linear(1, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.wide(x)[:, :1])  # type: ignore[no-any-return]

    with pytest.raises(InputError, match="has 8 values per row for some inputs and 16 for others"):
        _ = ModelView(
            ViewSource("data", as_dataset(ROWS), TorchModel(Ragged()), layer="wide")
        ).features


def test_view_of_arrays_has_no_inputs_and_no_model() -> None:
    view = ModelView(ViewSource("z", features=ROWS))
    with pytest.raises(NotApplicable, match="it needs the inputs"):
        view.inputs()
    with pytest.raises(NotApplicable, match="it needs the model"):
        view.classify_inputs(ROWS)
    with pytest.raises(NotApplicable, match="'z' has neither outputs nor a model"):
        _ = view.outputs


def test_keys_of_arrays_are_hashes_of_their_content() -> None:
    features = ModelView(ViewSource("z", features=ROWS))
    again = ModelView(ViewSource("z", features=ROWS[::-1]))
    assert np.array_equal(features.keys, again.keys[::-1])
    outputs = ModelView(ViewSource("p", outputs=Predictions.from_logits(ROWS)))
    assert len(np.unique(outputs.keys)) == 40


def test_failed_feature_extraction_leaves_outputs() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(5, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.cat([x, x]))[: len(x)]  # type: ignore[no-any-return]

    view = ModelView(ViewSource("data", as_dataset(ROWS, labels=LABELS), TorchModel(Twice())))
    assert view.outputs.n == 40
    with pytest.raises(NotApplicable, match=r"it needs features: .* is \(80, 5\) for 40 inputs"):
        _ = view.features


def test_no_features_without_a_layer() -> None:
    view = torch_view(layer=None)
    assert view.outputs.n == 40
    assert view.missing("features") == "no requested measure uses features"


def test_unknown_need_raises() -> None:
    wrong: Any = "magic"
    with pytest.raises(UnknownName, match=r"No need is called 'magic'\. There are: outputs"):
        torch_view().missing(wrong)
