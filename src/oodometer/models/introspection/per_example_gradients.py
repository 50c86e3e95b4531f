"""Per-example gradients of log p(y|x) with respect to the weights, by three equivalent methods.

- `by_layers` runs one forward and one backward pass for all rows. It computes the gradients of each
  layer from the layer's input and the gradient of its output (Goodfellow, Efficient Per-Example
  Gradient Computations, 2015).
- `by_vmap` computes the gradients of all rows at once with `torch.func.vmap`.
- `by_loop` computes one row after the other. It is the slowest method, and works for any module.
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

# A faster method is used if the inner products of its gradients differ from those of `by_loop` by
# at most this fraction of the largest inner product.
GRAM_TOLERANCE = 1e-3


class GradientMethod(Protocol):
    """Function that computes the gradients of a batch for every unit.

    A unit is a layer or a single weight. If a `template` is given, only the units in the template
    are computed, and their gradients have the same form as in the template.
    """

    def __call__(
        self,
        network: Network,
        arguments: ForwardArguments,
        classes: Any,
        template: Mapping[str, GradientFactors] | None = None,
    ) -> dict[str, GradientFactors]:
        """Return the gradients of every unit, by name."""


def choose_method(network: Network, arguments: ForwardArguments) -> GradientMethod:
    """Return the fastest method that agrees with `by_loop` on these rows."""
    with torch_package().no_grad():
        # Compare gradients for the least likely class. If a class has probability 1, its log p has
        # gradient 0, and every method would agree.
        classes = network.logits(arguments).argmin(dim=-1)
    expected = gram_matrix(by_loop(network, arguments, classes))
    if not np.isfinite(expected).all():
        return by_loop
    tolerance = GRAM_TOLERANCE * np.abs(expected).max()
    for method in (by_layers, by_vmap):
        try:
            with catch_warnings():
                # Torch warns if vmap falls back to a loop, which is slower than `by_loop`.
                filterwarnings("error", message="There is a performance drop")
                actual = gram_matrix(method(network, arguments, classes))
        except Exception:  # a method may fail in any way on a module that it does not support
            continue
        if np.allclose(actual, expected, rtol=0, atol=tolerance):
            return method
    return by_loop


# One row after the other ------------------------------------------------------------------------


def by_loop(
    network: Network,
    arguments: ForwardArguments,
    classes: Any,
    template: Mapping[str, GradientFactors] | None = None,
) -> dict[str, GradientFactors]:
    """Return the gradients by one forward and one backward pass per row."""
    torch = torch_package()
    rows = []
    with require_gradients(network) as weights:
        names = list(template or weights)
        for i in range(len(classes)):
            row = slice(i, i + 1)
            log_probs = _log_probs(network.logits(arguments.rows(row)), classes[row])
            # Compute the gradients of all weights, because torch crashes on some group norms if
            # weights of earlier layers are left out.
            gradients = torch.autograd.grad(
                log_probs[0], list(weights.values()), materialize_grads=True
            )
            by_name = dict(zip(weights, gradients, strict=True))
            rows.append([by_name[name] for name in names])
    columns = [torch.stack(column).flatten(1) for column in zip(*rows, strict=True)]
    return {name: GradientFactors((column,)) for name, column in zip(names, columns, strict=True)}


@contextmanager
def require_gradients(network: Network) -> Iterator[dict[str, Any]]:
    """Yield the module's weights by name; until the context ends, all of them require gradients."""
    parameters = network.module.named_parameters()
    weights = {name: weight for name, weight in parameters if weight.is_floating_point()}
    before = {name: weight.requires_grad for name, weight in weights.items()}
    try:
        for weight in weights.values():
            weight.requires_grad_(True)
        yield weights
    finally:
        for name, weight in weights.items():
            weight.requires_grad_(before[name])


def _log_probs(logits: Any, classes: Any) -> Any:
    return logits.log_softmax(dim=-1).gather(1, classes[:, None])[:, 0]


# All rows at once -------------------------------------------------------------------------------


