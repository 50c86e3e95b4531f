"""Norms of the weights: Spectral-Norm and Frobenius-Norm (NI B.1), and L2-Path-Norm (DG §7.3).

A weight layer is a parameter of two or more axes: of a linear layer, a convolution, an embedding,
attention, a recurrent cell. Biases, and the scales of norm layers, are none. Tied weights count
once; parametrized ones (weight norm) count once too, as they are used.
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
# How torch calls the parts of a weight that its older hooks put together: weight norm, pruning.
HOOK_SUFFIXES = ("_g", "_v", "_orig")


@dataclass(frozen=True)
class SpectralNorm:
    """log Π ‖W‖₂² over the weight layers; a convolution is its (out, in·kh·kw) matrix."""

    name: ClassVar[str] = "spectral-norm"
    label: ClassVar[str] = "Spectral-Norm"
    needs: ClassVar[tuple[Need, ...]] = ("weights",)
    assumes: ClassVar[str] = "a network that can stretch its inputs further errs more"
    paper: ClassVar[str] = NG_2023
    shared_work_group: ClassVar[str] = "weights"

    def measure(self, subject: Subject) -> Score:
        """Σ 2 log of the largest singular value."""
        return _log_product(subject.network, spectral_norm)


@dataclass(frozen=True)
class FrobeniusNorm:
    """log Π ‖W‖_F² over the weight layers; a convolution is its (out, in·kh·kw) matrix."""

    name: ClassVar[str] = "frobenius-norm"
    label: ClassVar[str] = "Frobenius-Norm"
    needs: ClassVar[tuple[Need, ...]] = ("weights",)
    assumes: ClassVar[str] = "a network of larger weights errs more"
    paper: ClassVar[str] = NG_2023
    shared_work_group: ClassVar[str] = "weights"

    def measure(self, subject: Subject) -> Score:
        """Σ 2 log of the root of the sum of squares."""
        return _log_product(subject.network, lambda matrix: float(np.linalg.norm(matrix)))


def _log_product(network: Network, norm: Callable[[Floats], float]) -> Score:
    total, layers = 0.0, 0
    for name, matrix in weight_matrices(network.module):
        size = norm(matrix) if np.isfinite(matrix).all() else np.nan
        if not (isfinite(size) and size > 0):
            raise NotApplicable(
                f"the weights {name!r} have the norm {size:g}, which has no logarithm"
            )
        total, layers = total + 2 * log(size), layers + 1
    if not layers:
        raise NotApplicable(f"{network.name!r} has no weights of two or more axes")
    return Score(total, facts={"layers": layers})


def spectral_norm(matrix: Floats) -> float:
    """The largest singular value.

    >>> round(spectral_norm(np.array([[3.0, 0.0], [0.0, 4.0]])), 6)
    4.0
    """
    from scipy.linalg import eigvalsh

    # The root of the largest eigenvalue of the smaller product with itself: as exact for the
    # largest, and many times faster than all singular values of a wide matrix.
    small = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    last = len(small) - 1
    return sqrt(max(eigvalsh(small @ small.T, subset_by_index=(last, last))[0], 0.0))


def weight_matrices(module: Any) -> Iterator[tuple[str, Floats]]:
    """The weight layers by name, each as a matrix (out, …) of doubles."""
    norms = (torch_package().nn.LayerNorm, torch_package().nn.RMSNorm)
    seen: dict[int, Any] = {}  # held, for the identity of what is gone may be given anew
    for path, part in module.named_modules():
        if "parametrizations" in path.split(".") or isinstance(part, norms):
            continue
        for name in _weight_names(part):
            weight = getattr(part, name)
            if weight.ndim >= 2 and id(weight) not in seen:
                seen[id(weight)] = weight
                yield f"{path}.{name}".lstrip("."), _as_matrix(part, weight.detach())


def _weight_names(part: Any) -> Iterator[str]:
    """What a module's own weights are called, those made of several parameters by what they make."""
    yield from getattr(part, "parametrizations", ())
    own = dict(part.named_parameters(recurse=False))
    for name in own:
        stem = name.rsplit("_", 1)[0]
        made = stem not in own and isinstance(getattr(part, stem, None), torch_package().Tensor)
        if made and name.endswith(HOOK_SUFFIXES):
            # What such a hook put there last may be of other weights than the module's own.
            raise NotApplicable(
                f"the weights {stem!r} are put together anew in every pass, by pruning or the older "
                "weight norm; make them permanent first (torch.nn.utils.prune.remove)"
            )
        yield name


