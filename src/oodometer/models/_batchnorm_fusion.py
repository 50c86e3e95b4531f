"""Fold batch normalization into the preceding convolution, which makes inference faster."""

from __future__ import annotations

from typing import Any

from oodometer.core.optional_imports import torch_package


def fuse_batchnorm(module: Any) -> Any | None:
    """Return a copy of a network with batch norms folded into convolutions.

    The result is valid in evaluation mode only. The module itself is not changed. None is returned
    if there is nothing to fold, or if torch cannot trace the network, for example because its
    control flow depends on the inputs. Tracing can also give a wrong network without an error, so
    the caller must compare the outputs with those of the original.
    """
    torch = torch_package()
    norms = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
    if not any(isinstance(layer, norms) for layer in module.modules()):
        return None
    try:
        traced = torch.fx.symbolic_trace(module)
    except Exception:  # tracing a module may raise any exception
        return None
    foldable = [node for node in list(traced.graph.nodes) if _can_fold(torch, traced, node)]
    for node in foldable:
        _fold(torch, traced, node)
    if not foldable:
        return None
    traced.recompile()
    return traced


def _called_layer(traced: Any, node: Any) -> Any:
    """Return the layer that a node of the graph calls, or None if it calls no layer."""
    is_layer = getattr(node, "op", None) == "call_module"
    return traced.get_submodule(node.target) if is_layer else None


def _can_fold(torch: Any, traced: Any, node: Any) -> bool:
    """Return whether a node is a batch norm that can be folded into the convolution before it."""
    nn = torch.nn
    norm = _called_layer(traced, node)
    if type(norm) not in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
        return False
    convolution = node.args[0]
    if type(_called_layer(traced, convolution)) not in (nn.Conv1d, nn.Conv2d, nn.Conv3d):
        return False
    calls = [other for other in traced.graph.nodes if other.target == convolution.target]
    return norm.running_mean is not None and len(convolution.users) == 1 and len(calls) == 1


def _fold(torch: Any, traced: Any, node: Any) -> None:
    convolution = node.args[0]
    merge = torch.nn.utils.fusion.fuse_conv_bn_eval
    folded = merge(_called_layer(traced, convolution), _called_layer(traced, node))
    parent, _, leaf = convolution.target.rpartition(".")
    setattr(traced.get_submodule(parent), leaf, folded)
    node.replace_all_uses_with(convolution)
    traced.graph.erase_node(node)
