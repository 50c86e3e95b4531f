"""Norms of the weights: Spectral-Norm, Frobenius-Norm and L2-Path-Norm.

Spectral-Norm and Frobenius-Norm are from Ng et al., TMLR 2023, appendix B.1; L2-Path-Norm is from
Vedantam et al., NeurIPS 2021, §7.3.

A weight layer is a parameter with at least two axes, such as the weight of a linear layer, a
convolution, an embedding, an attention layer or a recurrent cell. Biases and the scales of
normalization layers are not weight layers. Weights that several modules share count once.
Parametrized weights, such as those of weight norm, count with the value used in the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, log, sqrt
from typing import Any, ClassVar

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.optional_imports import torch_package
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.measures.subject import VEDANTAM_2021, Subject
from oodometer.models.introspection.network import (
    ForwardArguments,
    Network,
    not_applicable_on_error,
)

NG_2023 = "Ng et al., TMLR 2023"
# Suffixes of the parameters from which torch's hooks for weight norm and pruning compute a weight.
HOOK_SUFFIXES = ("_g", "_v", "_orig")


@dataclass(frozen=True)
class SpectralNorm:
    """log Π ‖W‖₂² over the weight layers W, where ‖W‖₂ is the largest singular value.

    The weight of a convolution is reshaped to a matrix of shape (out, in·kh·kw). The logarithm
    avoids overflow of the product.

    Examples
    --------
    >>> SpectralNorm().needs
    ('weights',)
    """

    name: ClassVar[str] = "spectral-norm"
    label: ClassVar[str] = "Spectral-Norm"
    needs: ClassVar[tuple[Need, ...]] = ("weights",)
    assumes: ClassVar[str] = "the larger the spectral norms of the weights, the higher the error"
    paper: ClassVar[str] = NG_2023
    shared_work_group: ClassVar[str] = "weights"

    def measure(self, subject: Subject) -> Score:
        return _log_product(subject.network, spectral_norm)


@dataclass(frozen=True)
class FrobeniusNorm:
    """log Π ‖W‖_F² over the weight layers W, where ‖W‖_F is the root of the sum of squares.

    The weight of a convolution is reshaped to a matrix of shape (out, in·kh·kw). The logarithm
    avoids overflow of the product.

    Examples
    --------
    >>> FrobeniusNorm().needs
    ('weights',)
    """

    name: ClassVar[str] = "frobenius-norm"
    label: ClassVar[str] = "Frobenius-Norm"
    needs: ClassVar[tuple[Need, ...]] = ("weights",)
    assumes: ClassVar[str] = "the larger the weights, the higher the error"
    paper: ClassVar[str] = NG_2023
    shared_work_group: ClassVar[str] = "weights"

    def measure(self, subject: Subject) -> Score:
        return _log_product(subject.network, lambda matrix: float(np.linalg.norm(matrix)))


def _log_product(network: Network, norm: Callable[[Floats], float]) -> Score:
    total = 0.0
    n_layers = 0
    for name, matrix in weight_matrices(network.module):
        size = norm(matrix) if np.isfinite(matrix).all() else np.nan
        if not (isfinite(size) and size > 0):
            raise NotApplicable(f"the norm of the weights {name!r} is {size:g}: no logarithm")
        total += 2 * log(size)
        n_layers += 1
    if not n_layers:
        raise NotApplicable(f"{network.name!r} has no weights with two or more axes")
    return Score(total, facts={"layers": n_layers})


def spectral_norm(matrix: Floats) -> float:
    """Return the largest singular value.

    >>> round(spectral_norm(np.array([[3.0, 0.0], [0.0, 4.0]])), 6)
    4.0
    """
    from scipy.linalg import eigvalsh

    # Compute the root of the largest eigenvalue of the smaller Gram matrix. For the largest
    # singular value this is as exact as a full decomposition, and for wide matrices it is many
    # times faster.
    small = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    last = len(small) - 1
    return sqrt(max(eigvalsh(small @ small.T, subset_by_index=(last, last))[0], 0.0))


def weight_matrices(module: Any) -> Iterator[tuple[str, Floats]]:
    """Yield the name of each weight layer, and its float64 matrix with one row per output."""
    norms = (torch_package().nn.LayerNorm, torch_package().nn.RMSNorm)
    # The dictionary keeps the weights alive, because the id of a deleted object can be reused.
    seen: dict[int, Any] = {}
    for path, layer in module.named_modules():
        if "parametrizations" in path.split(".") or isinstance(layer, norms):
            continue
        for name in _weight_names(layer):
            weight = getattr(layer, name)
            if weight.ndim >= 2 and id(weight) not in seen:
                seen[id(weight)] = weight
                yield f"{path}.{name}".lstrip("."), _as_matrix(layer, weight.detach())


def _weight_names(layer: Any) -> Iterator[str]:
    """Yield the names of a module's own weights; parametrized weights have their final name."""
    yield from getattr(layer, "parametrizations", ())
    parameters = dict(layer.named_parameters(recurse=False))
    for name in parameters:
        stem = name.rsplit("_", 1)[0]
        is_computed = stem not in parameters and isinstance(
            getattr(layer, stem, None), torch_package().Tensor
        )
        if is_computed and name.endswith(HOOK_SUFFIXES):
            # The stored weight is from the last forward pass and may not match the parameters.
            raise NotApplicable(
                f"the weights {stem!r} are recomputed in every forward pass by pruning or the old "
                "weight norm; make them permanent first (torch.nn.utils.prune.remove)"
            )
        yield name


