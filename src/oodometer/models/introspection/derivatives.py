"""Gram matrices of gradients and Jacobian norms of a network, in bounded memory.

The empirical Fisher matrix of n inputs has one row and one column per weight of the network, so it
is too large for memory. Its eigenvalues can be computed from the (n, n) matrix of inner products of
the inputs' gradients (the Gram matrix), and so can the angles between its eigenvectors and those of
another Fisher matrix. The Gram matrix is a sum over groups of weights. Only the gradients with
respect to one group are therefore in memory at a time.
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

# 1 GiB. One half holds the gradients of all rows with respect to one group of weights; the other
# half is for the rows whose gradients are being computed.
MEMORY_BYTES = 2**30


class InputsWithClasses(NamedTuple):
    """Inputs x and one class y for each, where log p(y|x) is the function to differentiate."""

    inputs: Inputs
    classes: Ints


class GradientGram(NamedTuple):
    """Inner products (n, n) of the rows' gradients, and whether the slow `by_loop` was used."""

    values: Floats
    used_loop: bool


def sample_classes(network: Network, inputs: Inputs, uniforms: Floats) -> Ints:
    """Draw one class per row from the network's probabilities.

    `uniforms` has one random number between 0 and 1 per row. The class is the first one whose
    cumulative probability exceeds this number.
    """
    torch = torch_package()
    with enable_gradients("classes"), torch.no_grad():
        probs = [network.probs(network.to_arguments(batch)) for batch in network.batches(inputs)]
        sums = np.cumsum(to_float64(torch.cat(probs)), axis=1)
    if not np.isfinite(sums).all():
        raise NotApplicable("the network returns probabilities that are not finite")
    classes = (sums <= uniforms[:, None] * sums[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(classes, sums.shape[1] - 1))


# Gradients with respect to the weights ----------------------------------------------------------


def gradient_gram(
    network: Network, sides: Sequence[InputsWithClasses], *, memory_bytes: int = MEMORY_BYTES
) -> GradientGram:
    """Return the Gram matrix of the gradients of log p(y|x) with respect to the weights.

    `sides` are one or several sets of rows, for example source and target. The matrix has one row
    and one column per row of all sets together.
    """
    if not network.weights:
        raise NotApplicable(f"{network.name!r} has no weights")
    with enable_gradients("gradients"):
        computation = GradientComputation.from_first_rows(network, sides, memory_bytes)
        groups = computation.split_units()
        total = np.asarray(sum(computation.inner_products(columns) for columns in groups))
    if not np.isfinite(total).all():
        raise NotApplicable("the gradients are not finite")
    return GradientGram(total, used_loop=computation.method is by_loop)


# One group of units, each with the columns of its gradients. A unit is a layer or a single weight.
# The gradients of one group are in memory at a time.
UnitColumns = dict[str, slice]


def split_units(units: Mapping[str, GradientFactors], max_numbers: int) -> list[UnitColumns]:
    """Group consecutive units so that a group has at most `max_numbers` numbers per row.

    Only unfactored gradients can be split: a larger factored unit forms a group of its own.
    """
    groups: list[UnitColumns] = [{}]
    filled = 0
    for name, factors in units.items():
        # Factors cannot be split by columns, but they are smaller than the gradients.
        step = max_numbers if len(factors.factors) == 1 else factors.width
        for start in range(0, factors.width, step):
            size = min(step, factors.width - start)
            if groups[-1] and filled + size > max_numbers:
                groups.append({})
                filled = 0
            groups[-1][name] = slice(start, start + size)
            filled += size
    return groups


@dataclass(frozen=True, eq=False)
class GradientComputation:
    """Plan for computing the inner products of gradients, one group of units at a time.

    `units` contains the gradient factors of one row and is used for their sizes only.
    `saved_bytes_per_row` is the memory that autograd needs per row to keep activations from the
    forward pass for the backward pass.
    """

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
        """Choose the method on the first two rows, and measure memory sizes on the first row."""
        first = next(side for side in sides if len(side.classes))
        two_rows = network.to_arguments(take(first.inputs, slice(0, 2)))
        row = two_rows.rows(slice(0, 1))
        method = choose_method(network, two_rows)
        return cls(
            network=network,
            sides=sides,
            memory_bytes=memory_bytes,
            method=method,
            units=method(network, row, _class_tensor(first.classes[:1], network)),
            saved_bytes_per_row=saved_tensor_bytes(network, row),
        )

    def split_units(self) -> list[UnitColumns]:
        """Group the units so that half of the memory can hold one group's gradients of all rows."""
        n = sum(len(side.classes) for side in self.sides)
        return split_units(self.units, max(self.memory_bytes // (2 * self._number_bytes * n), 1))

    def inner_products(self, columns: UnitColumns) -> Floats:
        """Return the inner products of all rows' gradients with respect to one group of units."""
        chunks = [
            {name: part.to_cpu(columns[name]) for name, part in factors.items()}
            for factors in self._factor_chunks(columns)
        ]
        return np.asarray(
            sum(inner_products([chunk[name] for chunk in chunks]) for name in columns)
        )

    @property
    def _number_bytes(self) -> int:
        units = self.units.values()
        return max(int(factor.itemsize) for unit in units for factor in unit.factors)

    def _factor_chunks(self, columns: UnitColumns) -> Iterator[dict[str, GradientFactors]]:
        """Yield the factors of some units in chunks of rows that fit into half of the memory."""
        template = {name: self.units[name] for name in columns}
        numbers = sum(factors.width for factors in template.values())
        # The factor 2 is for the backward pass, which needs as much memory as the forward pass, and
        # for the gradients, which are in memory twice when they are concatenated.
        row_bytes = 2 * (self.saved_bytes_per_row + self._number_bytes * numbers)
        for side in self.sides:
            step = rows_in_memory(self.network, side.inputs, self.memory_bytes // 2, row_bytes)
            for start in range(0, len(side.classes), step):
                rows = slice(start, start + step)
                classes = _class_tensor(side.classes[rows], self.network)
                arguments = self.network.to_arguments(take(side.inputs, rows))
                yield self.method(self.network, arguments, classes, template)


def _class_tensor(classes: Ints, network: Network) -> Any:
    device = next(iter(network.weights.values())).device
    return torch_package().as_tensor(np.ascontiguousarray(classes, dtype=np.int64)).to(device)


# Memory ----------------------------------------------------------------------------------------


def rows_in_memory(network: Network, inputs: Inputs, memory_bytes: int, row_bytes: int) -> int:
    """Return the number of rows that fit into memory, from 1 up to the model's batch size."""
    return max(min(memory_bytes // max(row_bytes, 1), network.rows_per_batch(inputs)), 1)


def saved_tensor_bytes(network: Network, row: ForwardArguments) -> int:
    """Return the bytes of all tensors that autograd saves in a forward pass of one row.

    The weights are not counted, because they are in memory anyway.
    """
    saved_bytes: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        saved_bytes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with require_gradients(network) as weights:
        with torch_package().autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            _ = network.probs(row)
        pointers = {weight.untyped_storage().data_ptr() for weight in weights.values()}
    return sum(size for pointer, size in saved_bytes.items() if pointer not in pointers)


# Probabilities with respect to the inputs -------------------------------------------------------


def jacobian_norms(network: Network, inputs: Inputs, *, memory_bytes: int = MEMORY_BYTES) -> Floats:
    """Return the Frobenius norm of the Jacobian dp/dx of each row.

    p are the class probabilities, and x is the input tensor. For images, x has values from 0 to 1,
    before normalization by mean and standard deviation.
    """
    norms = np.empty(len(inputs))
    with enable_gradients("derivatives by its inputs"):
        row = network.to_arguments(take(inputs, slice(0, 1)))
        # Besides the inputs, memory is needed for a copy of them, the gradient, the sum of the
        # gradients, and the squared gradient as float64: 8 times the inputs in all.
        row_bytes = 8 * row.single_tensor.nbytes + 2 * saved_tensor_bytes(network, row)
        step = rows_in_memory(network, inputs, memory_bytes, row_bytes)
        for start in range(0, len(inputs), step):
            rows = slice(start, start + step)
            arguments = network.to_arguments(take(inputs, rows))
            norms[rows] = np.sqrt(_squared_jacobian_norms(network, arguments))
    return norms


def _squared_jacobian_norms(network: Network, arguments: ForwardArguments) -> Floats:
    """Return the squared norms per row, by one backward pass per class for all rows together."""
    torch = torch_package()
    inputs = arguments.single_tensor.detach().requires_grad_()
    probs = network.probs(arguments._replace(args=(inputs,)))
    squares = np.zeros(len(inputs))
    gradient_sum = torch.zeros_like(inputs)
    for column in range(probs.shape[1] - 1):
        gradient = None
        if probs.requires_grad:
            class_sum = probs[:, column].sum()
            (gradient,) = torch.autograd.grad(
                class_sum, inputs, retain_graph=True, allow_unused=True
            )
        if gradient is None:
            raise NotApplicable(
                "the network's probabilities are not differentiable with respect to its inputs"
            )
        squares += _squared_norms(gradient)
        gradient_sum += gradient
    # The probabilities sum to 1, so their gradients sum to 0: the gradient of the last class is
    # minus the sum of the gradients of all other classes.
    return squares + _squared_norms(gradient_sum)


def _squared_norms(gradients: Any) -> Floats:
    return np.asarray((to_float64(gradients.flatten(1)) ** 2).sum(axis=1))


@contextmanager
def enable_gradients(quantity: str) -> Iterator[None]:
    """Enable autograd even if the caller has disabled it; convert exceptions to NotApplicable.

    `quantity` names the computed quantity in the message of the exception.
    """
    torch = torch_package()
    with not_applicable_on_error(quantity), torch.inference_mode(False), torch.enable_grad():
        yield
