"""What is kept of per-example gradients by a layer's weights, and their inner products.

Only inner products of gradients are asked for. The gradient by a linear layer's weight is an outer
product, and the inner product of two of these is the product of their factors' inner products: it is
never formed. The gradients of a layer that is linear at many places, a convolution, are formed when
they are asked for, some of its outputs at a time, if what they are made of is smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.optional_imports import torch_package

# Columns that are multiplied at once, as doubles; rows and bytes of gradients formed at once.
PRODUCT_COLUMNS, MATERIALIZE_ROWS, MATERIALIZE_BYTES = 4096, 16, 2**26


class LayerCall(NamedTuple):
    """A call of a layer: what went into it for every row, what came out, and the other arguments."""

    layer: Any
    input: Any
    output: Any
    version: int
    other_args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


class GradientFactors(NamedTuple):
    """What is kept of some rows' gradients by a layer or a weight.

    One tensor (n, width): the gradients. Two: factors, of which each gradient is the outer product.
    With a layer: what came back to it and what went into it.
    """

    factors: tuple[Any, ...]
    layer: Any = None

    @property
    def width(self) -> int:
        """Numbers a row."""
        return sum(part[0].numel() for part in self.factors)

    def to_cpu(self, columns: slice) -> GradientFactors:
        """The same in main memory; of gradients some columns alone, copied so that others go."""
        if len(self.factors) == 1:
            return self._replace(factors=(self.factors[0][:, columns].detach().cpu().clone(),))
        return self._replace(factors=tuple(part.detach().cpu() for part in self.factors))


# Of a layer ------------------------------------------------------------------------------------


def collect_factors(
    call: LayerCall, output_gradient: Any, template: GradientFactors | None = None
) -> GradientFactors:
    """The gradients by a layer's own weights, or what they are made of, from what came back to it.

    Whichever is smaller; or in the same form as something else, so that they can be put side by side.
    """
    torch = torch_package()
    layer, went = call.layer, call.input
    # Weights by other names are not what the layer multiplies by, but what that is made of.
    plain = {name for name, _ in layer.named_parameters(recurse=False)} <= {"weight", "bias"}
    if plain and type(layer) is torch.nn.Embedding and _simple_embedding(layer):
        return GradientFactors((output_gradient, went), layer)
    if plain and type(layer) is torch.nn.Linear and went.ndim == 2:
        bias = layer.bias is not None
        return GradientFactors(
            (output_gradient, torch.nn.functional.pad(went, (0, 1), value=1.0) if bias else went)
        )
    if plain and (type(layer) is torch.nn.Linear or _simple_convolution(layer)):
        made_of = GradientFactors((output_gradient, went), layer)
        smaller = (
            made_of.width < layer.weight.numel() if template is None else template.layer is not None
        )
        return made_of if smaller else GradientFactors((materialize(layer, went, output_gradient),))
    if plain and type(layer) in _batch_norms() and layer.running_mean is not None:
        return GradientFactors((_batchnorm_gradients(layer, went, output_gradient),))
    return GradientFactors((_vjp_gradients(call, output_gradient),))


def _simple_embedding(layer: Any) -> bool:
    return layer.max_norm is None and not layer.scale_grad_by_freq


def _simple_convolution(layer: Any) -> bool:
    if type(layer) is not torch_package().nn.Conv2d or isinstance(layer.padding, str):
        return False
    return bool(layer.groups == 1 and layer.padding_mode == "zeros")


def _batch_norms() -> tuple[Any, ...]:
    nn = torch_package().nn
    return nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d


def materialize(
    layer: Any, layer_input: Any, output_gradient: Any, outputs: slice = slice(None)
) -> Any:
    """Gradients of what is linear at every place, by some of its outputs: the sum over places."""
    torch = torch_package()
    if type(layer) is torch.nn.Linear:
        places, output_gradient = (
            layer_input.flatten(1, -2),
            output_gradient.flatten(1, -2)[..., outputs].transpose(1, 2),
        )
    else:
        size = (layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        places = torch.nn.functional.unfold(layer_input, *size).transpose(1, 2)
        output_gradient = output_gradient[:, outputs].flatten(2)
    weight = (output_gradient @ places).flatten(1)
    return weight if layer.bias is None else torch.cat([weight, output_gradient.sum(dim=2)], dim=1)


def _batchnorm_gradients(layer: Any, layer_input: Any, output_gradient: Any) -> Any:
    """Those of a batch norm with kept statistics, which scales and shifts channels of their own."""
    torch = torch_package()
    layer_input, output_gradient = (
        part.reshape(*part.shape[:2], -1) for part in (layer_input, output_gradient)
    )
    centered = layer_input - layer.running_mean[:, None]
    scale = (output_gradient * centered).sum(dim=2) * torch.rsqrt(layer.running_var + layer.eps)
    return scale if layer.bias is None else torch.cat([scale, output_gradient.sum(dim=2)], dim=1)


def _vjp_gradients(call: LayerCall, output_gradient: Any) -> Any:
    """Those of any other layer: what came back, pulled through it row by row."""
    torch = torch_package()
    func, layer = torch.func, call.layer
    own = {name: part.detach() for name, part in layer.named_parameters(recurse=False)}

    def pulled(row: Any, came: Any) -> Any:
        def out(weights: Any) -> Any:
            return func.functional_call(
                layer, weights, (row[None], *call.other_args), dict(call.kwargs)
            )

        return func.vjp(out, own)[1](came[None])[0]

    with torch.no_grad():
        found = func.vmap(pulled)(call.input, output_gradient)
    return torch.cat([part.flatten(1) for part in found.values()], dim=1)


# Inner products --------------------------------------------------------------------------------


def gram_matrix(units: Mapping[str, GradientFactors]) -> Floats:
    """All inner products of the rows' gradients (n, n), by all units."""
    return np.asarray(sum(inner_products([kept]) for kept in units.values()))