def _as_matrix(layer: Any, weight: Any) -> Floats:
    """Return a matrix with one row per output; swap the first axes of transposed convolutions."""
    if getattr(layer, "transposed", False):
        groups = weight.unflatten(0, (layer.groups, -1)).transpose(1, 2)
        weight = groups.flatten(0, 1)
    matrix: Floats = weight.double().cpu().numpy().reshape(len(weight), -1)
    return matrix


@dataclass(frozen=True)
class PathNorm:
    """Square root of the summed logits for an all-ones input, after every parameter is squared.

    A path leads from an input or a bias to a logit. For a network of linear layers with ReLU, the
    value is the L2 norm over all paths of the product of the weights along a path. The network is
    in evaluation mode, and running statistics are not squared.

    Examples
    --------
    >>> PathNorm().needs
    ('weights',)
    """

    name: ClassVar[str] = "l2-path-norm"
    label: ClassVar[str] = "L2-Path-Norm"
    needs: ClassVar[tuple[Need, ...]] = ("weights",)
    assumes: ClassVar[str] = "the larger the weights along the paths, the higher the error"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "weights"

    def measure(self, subject: Subject) -> Score:
        network = subject.network
        if network.score_type != "logits":
            raise NotApplicable(
                f"it sums logits, and {network.name!r} returns {network.score_type}"
            )
        arguments = network.to_arguments(subject.target.inputs(slice(0, 1)))
        tensor = _only_tensor(arguments)
        squares = {name: weight.square() for name, weight in network.weights.items()}
        total = _logit_sum(network, tensor, squares)
        if not isfinite(total):  # products of squares overflow float32 easily, float64 rarely
            total = _logit_sum(network, tensor.double(), _squared_in_double(network))
        return Score(_checked_sqrt(total), notes=_parametrization_notes(network.weights))


def _logit_sum(network: Network, tensor: Any, weights: Mapping[str, Any]) -> float:
    torch = torch_package()
    # The ones are not pixel values, so they are passed to the module without scaling.
    ones = ForwardArguments((torch.ones_like(tensor),), {})
    with not_applicable_on_error("logits with squared weights"), torch.no_grad():
        return float(network.logits(ones, weights).sum())


def _squared_in_double(network: Network) -> dict[str, Any]:
    """Return the squared parameters and the buffers by name, in float64."""
    squares = {name: weight.double().square() for name, weight in network.weights.items()}
    buffers = {
        name: buffer.double() if buffer.is_floating_point() else buffer
        for name, buffer in network.module.named_buffers()
    }
    return squares | buffers


def _only_tensor(arguments: ForwardArguments) -> Any:
    """Return the input tensor of the network; raise if there is text or more than one tensor."""
    try:
        return arguments.single_tensor
    except NotApplicable:
        raise NotApplicable(
            "the input is one tensor of ones, and the model takes text or several tensors"
        ) from None


def _checked_sqrt(total: float) -> float:
    if not isfinite(total):
        raise NotApplicable("the sum of the logits overflows")
    if total < 0:
        raise NotApplicable(
            f"the sum of the logits is {total:g}, which has no square root; subtracted running "
            "means can make it negative"
        )
    return sqrt(total)


def _parametrization_notes(weights: Mapping[str, Any]) -> tuple[str, ...]:
    if not any("parametrizations" in name.split(".") for name in weights):
        return ()
    return ("parametrized weights were squared as stored, not as used in the forward pass",)
