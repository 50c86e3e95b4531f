"""Gram matrices and Jacobian norms against numpy, loops, and themselves in smaller pieces."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.inputs import Inputs
from oodometer.models import TorchModel
from oodometer.models.introspection.derivatives import (
    GradientComputation,
    InputsWithClasses,
    gradient_gram,
    jacobian_norms,
    sample_classes,
    saved_tensor_bytes,
    split_units,
)
from oodometer.models.introspection.gradient_factors import GradientFactors
from oodometer.models.introspection.network import Network
from oodometer.models.introspection.per_example_gradients import by_loop, by_vmap
from oodometer.testing.measures import network_state, toy_network

RNG = np.random.default_rng(5)
IMAGES = RNG.integers(0, 256, (11, 8, 8, 3), dtype=np.uint8)
VECTORS = RNG.normal(size=(11, 6))
CLASSES = RNG.integers(0, 3, 11)


def convolutional() -> nn.Module:
    torch.manual_seed(2)
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 24, 3, stride=2),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(24, 3),
    )
    with torch.no_grad():
        module.train()(torch.rand(20, 3, 8, 8))
    return module.double()


def opened(module: nn.Module, **settings: Any) -> Network:
    return TorchModel(module, name="net", **settings).torch_network()


def softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def looped_gram(network: Network, inputs: Inputs, classes: Ints) -> Floats:
    """All gradients by .backward(), one row after the other, and their inner products."""
    module, rows = copy.deepcopy(network.module), []
    for i, y in enumerate(classes):
        module.zero_grad(set_to_none=True)
        placed, named, _ = network.normalize(network.to_arguments(inputs[i : i + 1]))
        torch.autograd.backward(torch.log_softmax(module(*placed, **named), dim=1)[0, int(y)])
        grads = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in module.parameters()]
        rows.append(np.concatenate([grad.numpy().ravel() for grad in grads]))
    return np.asarray(np.stack(rows) @ np.stack(rows).T)


def looped_norms(network: Network, inputs: Inputs) -> Floats:
    """Every row's whole Jacobian."""
    found = []
    for i in range(len(inputs)):
        (shown,) = network.to_arguments(inputs[i : i + 1]).args

        def probs(x: torch.Tensor) -> torch.Tensor:
            made: torch.Tensor = network.probs(network.to_arguments(inputs[:1])._replace(args=(x,)))
            return made

        jacobian = torch.autograd.functional.jacobian(probs, shown)  # type: ignore[no-untyped-call]
        found.append(float(jacobian.square().sum().sqrt()))
    return np.array(found)


# Softmax regression by hand --------------------------------------------------------------------


def regression() -> tuple[Network, Floats, Floats]:
    """The network, W, and its probabilities of VECTORS."""
    torch.manual_seed(0)
    layer = nn.Linear(6, 3).double()
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return opened(nn.Sequential(layer)), weight, softmax(VECTORS @ weight.T + bias)


def test_gradients_of_softmax_regression_are_the_outer_product_of_residual_and_input() -> None:
    network, _, probs = regression()
    residual = np.eye(3)[CLASSES] - probs
    by_hand = np.einsum("nk,nd->nkd", residual, np.column_stack([VECTORS, np.ones(11)]))
    rows = by_hand.reshape(11, -1)
    found = gradient_gram(network, [InputsWithClasses(VECTORS, CLASSES)])
    np.testing.assert_allclose(found.values, rows @ rows.T, rtol=1e-12)
    assert not found.used_loop


def test_the_jacobian_of_softmax_regression_is_that_of_the_softmax_times_the_weights() -> None:
    network, weight, probs = regression()
    by_hand = [np.linalg.norm((np.diag(p) - np.outer(p, p)) @ weight) for p in probs]
    np.testing.assert_allclose(jacobian_norms(network, VECTORS), by_hand, rtol=1e-12)


# Any network -----------------------------------------------------------------------------------

NETWORKS = [(convolutional, IMAGES), (toy_network, VECTORS)]


@pytest.mark.parametrize(("make", "inputs"), NETWORKS)
@pytest.mark.parametrize("batch", [None, 1, 4])
@pytest.mark.parametrize("memory", [2000, 20_000, 2**30])
def test_neither_memory_nor_the_batch_changes_inner_products(
    make: Any, inputs: Inputs, batch: int | None, memory: int
) -> None:
    network = opened(make(), batch_size=batch)
    sides = [InputsWithClasses(inputs[:4], CLASSES[:4]), InputsWithClasses(inputs[4:], CLASSES[4:])]
    found = gradient_gram(network, sides, memory_bytes=memory)
    expected = looped_gram(network, inputs, CLASSES)
    np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-12)
    assert not found.used_loop


