"""Derivatives of a network within a bound of memory: inner products of gradients, Jacobian norms.

The empirical Fisher matrix of n rows is as wide as the network has weights; its eigenvalues, and the
angles between its eigenvectors and those of another, are all in the (n, n) inner products of the
gradients. These add up over groups of weights, so that neither the matrix nor all gradients of
all rows need to be in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.inputs import Inputs, take
from oodometer.core.optional_imports import torch_package
from oodometer.models.introspection.gradient_factors import (
    GradientFactors,
    inner_products,
    to_float64,
)
from oodometer.models.introspection.network import (
    ForwardArguments,
    Network,
    not_applicable_on_error,
)
from oodometer.models.introspection.per_example_gradients import (
    GradientMethod,
    by_loop,
    choose_method,
    require_gradients,
)

# A gigabyte, half of it for what is kept of all rows and half for the rows at work.
MEMORY_BYTES = 2**30


class InputsWithClasses(NamedTuple):
    """Some inputs, and the class of each whose log-probability is differentiated."""

    inputs: Inputs
    classes: Ints


class GradientGram(NamedTuple):
    """Inner products of the gradients of all rows, side by side, and whether rows were looped over."""

    values: Floats
    used_loop: bool


def sample_classes(network: Network, inputs: Inputs, uniforms: Floats) -> Ints:
    """A class a row, drawn from what the network says: the first whose summed probability passes u."""
    torch = torch_package()
    with enable_gradients("classes"), torch.no_grad():
        parts = [network.probs(network.to_arguments(some)) for some in network.batches(inputs)]
        sums = np.cumsum(to_float64(torch.cat(parts)), axis=1)
    if not np.isfinite(sums).all():
        raise NotApplicable("the network gives probabilities that are not finite")
    drawn = (sums <= uniforms[:, None] * sums[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(drawn, sums.shape[1] - 1))


# Gradients by the weights ----------------------------------------------------------------------


def gradient_gram(
    network: Network, sides: Sequence[InputsWithClasses], *, memory_bytes: int = MEMORY_BYTES
) -> GradientGram:
    """Inner products of the gradients of log p(y|x) by all weights, for all rows of all sides."""
    if not network.weights:
        raise NotApplicable(f"{network.name!r} has no weights")
    with enable_gradients("gradients"):
        work = GradientComputation.from_first_rows(network, sides, memory_bytes)
        total = np.asarray(sum(work.inner_products(piece) for piece in work.split_units()))
    if not np.isfinite(total).all():
        raise NotApplicable("the gradients are not finite")
    return GradientGram(total, used_loop=work.method is by_loop)


# Units whose gradients are kept at a time, and which columns of each.
UnitColumns = dict[str, slice]


def split_units(units: Mapping[str, GradientFactors], max_numbers: int) -> list[UnitColumns]:
    """Neighbouring units, of at most `max_numbers` numbers a row together; gradients are cut to that."""
    found: list[UnitColumns] = [{}]
    filled = 0
    for name, kept in units.items():
        # What gradients are made of is smaller, and can't be cut.
        step = max_numbers if len(kept.factors) == 1 else kept.width
        for at in range(0, kept.width, step):
            size = min(step, kept.width - at)
            if found[-1] and filled + size > max_numbers:
                found.append({})
                filled = 0
            found[-1][name] = slice(at, at + size)
            filled += size
    return found


@dataclass(frozen=True, eq=False)
class GradientComputation:
    """How gradients are computed: what is kept of a row of each unit, the bytes that torch keeps."""

    network: Network
    sides: Sequence[InputsWithClasses]
    memory_bytes: int
    method: GradientMethod
    units: Mapping[str, GradientFactors]
    saved_bytes_per_row: int

    @classmethod
    def from_first_rows(
        cls, network: Network, sides: Sequence[InputsWithClasses], memory_bytes: int
    ) -> GradientComputation:
        """The way is chosen by the first two rows, and all are taken to be as large as these."""
        first = next(side for side in sides if len(side.classes))
        few = network.to_arguments(take(first.inputs, slice(0, 2)))
        way, one = choose_method(network, few), few.rows(slice(0, 1))
        units = way(network, one, _class_tensor(first.classes[:1], network))
        return cls(network, sides, memory_bytes, way, units, saved_tensor_bytes(network, one))

    def split_units(self) -> list[UnitColumns]:
        """Units of which half of the memory holds all rows."""
        n = sum(len(side.classes) for side in self.sides)
        return split_units(self.units, max(self.memory_bytes // (2 * self._number_bytes * n), 1))

    def inner_products(self, columns: UnitColumns) -> Floats:
        """The inner products of all rows' gradients by some units."""
        chunks = [
            {name: kept.to_cpu(columns[name]) for name, kept in found.items()}
            for found in self._factor_chunks(columns)
        ]
        return np.asarray(
            sum(inner_products([chunk[name] for chunk in chunks]) for name in columns)
        )

    @property
    def _number_bytes(self) -> int:
        """Bytes of a number."""
        return max(int(part.itemsize) for kept in self.units.values() for part in kept.factors)

    def _factor_chunks(self, columns: UnitColumns) -> Iterator[dict[str, GradientFactors]]:
        """What is kept of some units, for as many rows at a time as half of the memory holds."""
        like = {name: self.units[name] for name in columns}
        numbers = sum(kept.width for kept in like.values())
        # Twice: what comes back takes as much as what went in, and parts of a gradient are joined.
        room = 2 * (self.saved_bytes_per_row + self._number_bytes * numbers)
        for side in self.sides:
            step = rows_in_memory(self.network, side.inputs, self.memory_bytes // 2, room)
            for at in range(0, len(side.classes), step):
                some = slice(at, at + step)
                classes = _class_tensor(side.classes[some], self.network)
                arguments = self.network.to_arguments(take(side.inputs, some))
                yield self.method(self.network, arguments, classes, like)


def _class_tensor(classes: Ints, network: Network) -> Any:
    device = next(iter(network.weights.values())).device
    return torch_package().as_tensor(np.ascontiguousarray(classes, dtype=np.int64)).to(device)


# Memory ----------------------------------------------------------------------------------------


def rows_in_memory(network: Network, inputs: Inputs, memory_bytes: int, row_bytes: int) -> int:
    """As many rows at once as memory holds, and no more than the model is shown."""
    return max(min(memory_bytes // max(row_bytes, 1), network.rows_per_batch(inputs)), 1)


def saved_tensor_bytes(network: Network, row: ForwardArguments) -> int:
    """What torch keeps of the way through the network for the way back, for a row."""
    torch = torch_package()
    held: dict[int, int] = {}

    def pack(part: Any) -> Any:
        storage = part.untyped_storage()
        held[storage.data_ptr()] = storage.nbytes()
        return part

    with require_gradients(network) as own:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda part: part):
            _ = network.probs(row)
        weights = {part.untyped_storage().data_ptr() for part in own.values()}
    return sum(size for place, size in held.items() if place not in weights)


# Probabilities by the inputs -------------------------------------------------------------------


def jacobian_norms(network: Network, inputs: Inputs, *, memory_bytes: int = MEMORY_BYTES) -> Floats:
    """The Frobenius norm of dc/dx of every row: c the probabilities, x the tensor that is shown.

    Images are differentiated by their pixels from 0 to 1, before any scaling by mean and deviation.
    """
    found = np.empty(len(inputs))
    with enable_gradients("derivatives by its inputs"):
        one = network.to_arguments(take(inputs, slice(0, 1)))
        # Beside the inputs a copy, a slope, their sum, and squares as doubles.
        room = 8 * one.single_tensor.nbytes + 2 * saved_tensor_bytes(network, one)
        step = rows_in_memory(network, inputs, memory_bytes, room)
        for at in range(0, len(inputs), step):
            some = slice(at, at + step)
            found[some] = np.sqrt(
                _squared_jacobian_norms(network, network.to_arguments(take(inputs, some)))
            )
    return found


def _squared_jacobian_norms(network: Network, arguments: ForwardArguments) -> Floats:
    """A way back a class, for all rows at once: the sum of a class over rows has all its slopes."""
    torch = torch_package()
    pixels = arguments.single_tensor.detach().requires_grad_()
    probs = network.probs(arguments._replace(args=(pixels,)))
    total, sums = np.zeros(len(pixels)), torch.zeros_like(pixels)
    for column in range(probs.shape[1] - 1):
        slope = None
        if probs.requires_grad:
            sum_of_class = probs[:, column].sum()
            (slope,) = torch.autograd.grad(
                sum_of_class, pixels, retain_graph=True, allow_unused=True
            )
        if slope is None:
            raise NotApplicable(
                "what the network says does not hang on its inputs by any derivative"
            )
        total += _squared_norms(slope)
        sums += slope
    # Probabilities sum to 1, so that of the last class undoes those of all others.
    return total + _squared_norms(sums)


def _squared_norms(slopes: Any) -> Floats:
    return np.asarray((to_float64(slopes.flatten(1)) ** 2).sum(axis=1))


@contextmanager
def enable_gradients(quantity: str) -> Iterator[None]:
    """Gradients are followed here, whatever mode the caller is in; what fails is told in one line."""
    torch = torch_package()
    with not_applicable_on_error(quantity), torch.inference_mode(False), torch.enable_grad():
        yield
