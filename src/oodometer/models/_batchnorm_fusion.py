"""A batch norm that follows a convolution, folded into its weights: fewer passes over memory."""

from __future__ import annotations

from typing import Any

from oodometer.core.optional_imports import torch_package


def fuse_batchnorm(module: Any) -> Any | None:
    """The same network in evaluation mode with its batch norms folded; None where it can't be.

    The given module is not changed. A network that can't be traced, for its path hangs on its
    inputs, is left alone; one that is traced wrongly is for the caller to find by comparing.
    """
    torch = torch_package()
    norms = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
    if not any(isinstance(part, norms) for part in module.modules()):
        return None
    try:
        traced = torch.fx.symbolic_trace(module)
    except Exception:  # whatever a forward does that tracing can't follow
        return None
    pairs = [node for node in list(traced.graph.nodes) if _can_fold(torch, traced, node)]
    for node in pairs:
        _fold(torch, traced, node)
    if not pairs:
        return None
    traced.recompile()
    return traced


def _called_layer(traced: Any, node: Any) -> Any:
    """The layer that a node of the graph calls, where it calls one."""
    is_layer = getattr(node, "op", None) == "call_module"
    return traced.get_submodule(node.target) if is_layer else None


def _can_fold(torch: Any, traced: Any, node: Any) -> bool:
    """Whether it is a batch norm with kept statistics on a convolution that nothing else reads."""
    nn = torch.nn
    norm = _called_layer(traced, node)
    if type(norm) not in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
        return False
    before = node.args[0]
    if type(_called_layer(traced, before)) not in (nn.Conv1d, nn.Conv2d, nn.Conv3d):
        return False
    users = [other for other in traced.graph.nodes if other.target == before.target]
    return norm.running_mean is not None and len(before.users) == 1 and len(users) == 1


def _fold(torch: Any, traced: Any, node: Any) -> None:
    before = node.args[0]
    merge = torch.nn.utils.fusion.fuse_conv_bn_eval
    folded = merge(_called_layer(traced, before), _called_layer(traced, node))
    parent, _, leaf = before.target.rpartition(".")
    setattr(traced.get_submodule(parent), leaf, folded)
    node.replace_all_uses_with(before)
    traced.graph.erase_node(node)