@pytest.mark.parametrize("way", [by_loop, by_vmap])
@pytest.mark.parametrize(("memory", "count"), [(20_000, 11), (2**30, 1)])
def test_weights_are_cut_into_pieces_whatever_the_way(
    way: Any, memory: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oodometer.models.introspection.derivatives.choose_method", lambda *_: way)
    network = opened(convolutional())
    side = InputsWithClasses(IMAGES, CLASSES)
    assert len(GradientComputation.from_first_rows(network, [side], memory).split_units()) == count
    found = gradient_gram(network, [side], memory_bytes=memory)
    expected = looped_gram(network, IMAGES, CLASSES)
    np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-12)
    assert found.used_loop == (way is by_loop)


def test_sides_may_be_of_other_sizes() -> None:
    torch.manual_seed(0)
    pooled = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.Conv2d(6, 12, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 3)
    )  # fmt: skip
    network = opened(pooled.double())
    large = RNG.integers(0, 256, (4, 9, 10, 3), dtype=np.uint8)
    found = gradient_gram(
        network, [InputsWithClasses(IMAGES, CLASSES), InputsWithClasses(large, CLASSES[:4])]
    ).values
    first, other = looped_gram(network, IMAGES, CLASSES), looped_gram(network, large, CLASSES[:4])
    np.testing.assert_allclose(found[:11, :11], first, rtol=1e-9)
    np.testing.assert_allclose(found[11:, 11:], other, rtol=1e-9)


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.lists(st.integers(1, 9), min_size=1, max_size=2), min_size=1
    ),
    st.integers(1, 12),
)
def test_pieces_have_every_column_once_and_fit(widths: dict[str, list[int]], most: int) -> None:
    units = {
        name: GradientFactors(tuple(torch.zeros(1, w) for w in ws)) for name, ws in widths.items()
    }
    found = split_units(units, most)
    for name, kept in units.items():
        columns = [c for piece in found if name in piece for c in range(kept.width)[piece[name]]]
        assert columns == list(range(kept.width))
    for piece in found:
        size = sum(len(range(units[name].width)[columns]) for name, columns in piece.items())
        alone = len(piece) == 1 and len(units[next(iter(piece))].factors) == 2
        assert size <= most or alone


@pytest.mark.parametrize(("make", "inputs"), NETWORKS)
@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("memory", [1, 2**30])
def test_jacobian_norms_are_those_of_the_whole_jacobian(
    make: Any, inputs: Inputs, batch: int | None, memory: int
) -> None:
    network = opened(make(), batch_size=batch)
    found = jacobian_norms(network, inputs, memory_bytes=memory)
    np.testing.assert_allclose(found, looped_norms(network, inputs), rtol=1e-9)


def test_images_are_differentiated_by_pixels_before_scaling() -> None:
    """A network that divides by a deviation of 0.5 is twice as steep as one that does not."""
    torch.manual_seed(0)
    layer = nn.Linear(192, 3).double()
    plain = opened(nn.Sequential(nn.Flatten(), layer))
    half = copy.deepcopy(layer)
    with torch.no_grad():
        half.weight.mul_(0.5)
    scaled = opened(nn.Sequential(nn.Flatten(), half), mean=[0.0] * 3, std=[0.5] * 3)
    np.testing.assert_allclose(jacobian_norms(scaled, IMAGES), jacobian_norms(plain, IMAGES))


