"""Factored per-example gradients of a layer's weights, and their inner products.

Only inner products of gradients are needed. For one row, the gradient of a linear layer's weight is
the outer product a bᵀ, where a is the gradient of the layer's output and b is the layer's input.
The inner product of two such gradients is (a₁·a₂)(b₁·b₂), so the factors a and b suffice, and the
gradient is never formed. A convolution is linear at each position of the image, and its gradient is
a sum of outer products over the positions. If its factors are smaller than its gradient, the
factors are stored. The gradient is then formed for the inner products only, some output channels at
a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.optional_imports import torch_package

# Number of columns that are converted to float64 and multiplied at once.
PRODUCT_COLUMNS = 4096
# Largest number of rows, and largest size in bytes, of gradients that are formed at once.
MATERIALIZE_ROWS = 16
MATERIALIZE_BYTES = 2**26


class LayerCall(NamedTuple):
    """Recorded call of a layer: the input and output of every row, and the other arguments.

    `version` is the value that torch's modification counter of the input tensor had at the call. A
    higher value later means that the tensor has been modified in place.
    """

    layer: Any
    input: Any
    output: Any
    version: int
    other_args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


class GradientFactors(NamedTuple):
    """Per-example gradients of a layer or of a single weight, in one of three forms.

    - One tensor of shape (n, width) contains the gradients themselves.
    - Of two tensors without a layer, row i of the first and row i of the second have the gradient
      of row i as their outer product.
    - Of two tensors with a layer, the first is the gradient of the layer's output and the second is
      the layer's input. The gradient is computed from them when it is needed.
    """

    factors: tuple[Any, ...]
    layer: Any = None

    @property
    def width(self) -> int:
        """Return how many numbers are stored per row."""
        return sum(factor[0].numel() for factor in self.factors)

    def to_cpu(self, columns: slice) -> GradientFactors:
        """Move the factors to main memory.

        Of unfactored gradients, only `columns` are copied, so that the memory of all other columns
        can be freed.
        """
        if len(self.factors) == 1:
            return self._replace(factors=(self.factors[0][:, columns].detach().cpu().clone(),))
        return self._replace(factors=tuple(factor.detach().cpu() for factor in self.factors))


# Gradients of a layer ---------------------------------------------------------------------------


def collect_factors(
    call: LayerCall, output_gradient: Any, template: GradientFactors | None = None
) -> GradientFactors:
    """Return the gradients of a layer's own weights, factored if the factors are smaller.

    If a `template` is given, the result has the same form as the template, so that results for
    several chunks of rows can be combined.
    """
    nn = torch_package().nn
    layer = call.layer
    layer_input = call.input
    # Parameters with other names mean that the weight is reparametrized, for example by weight
    # normalization; the formulas for plain layers do not apply then.
    plain = {name for name, _ in layer.named_parameters(recurse=False)} <= {"weight", "bias"}
    if plain and type(layer) is nn.Embedding and _simple_embedding(layer):
        return GradientFactors((output_gradient, layer_input), layer)
    if plain and type(layer) is nn.Linear and layer_input.ndim == 2:
        if layer.bias is not None:
            layer_input = nn.functional.pad(layer_input, (0, 1), value=1.0)
        return GradientFactors((output_gradient, layer_input))
    if plain and (type(layer) is nn.Linear or _simple_convolution(layer)):
        factors = GradientFactors((output_gradient, layer_input), layer)
        if template is None:
            use_factors = factors.width < layer.weight.numel()
        else:
            use_factors = template.layer is not None
        if use_factors:
            return factors
        return GradientFactors((materialize(layer, layer_input, output_gradient),))
    batch_norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    if plain and type(layer) in batch_norms and layer.running_mean is not None:
        return GradientFactors((_batchnorm_gradients(layer, layer_input, output_gradient),))
    return GradientFactors((_vjp_gradients(call, output_gradient),))


def _simple_embedding(layer: Any) -> bool:
    return layer.max_norm is None and not layer.scale_grad_by_freq


def _simple_convolution(layer: Any) -> bool:
    if type(layer) is not torch_package().nn.Conv2d or isinstance(layer.padding, str):
        return False
    return bool(layer.groups == 1 and layer.padding_mode == "zeros")


def materialize(
    layer: Any, layer_input: Any, output_gradient: Any, outputs: slice = slice(None)
) -> Any:
    """Return the gradients of a linear layer or convolution, which are sums over positions.

    `outputs` selects the output channels whose weights' gradients are computed.
    """
    torch = torch_package()
    if type(layer) is torch.nn.Linear:
        positions = layer_input.flatten(1, -2)
        output_gradient = output_gradient.flatten(1, -2)[..., outputs].transpose(1, 2)
    else:
        size = (layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        positions = torch.nn.functional.unfold(layer_input, *size).transpose(1, 2)
        output_gradient = output_gradient[:, outputs].flatten(2)
    weight = (output_gradient @ positions).flatten(1)
    return weight if layer.bias is None else torch.cat([weight, output_gradient.sum(dim=2)], dim=1)


def _batchnorm_gradients(layer: Any, layer_input: Any, output_gradient: Any) -> Any:
    """Return the gradients of the scale and the shift of a batch norm with running statistics."""
    torch = torch_package()
    layer_input = layer_input.reshape(*layer_input.shape[:2], -1)
    output_gradient = output_gradient.reshape(*output_gradient.shape[:2], -1)
    centered = layer_input - layer.running_mean[:, None]
    scale = (output_gradient * centered).sum(dim=2) * torch.rsqrt(layer.running_var + layer.eps)
    return scale if layer.bias is None else torch.cat([scale, output_gradient.sum(dim=2)], dim=1)


def _vjp_gradients(call: LayerCall, output_gradient: Any) -> Any:
    """Return the gradients of any other layer, by one vector-Jacobian product per row."""
    torch = torch_package()
    func = torch.func
    layer = call.layer
    parameters = {name: part.detach() for name, part in layer.named_parameters(recurse=False)}

    def row_gradient(row: Any, row_output_gradient: Any) -> Any:
        def forward(weights: Any) -> Any:
            return func.functional_call(
                layer, weights, (row[None], *call.other_args), dict(call.kwargs)
            )

        return func.vjp(forward, parameters)[1](row_output_gradient[None])[0]

    with torch.no_grad():
        gradients = func.vmap(row_gradient)(call.input, output_gradient)
    return torch.cat([gradient.flatten(1) for gradient in gradients.values()], dim=1)


# Inner products --------------------------------------------------------------------------------


def gram_matrix(units: Mapping[str, GradientFactors]) -> Floats:
    """Return the inner products (n, n) of the rows' gradients, summed over all units.

    A unit is a layer or a single weight.
    """
    return np.asarray(sum(inner_products([factors]) for factors in units.values()))


def inner_products(chunks: Sequence[GradientFactors]) -> Floats:
    """Return the inner products of one unit's gradients, between the rows of all chunks.

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
    """Return inner products of rows in float64, because eigenvalues span orders of magnitude."""
    total = np.zeros([sum(len(chunk) for chunk in chunks)] * 2)
    for start in range(0, chunks[0].shape[1], PRODUCT_COLUMNS):
        columns = slice(start, start + PRODUCT_COLUMNS)
        block = np.concatenate([to_float64(rows[:, columns]) for rows in chunks])
        total += block @ block.T
    return total


