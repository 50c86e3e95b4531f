"""Factored gradients give the same inner products as the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from oodometer.core.array_types import Floats
from oodometer.models.introspection.gradient_factors import (
    GradientFactors,
    LayerCall,
    collect_factors,
    gram_matrix,
    inner_products,
)

F64 = torch.float64


def random_call(layer: nn.Module, *shape: int) -> tuple[LayerCall, torch.Tensor]:
    """Return a call of a layer with random rows, and a random gradient of its output."""
    torch.manual_seed(1)
    went = torch.randn(shape, dtype=F64)
    if isinstance(layer, nn.Embedding):
        went = torch.randint(0, layer.num_embeddings, shape)
    out = layer(went)
    return LayerCall(layer, went, out, went._version), torch.randn_like(out)


def literal(call: LayerCall, output_gradient: torch.Tensor) -> Floats:
    """Return the gradients row by row, with respect to all weights of the layer."""
    rows = []
    for row, row_gradient in zip(call.input, output_gradient, strict=True):
        out = call.layer(row[None])
        grads = torch.autograd.grad(out, list(call.layer.parameters()), row_gradient[None])
        rows.append(torch.cat([grad.flatten() for grad in grads]).numpy())
    return np.stack(rows)


def without_bias(layer: nn.Module) -> nn.Module:
    layer.register_parameter("bias", None)
    return layer


LAYERS: list[tuple[nn.Module, tuple[int, ...], int]] = [
    # layer, shape of the input, numbers per row
    (nn.Linear(4, 3), (5, 4), 3 + 5),
    (nn.Linear(4, 3, bias=False), (5, 4), 3 + 4),
    (nn.Linear(9, 8), (5, 2, 9), 2 * 8 + 2 * 9),
    (nn.Linear(3, 2), (5, 2, 2, 3), 3 * 2 + 2),
    (nn.Conv2d(2, 3, 3), (5, 2, 6, 6), 3 * 2 * 9 + 3),
    (nn.Conv2d(9, 8, 3, stride=2, padding=(1, 0), bias=False), (5, 9, 4, 4), 9 * 16 + 8 * 2),
    (nn.Conv2d(9, 8, (2, 3), dilation=2), (5, 9, 4, 5), 9 * 20 + 8 * 2),
    (nn.Conv2d(4, 4, 3, groups=2), (5, 4, 4, 4), 4 * 2 * 9 + 4),
    (nn.Conv2d(2, 2, 3, padding="same"), (5, 2, 4, 4), 2 * 2 * 9 + 2),
    (nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"), (5, 2, 4, 4), 2 * 2 * 9 + 2),
    (nn.Conv1d(2, 3, 3), (5, 2, 6), 3 * 2 * 3 + 3),
    (nn.Conv3d(1, 2, 2), (5, 1, 3, 3, 3), 2 * 8 + 2),
    (nn.GroupNorm(2, 4), (5, 4, 3), 8),
    (nn.LayerNorm(4), (5, 3, 4), 8),
    (nn.BatchNorm1d(3).eval(), (5, 3), 6),
    (nn.BatchNorm2d(3).eval(), (5, 3, 2, 2), 6),
    (without_bias(nn.BatchNorm2d(3).eval()), (5, 3, 2, 2), 3),
    (nn.BatchNorm2d(3, track_running_stats=False).eval(), (5, 3, 2, 2), 6),
    (nn.PReLU(), (5, 3), 1),
    (nn.Embedding(7, 3), (5, 4), 4 * 3 + 4),
    (nn.Embedding(7, 3, padding_idx=2), (5, 4), 4 * 3 + 4),
    (nn.Embedding(3, 2), (5,), 2 + 1),
]


@pytest.mark.parametrize(("layer", "shape", "width"), LAYERS)
def test_inner_products_match_those_of_the_gradients(
    layer: nn.Module, shape: tuple[int, ...], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d) and layer.running_var is not None:
        assert layer.running_mean is not None
        layer.running_mean += torch.arange(3.0)
        layer.running_var *= torch.arange(1.0, 4.0)
    call, output_gradient = random_call(layer.double(), *shape)
    expected = literal(call, output_gradient) @ literal(call, output_gradient).T
    gradients = collect_factors(call, output_gradient)
    assert gradients.width == width
    np.testing.assert_allclose(gram_matrix({"layer": gradients}), expected, rtol=1e-10, atol=1e-12)
    for setting, small in (
        ("PRODUCT_COLUMNS", 2),
        ("MATERIALIZE_ROWS", 2),
        ("MATERIALIZE_BYTES", 5 * 100),
    ):
        monkeypatch.setattr(f"oodometer.models.introspection.gradient_factors.{setting}", small)
    halves = [GradientFactors(tuple(part[rows] for part in gradients.factors), gradients.layer) for rows in (slice(2), slice(2, 5))]  # fmt: skip
    stored = [half.to_cpu(slice(None)) for half in halves]
    np.testing.assert_allclose(inner_products(stored), expected, rtol=1e-10, atol=1e-12)


def test_chunks_may_have_different_text_lengths() -> None:
    for layer in (nn.Embedding(5, 3).double(), nn.Linear(9, 8).double()):
        shapes = ((2, 4), (3, 2)) if isinstance(layer, nn.Embedding) else ((2, 2, 9), (3, 1, 9))
        calls = [random_call(layer, *shape) for shape in shapes]
        rows = np.concatenate([literal(*call) for call in calls])
        first = collect_factors(*calls[0])
        assert first.layer is layer
        chunks = [collect_factors(*call, first) for call in calls]
        np.testing.assert_allclose(inner_products(chunks), rows @ rows.T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sizes", [(4, 9), (9, 4)])
def test_all_chunks_have_the_form_of_the_template(sizes: tuple[int, int]) -> None:
    """For small images, the factors of a convolution are smaller than its gradients."""
    layer = nn.Conv2d(4, 8, 3).double()
    calls = [random_call(layer, 2, 4, size, size) for size in sizes]
    assert [collect_factors(*call).layer is layer for call in calls] == [
        size == 4 for size in sizes
    ]
    chunks = [collect_factors(*call, collect_factors(*calls[0])) for call in calls]
    assert {chunk.layer is layer for chunk in chunks} == {sizes[0] == 4}
    rows = np.concatenate([literal(*call) for call in calls])
    np.testing.assert_allclose(inner_products(chunks), rows @ rows.T, rtol=1e-10, atol=1e-12)


class Scaled(nn.Linear):
    """Layer with further arguments besides the tensor."""

    def forward(self, went: torch.Tensor, by: float = 1.0, *, shift: float = 0.0) -> torch.Tensor:
        return super().forward(went) * by + shift * self.weight.sum()


def test_custom_layers_are_called_with_their_arguments() -> None:
    call, output_gradient = random_call(Scaled(3, 2).double(), 4, 3)
    call = call._replace(other_args=(2.0,), kwargs={"shift": 3.0})
    rows = []
    for row, row_gradient in zip(call.input, output_gradient, strict=True):
        out = call.layer(row[None], 2.0, shift=3.0)
        grads = torch.autograd.grad(out, list(call.layer.parameters()), row_gradient[None])
        rows.append(torch.cat([grad.flatten() for grad in grads]).numpy())
    np.testing.assert_allclose(
        gram_matrix({"": collect_factors(call, output_gradient)}), np.stack(rows) @ np.stack(rows).T
    )


def test_reparametrized_weights_use_vector_jacobian_products() -> None:
    layer: Any = nn.Linear(3, 2).double()
    layer.weight_half = nn.Parameter(layer.weight.detach() / 2)
    del layer.weight
    layer.register_forward_pre_hook(
        lambda module, _: setattr(module, "weight", 2 * module.weight_half)
    )
    call, output_gradient = random_call(layer, 4, 3)
    gradients = collect_factors(call, output_gradient)
    assert len(gradients.factors) == 1
    expected = literal(call, output_gradient)
    np.testing.assert_allclose(gram_matrix({"": gradients}), expected @ expected.T, rtol=1e-10)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 9), st.integers(0, 99))
def test_inner_products_do_not_depend_on_the_chunks(
    n: int, width: int, cut: int, seed: int
) -> None:
    rows = torch.from_numpy(np.random.default_rng(seed).normal(size=(n, width)))
    cut, parts = min(cut, width), (rows[:1], rows[1:])
    left, right = ([GradientFactors((part,)).to_cpu(some) for part in parts] for some in (slice(cut), slice(cut, None)))  # fmt: skip
    np.testing.assert_allclose(
        inner_products(left) + inner_products(right), (rows @ rows.T).numpy(), atol=1e-12
    )


def test_to_cpu_frees_the_other_columns() -> None:
    rows = torch.zeros(2, 1000)
    assert (
        GradientFactors((rows,)).to_cpu(slice(0, 3)).factors[0].untyped_storage().nbytes()
        == 2 * 3 * 4
    )
