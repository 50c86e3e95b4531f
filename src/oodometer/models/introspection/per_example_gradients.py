"""Per-example gradients of log p(y|x) by the weights, in three ways that give the same.

by layers  one pass and one way back for all rows; each layer's part follows from what went into the
           layer and what came back to it (Goodfellow, Efficient Per-Example Gradient Computations)
by vmap    torch.func maps the gradient of one row over all rows
by loop    one row after the other, which any module can do
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol
from warnings import catch_warnings, filterwarnings

import numpy as np

from oodometer.core.optional_imports import torch_package
from oodometer.models.introspection.gradient_factors import (
    GradientFactors,
    LayerCall,
    collect_factors,
    gram_matrix,
)
from oodometer.models.introspection.network import ForwardArguments, Network

# A way is used only if the inner products of its gradients are within this share of the loop's.
GRAM_TOLERANCE = 1e-3


class GradientMethod(Protocol):
    """Gradients of some rows by all units, which are layers or single weights, by name.

    Given what was kept before, by these units alone, and in the same form.
    """

    def __call__(
        self,
        network: Network,
        arguments: ForwardArguments,
        classes: Any,
        template: Mapping[str, GradientFactors] | None = None,
    ) -> dict[str, GradientFactors]:
        """What is kept of every unit."""


def choose_method(network: Network, arguments: ForwardArguments) -> GradientMethod:
    """The fastest way that gives for these rows what the loop gives."""
    torch = torch_package()
    with torch.no_grad():
        # A class that is sure already has no gradient, which would agree with anything.
        classes = network.logits(arguments).argmin(dim=-1)
    plain = gram_matrix(by_loop(network, arguments, classes))
    if not np.isfinite(plain).all():
        return by_loop
    for way in (by_layers, by_vmap):
        try:
            with catch_warnings():
                # Torch warns where it loops over rows by itself, and more slowly than we do.
                filterwarnings("error", message="There is a performance drop")
                found = gram_matrix(way(network, arguments, classes))
        except Exception:  # whatever a module does that this way can't follow
            continue
        if np.allclose(found, plain, rtol=0, atol=GRAM_TOLERANCE * np.abs(plain).max()):
            return way
    return by_loop


# One row after the other -----------------------------------------------------------------------


def by_loop(
    network: Network,
    arguments: ForwardArguments,
    classes: Any,
    template: Mapping[str, GradientFactors] | None = None,
) -> dict[str, GradientFactors]:
    """A pass and a way back a row."""
    torch = torch_package()
    rows = []
    with require_gradients(network) as own:
        for i in range(len(classes)):
            said = _log_probs(network.logits(arguments.rows(slice(i, i + 1))), classes[i : i + 1])
            # By all weights: torch crashes on some group norms if not asked for what is before them.
            grads = torch.autograd.grad(said[0], list(own.values()), materialize_grads=True)
            found = dict(zip(own, grads, strict=True))
            rows.append([found[name] for name in template or own])
    parts = [torch.stack(part).flatten(1) for part in zip(*rows, strict=True)]
    return {
        name: GradientFactors((part,)) for name, part in zip(template or own, parts, strict=True)
    }


@contextmanager
def require_gradients(network: Network) -> Iterator[dict[str, Any]]:
    """The module's own weights by name, all of them followed by gradients for a while."""
    named = network.module.named_parameters()
    own = {name: part for name, part in named if part.is_floating_point()}
    before = {name: part.requires_grad for name, part in own.items()}
    try:
        for part in own.values():
            part.requires_grad_(True)
        yield own
    finally:
        for name, part in own.items():
            part.requires_grad_(before[name])


def _log_probs(logits: Any, classes: Any) -> Any:
    """log p(y|x) of every row."""
    return logits.log_softmax(dim=-1).gather(1, classes[:, None])[:, 0]


# All rows at once ------------------------------------------------------------------------------


def by_vmap(
    network: Network,
    arguments: ForwardArguments,
    classes: Any,
    template: Mapping[str, GradientFactors] | None = None,
) -> dict[str, GradientFactors]:
    """The gradient of one row, mapped over rows."""
    func, own = torch_package().func, network.weights
    some = own if template is None else {name: own[name] for name in template}

    def said(weights: Any, placed: Any, named: Any, y: Any) -> Any:
        by_name = {name: part[None] for name, part in named.items()}
        one = arguments._replace(args=tuple(part[None] for part in placed), kwargs=by_name)
        return _log_probs(network.logits(one, {**own, **weights}), y[None])[0]

    mapped = func.vmap(func.grad(said), in_dims=(None, 0, 0, 0))
    found = mapped(some, arguments.args, dict(arguments.kwargs), classes)
    return {name: GradientFactors((part.flatten(1),)) for name, part in found.items()}


def by_layers(
    network: Network,
    arguments: ForwardArguments,
    classes: Any,
    template: Mapping[str, GradientFactors] | None = None,
) -> dict[str, GradientFactors]:
    """One way back for all rows, and then layer by layer."""
    torch = torch_package()
    owners = _layers_with_weights(network)
    layers = owners if template is None else {name: owners[name] for name in template}
    with _record_calls(layers, len(classes)) as passes:
        said = _log_probs(network.logits(arguments), classes)
    if set(passes) != set(layers) or any(
        one.input._version != one.version for one in passes.values()
    ):
        raise RuntimeError("a layer was not called, or what went into it was changed afterwards")
    outs = [one.output for one in passes.values()]
    backs = torch.autograd.grad(said.sum(), outs, materialize_grads=True)
    return {
        name: collect_factors(one, back, None if template is None else template[name])
        for (name, one), back in zip(passes.items(), backs, strict=True)
    }


def _layers_with_weights(network: Network) -> dict[str, Any]:
    """The modules that have weights of their own, if no two share one."""
    modules = dict(network.module.named_modules())
    weights = {name: list(part.parameters(recurse=False)) for name, part in modules.items()}
    if sum(len(own) for own in weights.values()) != len(network.weights):
        raise RuntimeError("layers share a weight")
    return {name: modules[name] for name, own in weights.items() if own}


@contextmanager
def _record_calls(layers: Mapping[str, Any], n: int) -> Iterator[dict[str, LayerCall]]:
    """What goes through each of some layers, which must be called once, with one tensor."""
    passes: dict[str, LayerCall] = {}

    def watch(name: str) -> Any:
        def seen(layer: Any, placed: Any, named: Any, out: Any) -> Any:
            if name in passes:
                raise RuntimeError(f"the layer {name!r} is called twice")
            passes[name] = _layer_call(layer, placed, named, out, n)
            # What follows may change it in place, and the copy then takes that.
            return passes[name].output.clone()

        return seen

    hooks = []
    try:
        for name, layer in layers.items():
            hooks.append(layer.register_forward_hook(watch(name), with_kwargs=True))
        yield passes
    finally:
        for hook in hooks:
            hook.remove()


def _layer_call(layer: Any, placed: Any, named: Any, out: Any, n: int) -> LayerCall:
    """A call with a row an input."""
    went, *others = placed
    version = went._version
    if any(isinstance(part, torch_package().Tensor) for part in (*others, *named.values())):
        raise RuntimeError("a layer is called with several tensors")
    if len(went) == 1 and len(out) == 1:
        # One row for all inputs, such as the places of words: a row of its own for each.
        went, out = (part.expand(n, *part.shape[1:]) for part in (went, out))
    if len(went) != n or len(out) != n:
        raise RuntimeError("a layer is not called with a row an input")
    if not out.requires_grad:
        out.requires_grad_()
    return LayerCall(layer, went.detach(), out, version, tuple(others), named)
