"""Jacobian measures: closed form for softmax regression, and invariances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from oodometer.core.array_types import Array, Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.inputs import Inputs
from oodometer.data import as_dataset
from oodometer.measures._difference_and_ratio import COMPARISON_FORMS, ComparisonForm, compare
from oodometer.measures.jacobian import Jacobian
from oodometer.measures.subject import Subject, measure_one
from oodometer.models import FunctionModel, TorchModel
from oodometer.models.introspection.derivatives import jacobian_norms
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import ModelView, ViewSource
from oodometer.testing.measures import network_state, toy_network

RNG = np.random.default_rng(8)
SOURCE, TARGET = RNG.normal(size=(14, 6)), RNG.normal(size=(9, 6)) + 0.5
IMAGES = RNG.integers(0, 256, (6, 4, 4), dtype=np.uint8)


def subject(source: Any = SOURCE, target: Any = TARGET, model: Any = None) -> Subject:
    torch_model = TorchModel(toy_network(), name="net") if model is None else model
    source_view, target_view = (
        ModelView(ViewSource(name, as_dataset(rows), torch_model, labelled=False))
        for name, rows in (("source", source), ("target", target))
    )
    return Subject(source_view, target_view)


def by_hand(layer: nn.Linear, rows: Array) -> Floats:
    """Return ‖(diag p − ppᵀ) W‖ per row of softmax regression."""
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    powers = np.exp(rows @ weight.T + bias)
    probs = powers / powers.sum(axis=1, keepdims=True)
    return np.array([np.linalg.norm((np.diag(p) - np.outer(p, p)) @ weight) for p in probs])


@pytest.mark.parametrize("form", COMPARISON_FORMS)
def test_softmax_regression_matches_closed_form(form: ComparisonForm) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(6, 3).double()
    toy = subject(model=TorchModel(nn.Sequential(layer), name="net"))
    target, source = by_hand(layer, TARGET).mean(), by_hand(layer, SOURCE).mean()
    score = measure_one(Jacobian(form), toy)
    assert score.value == pytest.approx(compare(target, source, form), rel=1e-9)
    assert score.facts["target"] == pytest.approx(target, rel=1e-9)
    assert score.facts["target_rows"] == 9
    assert score.facts.get("source_rows") == (None if form == "plain" else 14)
    assert score.notes == ()


def test_images_enter_as_pixels_in_0_to_1() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(16, 3).double()
    model = TorchModel(nn.Sequential(nn.Flatten(), layer), name="net")
    expected = by_hand(layer, IMAGES.reshape(6, 16) / 255).mean()
    assert measure_one(Jacobian(), subject(IMAGES, IMAGES, model)).value == pytest.approx(expected)


@pytest.mark.parametrize("form", COMPARISON_FORMS)
def test_order_batch_and_memory_do_not_matter(form: ComparisonForm) -> None:
    member = Jacobian(form)
    first = measure_one(member, subject()).value
    permuted = subject(SOURCE[RNG.permutation(14)], TARGET[RNG.permutation(9)])
    small_batches = subject(model=TorchModel(toy_network(), name="net", batch_size=4))
    values = [measure_one(member, other).value for other in (permuted, small_batches)]
    values.append(measure_one(Jacobian(form, memory=1), subject()).value)
    assert values == pytest.approx([first] * 3, rel=1e-9)


def test_identical_sides_have_no_difference() -> None:
    values = [
        measure_one(Jacobian(form), subject(SOURCE, SOURCE)).value for form in COMPARISON_FORMS[1:]
    ]
    assert values == [0.0, 1.0, 0.0]


def test_each_row_is_differentiated_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_rows: list[int] = []

    def counted(network: Network, inputs: Inputs, *, memory_bytes: int) -> Floats:
        n_rows.append(len(inputs))
        return jacobian_norms(network, inputs, memory_bytes=memory_bytes)

    monkeypatch.setattr("oodometer.measures.jacobian.jacobian_norms", counted)
    toy = subject()
    for form in COMPARISON_FORMS:
        measure_one(Jacobian(form), toy)
        measure_one(Jacobian(form), toy.subsample(0.8, np.random.default_rng(1)))
    assert n_rows == [9, 14]


def test_row_limit_is_noted() -> None:
    score = measure_one(Jacobian("diff", rows=10), subject())
    assert (score.facts["source_rows"], score.facts["target_rows"]) == (10, 9)
    assert score.notes == ("only 10 of 14 rows of 'source' were used, drawn at random",)
    assert measure_one(Jacobian("plain", rows=5), subject()).notes == (
        "only 5 of 9 rows of 'target' were used, drawn at random",
    )


def test_network_is_unchanged() -> None:
    toy = subject()
    toy.network.module.requires_grad_(False)
    before = network_state(toy.network.module)
    assert measure_one(Jacobian(), toy).value == pytest.approx(
        measure_one(Jacobian(), subject()).value
    )
    assert network_state(toy.network.module) == before


def test_in_place_modules_are_supported() -> None:
    torch.manual_seed(0)
    head = nn.Linear(6, 3).double()
    values = [
        measure_one(
            Jacobian(), subject(model=TorchModel(nn.Sequential(first, head), name="net"))
        ).value
        for first in (nn.ReLU(), nn.ReLU(inplace=True))
    ]
    assert values[0] == values[1] > 0


def test_models_without_input_gradients_are_not_applicable() -> None:
    function = FunctionModel(lambda rows: np.full((len(rows), 2), 0.5), name="flat")
    with pytest.raises(NotApplicable, match="it needs gradients: 'flat' is a FunctionModel"):
        measure_one(Jacobian(), subject(model=function))

    def lengths(texts: list[str]) -> torch.Tensor:
        return torch.tensor([[len(text)] for text in texts])

    words = TorchModel(nn.EmbeddingBag(9, 3), name="words", prepare=lengths)
    with pytest.raises(NotApplicable, match="takes tokens or several tensors"):
        measure_one(Jacobian(), subject(["one", "three"], ["four"], words))


class Constant(nn.Module):
    """Predict the same for all inputs, with a gradient of 0."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits + 0 * x[:, :1]


def test_constant_model_has_no_ratio() -> None:
    flat = TorchModel(Constant(), name="flat")
    assert measure_one(Jacobian(), subject(model=flat)).value == 0
    assert measure_one(Jacobian("diff"), subject(model=flat)).value == 0
    with pytest.raises(NotApplicable, match="the value on the source is 0"):
        measure_one(Jacobian("ratio"), subject(model=flat))


def test_invalid_settings_raise() -> None:
    unknown: Any = "square"
    with pytest.raises(InputError, match="got 'square'"):
        Jacobian(unknown)
    with pytest.raises(InputError, match="rows must be at least 1; got 0"):
        Jacobian(rows=0)
    with pytest.raises(InputError, match="memory must be at least 1; got -1"):
        Jacobian(memory=-1)


def test_names_are_those_of_the_paper() -> None:
    labels = ["Jacobian", "Jacobian-Diff", "Jacobian-Ratio", "Jacobian-Log-Diff"]
    assert [Jacobian(form).label for form in COMPARISON_FORMS] == labels
    assert [Jacobian(form).name for form in COMPARISON_FORMS] == [label.lower() for label in labels]