def inner_products(chunks: Sequence[GradientFactors]) -> Floats:
    """The inner products of the gradients of all rows of all chunks by one unit.

    >>> import torch
    >>> inner_products([GradientFactors((torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[3.0], [2.0]])))])
    array([[45., 12.],
           [12.,  4.]])
    """
    layer = chunks[0].layer
    if layer is None:
        factors = zip(*(chunk.factors for chunk in chunks), strict=True)
        return np.asarray(np.prod([_chunked_inner_products(rows) for rows in factors], axis=0))
    if type(layer) is torch_package().nn.Embedding:
        return _embedding_inner_products(chunks)
    return _convolution_inner_products(chunks)


def _chunked_inner_products(chunks: Sequence[Any]) -> Floats:
    """In doubles, for the smallest eigenvalues are far smaller than the largest."""
    total = np.zeros([sum(len(chunk) for chunk in chunks)] * 2)
    for start in range(0, chunks[0].shape[1], PRODUCT_COLUMNS):
        some = np.concatenate(
            [to_float64(rows[:, start : start + PRODUCT_COLUMNS]) for rows in chunks]
        )
        total += some @ some.T
    return total


def _convolution_inner_products(chunks: Sequence[GradientFactors]) -> Floats:
    """Gradients by some outputs at a time, of all rows."""
    layer, n = chunks[0].layer, sum(len(chunk.factors[0]) for chunk in chunks)
    step = max(MATERIALIZE_BYTES // (n * layer.weight[0].nbytes), 1)
    total = np.zeros((n, n))
    for start in range(0, len(layer.weight), step):
        few = [
            materialize(layer, went, back, slice(start, start + step))
            for chunk in chunks
            for back, went in zip(
                *(part.split(MATERIALIZE_ROWS) for part in chunk.factors), strict=True
            )
        ]
        total += _chunked_inner_products(few)
    return total


def _embedding_inner_products(chunks: Sequence[GradientFactors]) -> Floats:
    """A word's vector is moved by the rows that have the word alone, by all that came back to it."""
    tokens = [chunk.factors[1].reshape(len(chunk.factors[1]), -1).cpu().numpy() for chunk in chunks]
    back = np.concatenate([to_float64(chunk.factors[0].flatten(0, -2)) for chunk in chunks])
    lengths = [part.shape[1] for part in tokens for _ in part]
    row = np.repeat(np.arange(len(lengths)), lengths)
    word = np.concatenate([part.ravel() for part in tokens])
    order = np.argsort(word, kind="stable")
    total = np.zeros((len(lengths), len(lengths)))
    for same in np.split(order, np.flatnonzero(np.diff(word[order])) + 1):
        if word[same[0]] == chunks[0].layer.padding_idx:
            continue
        rows, place = np.unique(row[same], return_inverse=True)
        moved = np.zeros((len(rows), back.shape[1]))
        np.add.at(moved, place, back[same])
        total[np.ix_(rows, rows)] += moved @ moved.T
    return total


def to_float64(part: Any) -> Floats:
    """A tensor as an array."""
    return np.asarray(part.detach().cpu().double().numpy())