class Stepwise(nn.Module):
    """Which way a row takes hangs on the row; and scripted, nothing but a loop can follow it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = [self.one(x[i]) if bool(x[i, 0] > 0) else self.other(x[i]) for i in range(len(x))]
        return torch.stack(rows)


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_can_not_be_batched_is_looped_over(scripted: bool) -> None:
    torch.manual_seed(0)
    module = Stepwise().double().eval()
    plain = opened(module)
    network = opened(torch.jit.script(module) if scripted else module)
    before = network_state(network.module)
    found = gradient_gram(network, [InputsWithClasses(VECTORS, CLASSES)], memory_bytes=2000)
    assert found.used_loop
    expected = looped_gram(plain, VECTORS, CLASSES)
    np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        jacobian_norms(network, VECTORS), looped_norms(plain, VECTORS), rtol=1e-9
    )
    assert network_state(network.module) == before


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_the_network_is_left_as_it_was_whatever_the_mode(frozen: bool, mode: Any) -> None:
    network, expected = opened(convolutional()), opened(convolutional())
    network.module.requires_grad_(not frozen)
    before = network_state(network.module)
    with mode():
        classes = sample_classes(network, IMAGES, np.full(11, 0.5))
        found = gradient_gram(network, [InputsWithClasses(IMAGES, classes)]).values
        norms = jacobian_norms(network, IMAGES)
    np.testing.assert_allclose(found, looped_gram(expected, IMAGES, classes), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(norms, looped_norms(expected, IMAGES), rtol=1e-9)
    assert network_state(network.module) == before


def test_probabilities_are_taken_for_what_they_are() -> None:
    module = nn.Sequential(convolutional(), nn.Softmax(dim=1))
    said, logits = opened(module, outputs="probs"), opened(module[0])
    side = InputsWithClasses(IMAGES, CLASSES)
    np.testing.assert_allclose(
        gradient_gram(said, [side]).values, gradient_gram(logits, [side]).values, rtol=1e-6
    )
    np.testing.assert_allclose(jacobian_norms(said, IMAGES), jacobian_norms(logits, IMAGES))


# Classes ---------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=11, max_size=11))
def test_a_class_is_the_first_whose_sum_passes_the_draw(uniforms: list[float]) -> None:
    network, _, probs = regression()
    found = sample_classes(network, VECTORS, np.array(uniforms))
    for row, y, u in zip(probs, found, uniforms, strict=True):
        assert row[:y].sum() <= u + 1e-12
        assert row[: y + 1].sum() >= u - 1e-12


def test_classes_are_drawn_as_often_as_the_network_says() -> None:
    network, _, probs = regression()
    many = np.repeat(VECTORS[:1], 4000, axis=0)
    uniforms = (np.arange(4000) + 0.5) / 4000
    shares = np.bincount(sample_classes(network, many, uniforms), minlength=3) / 4000
    np.testing.assert_allclose(shares, probs[0], atol=1e-3)


# Refusals and memory ---------------------------------------------------------------------------


def test_tokens_have_no_jacobian() -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.EmbeddingBag(9, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.words(x)
            return found

    network = opened(Bag(), prepare=lambda texts: torch.tensor([[len(t), 1] for t in texts]))
    with pytest.raises(NotApplicable, match="takes words or several tensors"):
        jacobian_norms(network, ["one", "three"])
    found = gradient_gram(network, [InputsWithClasses(["one", "three"], np.array([0, 1]))]).values
    np.testing.assert_allclose(
        found, looped_gram(network, ["one", "three"], np.array([0, 1])), rtol=1e-5
    )


class Rounded(nn.Module):
    """Steps have no slope."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.round(self.layer(x.detach())).detach()


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no way through\nand more lines")


def test_what_can_not_be_differentiated_is_refused_in_one_line() -> None:
    side = InputsWithClasses(VECTORS, CLASSES)
    with pytest.raises(NotApplicable, match="by any derivative"):
        jacobian_norms(opened(Rounded()), VECTORS)
    with pytest.raises(NotApplicable, match="gradients can't be computed: element 0"):
        gradient_gram(opened(Rounded()), [side])
    with pytest.raises(NotApplicable, match=r"gradients can't be computed: no way through$"):
        gradient_gram(opened(Failing()), [side])
    with pytest.raises(NotApplicable, match="'net' has no weights"):
        gradient_gram(opened(nn.Sequential(nn.ReLU())), [side])
    with pytest.raises(InputError, match="takes tensors, not text"):
        jacobian_norms(opened(nn.Sequential(nn.Linear(6, 3))), ["a text"])
    broken = nn.Linear(6, 3)
    with torch.no_grad():
        broken.weight.fill_(float("nan"))
    with pytest.raises(NotApplicable, match="probabilities that are not finite"):
        sample_classes(opened(nn.Sequential(broken)), VECTORS, np.full(11, 0.5))


def test_what_torch_saves_is_counted_without_the_weights() -> None:
    network = opened(nn.Sequential(nn.Linear(6, 100), nn.ReLU(), nn.Linear(100, 3)))
    one = network.to_arguments(VECTORS[:1])
    # What goes into either layer (the second is also what the ReLU keeps), and the softmax.
    assert saved_tensor_bytes(network, one) == 4 * (6 + 100 + 3)
