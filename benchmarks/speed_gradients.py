"""CPU time of per-example gradients and Jacobian norms compared with a loop over examples.

The loop does one forward and one backward pass per example with torch.autograd. Each ratio has a
bound; the script exits with 1 if one is missed or if the numbers differ. Run: make bench
"""

from __future__ import annotations

import os

# One thread for both, because CPU times are compared. Read when numpy and torch are imported.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import resource
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks._results import machine_facts, markdown_table, write_results
from oodometer.core.array_types import Array, Floats
from oodometer.models import TorchModel
from oodometer.models.introspection.derivatives import (
    InputsWithClasses,
    gradient_gram,
    jacobian_norms,
    sample_classes,
)
from oodometer.models.introspection.gradient_factors import materialize
from oodometer.models.introspection.network import Network
from oodometer.models.introspection.per_example_gradients import by_layers

N, N_JACOBIAN, K, ROUNDS = 512, 128, 10, 5
BOUND, JACOBIAN_BOUND = 5.0, 3.0
MEMORY, MEMORY_BOUND = 2**28, 1.5
CLOSE = 1e-3


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, K)
    )  # fmt: skip


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, K),
    )  # fmt: skip


def normed() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.5), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, K),
    )  # fmt: skip


class Block(nn.Module):
    """Residual block: two convolutions and a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output = self.way(x)
        output += self.short(x)
        return torch.relu_(output)


def residual() -> nn.Module:
    widths = (64, 64, 128, 256, 512)
    blocks = [Block(widths[i], widths[i + 1], 1 if i == 0 else 2) for i in range(4)]
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, K))
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(2), *blocks, *head)


def opened(make: Callable[[], nn.Module]) -> Network:
    torch.manual_seed(0)
    return TorchModel(make(), name=make.__name__, device="cpu").torch_network()


def looped_gradients(network: Network, images: Array, classes: Array) -> torch.Tensor:
    """Return all gradients, shape (n, weights), without their inner products."""
    module, weights, rows = network.module, list(network.module.parameters()), []
    (shown,) = network.to_arguments(images).args
    for i in range(len(images)):
        said = torch.log_softmax(module(shown[i : i + 1]), dim=1)[0, int(classes[i])]
        grads = torch.autograd.grad(said, weights)
        rows.append(torch.cat([grad.flatten() for grad in grads]))
    return torch.stack(rows)


def our_gradients(network: Network, images: Array, classes: Array) -> None:
    """Compute the gradients only: linear layers as factors, convolutions materialized."""
    for some in _batches(images):
        shown = network.to_arguments(images[some])
        found = by_layers(network, shown, torch.from_numpy(classes[some]))
        for (back, *went), layer in found.values():
            _ = None if layer is None else materialize(layer, went[0], back)


def looped_norms(network: Network, images: Array) -> Floats:
    found = np.empty(len(images))
    (shown,) = network.to_arguments(images).args
    for i in range(len(images)):
        x = shown[i : i + 1].clone().requires_grad_()
        probs = torch.softmax(network.module(x), dim=1)[0]
        rows = [torch.autograd.grad(probs[j], x, retain_graph=True)[0] for j in range(K)]
        found[i] = float(torch.stack(rows).norm())
    return found


def cpu(*works: Callable[[], Any]) -> list[float]:
    """Return the least CPU time of each computation; they run in turns, so that load affects all."""
    times = [[0.0] * ROUNDS for _ in works]
    for turn in range(ROUNDS):
        for place, work in enumerate(works):
            began = time.process_time()
            work()
            times[place][turn] = time.process_time() - began
    return [min(taken) for taken in times]


def whole_pass(network: Network, images: Array, classes: Array) -> None:
    """Run one forward and one backward pass per batch, which gives only the sum of the gradients."""
    for some in _batches(images):
        said = torch.log_softmax(network.logits(network.to_arguments(images[some])), dim=1)
        total = said[torch.arange(len(some)), torch.from_numpy(classes[some])].sum()
        torch.autograd.grad(total, list(network.module.parameters()))


def _batches(images: Array) -> list[Array]:
    return np.array_split(np.arange(len(images)), len(images) // 64)


class Row(NamedTuple):
    """Ratio with its bound, the relative error, and the ratios without products and to a bare pass."""

    name: str
    ratio: float
    bound: float
    error: float
    alone: float | None = None
    bare: float | None = None

    @property
    def kept(self) -> bool:
        return self.ratio >= self.bound and self.error <= CLOSE


def gradients(network: Network, images: Array) -> Row:
    classes = sample_classes(network, images, np.random.default_rng(1).uniform(size=N))
    side, rows = InputsWithClasses(images, classes), looped_gradients(network, images, classes)
    expected = (rows.double() @ rows.double().T).numpy()
    error = np.abs(gradient_gram(network, [side]).values - expected).max() / expected.max()
    loop, products, ours, alone, bare = cpu(
        lambda: looped_gradients(network, images, classes),
        lambda: rows @ rows.T,
        lambda: gradient_gram(network, [side]),
        lambda: our_gradients(network, images, classes),
        lambda: whole_pass(network, images, classes),
    )
    name, ratio = f"{_named(network)}: gradients", (loop + products) / ours
    return Row(name, ratio, BOUND, error, loop / alone, loop / bare)


def jacobians(network: Network, images: Array) -> Row:
    norms = looped_norms(network, images)
    error = np.abs(jacobian_norms(network, images) - norms).max() / norms.max()
    loop, ours = cpu(lambda: looped_norms(network, images), lambda: jacobian_norms(network, images))
    return Row(f"{_named(network)}: Jacobian norms", loop / ours, JACOBIAN_BOUND, error)


def _named(network: Network) -> str:
    return f"{network.name}, {sum(part.numel() for part in network.weights.values()):,} weights"


def memory_used() -> float:
    """Return the peak of additional memory as a share of the allowed memory."""
    network = opened(residual)
    images = np.random.default_rng(2).integers(0, 256, (64, 96, 96, 3), dtype=np.uint8)
    classes = sample_classes(network, images, np.full(len(images), 0.5))
    gradient_gram(network, [InputsWithClasses(images[:2], classes[:2])], memory_bytes=2**20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gradient_gram(network, [InputsWithClasses(images, classes)], memory_bytes=MEMORY)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / MEMORY


def main() -> int:
    torch.set_num_threads(1)
    used = memory_used()
    images = np.random.default_rng(0).integers(0, 256, (N, 28, 28), dtype=np.uint8)
    networks = [opened(make) for make in (perceptron, lenet, normed)]
    rows = [gradients(network, images) for network in networks]
    rows += [jacobians(network, images[:N_JACOBIAN]) for network in networks]
    table = markdown_table(
        (
            "CPU time: loop over examples / ours",
            "ratio",
            "bound",
            "gradients only",
            "bare",
            "error",
            "kept",
        ),
        [
            (
                row.name,
                f"{row.ratio:.1f}",
                f"≥ {row.bound:g}",
                "" if row.alone is None else f"{row.alone:.1f}",
                "" if row.bare is None else f"{row.bare:.1f}",
                f"{row.error:.0e}",
                "yes" if row.kept else "NO",
            )
            for row in rows
        ],
    )
    note = (
        f"One thread. {N} images of 28 x 28 for gradients, {N_JACOBIAN} for Jacobian norms, {K} "
        "classes. Both sides compute the inner products of all gradients; ours includes the choice of "
        "the algorithm and its check. Gradients only: without inner products. Bare: the loop compared "
        "with one backward pass per 64 rows, which gives no per-example gradients and is an upper limit "
        "of what batching can gain.\n\n"
        f"A residual network of {sum(p.numel() for p in residual().parameters()):,} weights, 64 images "
        f"of 96 x 96, {MEMORY >> 20} MB allowed: the peak is {used:.2f} of that "
        f"(bound {MEMORY_BOUND:g})."
    )
    write_results("speed_gradients", f"{table}\n\n{note}\n\n{machine_facts()}")
    return 0 if used <= MEMORY_BOUND and all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
