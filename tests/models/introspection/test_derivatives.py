"""Gram matrices and Jacobian norms against numpy, loops, and smaller memory limits."""

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
    """Return inner products of gradients computed row by row with .backward()."""
    module, rows = copy.deepcopy(network.module), []
    for i, y in enumerate(classes):
        module.zero_grad(set_to_none=True)
        placed, named, _ = network.normalize(network.to_arguments(inputs[i : i + 1]))
        torch.autograd.backward(torch.log_softmax(module(*placed, **named), dim=1)[0, int(y)])
        grads = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in module.parameters()]
        rows.append(np.concatenate([grad.numpy().ravel() for grad in grads]))
    return np.asarray(np.stack(rows) @ np.stack(rows).T)


def looped_norms(network: Network, inputs: Inputs) -> Floats:
    """Return the norm of the full Jacobian, row by row."""
    result = []
    for i in range(len(inputs)):
        (tensor,) = network.to_arguments(inputs[i : i + 1]).args

        def probs(x: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = network.probs(
                network.to_arguments(inputs[:1])._replace(args=(x,))
            )
            return output

        jacobian = torch.autograd.functional.jacobian(probs, tensor)  # type: ignore[no-untyped-call]
        result.append(float(jacobian.square().sum().sqrt()))
    return np.array(result)


# Softmax regression by hand --------------------------------------------------------------------


def regression() -> tuple[Network, Floats, Floats]:
    """Return a softmax regression, its weights W, and its probabilities on VECTORS."""
    torch.manual_seed(0)
    layer = nn.Linear(6, 3).double()
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return opened(nn.Sequential(layer)), weight, softmax(VECTORS @ weight.T + bias)


def test_gradients_of_softmax_regression_are_residual_times_input() -> None:
    network, _, probs = regression()
    residual = np.eye(3)[CLASSES] - probs
    by_hand = np.einsum("nk,nd->nkd", residual, np.column_stack([VECTORS, np.ones(11)]))
    rows = by_hand.reshape(11, -1)
    result = gradient_gram(network, [InputsWithClasses(VECTORS, CLASSES)])
    np.testing.assert_allclose(result.values, rows @ rows.T, rtol=1e-12)
    assert not result.used_loop


def test_jacobian_of_softmax_regression_is_softmax_jacobian_times_weights() -> None:
    network, weight, probs = regression()
    by_hand = [np.linalg.norm((np.diag(p) - np.outer(p, p)) @ weight) for p in probs]
    np.testing.assert_allclose(jacobian_norms(network, VECTORS), by_hand, rtol=1e-12)


# Any network -----------------------------------------------------------------------------------

NETWORKS = [(convolutional, IMAGES), (toy_network, VECTORS)]


@pytest.mark.parametrize(("make", "inputs"), NETWORKS)
@pytest.mark.parametrize("batch", [None, 1, 4])
@pytest.mark.parametrize("memory", [2000, 20_000, 2**30])
def test_memory_and_batch_size_do_not_change_inner_products(
    make: Any, inputs: Inputs, batch: int | None, memory: int
) -> None:
    network = opened(make(), batch_size=batch)
    sides = [InputsWithClasses(inputs[:4], CLASSES[:4]), InputsWithClasses(inputs[4:], CLASSES[4:])]
    result = gradient_gram(network, sides, memory_bytes=memory)
    expected = looped_gram(network, inputs, CLASSES)
    np.testing.assert_allclose(result.values, expected, rtol=1e-9, atol=1e-12)
    assert not result.used_loop


@pytest.mark.parametrize("method", [by_loop, by_vmap])
@pytest.mark.parametrize(("memory", "count"), [(20_000, 11), (2**30, 1)])
def test_units_are_split_by_memory_for_every_method(
    method: Any, memory: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "oodometer.models.introspection.derivatives.choose_method", lambda *_: method
    )
    network = opened(convolutional())
    side = InputsWithClasses(IMAGES, CLASSES)
    assert len(GradientComputation.from_first_rows(network, [side], memory).split_units()) == count
    result = gradient_gram(network, [side], memory_bytes=memory)
    expected = looped_gram(network, IMAGES, CLASSES)
    np.testing.assert_allclose(result.values, expected, rtol=1e-9, atol=1e-12)
    assert result.used_loop == (method is by_loop)


def test_sides_may_have_different_image_sizes() -> None:
    torch.manual_seed(0)
    pooled = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.Conv2d(6, 12, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 3)
    )  # fmt: skip
    network = opened(pooled.double())
    large = RNG.integers(0, 256, (4, 9, 10, 3), dtype=np.uint8)
    result = gradient_gram(
        network, [InputsWithClasses(IMAGES, CLASSES), InputsWithClasses(large, CLASSES[:4])]
    ).values
    first, other = looped_gram(network, IMAGES, CLASSES), looped_gram(network, large, CLASSES[:4])
    np.testing.assert_allclose(result[:11, :11], first, rtol=1e-9)
    np.testing.assert_allclose(result[11:, 11:], other, rtol=1e-9)


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.lists(st.integers(1, 9), min_size=1, max_size=2), min_size=1
    ),
    st.integers(1, 12),
)
def test_split_units_covers_every_column_once_within_the_limit(
    widths: dict[str, list[int]], max_numbers: int
) -> None:
    units = {
        name: GradientFactors(tuple(torch.zeros(1, w) for w in ws)) for name, ws in widths.items()
    }
    result = split_units(units, max_numbers)
    for name, factors in units.items():
        columns = [
            c for piece in result if name in piece for c in range(factors.width)[piece[name]]
        ]
        assert columns == list(range(factors.width))
    for piece in result:
        size = sum(len(range(units[name].width)[columns]) for name, columns in piece.items())
        alone = len(piece) == 1 and len(units[next(iter(piece))].factors) == 2
        assert size <= max_numbers or alone


