"""Methods for per-example gradients against a plain loop, on the modules they support."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from oodometer.core.array_types import Floats
from oodometer.models import TorchModel
from oodometer.models.introspection.gradient_factors import gram_matrix
from oodometer.models.introspection.network import ForwardArguments, Network
from oodometer.models.introspection.per_example_gradients import (
    GradientMethod,
    by_layers,
    by_loop,
    by_vmap,
    choose_method,
    require_gradients,
)
from oodometer.testing.measures import network_state

K = 3


def flat() -> nn.Module:
    return nn.Sequential(nn.Linear(6, K))


def normed() -> nn.Module:
    return nn.Sequential(
        nn.ReLU(inplace=True),
        nn.Linear(6, 5, bias=False),
        nn.BatchNorm1d(5),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(5, 4),
        nn.LayerNorm(4),
        nn.PReLU(),
        nn.Linear(4, K),
    )


def deep() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 16, 3, stride=2, dilation=2, padding=2, bias=False),
        nn.GroupNorm(2, 16),
        nn.ReLU(inplace=True),
        nn.Conv2d(16, 4, 1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(16, K),
    )


def odd() -> nn.Module:
    """Return convolutions that are not unfolded."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, groups=3),
        nn.Conv2d(6, 4, 3, padding="same"),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"),
        nn.ConvTranspose2d(4, 2, 2),
        nn.Flatten(2),
        nn.Linear(36, 5),
        nn.Conv1d(2, 2, 3),
        nn.Flatten(),
        nn.Linear(6, K),
    )


class Residual(nn.Module):
    """Block that adds in place, and a weight that belongs to no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.head = nn.Linear(3, K)
        self.scale = nn.Parameter(torch.tensor([0.5, 1.5, 2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.first(x))
        y += x
        result: torch.Tensor = self.head(torch.relu_(y).mean(dim=(2, 3)) * self.scale)
        return result


class Twice(nn.Module):
    """Network with a layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(6, K)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(torch.tanh(self.layer(torch.tanh(self.layer(x)))))
        return result


class Tied(nn.Module):
    """Network with two layers that share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, K)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))
        return result


class Behind(nn.Module):
    """Network that uses a layer's weight outside of the layer too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(6, 6), nn.Linear(6, K)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(torch.tanh(self.layer(x)) @ self.layer.weight)
        return result


class Overwritten(nn.Module):
    """Network that overwrites a layer's input where autograd does not need it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(6, 6), nn.Linear(6, K)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        y = self.layer(x)
        if not torch.is_grad_enabled() or not self.layer.weight.requires_grad:
            x.zero_()
        result: torch.Tensor = self.head(y)
        return result


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.cell, self.head = kind(3, 4, batch_first=True), nn.Linear(4, K)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.cell(x.reshape(len(x), 2, 3))[0][:, -1])
        return result


class Branching(nn.Module):
    """Network whose layer depends on the row."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, K), nn.Linear(6, K)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = [self.one(row) if row.sum() > 0 else self.other(row) for row in x]
        return torch.stack(rows)


class Crossed(nn.Module):
    """Network whose rows affect each other: a batch norm without running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm2d(3, track_running_stats=False), nn.Linear(3, K)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.norm(x).square().amax(dim=(2, 3)))
        return result


class Words(nn.Module):
    """Network of tokens with a mask, and of positions that all inputs share."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 6, padding_idx=0), nn.Embedding(9, 6)
        self.query, self.key, self.norm = nn.Linear(6, 6), nn.Linear(6, 6), nn.LayerNorm(6)
        self.wide, self.head = nn.Linear(6, 40, bias=False), nn.Linear(40, K)

    def forward(self, *, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1])[None])
        attention = self.query(x) @ self.key(x).transpose(1, 2) + torch.log(mask[:, None].to(x))
        x = torch.tanh(self.wide(self.norm(x + attention.softmax(dim=-1) @ x)))
        weight = mask[..., None].to(x)
        result: torch.Tensor = self.head((x * weight).sum(dim=1) / weight.sum(dim=1))
        return result


