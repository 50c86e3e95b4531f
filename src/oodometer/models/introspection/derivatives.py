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

from oodometer.core.errors import NoAnswer
from oodometer.core.inputs import Inputs, take
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.models.introspection.gradient_factors import Kept, as_doubles, inner
from oodometer.models.introspection.network import Arguments, Network, told, torch_package
from oodometer.models.introspection.per_example_gradients import Way, by_loop, followed, way_for

# A gigabyte, half of it for what is kept of all rows and half for the rows at work.
MEMORY = 2**30


class Side(NamedTuple):
    """Some inputs, and the class of each whose log-probability is differentiated."""

    inputs: Inputs
    classes: Ints


class Gram(NamedTuple):
    """Inner products of the gradients of all rows, side by side, and whether rows were looped over."""

    values: Floats
    looped: bool


def sampled_classes(network: Network, inputs: Inputs, uniforms: Floats) -> Ints:
    """A class a row, drawn from what the network says: the first whose summed probability passes u."""
    torch = torch_package()
    with derivable("classes"), torch.no_grad():
        parts = [network.probs(network.tensors(some)) for some in network.batches(inputs)]
        sums = np.cumsum(as_doubles(torch.cat(parts)), axis=1)
    if not np.isfinite(sums).all():
        raise NoAnswer("the network gives probabilities that are not finite")
    drawn = (sums <= uniforms[:, None] * sums[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(drawn, sums.shape[1] - 1))


# Gradients by the weights ----------------------------------------------------------------------


def gradient_gram(network: Network, sides: Sequence[Side], *, memory: int = MEMORY) -> Gram:
    """Inner products of the gradients of log p(y|x) by all weights, for all rows of all sides."""
    if not network.weights:
        raise NoAnswer(f"{network.name!r} has no weights")
    with derivable("gradients"):
        work = Work.of(network, sides, memory)
        total = np.asarray(sum(work.inner(piece) for piece in work.pieces()))
    if not np.isfinite(total).all():
        raise NoAnswer("the gradients are not finite")
    return Gram(total, looped=work.way is by_loop)


# Units whose gradients are kept at a time, and which columns of each.
Piece = dict[str, slice]


def pieces(units: Mapping[str, Kept], most: int) -> list[Piece]:
    """Neighbouring units, of at most `most` numbers a row together; gradients are cut to that."""
    found: list[Piece] = [{}]
    filled = 0
    for name, kept in units.items():
        # What gradients are made of is smaller, and can't be cut.
        step = most if len(kept.parts) == 1 else kept.width
        for at in range(0, kept.width, step):
            size = min(step, kept.width - at)
            if found[-1] and filled + size > most:
                found.append({})
                filled = 0
            found[-1][name] = slice(at, at + size)
            filled += size
    return found


@dataclass(frozen=True, eq=False)
class Work:
    """How gradients are computed: what is kept of a row of each unit, the bytes that torch keeps."""

    network: Network
    sides: Sequence[Side]
    memory: int
    way: Way
    units: Mapping[str, Kept]
    saved: int

    @classmethod
    def of(cls, network: Network, sides: Sequence[Side], memory: int) -> Work:
        """The way is chosen by the first two rows, and all are taken to be as large as these."""
        first = next(side for side in sides if len(side.classes))
        few = network.tensors(take(first.inputs, slice(0, 2)))
        way, one = way_for(network, few), few.rows(slice(0, 1))
        units = way(network, one, _classes(first.classes[:1], network))
        return cls(network, sides, memory, way, units, saved_bytes(network, one))

    def pieces(self) -> list[Piece]:
        """Units of which half of the memory holds all rows."""
        n = sum(len(side.classes) for side in self.sides)
        return pieces(self.units, max(self.memory // (2 * self._size * n), 1))

    def inner(self, piece: Piece) -> Floats:
        """The inner products of all rows' gradients by some units."""
        chunks = [
            {name: kept.stored(piece[name]) for name, kept in found.items()}
            for found in self._chunks(piece)
        ]
        return np.asarray(sum(inner([chunk[name] for chunk in chunks]) for name in piece))

    @property
    def _size(self) -> int:
        """Bytes of a number."""
        return max(int(part.itemsize) for kept in self.units.values() for part in kept.parts)

    def _chunks(self, piece: Piece) -> Iterator[dict[str, Kept]]:
        """What is kept of some units, for as many rows at a time as half of the memory holds."""
        like = {name: self.units[name] for name in piece}
        numbers = sum(kept.width for kept in like.values())
        # Twice: what comes back takes as much as what went in, and parts of a gradient are joined.
        room = 2 * (self.saved + self._size * numbers)
        for side in self.sides:
            step = rows_within(self.network, side.inputs, self.memory // 2, room)
            for at in range(0, len(side.classes), step):
                some = slice(at, at + step)
                classes = _classes(side.classes[some], self.network)
                arguments = self.network.tensors(take(side.inputs, some))
                yield self.way(self.network, arguments, classes, like)


def _classes(classes: Ints, network: Network) -> Any:
    device = next(iter(network.weights.values())).device
    return torch_package().as_tensor(np.ascontiguousarray(classes, dtype=np.int64)).to(device)


# Memory ----------------------------------------------------------------------------------------


def rows_within(network: Network, inputs: Inputs, memory: int, room: int) -> int:
    """As many rows at once as memory holds, and no more than the model is shown."""
    return max(min(memory // max(room, 1), network.rows(inputs)), 1)


def saved_bytes(network: Network, one: Arguments) -> int:
    """What torch keeps of the way through the network for the way back, for a row."""
    torch = torch_package()
    held: dict[int, int] = {}

    def pack(part: Any) -> Any:
        storage = part.untyped_storage()
        held[storage.data_ptr()] = storage.nbytes()
        return part

    with followed(network) as own:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda part: part):
            _ = network.probs(one)
        weights = {part.untyped_storage().data_ptr() for part in own.values()}
    return sum(size for place, size in held.items() if place not in weights)


# Probabilities by the inputs -------------------------------------------------------------------


def jacobian_norms(network: Network, inputs: Inputs, *, memory: int = MEMORY) -> Floats:
    """The Frobenius norm of dc/dx of every row: c the probabilities, x the tensor that is shown.

    Images are differentiated by their pixels from 0 to 1, before any scaling by mean and deviation.
    """
    found = np.empty(len(inputs))
    with derivable("derivatives by its inputs"):
        one = network.tensors(take(inputs, slice(0, 1)))
        # Beside the inputs a copy, a slope, their sum, and squares as doubles.
        room = 8 * one.only.nbytes + 2 * saved_bytes(network, one)
        step = rows_within(network, inputs, memory, room)
        for at in range(0, len(inputs), step):
            some = slice(at, at + step)
            found[some] = np.sqrt(_squares(network, network.tensors(take(inputs, some))))
    return found


def _squares(network: Network, shown: Arguments) -> Floats:
    """A way back a class, for all rows at once: the sum of a class over rows has all its slopes."""
    torch = torch_package()
    pixels = shown.only.detach().requires_grad_()
    probs = network.probs(shown._replace(placed=(pixels,)))
    total, sums = np.zeros(len(pixels)), torch.zeros_like(pixels)
    for column in range(probs.shape[1] - 1):
        slope = None
        if probs.requires_grad:
            sum_of_class = probs[:, column].sum()
            (slope,) = torch.autograd.grad(
                sum_of_class, pixels, retain_graph=True, allow_unused=True
            )
        if slope is None:
            raise NoAnswer("what the network says does not hang on its inputs by any derivative")
        total += _square(slope)
        sums += slope
    # Probabilities sum to 1, so that of the last class undoes those of all others.
    return total + _square(sums)


def _square(slopes: Any) -> Floats:
    return np.asarray((as_doubles(slopes.flatten(1)) ** 2).sum(axis=1))


@contextmanager
def derivable(what: str) -> Iterator[None]:
    """Gradients are followed here, whatever mode the caller is in; what fails is told in one line."""
    torch = torch_package()
    with told(what), torch.inference_mode(False), torch.enable_grad():
        yield