@pytest.mark.parametrize(("make", "inputs"), NETWORKS)
@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("memory", [1, 2**30])
def test_jacobian_norms_match_the_full_jacobian(
    make: Any, inputs: Inputs, batch: int | None, memory: int
) -> None:
    network = opened(make(), batch_size=batch)
    result = jacobian_norms(network, inputs, memory_bytes=memory)
    np.testing.assert_allclose(result, looped_norms(network, inputs), rtol=1e-9)


def test_images_are_differentiated_before_normalization() -> None:
    """Dividing by a standard deviation of 0.5 doubles the derivative."""
    torch.manual_seed(0)
    layer = nn.Linear(192, 3).double()
    plain = opened(nn.Sequential(nn.Flatten(), layer))
    half = copy.deepcopy(layer)
    with torch.no_grad():
        half.weight.mul_(0.5)
    scaled = opened(nn.Sequential(nn.Flatten(), half), mean=[0.0] * 3, std=[0.5] * 3)
    np.testing.assert_allclose(jacobian_norms(scaled, IMAGES), jacobian_norms(plain, IMAGES))


class Stepwise(nn.Module):
    """Network whose branch depends on the row; scripted, only the loop supports it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = [self.one(x[i]) if bool(x[i, 0] > 0) else self.other(x[i]) for i in range(len(x))]
        return torch.stack(rows)


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_networks_that_cannot_be_batched_use_the_loop(scripted: bool) -> None:
    torch.manual_seed(0)
    module = Stepwise().double().eval()
    plain = opened(module)
    network = opened(torch.jit.script(module) if scripted else module)
    before = network_state(network.module)
    result = gradient_gram(network, [InputsWithClasses(VECTORS, CLASSES)], memory_bytes=2000)
    assert result.used_loop
    expected = looped_gram(plain, VECTORS, CLASSES)
    np.testing.assert_allclose(result.values, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        jacobian_norms(network, VECTORS), looped_norms(plain, VECTORS), rtol=1e-9
    )
    assert network_state(network.module) == before


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_network_is_unchanged_in_every_mode(frozen: bool, mode: Any) -> None:
    network, expected = opened(convolutional()), opened(convolutional())
    network.module.requires_grad_(not frozen)
    before = network_state(network.module)
    with mode():
        classes = sample_classes(network, IMAGES, np.full(11, 0.5))
        result = gradient_gram(network, [InputsWithClasses(IMAGES, classes)]).values
        norms = jacobian_norms(network, IMAGES)
    np.testing.assert_allclose(
        result, looped_gram(expected, IMAGES, classes), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(norms, looped_norms(expected, IMAGES), rtol=1e-9)
    assert network_state(network.module) == before


def test_probability_outputs_give_the_same_as_logits() -> None:
    module = nn.Sequential(convolutional(), nn.Softmax(dim=1))
    probs, logits = opened(module, outputs="probs"), opened(module[0])
    side = InputsWithClasses(IMAGES, CLASSES)
    np.testing.assert_allclose(
        gradient_gram(probs, [side]).values, gradient_gram(logits, [side]).values, rtol=1e-6
    )
    np.testing.assert_allclose(jacobian_norms(probs, IMAGES), jacobian_norms(logits, IMAGES))


# Classes ---------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=11, max_size=11))
def test_sampled_class_is_the_first_whose_cumulative_probability_exceeds_u(
    uniforms: list[float],
) -> None:
    network, _, probs = regression()
    result = sample_classes(network, VECTORS, np.array(uniforms))
    for row, y, u in zip(probs, result, uniforms, strict=True):
        assert row[:y].sum() <= u + 1e-12
        assert row[: y + 1].sum() >= u - 1e-12


def test_class_frequencies_match_the_probabilities() -> None:
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
            result: torch.Tensor = self.words(x)
            return result

    network = opened(Bag(), prepare=lambda texts: torch.tensor([[len(t), 1] for t in texts]))
    with pytest.raises(NotApplicable, match="takes tokens or several tensors"):
        jacobian_norms(network, ["one", "three"])
    result = gradient_gram(network, [InputsWithClasses(["one", "three"], np.array([0, 1]))]).values
    np.testing.assert_allclose(
        result, looped_gram(network, ["one", "three"], np.array([0, 1])), rtol=1e-5
    )


class Rounded(nn.Module):
    """Step function, whose gradient is 0 or undefined."""

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
        raise RuntimeError("no method through\nand more lines")


def test_undifferentiable_networks_raise_one_line() -> None:
    side = InputsWithClasses(VECTORS, CLASSES)
    with pytest.raises(NotApplicable, match="not differentiable with respect to its inputs"):
        jacobian_norms(opened(Rounded()), VECTORS)
    with pytest.raises(NotApplicable, match="gradients cannot be computed: element 0"):
        gradient_gram(opened(Rounded()), [side])
    with pytest.raises(NotApplicable, match=r"gradients cannot be computed: no method through$"):
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


def test_saved_tensor_bytes_exclude_the_weights() -> None:
    network = opened(nn.Sequential(nn.Linear(6, 100), nn.ReLU(), nn.Linear(100, 3)))
    row = network.to_arguments(VECTORS[:1])
    # The inputs of both layers (the second is also saved by the ReLU), and the softmax.
    assert saved_tensor_bytes(network, row) == 4 * (6 + 100 + 3)