def _convolution_inner_products(chunks: Sequence[GradientFactors]) -> Floats:
    """Return inner products by forming the gradients of some output channels at a time."""
    layer = chunks[0].layer
    n = sum(len(chunk.factors[0]) for chunk in chunks)
    step = max(MATERIALIZE_BYTES // (n * layer.weight[0].nbytes), 1)
    total = np.zeros((n, n))
    for start in range(0, len(layer.weight), step):
        gradients = [
            materialize(layer, layer_input, output_gradient, slice(start, start + step))
            for chunk in chunks
            for output_gradient, layer_input in zip(
                *(factor.split(MATERIALIZE_ROWS) for factor in chunk.factors), strict=True
            )
        ]
        total += _chunked_inner_products(gradients)
    return total


def _embedding_inner_products(chunks: Sequence[GradientFactors]) -> Floats:
    """Return the inner products as a sum over tokens, each over the rows that contain the token."""
    tokens = [chunk.factors[1].reshape(len(chunk.factors[1]), -1).cpu().numpy() for chunk in chunks]
    output_gradients = np.concatenate(
        [to_float64(chunk.factors[0].flatten(0, -2)) for chunk in chunks]
    )
    lengths = [part.shape[1] for part in tokens for _ in part]
    row = np.repeat(np.arange(len(lengths)), lengths)
    token = np.concatenate([part.ravel() for part in tokens])
    order = np.argsort(token, kind="stable")
    total = np.zeros((len(lengths), len(lengths)))
    for occurrences in np.split(order, np.flatnonzero(np.diff(token[order])) + 1):
        if token[occurrences[0]] == chunks[0].layer.padding_idx:
            continue
        rows, position = np.unique(row[occurrences], return_inverse=True)
        gradients = np.zeros((len(rows), output_gradients.shape[1]))
        np.add.at(gradients, position, output_gradients[occurrences])
        total[np.ix_(rows, rows)] += gradients @ gradients.T
    return total


def to_float64(tensor: Any) -> Floats:
    """Convert a tensor to a float64 array."""
    return np.asarray(tensor.detach().cpu().double().numpy())