class Attending(Words):
    """Network with a layer of several tensors, whose gradient vmap does not support."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)

    def forward(self, *, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        x = self.attention(x, x, x, key_padding_mask=mask == 0, need_weights=False)[0]
        result: torch.Tensor = self.head(self.wide(x[:, 0]))
        return result


def network(make: Callable[[], nn.Module], *, double: bool = True, **settings: Any) -> Network:
    """Return a network with random running statistics, in evaluation mode."""
    torch.manual_seed(3)
    module = make()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d) and part.running_mean is not None:
            part.running_mean.uniform_(-0.3, 0.3)
            assert part.running_var is not None
            part.running_var.uniform_(0.5, 2.0)
    return TorchModel(module.double() if double else module, name="net", **settings).torch_network()


def vectors(n: int = 5) -> ForwardArguments:
    return ForwardArguments((torch.from_numpy(np.random.default_rng(0).normal(size=(n, 6))),), {})


def images(n: int = 5) -> ForwardArguments:
    return ForwardArguments(
        (torch.from_numpy(np.random.default_rng(0).normal(size=(n, 3, 7, 7))),), {}
    )


def tokens() -> ForwardArguments:
    rng = np.random.default_rng(0)
    mask = torch.from_numpy((np.arange(6) < rng.integers(1, 7, 5)[:, None]).astype(int))
    ids = torch.from_numpy(rng.integers(1, 11, (5, 6))) * mask
    return ForwardArguments((), {"ids": ids, "mask": mask})


def classes(n: int = 5) -> torch.Tensor:
    return torch.arange(n) % K


def literal(subject: Network, arguments: ForwardArguments, chosen: torch.Tensor) -> Floats:
    """Return inner products of gradients by .backward() on a copy of the module, row by row."""
    module = copy.deepcopy(subject.module)
    rows = []
    for i in range(len(chosen)):
        module.zero_grad(set_to_none=True)
        placed, named, _ = arguments.rows(slice(i, i + 1))
        logits = module(*(part.clone() for part in placed), **named)
        torch.autograd.backward(torch.log_softmax(logits, dim=1)[0, chosen[i]])
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters()]
        rows.append(torch.cat([grad.flatten() for grad in grads]).numpy())
    return np.asarray(np.stack(rows) @ np.stack(rows).T)


CASES: list[tuple[Callable[[], nn.Module], Callable[[], ForwardArguments], GradientMethod]] = [
    (flat, vectors, by_layers),
    (normed, vectors, by_layers),
    (deep, images, by_layers),
    (odd, images, by_layers),
    (Residual, images, by_layers),
    (Twice, vectors, by_vmap),
    (Tied, vectors, by_vmap),
    (Behind, vectors, by_vmap),
    (Crossed, images, by_vmap),
    (Words, tokens, by_layers),
    (Attending, tokens, by_loop),
    (lambda: Recurrent(nn.LSTM), vectors, by_loop),
    (lambda: Recurrent(nn.GRU), vectors, by_loop),
    (Branching, vectors, by_loop),
]


@pytest.mark.parametrize(("make", "make_arguments", "expected"), CASES)
def test_fastest_supported_method_agrees_with_the_loop(
    make: Callable[[], nn.Module],
    make_arguments: Callable[[], ForwardArguments],
    expected: GradientMethod,
) -> None:
    subject = network(make)
    method = choose_method(subject, make_arguments().rows(slice(0, 2)))
    assert method is expected
    result = gram_matrix(method(subject, make_arguments(), classes()))
    np.testing.assert_allclose(
        result, literal(subject, make_arguments(), classes()), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("method", [by_loop, by_vmap, by_layers])
@pytest.mark.parametrize(
    ("make", "make_arguments"), [(normed, vectors), (deep, images), (odd, images), (Words, tokens)]
)
def test_units_add_up_for_every_method(
    method: GradientMethod,
    make: Callable[[], nn.Module],
    make_arguments: Callable[[], ForwardArguments],
) -> None:
    subject = network(make)
    whole = method(subject, make_arguments(), classes())
    one_by_one = {
        name: method(subject, make_arguments(), classes(), {name: factors})[name]
        for name, factors in whole.items()
    }
    expected = literal(subject, make_arguments(), classes())
    np.testing.assert_allclose(gram_matrix(whole), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gram_matrix(one_by_one), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", [by_loop, by_vmap, by_layers])
def test_float32_methods_agree_with_the_loop(method: GradientMethod) -> None:
    subject = network(deep, double=False)
    make_arguments = ForwardArguments((images().args[0].float(),), {})
    result, expected = (
        gram_matrix(compute(subject, make_arguments, classes())) for compute in (method, by_loop)
    )
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * expected.max())


def test_overwritten_layer_inputs_raise() -> None:
    """The layer's input is overwritten where its weights need no gradient."""
    subject = network(Overwritten)
    subject.module.requires_grad_(False)
    with pytest.raises(RuntimeError, match="modified after the call"):
        by_layers(subject, vectors(), classes())
    assert choose_method(subject, vectors(2)) is by_vmap


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("method", [by_loop, by_vmap, by_layers])
def test_network_is_unchanged(method: GradientMethod, frozen: bool) -> None:
    subject = network(normed)
    subject.module.requires_grad_(not frozen)
    before, make_arguments = network_state(subject.module), vectors()
    expected = literal(network(normed), vectors(), classes())
    np.testing.assert_allclose(
        gram_matrix(method(subject, make_arguments, classes())), expected, rtol=1e-9
    )
    assert network_state(subject.module) == before


def test_requires_grad_is_restored_after_errors() -> None:
    subject = network(flat)
    subject.module[0].bias.requires_grad_(False)
    with pytest.raises(ValueError, match="failed"), require_gradients(subject) as weights:
        raise ValueError("failed" if all(part.requires_grad for part in weights.values()) else "")
    assert [part.requires_grad for part in subject.module.parameters()] == [True, False]
    assert all(part.grad is None for part in subject.module.parameters())