def by_vmap(
    network: Network,
    arguments: ForwardArguments,
    classes: Any,
    template: Mapping[str, GradientFactors] | None = None,
) -> dict[str, GradientFactors]:
    """Return the gradients by mapping the gradient function of one row over all rows."""
    func = torch_package().func
    weights = network.weights
    selected = weights if template is None else {name: weights[name] for name in template}

    def row_log_prob(changed: Any, args: Any, kwargs: Any, y: Any) -> Any:
        row = arguments._replace(
            args=tuple(part[None] for part in args),
            kwargs={name: part[None] for name, part in kwargs.items()},
        )
        return _log_probs(network.logits(row, {**weights, **changed}), y[None])[0]

    row_gradients = func.vmap(func.grad(row_log_prob), in_dims=(None, 0, 0, 0))
    gradients = row_gradients(selected, arguments.args, dict(arguments.kwargs), classes)
    return {name: GradientFactors((part.flatten(1),)) for name, part in gradients.items()}


def by_layers(
    network: Network,
    arguments: ForwardArguments,
    classes: Any,
    template: Mapping[str, GradientFactors] | None = None,
) -> dict[str, GradientFactors]:
    """Return the gradients layer by layer, after one backward pass for all rows."""
    all_layers = _layers_with_weights(network)
    layers = all_layers if template is None else {name: all_layers[name] for name in template}
    with _record_calls(layers, len(classes)) as calls:
        log_probs = _log_probs(network.logits(arguments), classes)
    if set(calls) != set(layers):
        raise RuntimeError("a layer was not called")
    if any(call.input._version != call.version for call in calls.values()):
        raise RuntimeError("the input of a layer was modified after the call")
    output_gradients = torch_package().autograd.grad(
        log_probs.sum(), [call.output for call in calls.values()], materialize_grads=True
    )
    return {
        name: collect_factors(call, gradient, None if template is None else template[name])
        for (name, call), gradient in zip(calls.items(), output_gradients, strict=True)
    }


def _layers_with_weights(network: Network) -> dict[str, Any]:
    """Return the modules that have weights of their own; raise if two modules share a weight."""
    modules = dict(network.module.named_modules())
    weights = {name: list(layer.parameters(recurse=False)) for name, layer in modules.items()}
    if sum(len(own) for own in weights.values()) != len(network.weights):
        raise RuntimeError("layers share a weight")
    return {name: modules[name] for name, own in weights.items() if own}


@contextmanager
def _record_calls(layers: Mapping[str, Any], n: int) -> Iterator[dict[str, LayerCall]]:
    """Record the call of each layer; raise if a layer is called twice or with several tensors."""
    calls: dict[str, LayerCall] = {}

    def hook_for(name: str) -> Any:
        def record(layer: Any, args: Any, kwargs: Any, output: Any) -> Any:
            if name in calls:
                raise RuntimeError(f"the layer {name!r} is called twice")
            calls[name] = _layer_call(layer, args, kwargs, output, n)
            # Later layers get a copy of the output, because they may modify it in place.
            return calls[name].output.clone()

        return record

    hooks = []
    try:
        for name, layer in layers.items():
            hooks.append(layer.register_forward_hook(hook_for(name), with_kwargs=True))
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _layer_call(layer: Any, args: Any, kwargs: Any, output: Any, n: int) -> LayerCall:
    """Return the record of a call; raise unless it has one input tensor with one row per input."""
    layer_input, *others = args
    version = layer_input._version
    if any(isinstance(part, torch_package().Tensor) for part in (*others, *kwargs.values())):
        raise RuntimeError("a layer is called with several tensors")
    if len(layer_input) == 1 and len(output) == 1:
        # The row is shared by all inputs, as position embeddings are: repeat it for each input.
        layer_input = layer_input.expand(n, *layer_input.shape[1:])
        output = output.expand(n, *output.shape[1:])
    if len(layer_input) != n or len(output) != n:
        raise RuntimeError("a layer is not called with one row per input")
    if not output.requires_grad:
        output.requires_grad_()
    return LayerCall(layer, layer_input.detach(), output, version, tuple(others), kwargs)