def _as_matrix(part: Any, weight: Any) -> Floats:
    """A row an output; a transposed convolution has its inputs first, group by group."""
    if getattr(part, "transposed", False):
        groups = weight.unflatten(0, (part.groups, -1)).transpose(1, 2)
        weight = groups.flatten(0, 1)
    found: Floats = weight.double().cpu().numpy().reshape(len(weight), -1)
    return found


@dataclass(frozen=True)
class PathNorm:
    """The root of the sum of the logits of an all-ones input, when every parameter is squared.

    For layers and ReLU that is the norm of the products of weights along all paths from an input or
    a bias to a logit. Running statistics are left alone, and no dropout is at work.
    """

    name: ClassVar[str] = "l2-path-norm"
    label: ClassVar[str] = "L2-Path-Norm"
    needs: ClassVar[tuple[Need, ...]] = ("weights",)
    assumes: ClassVar[str] = "a network of larger weights along its paths errs more"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "weights"

    def measure(self, subject: Subject) -> Score:
        """√Σ of the logits; the input has the shape of the target's."""
        network = subject.network
        if network.score_type != "logits":
            raise NotApplicable(
                f"{network.name!r} gives {network.score_type}, and logits are summed"
            )
        shown = network.to_arguments(subject.target.inputs(slice(0, 1)))
        squares = {name: part.square() for name, part in network.weights.items()}
        total = _logit_sum(network, _only_tensor(shown), squares)
        if not isfinite(total):  # the range of floats is soon left, that of doubles is not
            total = _logit_sum(network, _only_tensor(shown).double(), _squared_in_double(network))
        return Score(_checked_sqrt(total), notes=_parametrization_notes(network.weights))


def _logit_sum(network: Network, tensor: Any, weights: Mapping[str, Any]) -> float:
    torch = torch_package()
    # They are no pixels, so nothing is scaled: ones are what the module itself is given.
    ones = ForwardArguments((torch.ones_like(tensor),), {})
    with not_applicable_on_error("logits with squared weights"), torch.no_grad():
        return float(network.logits(ones, weights).sum())


def _squared_in_double(network: Network) -> dict[str, Any]:
    """Squared parameters and plain buffers, all numbers in double precision."""
    buffers = dict(network.module.named_buffers())
    squares = {name: part.double().square() for name, part in network.weights.items()}
    plain = {
        name: part.double() if part.is_floating_point() else part for name, part in buffers.items()
    }
    return squares | plain


def _only_tensor(arguments: ForwardArguments) -> Any:
    """The one tensor of numbers that the network takes."""
    try:
        return arguments.single_tensor
    except NotApplicable:
        raise NotApplicable(
            "the model takes words or several tensors, and it is shown one tensor of ones"
        ) from None


def _checked_sqrt(total: float) -> float:
    if not isfinite(total):
        raise NotApplicable("the sum of the logits leaves the range of numbers")
    if total < 0:
        raise NotApplicable(
            f"the sum of the logits is {total:g}, which has no root; running means that are "
            "subtracted can make it so"
        )
    return sqrt(total)


def _parametrization_notes(weights: Mapping[str, Any]) -> tuple[str, ...]:
    if not any("parametrizations" in name.split(".") for name in weights):
        return ()
    return ("parametrized weights were squared as they are kept, not as they are used",)
